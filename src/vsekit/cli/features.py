"""vse features: what a frozen encoder makes of every picture, or of every caption, extracted once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from vsekit.cli import app
from vsekit.cli.groups import grouped
from vsekit.cli.options import BulkOptions, CollectionOptions, DataPath, Sets, examples, print_json


@dataclass(frozen=True)
class ViewOptions:
    """Which pixels of a picture are read, and what is kept of them."""

    view: Annotated[str, typer.Option("--view", help="1C, 10C (mean of ten crops) or RC (random crops).")] = "1C"
    resize: Annotated[
        int | None,
        typer.Option(help="The size that pictures are resized to. Default: 8/7 of the encoder's input size."),
    ] = None
    crops: Annotated[
        int, typer.Option(min=1, help="RC: random crops kept of each picture, to draw from in training.")
    ] = 1
    keep_views: Annotated[
        bool, typer.Option("--keep-views", help="10C: keep the crops apart, for models that average after their head.")
    ] = False
    dtype: Annotated[str, typer.Option(help="float32, or float16 for half the size.")] = "float32"


@app.command(
    epilog=examples(
        "vse features efficientnet_lite --data flickr8k --out features/lite0",
        "vse features efficientnet_lite --set output=grid --data flickr8k --out features/lite0-grid --dtype float16",
        "vse features efficientnet_lite --view RC --crops 10 --data flickr8k --out features/lite0-crops",
        "vse features efficientnet_lite --data coco --out features/coco --engine ray --ray-address node0:6379",
        "vse features transformer --data flickr8k --out features/minilm",
        "vse features transformers_vision --set model=facebook/dinov2-small --data photos.csv --out features/dino",
    )
)
@grouped
def features(
    encoder: Annotated[
        str,
        typer.Argument(
            help="small_cnn, efficientnet_lite, several, transformers_vision, timm_vision; transformer, for captions."
        ),
    ],
    data: DataPath,
    out: Annotated[
        Path, typer.Option("--out", help="The folder to write. An extraction that was stopped continues there.")
    ],
    shown: ViewOptions,
    collection: CollectionOptions,
    output: BulkOptions,
    sets: Sets = None,
    split: Annotated[list[str] | None, typer.Option("--split", help="Only these splits. May repeat.")] = None,
    batch_size: Annotated[int, typer.Option(help="Crops the encoder reads at once; small is fast on CPUs.")] = 8,
    skip_broken: Annotated[
        bool, typer.Option("--skip-broken", help="Finish without pictures that can't be read.")
    ] = False,
) -> None:
    """Extract and store features of a collection's pictures, resumably; vse train --features uses them.

    With the text encoder `transformer` (MiniLM), a vector of every token of every caption, one folder a split, for vse
    train --text-features.
    """
    from dataclasses import asdict

    from vsekit.features.making import OF_CAPTIONS, caption_features, picture_features

    engine = output.ray
    read = collection.of(data)
    common: dict[str, Any] = {"splits": split or [], "sets": sets or [], "progress": output.progress}
    if encoder == OF_CAPTIONS:
        tokens = caption_features(read, out, **common)
        found: dict[str, Any] = {"out": str(out), "tokens": tokens}
        line = ", ".join(f"{name} {n} tokens" for name, n in tokens.items())
    else:
        more = {**asdict(shown), "batch_size": batch_size, "skip_broken": skip_broken, "engine": engine, **common}
        store = picture_features(encoder, read, out, **more)
        shape = store.features.shape
        found = {"out": str(out), "shape": list(shape), "axes": store.axes, "broken": store.broken}
        line = " × ".join(f"{n} {axis}s" for n, axis in zip(shape, store.axes)) + f", {len(store.broken)} broken"
    if output.json:
        print_json(found)
    else:
        typer.echo(f"{out}: {line}")
