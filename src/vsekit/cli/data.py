"""vse data: look at collections, and make one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vsekit.cli import app
from vsekit.cli.groups import grouped
from vsekit.cli.options import CollectionOptions, OutputOptions, Quiet, examples, print_json

Restval = Annotated[bool, typer.Option("--restval", help="Count COCO's restval as train.")]

data_app = typer.Typer(help="Look at a collection of captioned pictures, or generate one.", no_args_is_help=True)
app.add_typer(data_app, name="data")


@data_app.command(
    epilog=examples("vse data check flickr8k", "vse data check shop.csv --columns image=photo,caption=title")
)
@grouped
def check(
    path: Annotated[Path, typer.Argument(help="A collection: a file or a folder.")],
    reading: CollectionOptions,
    output: OutputOptions,
    restval: Restval = False,
    pictures: Annotated[bool, typer.Option("--pictures/--no-pictures", help="Decode every picture.")] = True,
) -> None:
    """Say what is in a collection and everything that is wrong with it. The exit code is 2 if something is wrong."""
    from vsekit.data.check import check as run

    report = run(path, **reading.given, restval=restval, pictures=pictures, progress=output.progress)
    if output.json:
        print_json(report.to_dict())
    else:
        typer.echo("\n".join(report.lines()))
    if not report.ok:
        raise typer.Exit(2)


@data_app.command(
    epilog=examples(
        "vse data clean catalogue.csv --out clean",
        "vse train --data clean/collection.csv --out runs/catalogue",
    )
)
@grouped
def clean(
    path: Annotated[Path, typer.Argument(help="A collection: a file or a folder.")],
    out: Annotated[Path, typer.Option("--out", help="The folder to write: collection.csv, skipped.csv.")],
    reading: CollectionOptions,
    output: OutputOptions,
    restval: Restval = False,
) -> None:
    """Write a collection again without what is wrong with it, with splits, and a list of what was set aside."""
    from vsekit.data.clean import read_clean
    from vsekit.data.written import write_collection
    from vsekit.files import cache_folder

    kept = cache_folder() / "looks"
    found = read_clean(path, **reading.given, restval=restval, kept=kept, progress=output.progress)
    table, skipped = write_collection(found.pairs, out), found.write(out)
    if output.json:
        print_json({"table": str(table), "skipped": str(skipped) if skipped else None, **found.to_dict()})
        return
    counts = ", ".join(f"{name} {count}" for name, count in found.pairs.splits.items())
    typer.echo(f"{table}: {len(found.pairs.pictures)} pictures ({counts}), {len(found.pairs.captions)} captions")
    typer.echo("\n".join([*found.lines(), *([f"What was set aside, and why: {skipped}"] if skipped else [])]))


@data_app.command(
    epilog=examples(
        "vse data vocab 'shards/train-{0000..0127}.tar' --out vocab.json",
        "vse train my.yaml --data 'shards/train-{0000..0127}.tar' --val val.csv --out runs/large "
        "--set data.stream.vocabulary=vocab.json",
    )
)
@grouped
def vocab(
    path: Annotated[str, typer.Argument(help="Shards that are streamed, with ranges; or a collection.")],
    out: Annotated[Path, typer.Option("--out", help="The file to write.")],
    output: OutputOptions,
    min_count: Annotated[int, typer.Option(min=1, help="Leave out words that occur less often.")] = 4,
    split: Annotated[str, typer.Option(help="Whose captions are counted.")] = "train",
) -> None:
    """Count the words of a stream's captions once, so that trainings on it need not."""
    from vsekit import verbs

    count = verbs.vocabulary(path, out, min_count=min_count, split=split, progress=output.progress)
    print_json({"vocabulary": str(out), "words": count}) if output.json else typer.echo(f"{out}: {count} words")


@data_app.command(epilog=examples("vse data scenes --out scenes --train 3000 --val 300 --test 300 --seed 0"))
def scenes(
    out: Annotated[Path, typer.Option("--out", help="The folder to write.")],
    train: Annotated[int, typer.Option(help="Pictures for training.")] = 3000,
    val: Annotated[int, typer.Option(help="Pictures for validation.")] = 300,
    test: Annotated[int, typer.Option(help="Pictures for testing.")] = 300,
    seed: Annotated[int, typer.Option(help="The same seed gives the same bytes.")] = 0,
    hard_share: Annotated[float, typer.Option(help="Share of pictures with a twin that differs in one fact.")] = 0.3,
    pixels: Annotated[int, typer.Option(help="Height and width of the pictures, in pixels.")] = 96,
    quiet: Quiet = False,
) -> None:
    """Generate a collection of drawn scenes with five captions each, and the truth about every picture."""
    from vsekit.data.scenes import write_scenes
    from vsekit.progress import Progress

    with Progress(quiet=quiet).bar("Drawing scenes", "pictures") as bar:
        path = write_scenes(
            out, train=train, val=val, test=test, seed=seed, hard_share=hard_share, pixels=pixels, progress=bar
        )
    typer.echo(str(path))
