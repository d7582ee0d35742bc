"""vse data: look at collections, and make one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vsekit.cli import app
from vsekit.cli.options import Columns, Format, Images, Json, Quiet, columns_dict, examples, print_json

data_app = typer.Typer(help="Look at a collection of captioned pictures, or generate one.", no_args_is_help=True)
app.add_typer(data_app, name="data")


@data_app.command(
    epilog=examples("vse data check flickr8k", "vse data check shop.csv --columns image=photo,caption=title")
)
def check(
    path: Annotated[Path, typer.Argument(help="A collection: a file or a folder.")],
    format: Format = None,
    images: Images = None,
    columns: Columns = None,
    restval: Annotated[bool, typer.Option("--restval", help="Fold COCO's restval into train.")] = False,
    pictures: Annotated[bool, typer.Option("--pictures/--no-pictures", help="Decode every picture.")] = True,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Say what is in a collection and all that is wrong with it. Exit code 2 when something is."""
    from vsekit.data.check import check as run
    from vsekit.progress import Progress

    with Progress(quiet=quiet).bar("Checking", "pictures") as bar:
        report = run(
            path,
            format=format,
            images=images,
            columns=columns_dict(columns),
            restval=restval,
            pictures=pictures,
            progress=bar,
        )
    if json:
        print_json(report.to_dict())
    else:
        typer.echo("\n".join(report.lines()))
    if not report.ok:
        raise typer.Exit(2)


@data_app.command(epilog=examples("vse data scenes --out scenes --train 3000 --val 300 --test 300 --seed 0"))
def scenes(
    out: Annotated[Path, typer.Option("--out", help="The folder to write.")],
    train: Annotated[int, typer.Option(help="Pictures to train on.")] = 3000,
    val: Annotated[int, typer.Option(help="Pictures to select on.")] = 300,
    test: Annotated[int, typer.Option(help="Pictures to test on.")] = 300,
    seed: Annotated[int, typer.Option(help="Same seed, same bytes.")] = 0,
    hard_share: Annotated[float, typer.Option(help="Share of pictures with a twin that differs in one fact.")] = 0.3,
    pixels: Annotated[int, typer.Option(help="Side of the pictures.")] = 96,
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
