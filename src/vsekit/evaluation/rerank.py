"""Two models in a row: a fast one finds the best n items of every query, a slow one (SCAN, BFAN) puts those in order.

Behind the n come all other items in the order of the fast model. A pair may be re-ranked in one direction and not in
the other, so the result is `Ranks`, not a scorer.
"""

from __future__ import annotations

import numpy as np

from vsekit.evaluation.outputs import best_items
from vsekit.evaluation.positives import Positives
from vsekit.evaluation.ranks import BLOCK, DirectionRanks, Ranks, count_ranks
from vsekit.evaluation.scorers import Scorer
from vsekit.progress import Update


def reranked(
    fast: Scorer, slow: Scorer, positives: Positives, n: int, *, block: int = BLOCK, progress: Update | None = None
) -> Ranks:
    """Ranks when `slow` re-ranks the best `n` of `fast`, in both directions.

    progress: told how many queries of how many are re-ranked.
    """
    found = count_ranks(fast, positives, block=block)
    captions, caption_scores, images, image_scores = best_items(fast, n)
    total, done = len(positives.i2t.asked) + len(positives.t2i.asked), 0

    def direction(ranks: DirectionRanks, best: np.ndarray, best_scores: np.ndarray, by_image: bool) -> DirectionRanks:
        nonlocal done
        relation = ranks.relation
        scores, above, tied = ranks.scores.copy(), ranks.above.copy(), ranks.tied.copy()
        for query in relation.asked.tolist():
            row = slice(relation.starts[query], relation.starts[query + 1])
            chosen, one = best[query].astype(np.int64), np.array([query])
            new = (slow.block(one, chosen) if by_image else slow.block(chosen, one).T)[0].cpu().numpy()
            # Where each right item stands among the chosen ones; those that are not among them fall behind all.
            pair, at = np.nonzero(relation.items[row, None] == chosen)
            behind = np.ones(row.stop - row.start, bool)
            behind[pair] = False
            equals = (scores[row, None] == best_scores[query]).sum(1)
            above[row] = np.maximum(above[row] + equals, len(chosen))
            tied[row] -= equals
            above[row][pair] = (new > new[at, None]).sum(1)
            tied[row][pair] = (new == new[at, None]).sum(1)
            # From here on only the order of right items matters: their places among different values, worst first.
            order = np.unique(scores[row][behind], return_inverse=True)[1]
            scores[row][pair] = np.unique(new[at], return_inverse=True)[1] + len(order)
            scores[row][behind] = order
            done += 1
            if progress is not None:
                progress(done, total)
        return DirectionRanks(relation, scores, above, tied)

    i2t = direction(found.i2t, captions, caption_scores, True)
    t2i = direction(found.t2i, images, image_scores, False)
    return Ranks(i2t, t2i, found.image_clusters, found.caption_clusters)
