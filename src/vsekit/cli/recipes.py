"""vse recipes: what can be reproduced, with the published numbers."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from vsekit.cli import app
from vsekit.cli.options import Json, examples, print_json
from vsekit.errors import UserError

COLUMNS = ("row", "table", "dataset", "protocol", "image → text R@1/5/10", "text → image R@1/5/10")


@app.command(
    epilog=examples(
        "vse recipes",
        "vse recipes vsepp",
        "vse recipes hard negatives --dataset flickr30k",
        "vse recipes --paper aoq VSRN | less",
        "vse recipes --json | jq '.[].published'",
    )
)
def recipes(
    words: Annotated[
        list[str] | None, typer.Argument(help="Only rows with all of these words, or of this paper.")
    ] = None,
    paper: Annotated[str | None, typer.Option("--paper", help="Only this paper's, e.g. vsepp.")] = None,
    dataset: Annotated[str | None, typer.Option("--dataset", help="Only rows of this dataset, e.g. coco.")] = None,
    json: Json = False,
) -> None:
    """List the rows of the papers' tables that can be run: published numbers, and a line on what each is."""
    from vsekit.recipes.describe import description, search

    found = search(words or (), paper, dataset)
    if not found:
        raise UserError(
            f"no row has all of that: {' '.join(words or [])}",
            remedy="Try fewer words; vse recipes lists all rows.",
        )
    if json:
        print_json(
            [
                {
                    "id": row.id,
                    "paper": row.recipe,
                    "row": row.name,
                    "description": description(row),
                    **row.model_dump(exclude={"recipe", "name"}),
                }
                for row in found
            ]
        )
        return
    cells = [list(COLUMNS)]
    for row in found:
        recalls = [
            "/".join("–" if x is None else f"{x:g}" for x in row.published.get(way, [])[:3]) for way in ("i2t", "t2i")
        ]
        cells.append([row.id, row.table, row.dataset, row.protocol, *(recall or "–" for recall in recalls)])
    # In a terminal the description has a line of its own; in a pipe every row is one line, for grep and cut.
    between = "\n    " if sys.stdout.isatty() else "  "
    widths = [max(len(line[i]) for line in cells) for i in range(len(COLUMNS))]
    descriptions = ["what it is", *map(description, found)]
    for line, text in zip(cells, descriptions):
        aligned = "  ".join(cell.ljust(width) for cell, width in zip(line, widths))
        typer.echo(f"{aligned}{between}{text}")
