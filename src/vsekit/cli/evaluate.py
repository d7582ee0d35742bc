"""vse evaluate: the papers' numbers for a run, an ensemble of runs, or embeddings made elsewhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
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
from vsekit.errors import UserError

if TYPE_CHECKING:
    from vsekit.data.pairs import Pairs
    from vsekit.evaluation.positives import Positives


@app.command(
    epilog=examples(
        "vse evaluate runs/demo/run --data runs/demo/scenes --split test",
        "vse evaluate runs/coco --data coco --protocol 1k --json",
        "vse evaluate runs/seed0 runs/seed1 --data flickr8k --split val   (their ensemble)",
        "vse evaluate runs/vsepp --rerank-with runs/scan --rerank 50 --data flickr8k --split val",
        "vse evaluate --image-embeddings A.npy --caption-embeddings B.npy --captions-per-image 5",
    ),
)
def evaluate(
    runs: Runs = None,
    data: Data = None,
    split: Annotated[str, typer.Option("--split", help="Which split to measure.")] = "test",
    protocol: Annotated[
        str, typer.Option("--protocol", help="full, 5k, 1k (five folds), 1k-single or person.")
    ] = "full",
    image_embeddings: ImageEmbeddings = None,
    caption_embeddings: CaptionEmbeddings = None,
    captions_per_image: CaptionsPerImage = 5,
    image_groups: ImageGroups = None,
    caption_groups: CaptionGroups = None,
    similarity: SimilarityOption = "cosine",
    ties: Annotated[
        str, typer.Option("--ties", help="mean, optimistic or pessimistic; see docs/evaluation.md.")
    ] = "mean",
    at: Annotated[str, typer.Option("--at", help="The K of R@K.")] = "1,5,10",
    confidence: Annotated[bool, typer.Option("--confidence/--no-confidence", help="95 % bootstrap intervals.")] = True,
    rerank_with: Annotated[
        Path | None, typer.Option("--rerank-with", help="A slower run (SCAN, BFAN) that re-ranks …")
    ] = None,
    rerank: Annotated[int, typer.Option("--rerank", min=1, help="… the best so many of each query.")] = 50,
    plain: Annotated[bool, typer.Option("--plain", help="Without the querybanks of models that have one.")] = False,
    positives: Annotated[
        str | None,
        typer.Option("--positives", help="cxc or eccv: human judgements for COCO's 5K test, instead of groups."),
    ] = None,
    csv: Annotated[Path | None, typer.Option("--csv", help="Also write the numbers as CSV.")] = None,
    trec: Annotated[
        Path | None, typer.Option("--trec", help="Also write TREC runs and qrels into this folder.")
    ] = None,
    features: Features = None,
    format: Format = None,
    images: Images = None,
    columns: Columns = None,
    trust: Trust = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure retrieval both ways: R@K, median and mean rank, rsum, mAP@R, R-precision, with 95 % intervals."""
    from vsekit.evaluation.metrics import metrics as metrics_of
    from vsekit.evaluation.models import score_runs
    from vsekit.evaluation.outputs import write_csv, write_trec
    from vsekit.evaluation.protocols import evaluate as measure
    from vsekit.evaluation.ranks import count_ranks
    from vsekit.evaluation.rerank import reranked
    from vsekit.evaluation.significance import confidence as intervals
    from vsekit.progress import Progress

    progress = Progress(quiet=quiet)
    embeddings = (image_embeddings, caption_embeddings, similarity, captions_per_image, image_groups, caption_groups)
    ks = _whole_numbers(at)
    scores, *groups, pairs = read_scores(
        runs, data, split, (format, images, columns, features), embeddings, progress, plain
    )
    if rerank_with and not pairs:
        raise UserError("--rerank-with re-ranks runs, not embeddings", remedy="Give RUN … and --data.")
    if trec and protocol not in ("full", "person"):
        raise UserError(
            f"--trec writes one ranking of everything, and --protocol {protocol} ranks less", remedy="Leave one out."
        )
    if rerank_with and trec:
        raise UserError("--trec writes one scorer's lists, and --rerank-with has two", remedy="Leave one of them out.")
    right = _positives(positives, groups, pairs)
    with progress.bar("Ranking", "scores") as bar:
        if rerank_with or positives:
            _only_whole(protocol)
            slow = score_runs([rerank_with], pairs, progress, plain=plain) if rerank_with and pairs else None
            ranks = (
                reranked(scores, slow, right, rerank, progress=bar)
                if slow
                else count_ranks(scores, right, progress=bar)
            )
            metrics = metrics_of(ranks, ks=ks, ties=ties)  # type: ignore[arg-type]
        else:
            metrics = measure(
                scores,
                *groups,
                protocol=protocol,  # type: ignore[arg-type]
                ks=ks,
                ties=ties,  # type: ignore[arg-type]
                progress=bar,
            )
    if confidence:
        metrics = replace(metrics, ci=intervals(metrics))
    name = "+".join(run.name for run in runs) if runs else "embeddings"
    if csv:
        write_csv(csv, {name: metrics})
    if trec:
        ids = [picture.id for picture in pairs.pictures] if pairs else None
        write_trec(trec, scores, right, tag=name, image_ids=ids)
    if json:
        print_json(metrics.to_dict())
    else:
        typer.echo("\n".join(metrics.table()))


def _whole_numbers(text: str) -> list[int]:
    try:
        numbers = [int(number) for number in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise UserError(f"can't read --at {text}", remedy="Write whole numbers with commas, for example 1,5,10.")
    return numbers


def _only_whole(protocol: str) -> None:
    if protocol != "full":
        raise UserError(
            f"--protocol {protocol} doesn't go with --rerank-with or --positives", remedy="Leave --protocol out."
        )


def _positives(kind: str | None, groups: list[Any], pairs: Pairs | None) -> Positives:
    """Who is right for whom: by groups, or by the judgements of CxC or ECCV Caption."""
    from vsekit.evaluation.positives import Positives, coco_positives

    if kind is None:
        return Positives.by_groups(*groups)
    if kind not in ("cxc", "eccv"):
        raise UserError(f"no judgements '{kind}'", field="--positives", remedy="There are: cxc, eccv.")
    images = [picture.meta.get("cocoid") for picture in pairs.pictures] if pairs else [None]
    captions = [caption.meta.get("sentid") for caption in pairs.captions] if pairs else [None]
    if None in images or None in captions:
        raise UserError(
            f"--positives {kind} needs COCO's ids of pictures and captions",
            remedy="Give runs and --data with COCO's Karpathy JSON, and --split test.",
        )
    return coco_positives(kind, np.array(images), np.array(captions))  # type: ignore[arg-type]
