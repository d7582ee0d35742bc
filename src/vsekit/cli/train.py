"""vse train: a recipe and a collection in, a run folder out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vsekit.cli import app
from vsekit.cli.options import (
    Columns,
    DataPath,
    Features,
    Format,
    Images,
    Json,
    Quiet,
    Trust,
    columns_dict,
    examples,
    print_json,
)


@app.command(
    epilog=examples(
        "vse train vsepp:demo --data scenes --out runs/scenes",
        "vse train scenes:scan --data scenes --out runs/scan --set stages.main.epochs=5",
        "vse train my.yaml --data catalogue.csv --columns caption=title --out runs/catalogue",
        "vse train my.yaml --data catalogue.csv --out runs/catalogue --resume",
    ),
)
def train(
    recipe: Annotated[str, typer.Argument(help="paper:row (vse recipes lists them), or a YAML file.")],
    data: DataPath,
    out: Annotated[Path, typer.Option("--out", help="The run folder to write.")],
    sets: Annotated[
        list[str] | None, typer.Option("--set", help="Change a setting: key.path=value. May repeat.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with an interrupted run, exactly where it was.")
    ] = False,
    features: Features = None,
    text_features: Annotated[
        Path | None,
        typer.Option("--text-features", help="Token features of the captions made by vse features transformer."),
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Same as --set seed=N.")] = None,
    device: Annotated[str, typer.Option("--device", help="auto, cpu, cuda or mps.")] = "auto",
    precision: Annotated[
        str, typer.Option("--precision", help="As Lightning Fabric names it, e.g. bf16-mixed.")
    ] = "32-true",
    checkpoint_seconds: Annotated[float, typer.Option(help="How much work a kill may cost.")] = 60.0,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write TensorBoard files.")] = False,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Write report.html about the validation split.")
    ] = True,
    format: Format = None,
    images: Images = None,
    columns: Columns = None,
    trust: Trust = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a model: RECIPE on a collection, into a run folder that can be resumed, evaluated and used."""
    from vsekit.features.reading import Reading
    from vsekit.features.store import FeatureStore
    from vsekit.progress import Progress
    from vsekit.recipes import load_settings
    from vsekit.report.run import write_run_report
    from vsekit.training.loop import train as run

    settings = load_settings(recipe, [*(sets or []), *([f"seed={seed}"] if seed is not None else [])])
    wanted = settings.data
    splits = (wanted.train, wanted.val, *(["restval"] if wanted.restval else [])) if features else ()
    pairs = Reading(data, format, images, columns_dict(columns), features).pairs(*splits)
    progress = Progress(quiet=quiet)
    end = run(
        settings,
        pairs,
        out,
        source={"recipe": recipe, "data": str(data), "features": str(features) if features else None},
        text_features=text_features,
        resume=resume,
        checkpoint_seconds=checkpoint_seconds,
        tensorboard=tensorboard,
        device=device,
        precision=precision,
        progress=progress,
    )
    if report and not (out / "report.html").is_file():
        store = FeatureStore.open(features) if features else None
        write_run_report(out, pairs.split(settings.data.val), store=store, progress=progress)
    if json:
        print_json(end)
    else:
        best = end["best"]
        typer.echo(
            f"Best rsum {best['rsum']:.1f} in stage {best['stage']}, epoch {best['epoch']}. The model is {out / 'model'}."
        )
