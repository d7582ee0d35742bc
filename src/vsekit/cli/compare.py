"""vse compare: runs side by side on the same queries, with paired significance."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vsekit.cli import app
from vsekit.cli.groups import grouped
from vsekit.cli.options import DataPath, OutputOptions, ReadingOptions, examples, print_json

COLUMNS = [(side, name) for side in ("i2t", "t2i") for name in ("r1", "r5", "r10")]


@app.command(
    epilog=examples(
        "vse compare runs/vse0 runs/vsepp --data flickr8k --split val",
        "vse compare runs/seed0 runs/seed1 runs/seed2 --data flickr8k --seeds   (mean and standard deviation)",
    )
)
@grouped
def compare(
    runs: Annotated[
        list[Path], typer.Argument(help="Run or model folders; the first is what the others are compared with.")
    ],
    data: DataPath,
    reading: ReadingOptions,
    output: OutputOptions,
    split: Annotated[str, typer.Option("--split", help="Which split to measure.")] = "test",
    protocol: Annotated[str, typer.Option("--protocol", help="full, 5k, 1k, 1k-single or person.")] = "full",
    seeds: Annotated[
        bool, typer.Option("--seeds", help="The runs differ in the seed only: print mean and standard deviation.")
    ] = False,
) -> None:
    """Compare runs: recalls side by side, and the difference from the first run with its 95 % interval and p-value."""
    from vsekit.evaluation.measure import compare_runs

    pairs = reading.of(data).pairs(split)
    found = compare_runs(runs, pairs, protocol=protocol, seeds=seeds, progress=output.progress)  # type: ignore[arg-type]
    if output.json:
        print_json(found.to_dict())
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("run", "i→t R@1", "R@5", "R@10", "t→i R@1", "R@5", "R@10", "rsum", "against the first"):
        table.add_column(name, justify="left" if name == "run" else "right")
    for number, (run, metrics) in enumerate(zip(runs, found.metrics)):
        cells = [f"{getattr(metrics, side)[name]:.1f}" for side, name in COLUMNS]
        against = ""
        if number and found.tests:
            test = found.tests[number - 1]["rsum"]
            against = f"{test['difference']:+.1f} [{test['ci'][0]:+.1f}, {test['ci'][1]:+.1f}], p {test['p']:.2g}"
        table.add_row(str(run), *cells, f"{metrics.rsum:.1f}", against)
    deviation = found.spread
    if deviation:
        for what in ("mean", "std"):
            table.add_row(
                what, *(f"{deviation[s][n][what]:.1f}" for s, n in COLUMNS), f"{deviation['rsum'][what]:.1f}", ""
            )
    Console(width=max(Console().width, 110)).print(table)
