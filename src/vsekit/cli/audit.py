"""vse audit: what is likely mislabelled."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vsekit.cli import app
from vsekit.cli.groups import grouped
from vsekit.cli.options import DataPath, OutputOptions, ReadingOptions, examples, print_json


@app.command(
    epilog=examples(
        "vse audit runs/catalogue --data catalogue.csv",
        "vse audit runs/catalogue --data catalogue.csv --margin 0.1 --top 500 --out look.html",
        "vse audit runs/catalogue --data catalogue.csv --json | jq '.pairs[] | select(.reason == \"false-negative\")'",
    )
)
@grouped
def audit(
    run: Annotated[Path, typer.Argument(help="A run or model folder.")],
    data: DataPath,
    reading: ReadingOptions,
    output: OutputOptions,
    split: Annotated[str, typer.Option("--split", help="Which split to look through.")] = "train",
    margin: Annotated[
        float,
        typer.Option(
            help="List a caption of another picture that scores this much above the best of the picture's own."
        ),
    ] = 0.05,
    gap: Annotated[
        float, typer.Option(help="List a caption that scores this much below the median of the picture's others.")
    ] = 0.2,
    cosine: Annotated[
        float, typer.Option(help="Pictures whose embeddings have at least this cosine count as duplicates.")
    ] = 0.98,
    top: Annotated[int, typer.Option(min=1, help="How many findings of each kind are listed.")] = 100,
    out: Annotated[Path | None, typer.Option("--out", help="The page to write; audit.html in RUN by default.")] = None,
) -> None:
    """List what is likely mislabelled, with pictures: false negatives, captions that don't fit, duplicates."""
    from vsekit.diagnostics.audit import audit_run
    from vsekit.report.audit import write_audit

    pairs = reading.of(data).pairs(split)
    found = audit_run(run, pairs, margin=margin, gap=gap, cosine=cosine, progress=output.progress)
    out = out or (run if run.is_dir() else Path()) / "audit.html"  # the starter has no folder of one's own
    write_audit(found, out, top)
    if output.json:
        print_json(found.to_dict(top))
        return
    for name, count in found.counts.items():
        typer.echo(f"{count:7} {name.replace('_', ' ')}")
    typer.echo(f"Look at {out}")
