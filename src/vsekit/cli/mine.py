"""vse mine: the hardest negatives of a whole training set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vsekit.cli import app
from vsekit.cli.groups import grouped
from vsekit.cli.options import (
    BulkOptions,
    Data,
    EmbeddingOptions,
    ReadingOptions,
    Runs,
    examples,
    print_json,
    read_source,
)


@app.command(
    epilog=examples(
        "vse mine runs/vsrn --data flickr30k --out mined/vsrn",
        "vse mine --image-embeddings A.npy --caption-embeddings B.npy --out mined",
        "vse mine runs/vsrn --data coco --features features/coco --out mined/vsrn --engine ray --ray-address node0:6379",
    )
)
@grouped
def mine(
    out: Annotated[Path, typer.Option("--out", help="The folder to write. Mining that was stopped continues there.")],
    embeddings: EmbeddingOptions,
    reading: ReadingOptions,
    output: BulkOptions,
    runs: Runs = None,
    data: Data = None,
    split: Annotated[str, typer.Option("--split", help="Which split to mine.")] = "train",
    top_captions: Annotated[
        int, typer.Option("--top-captions", help="How many captions are kept for each picture.")
    ] = 300,
    top_images: Annotated[int, typer.Option("--top-images", help="How many pictures are kept for each caption.")] = 60,
    margin: Annotated[
        float, typer.Option("--margin", help="Negatives that score this much above the positive are flagged.")
    ] = 0.05,
) -> None:
    """Find the hardest captions of every picture and the hardest pictures of every caption, over the whole split.

    Querybanks are ignored: their queries are the captions and pictures that are ranked here.
    """
    from vsekit.mining.run import mine_source

    engine = output.ray
    source = read_source(runs, data, split, reading, embeddings)
    sizes = {"top_captions": top_captions, "top_images": top_images}
    mined = mine_source(source, out, **sizes, margin=margin, engine=engine, progress=output.progress)
    if output.json:
        print_json(mined.to_dict())
        return
    lists = mined.lists
    typer.echo("\n".join([*lists.summary(), *mined.flagged.summary(), "Look at them with: vse audit"]))
    typer.echo(f"{out}: captions.npy {lists.captions.shape}, images.npy {lists.images.shape}")
