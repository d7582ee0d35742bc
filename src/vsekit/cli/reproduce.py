"""vse reproduce: rows of the papers' tables, measured beside published."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vsekit.cli import app
from vsekit.cli.groups import grouped
from vsekit.cli.options import OutputOptions, ReadingOptions, Sets, columns_dict, examples, print_json

FORMS = ("pictures", "regions", "grid")


@app.command(
    epilog=examples(
        "vse reproduce vsepp:3.11 --data flickr30k --out runs",
        "vse reproduce vsepp:1.9 vsepp:1.13 --data coco --out runs --seeds 3   (one model, two protocols)",
        "vse reproduce aoq:1.adapoffquin-bfan-5k --data coco_precomp --out runs --json",
        "vse reproduce dual_path:7.resnet50-stage2   (says what data it needs)",
    ),
)
@grouped
def reproduce(
    rows: Annotated[list[str], typer.Argument(help="paper:row, one or more; vse recipes lists them.")],
    reading: ReadingOptions,
    output: OutputOptions,
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data",
            help="The collection. Without it, vsekit says what it needs. "
            "Ensembles over several: --data regions=DIR --data grid=DIR --data pictures=DIR.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Where the runs go: OUT/PAPER/ROW.")] = Path("runs"),
    sets: Sets = None,
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, help="Repeat with this many seeds; prints mean and spread.")
    ] = 1,
    protocol: Annotated[str | None, typer.Option("--protocol", help="In place of the row's own protocol.")] = None,
    device: Annotated[str, typer.Option("--device", help="auto, cpu, cuda or mps.")] = "auto",
    precision: Annotated[
        str, typer.Option("--precision", help="As Lightning Fabric names it, e.g. bf16-mixed.")
    ] = "32-true",
) -> None:
    """Train rows of the papers' tables, measure them the same way, and print measured beside published.

    Finished runs are not trained again; interrupted ones go on. Ensembles train and average their members.
    """
    from vsekit.recipes.reproduce import reproduce as run

    results = run(
        rows,
        _paths(data or []),
        out,
        sets=sets or [],
        seeds=seeds,
        protocol=protocol,
        features=reading.features,
        reading={
            "format": reading.format,
            "images": reading.images,
            "columns": columns_dict(reading.columns),
        },
        device=device,
        precision=precision,
        progress=output.progress,
    )
    if output.json:
        print_json([result.to_dict() for result in results])
    else:
        typer.echo("\n\n".join("\n".join(result.lines()) for result in results))


def _paths(data: list[str]) -> Path | dict[str, Path] | None:
    """--data PATH, or --data FORM=PATH for each form."""
    from vsekit.errors import UserError

    forms = {
        form: Path(path) for form, equals, path in (text.partition("=") for text in data) if equals and form in FORMS
    }
    if len(data) > 1 and len(forms) < len(data):
        raise UserError(
            f"can't read --data {' --data '.join(data)}", remedy="Write regions=DIR, grid=DIR, pictures=DIR."
        )
    return forms or (Path(data[0]) if data else None)
