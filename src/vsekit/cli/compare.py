"""vse compare: runs side by side on the same queries, with paired significance."""

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
from vsekit.errors import UserError

COLUMNS = [(side, name) for side in ("i2t", "t2i") for name in ("r1", "r5", "r10")]


@app.command(
    epilog=examples(
        "vse compare runs/vse0 runs/vsepp --data flickr8k --split val",
        "vse compare runs/seed0 runs/seed1 runs/seed2 --data flickr8k --seeds   (mean and standard deviation)",
    ),
)
def compare(
    runs: Annotated[
        list[Path], typer.Argument(help="Run or model folders; the first is what the others are compared with.")
    ],
    data: DataPath,
    split: Annotated[str, typer.Option("--split", help="Which split to measure.")] = "test",
    protocol: Annotated[str, typer.Option("--protocol", help="full, 5k, 1k, 1k-single or person.")] = "full",
    seeds: Annotated[
        bool, typer.Option("--seeds", help="The runs differ in the seed alone: mean and deviation.")
    ] = False,
    features: Features = None,
    format: Format = None,
    images: Images = None,
    columns: Columns = None,
    trust: Trust = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare runs: recalls side by side, the difference to the first with its 95 % interval and a paired test's p."""
    from vsekit.evaluation.models import score_runs
    from vsekit.evaluation.protocols import evaluate
    from vsekit.evaluation.significance import compare as test
    from vsekit.evaluation.significance import over_seeds
    from vsekit.progress import Progress

    if len(runs) < 2:
        raise UserError("there is nothing to compare: give two runs or more")
    pairs = read_pairs(data, format, images, columns, features, split)
    groups = pairs.picture_groups, pairs.caption_groups
    measured = [
        evaluate(score_runs([run], pairs, Progress(quiet=quiet)), *groups, protocol=protocol)  # type: ignore[arg-type]
        for run in runs
    ]
    tests = [] if seeds else [test(measured[0], other) for other in measured[1:]]
    spread = over_seeds(measured) if seeds else None
    if json:
        rows = [{"run": str(run), **metrics.to_dict()} for run, metrics in zip(runs, measured)]
        print_json({"runs": rows, "against_first": tests, "over_seeds": spread})
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("run", "i→t R@1", "R@5", "R@10", "t→i R@1", "R@5", "R@10", "rsum", "against the first"):
        table.add_column(name, justify="left" if name == "run" else "right")
    for number, (run, metrics) in enumerate(zip(runs, measured)):
        cells = [f"{getattr(metrics, side)[name]:.1f}" for side, name in COLUMNS]
        against = ""
        if number and tests:
            found = tests[number - 1]["rsum"]
            against = f"{found['difference']:+.1f} [{found['ci'][0]:+.1f}, {found['ci'][1]:+.1f}], p {found['p']:.2g}"
        table.add_row(str(run), *cells, f"{metrics.rsum:.1f}", against)
    if spread:
        for what in ("mean", "std"):
            table.add_row(what, *(f"{spread[s][n][what]:.1f}" for s, n in COLUMNS), f"{spread['rsum'][what]:.1f}", "")
    Console(width=max(Console().width, 110)).print(table)
