"""vse features: what a frozen encoder makes of every picture, or of every caption, extracted once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from vsekit.cli import app
from vsekit.cli.groups import grouped
from vsekit.cli.options import CollectionOptions, DataPath, OutputOptions, Sets, examples, print_json


@dataclass(frozen=True)
class ViewOptions:
    """Which pixels of a picture are read, and what is kept of them."""

    view: Annotated[str, typer.Option("--view", help="1C, 10C (mean of ten crops) or RC (random crops).")] = "1C"
    resize: Annotated[int | None, typer.Option(help="Side the picture is resized to; 8/7 of the encoder's pixels.")] = (
        None
    )
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
    out: Annotated[Path, typer.Option("--out", help="The folder to write; an extraction that was stopped goes on.")],
    shown: ViewOptions,
    collection: CollectionOptions,
    output: OutputOptions,
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
    import torch

    from vsekit.data.views import view_settings
    from vsekit.encoders.image import encoder_settings
    from vsekit.encoders.text import text_encoder_settings
    from vsekit.errors import UserError
    from vsekit.features.extraction import extract
    from vsekit.features.texts import extract_splits
    from vsekit.outside import trusting
    from vsekit.parts import apply_sets

    if shown.dtype not in ("float16", "float32"):
        raise UserError(f"no dtype '{shown.dtype}'", field="--dtype", remedy="float16 or float32")
    of_captions = encoder == "transformer"
    with trusting():  # a person named it
        spec = apply_sets({"kind": encoder}, sets or [])
        settings = (text_encoder_settings if of_captions else encoder_settings)(spec)
    pairs = collection.of(data).pairs(*(split or []))
    if of_captions:
        stores = extract_splits(settings, pairs, out, output.progress)
        if output.json:
            print_json({"out": str(out), "tokens": stores})
        else:
            typer.echo(f"{out}: " + ", ".join(f"{name} {n} tokens" for name, n in stores.items()))
        return
    torch.manual_seed(0)  # an encoder that starts at random is the same one when the command is repeated
    built = settings.build()
    side = shown.resize or built.pixels * 8 // 7
    view = view_settings({"kind": shown.view, "pixels": built.pixels, "resize": side})
    if shown.crops > 1 and view.deterministic:
        raise UserError(
            f"--crops {shown.crops} with --view {shown.view}, whose crops are fixed", remedy="Use --view RC."
        )
    with output.progress.bar("Features", "pictures") as bar:
        store = extract(
            built,
            settings.model_dump(mode="json"),
            pairs.pictures,
            view,
            out,
            batch_size=batch_size,
            dtype=shown.dtype,  # type: ignore[arg-type]
            crops=shown.crops,
            keep_views=shown.keep_views,
            skip_broken=skip_broken,
            progress=bar,
        )
    shape = store.features.shape
    if output.json:
        print_json({"out": str(out), "shape": list(shape), "axes": store.axes, "broken": store.broken})
    else:
        typer.echo(
            f"{out}: {' × '.join(f'{n} {axis}s' for n, axis in zip(shape, store.axes))}, {len(store.broken)} broken"
        )
