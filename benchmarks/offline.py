"""Table 6 of AOQ: seconds a training batch takes VSRN with the online loss and with each offline one, one thread.

A step of rows aoq:6.*: 128 pictures of 36 regions × 2,048, captions of twelve words, forward, loss and backward, with the
caption branch. The yardstick is the online triplet loss; `published_ratio` is the paper's, on a GTX 1080 Ti. Mining,
which the paper does once before (620 s on Flickr30K, 3,400 s on COCO; Sec. 4.2), is in `benchmarks.evaluation`.
"""

from __future__ import annotations

import time
from typing import Any

import torch

from vsekit import recipes
from vsekit.data.text import Vocabulary
from vsekit.data.views import ViewSettings
from vsekit.losses import LossContext
from vsekit.models.model import VSE
from vsekit.parts import Sets, Tokens, merged
from vsekit.training.settings import RunSettings
from vsekit.training.step import Batch, OfflineBatch, Step

BATCH, REGIONS, WORDS, LENGTH = 128, 36, 10_000, 12
#: The model's sizes at scale 1; a quick look shrinks them with the batch.
DIM = 2048
ROWS = ("6.vsrn", "6.offtri-vsrn", "6.offquin-vsrn", "6.adapoffquin-vsrn")


def run(scale: float = 1.0) -> list[dict[str, Any]]:
    """Args: scale: of the batch and of the model's sizes."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        sizes = max(2, round(BATCH * scale)), max(8, round(DIM * scale))
        rows = [recipes.find(f"aoq:{name}") for name in ROWS]
        seconds = [_seconds(row.settings, *sizes) for row in rows]
    finally:
        torch.set_num_threads(threads)
    published = [row.published["seconds_a_batch"][0] or 0.0 for row in rows]
    return [
        {
            "name": row.method,
            "cpu_s": own,
            "yardstick": seconds[0],
            "ratio": own / seconds[0],
            "published_s": theirs,
            "published_ratio": theirs / published[0],
        }
        for row, own, theirs in zip(rows, seconds, published)
    ]


def _seconds(settings: dict[str, Any], batch: int, dim: int) -> float:
    """CPU time of one step; the better of two."""
    sizes = {"model": {"dim": dim, "text": {"encoder": {"dim": dim}}}}
    run_settings = RunSettings.model_validate(merged(settings, sizes))
    torch.manual_seed(0)
    words, view = Vocabulary(map(str, range(WORDS))), ViewSettings.model_validate("1C")
    model = VSE(run_settings.model, words, view, image_dim=dim)
    *_, stage = run_settings.stages.values()
    step = Step(model, stage.loss.build(LossContext(n_groups=batch, dim=dim))).train()
    offline = OfflineBatch(_regions(batch, dim), _regions(batch, dim), _captions(batch), _captions(batch))
    data = Batch(_regions(batch, dim), _captions(batch), torch.arange(batch), 0.0, offline)
    turns = []
    for _ in range(2):
        start = time.process_time()
        step(data)[0].backward()
        turns.append(time.process_time() - start)
        step.zero_grad()
    return min(turns)


def _regions(batch: int, dim: int) -> Sets:
    return Sets(torch.randn(batch, REGIONS, dim), torch.ones(batch, REGIONS, dtype=torch.bool))


def _captions(batch: int) -> Tokens:
    return Tokens(torch.randint(4, WORDS, (batch, LENGTH)), torch.full((batch,), LENGTH))
