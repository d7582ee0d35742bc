"""CPU time of every loss on pooled embeddings: normalise, cosine scores, loss, backward; batch 128 × 1024, one thread.

The yardstick is the bare product 128 × 1024 · 1024 × 128, forward and backward, which every loss contains. Target:
10 ms a loss; the published adaptive objective takes 523 ms. The instance loss with a full softmax is the exception: its
cost is the number of classes. "with update" adds the step of SparseAdam on the classifier.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from vsekit.losses import LossContext, LossInputs, OfflineScores
from vsekit.losses.adaptive_objective import AdaptiveObjectiveSettings
from vsekit.losses.adaptive_offline_quintuplet import AdaptiveOfflineQuintupletSettings
from vsekit.losses.info_nce import InfoNCESettings
from vsekit.losses.instance import InstanceSettings
from vsekit.losses.max_of_hinges import MaxOfHingesSettings
from vsekit.losses.max_of_negatives import MaxOfNegativesSettings
from vsekit.losses.mvn import MVNSettings
from vsekit.losses.offline_quintuplet import OfflineQuintupletSettings
from vsekit.losses.offline_triplet import OfflineTripletSettings
from vsekit.losses.quadruple_ranking import QuadrupleRankingSettings
from vsekit.losses.sum_of_hinges import SumOfHingesSettings
from vsekit.losses.switch import SumToMaxSettings
from vsekit.losses.weighted_sum import Term, WeightedSumSettings

BATCH, DIM, TARGET_MS = 128, 1024, 10.0
SAMPLED = InstanceSettings(classes="sampled")
#: name, settings, groups in the training set
CASES = [
    ("sum_of_hinges", SumOfHingesSettings(), 113_287),
    ("max_of_hinges", MaxOfHingesSettings(), 113_287),
    ("sum_to_max", SumToMaxSettings(), 113_287),
    ("info_nce", InfoNCESettings(), 113_287),
    ("max_of_negatives", MaxOfNegativesSettings(), 113_287),
    ("mvn", MVNSettings(), 113_287),
    ("quadruple_ranking", QuadrupleRankingSettings(), 113_287),
    ("offline_triplet", OfflineTripletSettings(), 113_287),
    ("offline_quintuplet", OfflineQuintupletSettings(), 113_287),
    ("adaptive_offline_quintuplet", AdaptiveOfflineQuintupletSettings(), 113_287),
    ("adaptive_objective", AdaptiveObjectiveSettings(), 113_287),
    ("adaptive_objective, published", AdaptiveObjectiveSettings(variant="published"), 113_287),
    ("instance, sampled, 10,000 groups", SAMPLED, 10_000),
    ("instance, sampled, 113,287 groups", SAMPLED, 113_287),
    ("instance, sampled, 500,000 groups", SAMPLED, 500_000),
    ("instance, sampled, with update, 10,000 groups", SAMPLED, 10_000),
    ("instance, sampled, with update, 113,287 groups", SAMPLED, 113_287),
    (
        "weighted_sum of ranking and instance, sampled",
        WeightedSumSettings(terms=[Term(loss=QuadrupleRankingSettings()), Term(loss=SAMPLED)]),
        113_287,
    ),
    ("instance, full, 10,000 groups", InstanceSettings(), 10_000),
]


def cpu_ms(step: Callable[[], object], repeats: int) -> float:
    """The fastest of `repeats` runs: noise only ever adds."""
    step()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        step()
        times.append(time.process_time() - start)
    return 1e3 * min(times)


def run(scale: float = 1.0) -> list[dict[str, Any]]:
    """Args: scale: how many times to repeat, 1 for 30 times; groups beyond 10,000 only from 0.5 on (they need 2 GB)."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _run(max(3, round(30 * scale)), most_groups=10_000 if scale < 0.5 else 500_000)
    finally:
        torch.set_num_threads(threads)


def _run(repeats: int, most_groups: int) -> list[dict[str, Any]]:
    torch.manual_seed(0)
    # Images, captions, and the four kinds of offline samples.
    vectors = [torch.randn(BATCH, DIM, requires_grad=True) for _ in range(6)]
    yardstick = cpu_ms(lambda: (vectors[0] @ vectors[1].T).sum().backward(), repeats)
    rows = []
    for name, settings, groups in CASES:
        if "instance" in name and groups > most_groups:
            continue
        loss = settings.build(LossContext(n_groups=groups, dim=DIM))
        labels = torch.randint(groups, (BATCH,))
        optimiser = torch.optim.SparseAdam(loss.sparse_parameters()) if "with update" in name else None

        def step(loss: Any = loss, labels: Tensor = labels, optimiser: Any = optimiser) -> None:
            for tensor in [*vectors, *loss.parameters()]:
                tensor.grad = None
            i, c, *others = (normalize(v, dim=1) for v in (vectors if loss.needs_offline else vectors[:2]))
            scores = None
            if loss.needs_offline:
                caption, image, partner_image, partner_caption = others
                pairs = [(i, caption), (image, c), (image, caption), (partner_image, partner_caption)]
                scores = OfflineScores(*((a * b).sum(dim=1) for a, b in pairs))
            loss(LossInputs(i @ c.T, labels, i, c, lambda a, b: a @ b.T, offline=scores))[0].backward()
            if optimiser is not None:
                optimiser.step()

        ms = cpu_ms(step, repeats)
        rows.append({"name": name, "cpu_ms": ms, "yardstick": yardstick, "ratio": ms / yardstick, "target": TARGET_MS})
    return rows


if __name__ == "__main__":
    for row in run():
        print(
            f"{row['name']:48} {row['cpu_ms']:9.2f} ms  {row['ratio']:7.1f} × the product ({row['yardstick']:.2f} ms)"
        )
