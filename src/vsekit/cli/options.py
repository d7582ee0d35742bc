"""Options that several commands share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

if TYPE_CHECKING:
    import numpy as np

    from vsekit.data.pairs import Pairs
    from vsekit.evaluation.scorers import Scorer
    from vsekit.progress import Progress

DataPath = Annotated[Path, typer.Option("--data", help="A collection: a file or a folder in any format vsekit reads.")]
Format = Annotated[
    str | None,
    typer.Option("--format", help="The collection's format, when the detected one is wrong; see docs/data-formats.md."),
]
Images = Annotated[
    Path | None, typer.Option("--images", help="The folder with the pictures, when it is not beside the file.")
]
Columns = Annotated[
    str | None,
    typer.Option("--columns", help="Which column of a table holds what, e.g. --columns image=photo,caption=title."),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")]


def _trust(context: typer.Context, trust: bool) -> bool:
    from vsekit.outside import trusting

    context.with_resource(trusting(trust))
    return trust


#: Of every command that loads models; it holds until the command ends, and no command passes it on.
Trust = Annotated[
    bool,
    typer.Option("--trust", callback=_trust, help="Import parts that a model names as module:Class; their code runs."),
]
Features = Annotated[
    Path | None,
    typer.Option("--features", help="Features of the pictures made by vse features, in place of the pictures."),
]
Runs = Annotated[
    list[Path] | None, typer.Argument(help="Run or model folders; several are an ensemble: scores averaged.")
]
Data = Annotated[Path | None, typer.Option("--data", help="The collection, for runs.")]
ImageEmbeddings = Annotated[
    Path | None, typer.Option("--image-embeddings", help="In place of runs: (n_images, D) .npy")
]
CaptionEmbeddings = Annotated[Path | None, typer.Option("--caption-embeddings", help="and (n_captions, D) .npy")]
CaptionsPerImage = Annotated[
    int, typer.Option("--captions-per-image", help="Of embeddings: captions k·i … k·i+k−1 belong to image i.")
]
ImageGroups = Annotated[Path | None, typer.Option("--image-groups", help="Of embeddings: integers .npy, instead.")]
CaptionGroups = Annotated[Path | None, typer.Option("--caption-groups", help="Equal numbers belong together.")]
SimilarityOption = Annotated[str, typer.Option("--similarity", help="Of embeddings: cosine, inner_product or order.")]


def examples(*lines: str) -> str:
    """An epilog of --help."""
    return "Examples:\n\n" + "\n\n".join(f"  {line}" for line in lines)


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def columns_dict(columns: str | None) -> dict[str, str] | None:
    """--columns role=name,… as a mapping."""
    from vsekit.errors import UserError

    if not columns:
        return None
    pairs = [column.partition("=") for column in columns.split(",")]
    if not all(role and equals and name for role, equals, name in pairs):
        raise UserError(
            f"can't read --columns {columns}", remedy="Write role=name, for example --columns caption=title."
        )
    return {role: name for role, _, name in pairs}


def read_pairs(
    data: Path, format: str | None, images: Path | None, columns: str | None, features: Path | None, *splits: str
) -> Pairs:
    """The collection that --data, --format, --images, --columns and --features name, or only some splits of it."""
    from vsekit.data.readers import read
    from vsekit.features.store import FeatureStore

    pairs = read(data, format=format, columns=columns_dict(columns), images=images)
    if splits:
        pairs = pairs.split(*splits)
    if features is None:
        return pairs
    store = FeatureStore.open(features)
    store.check(pictures=pairs.pictures)
    return store.attach(pairs)


class Scored(NamedTuple):
    """A scorer with the groups of its images and captions; the collection, unless embeddings were given."""

    scores: Scorer
    image_groups: np.ndarray
    caption_groups: np.ndarray
    pairs: Pairs | None


def read_scores(
    runs: list[Path] | None,
    data: Path | None,
    split: str,
    source: tuple[str | None, Path | None, str | None, Path | None],
    embeddings: tuple[Path | None, Path | None, str, int, Path | None, Path | None],
    progress: Progress,
    plain: bool = False,
) -> Scored:
    """Scores and groups of images and captions: of runs on a split of a collection, or of embeddings made elsewhere.

    Args:
        source: --format, --images, --columns, --features.
        embeddings: --image-embeddings, --caption-embeddings, --similarity, --captions-per-image and the two groups.
        plain: without querybanks.
    """
    from vsekit.errors import UserError
    from vsekit.evaluation.external import load_pairing, load_scorer
    from vsekit.evaluation.models import score_runs

    image_file, caption_file, similarity, per_image, image_groups, caption_groups = embeddings
    if image_file and caption_file and not runs and not data:
        scores = load_scorer(image_file, caption_file, similarity)  # type: ignore[arg-type]
        groups = load_pairing(scores, per_image, image_groups, caption_groups, (image_file, caption_file))
        return Scored(scores, *groups, None)
    if runs and data and not (image_file or caption_file):
        pairs = read_pairs(data, *source, split)
        scores = score_runs(runs, pairs, progress, plain=plain)
        return Scored(scores, pairs.picture_groups, pairs.caption_groups, pairs)
    raise UserError(
        "give RUN … and --data, or --image-embeddings and --caption-embeddings", remedy="--help shows examples of both."
    )
