"""vse embed: vectors of pictures and captions as plain files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vsekit.cli import app
from vsekit.cli.groups import grouped
from vsekit.cli.options import BulkOptions, Data, ReadingOptions, examples, print_json


@app.command(
    epilog=examples(
        "vse embed runs/mine --data catalogue.csv --split test --out vectors",
        "vse embed starter ~/Pictures --out vectors --parquet",
        "vse embed starter /shared/photos --out vectors --engine ray --ray-address node0:6379",
        "vse evaluate --image-embeddings vectors/images.npy --caption-embeddings vectors/captions.npy --captions-per-image 5",
    )
)
@grouped
def embed(
    model: Annotated[
        str,
        typer.Argument(help="starter, a run or model folder, an exported folder, or a model like CLIP."),
    ],
    reading: ReadingOptions,
    output: BulkOptions,
    folder: Annotated[
        Path | None, typer.Argument(help="A folder of pictures, at any depth, in place of --data.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The folder to write. A command that was stopped continues there.")
    ] = None,
    data: Data = None,
    split: Annotated[list[str] | None, typer.Option("--split", help="Only these splits. May repeat.")] = None,
    parquet: Annotated[bool, typer.Option("--parquet", help="Also as Parquet, with ids and sentences.")] = False,
    skip_broken: Annotated[
        bool, typer.Option("--skip-broken", help="Leave zeros for pictures that can't be read.")
    ] = False,
) -> None:
    """Write embeddings of pictures and captions as .npy files with their ids, resumably."""
    from vsekit import verbs
    from vsekit.errors import UserError

    if out is None:
        raise UserError("no place for the embeddings", field="--out", remedy="Name a folder: --out vectors")
    if (folder is None) == (data is None):
        raise UserError("give a FOLDER of pictures, or --data", remedy="--help shows examples of both.")
    options = {"parquet": parquet, "skip_broken": skip_broken, "engine": output.ray}
    source = folder if data is None else reading.of(data).pairs(*(split or []))
    assert source is not None
    written = verbs.embed(model, source, out, **options, progress=output.progress)
    if output.json:
        print_json({"out": str(out), **written})
        return
    counts = [f"{written[side]['count']} {side}" for side in ("images", "captions") if written[side]["count"]]
    broken = f", {len(written['broken'])} of them broken" if written["broken"] else ""
    typer.echo(f"{out}: {' and '.join(counts)} of {written['dim']} dimensions{broken}")
