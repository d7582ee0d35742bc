"""vse recipes: what can be reproduced, with the published numbers."""

from __future__ import annotations

from typing import Annotated

import typer

from vsekit.cli import app
from vsekit.cli.options import Json, examples, print_json


@app.command(epilog=examples("vse recipes", "vse recipes vsepp", "vse recipes --json | jq '.[].published'"))
def recipes(
    recipe: Annotated[str | None, typer.Argument(help="Only this paper's, e.g. vsepp.")] = None, json: Json = False
) -> None:
    """List every row of every results table that can be run, with its published numbers."""
    from vsekit.recipes import rows

    found = rows(recipe)
    if json:
        print_json(
            [
                {"id": row.id, "paper": row.recipe, "row": row.name, **row.model_dump(exclude={"recipe", "name"})}
                for row in found
            ]
        )
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("row", "table", "method", "dataset", "protocol", "image → text R@1/5/10", "text → image R@1/5/10"):
        table.add_column(name, no_wrap=name != "method")
    for row in found:
        recalls = [
            "/".join("–" if x is None else f"{x:g}" for x in row.published.get(way, [])[:3]) for way in ("i2t", "t2i")
        ]
        table.add_row(row.id, row.table, f"{row.method} {row.trainset}", row.dataset, row.protocol, *recalls)
    Console().print(table)
