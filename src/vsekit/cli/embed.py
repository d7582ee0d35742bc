"""vse embed: vectors of pictures and captions as plain files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vsekit.cli import app
from vsekit.cli.options import Columns, Data, Features, Format, Images, Json, Quiet, examples, print_json, read_pairs


@app.command(
    epilog=examples(
        "vse embed runs/mine --data catalogue.csv --split test --out vectors",
        "vse embed starter ~/Pictures --out vectors --parquet",
        "vse evaluate --image-embeddings vectors/images.npy --caption-embeddings vectors/captions.npy --captions-per-image 5",
    )
)
def embed(
    model: Annotated[
        str,
        typer.Argument(help="starter, a run or model folder, an exported folder, or a model like CLIP."),
    ],
    folder: Annotated[
        Path | None, typer.Argument(help="A folder of pictures, at any depth, in place of --data.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The folder to write; a command that was stopped goes on.")
    ] = None,
    data: Data = None,
    split: Annotated[list[str] | None, typer.Option("--split", help="Only these splits. May repeat.")] = None,
    parquet: Annotated[bool, typer.Option("--parquet", help="Also as Parquet, with ids and sentences.")] = False,
    skip_broken: Annotated[
        bool, typer.Option("--skip-broken", help="Leave zeros for pictures that can't be read.")
    ] = False,
    features: Features = None,
    format: Format = None,
    images: Images = None,
    columns: Columns = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write embeddings of pictures and captions as .npy files with their ids, resumably."""
    from vsekit.errors import UserError
    from vsekit.export.embeddings import embed as write_embeddings
    from vsekit.export.embeddings import open_model, pictures_below
    from vsekit.progress import Progress

    if out is None:
        raise UserError("no place for the embeddings", field="--out", remedy="Name a folder: --out vectors")
    if folder is not None and data is None:
        pairs = pictures_below(folder)
    elif data is not None and folder is None:
        pairs = read_pairs(data, format, images, columns, features, *(split or []))
    else:
        raise UserError("give a FOLDER of pictures, or --data", remedy="--help shows examples of both.")
    options = {"parquet": parquet, "skip_broken": skip_broken}
    written = write_embeddings(open_model(model), pairs, out, progress=Progress(quiet=quiet), **options)
    if json:
        print_json({"out": str(out), **written})
        return
    counts = [f"{written[side]['count']} {side}" for side in ("images", "captions") if written[side]["count"]]
    broken = f", {len(written['broken'])} of them broken" if written["broken"] else ""
    typer.echo(f"{out}: {' and '.join(counts)} of {written['dim']} dimensions{broken}")
