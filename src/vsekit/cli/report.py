"""vse report: a page about a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vsekit.cli import app
from vsekit.cli.groups import grouped
from vsekit.cli.options import DataPath, OutputOptions, ReadingOptions, examples, print_json


@app.command(
    epilog=examples(
        "vse report runs/demo/run --data runs/demo/scenes",
        "vse report runs/f30k --data flickr30k --features features/regions --out f30k.html",
    )
)
@grouped
def report(
    run: Annotated[Path, typer.Argument(help="A run or model folder.")],
    data: DataPath,
    reading: ReadingOptions,
    output: OutputOptions,
    split: Annotated[str, typer.Option("--split", help="Which split to measure.")] = "test",
    out: Annotated[Path | None, typer.Option("--out", help="The file to write; report.html in RUN by default.")] = None,
) -> None:
    """Write one self-contained page about a run: results, curves, retrievals, and the papers' diagnostics."""
    from vsekit.report.run import write_run_report

    given, out = reading.of(data), out or run / "report.html"
    found = write_run_report(run, given.pairs(split), out, store=given.store, progress=output.progress)
    if output.json:
        print_json(found.to_dict())
    else:
        typer.echo("\n".join([*found.metrics.table(), f"Look at {out}"]))
