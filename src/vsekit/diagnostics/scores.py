"""What the diagnostics read: all scores of a split held at once, or only those of the pairs that belong together."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from vsekit.evaluation.positives import Relation
from vsekit.evaluation.scorers import Index, Scorer, as_slice
from vsekit.progress import Update

ROWS = 256  # pictures scored together


class ScoreMatrix:
    """A `Scorer` whose scores were computed before: values (n_images, n_captions) float32."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values
        self.n_images, self.n_captions = values.shape

    @classmethod
    def of(cls, scorer: Scorer, progress: Update | None = None) -> ScoreMatrix:
        """Computes every score once."""
        values = np.empty((scorer.n_images, scorer.n_captions), np.float32)
        for start in range(0, scorer.n_images, ROWS):
            stop = min(start + ROWS, scorer.n_images)
            values[start:stop] = scorer.block(slice(start, stop), slice(0, scorer.n_captions)).cpu().numpy()
            if progress is not None:
                progress(stop, scorer.n_images)
        return cls(values)

    def block(self, images: Index, captions: Index) -> Tensor:
        return torch.from_numpy(np.array(self.values[images][:, captions]))  # a copy: callers may write into blocks


def own_scores(scorer: Scorer, i2t: Relation) -> np.ndarray:
    """The scores of pictures with their right captions, (n_pairs,) in the order of `i2t.items`.

    Few others are computed: pictures are taken by the first of their captions, so that groups stay together.
    """
    scores = np.empty(len(i2t.items), np.float32)
    asked = i2t.asked
    asked = asked[np.argsort(i2t.items[i2t.starts[asked]], kind="stable")]
    for chunk in np.array_split(asked, -(-len(asked) // 64)):
        pictures = np.sort(chunk)
        pairs = np.concatenate([np.arange(i2t.starts[p], i2t.starts[p + 1]) for p in pictures])
        captions, column = np.unique(i2t.items[pairs], return_inverse=True)
        block = scorer.block(as_slice(pictures), as_slice(captions)).cpu().numpy()
        scores[pairs] = block[np.repeat(np.arange(len(pictures)), i2t.counts[pictures]), column]
    return scores
