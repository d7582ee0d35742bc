"""vse demo: the whole story in two minutes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vsekit.cli import app
from vsekit.cli.options import Json, Quiet, examples, print_json


@app.command(epilog=examples("vse demo", "vse demo --out /tmp/demo --seed 1"))
def demo(
    out: Annotated[Path, typer.Option("--out", help="The folder to write.")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.")] = 0,
    train: Annotated[int, typer.Option("--train", help="Pictures for training.")] = 3000,
    test: Annotated[
        int, typer.Option("--test", help="Pictures for validation, and the same number for testing.")
    ] = 300,
    sets: Annotated[list[str] | None, typer.Option("--set", help="Change a setting of vsepp:demo. May repeat.")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Draw a sample collection, train on it, evaluate, mine, write a report and an index. Offline, about two minutes."""
    from vsekit.demo.story import demo as run
    from vsekit.progress import Progress

    result = run(
        out, seed=seed, train_pictures=train, test_pictures=test, sets=tuple(sets or ()), progress=Progress(quiet=quiet)
    )
    if json:
        print_json({name: metrics.to_dict() for name, metrics in result.metrics.items()})
        return
    from rich.console import Console
    from rich.table import Table

    from vsekit.demo.page import HEADER

    table = Table(box=None, pad_edge=False, title=f"{len(result.test.pictures)} held-out scenes", title_justify="left")
    for i, name in enumerate(HEADER):
        table.add_column(name, justify="left" if i == 0 else "right")
    for row in result.table():
        table.add_row(*row)
    console = Console(width=max(Console().width, 96))
    console.print(table)
    for answer in result.text_answers:
        best = result.test.pictures[answer.found[0]]
        console.print(
            f"[bold]“{result.test.captions[answer.query].text}”[/] → {best.id}, {'true' if answer.right[0] else 'not true'} of it"
        )
    for answer in result.image_answers:
        text = result.test.captions[answer.found[0]].text
        console.print(
            f"[bold]{result.test.pictures[answer.query].id}[/] → “{text}”, {'true' if answer.right[0] else 'not true'} of it"
        )
    console.print(f"{result.truth:.0%} of first answers to a caption are pictures it is true of.")
    console.print(f"Look at {out / 'report.html'}; the model is {out / 'run' / 'model'}.")
    if result.index.is_dir():
        console.print(f"Search the scenes yourself: [bold]vse serve {result.index} --open[/]")
