"""Embeddings made elsewhere: plain `.npy` files, checked before anything is computed.

A file holds a 2-D array of floats (float16, 32 or 64), one row an image or a caption. The captions of image i are the
rows i·n … i·n + n − 1 of the caption file, n being the captions per image; any other pairing is given by two files of
group numbers. Files are memory-mapped and never unpickled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from vsekit.errors import UserError, nearest
from vsekit.evaluation.meeting import Meeting
from vsekit.evaluation.metrics import KS, Metrics, Ties
from vsekit.evaluation.protocols import Protocol, check_protocol, evaluate
from vsekit.evaluation.scorers import InnerProduct, Pairwise, Scorer
from vsekit.progress import QUIET, Progress, Update

SimilarityName = Literal["cosine", "inner_product", "order"]
_ROWS = 4096  # rows looked at together, to keep memory small


def load_array(path: Path | str) -> np.ndarray:
    """A `.npy` file as a copy-on-write memory map: never unpickled, never changed."""
    try:
        array = np.load(path, mmap_mode="c", allow_pickle=False)
        if not isinstance(array, np.ndarray):
            raise ValueError("an archive of several")
        return array
    except FileNotFoundError:
        raise UserError("no such file", file=path) from None
    except (ValueError, EOFError, OSError) as error:
        raise UserError(
            f"not a plain .npy array ({error})", file=path, remedy="Write it with numpy.save(path, array)."
        ) from None


def load_embeddings(path: Path | str, *, unit: bool = False) -> np.ndarray:
    """A checked (n, D) array of finite floats; with `unit`, float32 rows scaled to length 1 (cosine)."""
    array = load_array(path)
    if array.ndim != 2 or 0 in array.shape:
        raise UserError(
            f"the array has shape {array.shape}", file=path, remedy="It must be (rows, D), one row an item."
        )
    if array.dtype.kind != "f":
        raise UserError(f"the array holds {array.dtype}", file=path, remedy="It must hold float16, float32 or float64.")
    result = np.empty(array.shape, np.float32) if unit else array
    for start in range(0, len(array), _ROWS):
        rows = np.asarray(array[start : start + _ROWS], dtype=np.float32)
        # float64 sums: squares of float32 may overflow, and a non-finite value shows in its row's sum.
        lengths = np.sqrt(np.einsum("nd,nd->n", rows, rows, dtype=np.float64))
        _refuse(path, start, ~np.isfinite(lengths), "holds NaN or infinity")
        if unit:
            _refuse(path, start, lengths == 0, "is a zero vector, which has no direction")
            result[start : start + len(rows)] = rows / lengths[:, None]
    return result


def _refuse(path: Path | str, start: int, bad: np.ndarray, what: str) -> None:
    if bad.any():
        raise UserError(f"row {start + int(np.argmax(bad))} {what}", file=path, field="embeddings")


def load_groups(path: Path | str, rows: int) -> np.ndarray:
    """(rows,) integers; equal ones belong together."""
    groups = load_array(path)
    if groups.shape != (rows,) or groups.dtype.kind not in "iu":
        raise UserError(
            f"groups are {groups.dtype} of shape {groups.shape}",
            file=path,
            remedy=f"They must be integers of shape ({rows},).",
        )
    return np.asarray(groups, np.int64)


def load_scorer(
    image_embeddings: Path | str, caption_embeddings: Path | str, similarity: SimilarityName = "cosine"
) -> InnerProduct | Pairwise:
    """The scorer of two files of embeddings under a similarity by name."""
    images, captions = (
        load_embeddings(path, unit=similarity == "cosine") for path in (image_embeddings, caption_embeddings)
    )
    if images.shape[1] != captions.shape[1]:
        raise UserError(
            f"captions have {captions.shape[1]} dimensions, images {images.shape[1]}",
            file=caption_embeddings,
            remedy=f"Both files must come from one model ({image_embeddings} holds the images).",
        )
    if similarity == "order":
        from vsekit.similarity.order import Order

        return Pairwise(Order(), images, captions)
    if similarity not in ("cosine", "inner_product"):
        raise UserError(
            f"no similarity '{similarity}'{nearest(similarity, ('cosine', 'inner_product', 'order'))}",
            field="similarity",
            remedy="There are: cosine, inner_product, order.",
        )
    return InnerProduct(images, captions)


def load_pairing(
    scores: Scorer,
    captions_per_image: int = 5,
    image_groups: Path | str | None = None,
    caption_groups: Path | str | None = None,
    files: tuple[Path | str, Path | str] = ("images", "captions"),
) -> tuple[np.ndarray, np.ndarray]:
    """Groups of images and captions: from two files, or by the number of captions per image."""
    n, m = scores.n_images, scores.n_captions
    if image_groups is not None and caption_groups is not None:
        return load_groups(image_groups, n), load_groups(caption_groups, m)
    if image_groups is not None or caption_groups is not None:
        raise UserError("groups are given for one side only", remedy="Give both --image-groups and --caption-groups.")
    if captions_per_image < 1 or m != n * captions_per_image:
        raise UserError(
            f"{m} captions are not {captions_per_image} for each of {n} images",
            file=files[1],
            field="captions_per_image",
            remedy=_remedy(scores, captions_per_image, files),
        )
    return np.arange(n), np.repeat(np.arange(n), captions_per_image)


def _remedy(scores: Scorer, per_image: int, files: tuple[Path | str, Path | str]) -> str:
    n, m = scores.n_images, scores.n_captions
    rows = getattr(scores, "images", None)
    if (
        rows is not None
        and per_image > 1
        and n == m
        and n % per_image == 0
        and np.array_equal(rows[::per_image], rows[1::per_image])
    ):
        return f"{files[0]} repeats every image {per_image} times: keep every {per_image}th row, array[::{per_image}]."
    if m % n == 0:
        return f"Say --captions-per-image {m // n}, if the captions of one image stand together."
    return "Give --image-groups and --caption-groups, two .npy files of integers, equal where they belong together."


@dataclass(frozen=True)
class Embeddings:
    """Two `.npy` files of embeddings, and how they belong together.

    Attributes:
        captions_per_image: rows of the caption file that belong to one row of the image file, standing together.
        similarity: "cosine" (rows are scaled to length 1), "inner_product" (as they are), "order".
        image_groups, caption_groups: `.npy` files of integers, instead of `captions_per_image` (person search).
    """

    images: Path | str
    captions: Path | str
    captions_per_image: int = 5
    similarity: SimilarityName = "cosine"
    image_groups: Path | str | None = None
    caption_groups: Path | str | None = None

    name = "embeddings"
    pairs = None

    def check(self, protocol: str = "full") -> None:
        """What is wrong with the files raises UserError when they are met, before anything is ranked."""
        check_protocol(protocol)

    def meet(self, *, plain: bool = False, progress: Progress = QUIET) -> Meeting:
        """plain: no matter, there is no querybank."""
        scores = load_scorer(self.images, self.captions, self.similarity)
        files = (self.images, self.captions)
        groups = load_pairing(scores, self.captions_per_image, self.image_groups, self.caption_groups, files)
        return Meeting(
            scores, *groups, scores.images, scores.captions, named_by=lambda: [self.similarity, *self._files()]
        )

    def _files(self) -> list[list[int]]:
        return [[path.stat().st_size, path.stat().st_mtime_ns] for path in map(Path, (self.images, self.captions))]


def evaluate_embeddings(
    image_embeddings: Path | str,
    caption_embeddings: Path | str,
    *,
    captions_per_image: int = 5,
    similarity: SimilarityName = "cosine",
    protocol: Protocol = "full",
    image_groups: Path | str | None = None,
    caption_groups: Path | str | None = None,
    ks: Sequence[int] = KS,
    ties: Ties = "mean",
    progress: Update | None = None,
) -> Metrics:
    """The metrics of two `.npy` files of embeddings. What is wrong with them raises UserError.

    Args:
        captions_per_image: rows of the caption file that belong to one row of the image file, standing together.
        similarity: "cosine" (rows are scaled to length 1), "inner_product" (as they are), "order".
        image_groups, caption_groups: `.npy` files of integers, instead of `captions_per_image` (person search).
    """
    given = (captions_per_image, similarity, image_groups, caption_groups)
    met = Embeddings(image_embeddings, caption_embeddings, *given).meet()
    return evaluate(met.scores, *met.groups, protocol=protocol, ks=ks, ties=ties, progress=progress)
