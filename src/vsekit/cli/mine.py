"""vse mine: the hardest negatives of a whole training set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vsekit.cli import app
from vsekit.cli.options import (
    CaptionEmbeddings,
    CaptionGroups,
    CaptionsPerImage,
    Columns,
    Data,
    Features,
    Format,
    ImageEmbeddings,
    ImageGroups,
    Images,
    Json,
    Quiet,
    Runs,
    SimilarityOption,
    Trust,
    examples,
    print_json,
    read_scores,
)


@app.command(
    epilog=examples(
        "vse mine runs/vsrn --data flickr30k --out mined/vsrn",
        "vse mine --image-embeddings A.npy --caption-embeddings B.npy --out mined",
    ),
)
def mine(
    out: Annotated[Path, typer.Option("--out", help="The folder to write; a mining that was stopped goes on.")],
    runs: Runs = None,
    data: Data = None,
    split: Annotated[str, typer.Option("--split", help="Which split to mine.")] = "train",
    top_captions: Annotated[int, typer.Option("--top-captions", help="Captions kept of each image.")] = 300,
    top_images: Annotated[int, typer.Option("--top-images", help="Images kept of each caption.")] = 60,
    margin: Annotated[
        float, typer.Option("--margin", help="Negatives this far above the positive are flagged.")
    ] = 0.05,
    image_embeddings: ImageEmbeddings = None,
    caption_embeddings: CaptionEmbeddings = None,
    captions_per_image: CaptionsPerImage = 5,
    image_groups: ImageGroups = None,
    caption_groups: CaptionGroups = None,
    similarity: SimilarityOption = "cosine",
    features: Features = None,
    format: Format = None,
    images: Images = None,
    columns: Columns = None,
    trust: Trust = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """For every image its hardest captions, for every caption its hardest images, own group left out, exactly."""
    import numpy as np

    from vsekit.evaluation.positives import Positives
    from vsekit.mining.false_negatives import flag_false_negatives, near_duplicates
    from vsekit.mining.mine import mine_scores
    from vsekit.models.model import load_model
    from vsekit.progress import Progress

    progress = Progress(quiet=quiet)
    embeddings = (image_embeddings, caption_embeddings, similarity, captions_per_image, image_groups, caption_groups)
    scores, *groups, pairs = read_scores(runs, data, split, (format, images, columns, features), embeddings, progress)
    own = Positives.by_groups(*groups).i2t
    texts = [caption.text for caption in pairs.captions] if pairs else None
    name = [[str(run), load_model(run).fingerprint()] for run in runs or []] + [split, texts]
    with progress.bar("Mining", "images") as bar:
        result = mine_scores(
            scores, own, out, top_captions=top_captions, top_images=top_images, fingerprint=name, progress=bar
        )
    vectors = getattr(scores, "images", None)  # of pooled embeddings; sets have none
    doubles = None if vectors is None or isinstance(vectors, tuple) else near_duplicates(np.asarray(vectors))
    flagged = flag_false_negatives(result, *groups, margin=margin, texts=texts, same_pictures=doubles)
    if json:
        print_json(
            {
                "out": str(out),
                **result.info,
                "likely_false_negatives": len(flagged.pairs),
                "reasons": flagged.counts(),
                "margin": margin,
            }
        )
    else:
        typer.echo("\n".join([*result.summary(), *flagged.summary(), "Look at them with: vse audit"]))
        typer.echo(f"{out}: captions.npy {result.captions.shape}, images.npy {result.images.shape}")
