"""What is likely mislabelled in a collection, found with a trained model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vsekit.data.pairs import Pairs
from vsekit.diagnostics.duplicates import Duplicate, duplicate_captions, duplicate_pictures
from vsekit.diagnostics.false_negatives import FalseNegative, false_negatives
from vsekit.diagnostics.low_captions import LowCaption, low_captions
from vsekit.errors import UserError
from vsekit.evaluation.meeting import RunsOnData
from vsekit.evaluation.scorers import Scorer
from vsekit.parts import Sets
from vsekit.progress import QUIET, Progress

MARGIN, GAP, JACCARD, COSINE = 0.05, 0.2, 0.9, 0.98


@dataclass(frozen=True)
class Audit:
    """The findings in one split; numbers are those of `pairs`.

    false_negatives: captions of others that a picture prefers to all its own.
    low_captions: own captions far below the picture's others.
    captions, pictures: near-duplicates in different groups.
    """

    pairs: Pairs
    false_negatives: list[FalseNegative]
    low_captions: list[LowCaption]
    captions: list[Duplicate]
    pictures: list[Duplicate]
    settings: dict[str, float]

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """Counts, and the first `top` pairs of each kind; a pair is a picture and a caption, or two pictures."""
        pairs = [self._with_caption(f, "false-negative") for f in self.false_negatives[:top]]
        pairs += [self._with_caption(f, "low-caption") for f in self.low_captions[:top]]
        for d in self.captions[:top]:
            first = self.pairs.captions[d.first]
            pair = {"picture": self.pairs.pictures[first.picture].id} | self._caption(d.second)
            pair |= {"own_caption": first.text, "own_caption_index": d.first, "score": d.score}
            pairs.append({"reason": "same-caption" if d.exact else "similar-caption"} | pair)
        for d in self.pictures[:top]:
            a, b = (self.pairs.pictures[i].id for i in (d.first, d.second))
            reason = "same-picture" if d.exact else "similar-picture"
            pairs.append({"reason": reason, "picture": a, "other_picture": b, "score": d.score})
        return {"settings": self.settings, "counts": self.counts, "pairs": pairs}

    @property
    def counts(self) -> dict[str, int]:
        return {
            "false_negatives": len(self.false_negatives),
            "low_captions": len(self.low_captions),
            "duplicate_captions": len(self.captions),
            "duplicate_pictures": len(self.pictures),
        }

    def _with_caption(self, found: FalseNegative | LowCaption, reason: str) -> dict[str, Any]:
        picture = {"reason": reason, "picture": self.pairs.pictures[found.picture].id}
        scores = {"score": found.score, "positive_score": found.positive_score}
        return picture | self._caption(found.caption) | scores

    def _caption(self, number: int) -> dict[str, Any]:
        caption = self.pairs.captions[number]
        written_for = self.pairs.pictures[caption.picture].id
        return {"caption": caption.text, "caption_index": number, "caption_picture": written_for}


def audit(
    scorer: Scorer,
    pairs: Pairs,
    vectors: np.ndarray,
    *,
    margin: float = MARGIN,
    gap: float = GAP,
    jaccard: float = JACCARD,
    cosine: float = COSINE,
    progress: Progress = QUIET,
) -> Audit:
    """Audits a split.

    Args:
        scorer: scores of its pictures with its captions.
        vectors: (n_pictures, d), by which pictures are compared with each other.
        margin: how far a foreign caption must score above the picture's own best one.
        gap: how far an own caption must score below the median of the picture's others.
        jaccard, cosine: from which captions, and pictures, count as near-duplicates.
    """
    groups = pairs.picture_groups, pairs.caption_groups
    if not len(pairs.captions):
        raise UserError("this split has no captions", file=pairs.root, remedy="Choose another --split.")
    with progress.bar("Scores", "pictures") as bar:
        preferred = false_negatives(scorer, *groups, margin, progress=bar)
    return Audit(
        pairs,
        preferred,
        low_captions(scorer, *groups, gap),
        duplicate_captions([caption.text for caption in pairs.captions], groups[1], jaccard),
        duplicate_pictures(pairs.pictures, vectors, groups[0], cosine),
        {"margin": margin, "gap": gap, "jaccard": jaccard, "cosine": cosine},
    )


def audit_run(run: Path | str, pairs: Pairs, *, progress: Progress = QUIET, **thresholds: float) -> Audit:
    """Audits a split with the model of a run (or a model folder). Thresholds as in `audit`."""
    source = RunsOnData.of([run], pairs)
    source.check()
    # Plain: of the training split, a querybank's queries are the very captions and pictures to be judged.
    met = source.meet(plain=True, progress=progress)
    return audit(met.scores, source.pairs, pooled(met.images), progress=progress, **thresholds)


def pooled(embedding: Any) -> np.ndarray:
    """(n, D): embeddings as they are, sets by their means."""
    if not isinstance(embedding, Sets):
        return embedding.numpy()
    weight = embedding.mask[..., None].float()
    return ((embedding.vectors * weight).sum(1) / weight.sum(1)).numpy()
