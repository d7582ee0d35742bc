"""Mined negatives that are probably right: the hardest "wrong" captions of a picture often describe it well.

Four signs, each a bit of `FalseNegatives.reasons`:

    SCORE         the negative scores above the best positive of its query by a margin
    SAME_TEXT     its words are those of a caption of the query's own, up to case, punctuation and spaces
    SIMILAR_TEXT  its words overlap with such a caption's: |a ∩ b| / |a ∪ b| ≥ jaccard
    SAME_PICTURE  its picture is nearly the same as the query's, by embeddings or by perceptual hashes
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from vsekit.evaluation.positives import Positives
from vsekit.mining.mine import MiningResult

SCORE, SAME_TEXT, SIMILAR_TEXT, SAME_PICTURE = 1, 2, 4, 8
REASONS = {SCORE: "scores above", SAME_TEXT: "same words", SIMILAR_TEXT: "similar words", SAME_PICTURE: "same picture"}


@dataclass(frozen=True)
class FalseNegatives:
    """pairs: (M, 2) int64, picture and caption, sorted: what `OfflineSampler(skip=…)` takes.

    reasons: (M,) uint8 of bits; scores: (M,) float32 of the pair; margins: (M,) float32, how far above (+) or below (−)
    the best positive.
    """

    pairs: np.ndarray
    reasons: np.ndarray
    scores: np.ndarray
    margins: np.ndarray

    def summary(self) -> list[str]:
        """Lines that say how many were flagged, and why."""
        lines = [f"{len(self.pairs)} likely false negatives"]
        return lines + [f"  {name}: {count}" for name, count in self.counts().items()]

    def counts(self) -> dict[str, int]:
        """How many pairs show each sign."""
        return {name: int((self.reasons & bit > 0).sum()) for bit, name in REASONS.items()}


def flag_false_negatives(
    mined: MiningResult,
    image_groups: np.ndarray,
    caption_groups: np.ndarray,
    *,
    margin: float = 0.0,
    texts: Sequence[str] | None = None,
    jaccard: float = 0.8,
    same_pictures: np.ndarray | None = None,
    top: int = 20,
) -> FalseNegatives:
    """Looks at the first `top` of every mined list.

    Args:
        image_groups, caption_groups: those the lists were mined with.
        margin: how far above the best positive a negative has to score.
        texts: the captions, for the two signs in words.
        same_pictures: (P, 2) pairs of nearly equal pictures, from `near_duplicates`.
    """
    positives = Positives.by_groups(image_groups, caption_groups)
    n, m = len(image_groups), len(caption_groups)
    best_of_image, best_of_caption = np.full(n, np.inf, np.float32), np.full(m, np.inf, np.float32)
    for best, index in ((best_of_image, positives.i2t.queries), (best_of_caption, positives.i2t.items)):
        best[index] = -np.inf
        np.maximum.at(best, index, mined.positive_scores)

    captions, images = mined.captions[:, :top], mined.images[:, :top]
    picture = np.concatenate([np.repeat(np.arange(n), captions.shape[1]), images.ravel()]).astype(np.int64)
    caption = np.concatenate([captions.ravel(), np.repeat(np.arange(m), images.shape[1])]).astype(np.int64)
    score = np.concatenate([mined.caption_scores[:, :top].ravel(), mined.image_scores[:, :top].ravel()])
    split = captions.size
    margins = score - np.concatenate([best_of_image[picture[:split]], best_of_caption[caption[split:]]])
    # A pair found from both sides counts with its larger margin.
    order = np.lexsort((-margins, caption, picture))
    order = order[np.append(True, np.diff(picture[order] * m + caption[order]) > 0)]
    picture, caption, score, margins = picture[order], caption[order], score[order], margins[order]

    reasons = np.where(margins > margin, SCORE, 0).astype(np.uint8)
    if texts is not None:
        reasons |= _text_signs(picture, caption, positives, texts, jaccard)
    if same_pictures is not None and len(same_pictures):
        reasons |= _picture_signs(picture, caption, positives, same_pictures)
    keep = reasons > 0
    return FalseNegatives(np.stack([picture, caption], axis=1)[keep], reasons[keep], score[keep], margins[keep])


def _text_signs(
    pictures: np.ndarray, captions: np.ndarray, positives: Positives, texts: Sequence[str], jaccard: float
) -> np.ndarray:
    words = [re.findall(r"\w+", text.casefold()) for text in texts]
    bags = [frozenset(w) for w in words]
    starts, items = positives.i2t.starts, positives.i2t.items
    reasons = np.zeros(len(pictures), np.uint8)
    for at, (picture, caption) in enumerate(zip(pictures.tolist(), captions.tolist())):
        bag = bags[caption]
        for own in items[starts[picture] : starts[picture + 1]].tolist():
            common = len(bag & bags[own])
            if common and common >= jaccard * (len(bag) + len(bags[own]) - common):
                reasons[at] |= SIMILAR_TEXT | (SAME_TEXT if words[own] == words[caption] else 0)
    return reasons


def _picture_signs(
    pictures: np.ndarray, captions: np.ndarray, positives: Positives, same_pictures: np.ndarray
) -> np.ndarray:
    """Where a picture of the caption's is nearly the picture."""
    same = np.concatenate([same_pictures, same_pictures[:, ::-1]])
    t2i = positives.t2i
    # Every pair (picture, caption of its double) is suspect.
    by_picture = positives.i2t
    counts = by_picture.counts[same[:, 1]]
    first = np.repeat(by_picture.starts[same[:, 1]], counts)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    suspects = np.repeat(same[:, 0], counts) * t2i.n_queries + by_picture.items[first + within]
    return np.where(np.isin(pictures * t2i.n_queries + captions, suspects), SAME_PICTURE, 0).astype(np.uint8)


def near_duplicates(vectors: np.ndarray, threshold: float = 0.98, block: int = 2048) -> np.ndarray:
    """(P, 2) pairs a < b of rows of `vectors` (n, D) whose cosine is at least `threshold`."""
    unit = torch.nn.functional.normalize(torch.from_numpy(np.array(vectors, dtype=np.float32)))
    found = []
    for a in range(0, len(unit), block):
        for b in range(a, len(unit), block):
            near = (unit[a : a + block] @ unit[b : b + block].T >= threshold).nonzero().numpy()
            near = near + np.array([a, b])
            found.append(near[near[:, 0] < near[:, 1]])
    return np.concatenate(found) if found else np.empty((0, 2), np.int64)


def near_hashes(hashes: np.ndarray, distance: int = 4) -> np.ndarray:
    """(P, 2) pairs a < b of perceptual hashes (n, bytes) uint8 that differ in at most `distance` bits.

    With bits as ±1, two hashes of B bits that differ in d have the cosine 1 − 2d/B.
    """
    signs = np.unpackbits(np.atleast_2d(hashes), axis=1).astype(np.float32) * 2 - 1
    return near_duplicates(signs, 1 - (2 * distance + 1) / signs.shape[1])
