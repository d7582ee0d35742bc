"""vse report: a page about a run."""

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
    examples,
    print_json,
    read_pairs,
)


@app.command(
    epilog=examples(
        "vse report runs/demo/run --data runs/demo/scenes",
        "vse report runs/f30k --data flickr30k --features features/regions --out f30k.html",
    ),
)
def report(
    run: Annotated[Path, typer.Argument(help="A run or model folder.")],
    data: DataPath,
    split: Annotated[str, typer.Option("--split", help="Which split to measure.")] = "test",
    out: Annotated[Path | None, typer.Option("--out", help="The file to write; report.html in RUN by default.")] = None,
    features: Features = None,
    format: Format = None,
    images: Images = None,
    columns: Columns = None,
    trust: Trust = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write one self-contained page about a run: results, curves, retrievals, and the papers' diagnostics."""
    from vsekit.features.store import FeatureStore
    from vsekit.progress import Progress
    from vsekit.report.run import write_run_report

    pairs = read_pairs(data, format, images, columns, features).split(split)
    store = FeatureStore.open(features) if features else None
    out = out or run / "report.html"
    found = write_run_report(run, pairs, out, store=store, progress=Progress(quiet=quiet))
    if json:
        print_json(found.to_dict())
    else:
        typer.echo("\n".join([*found.metrics.table(), f"Look at {out}"]))
