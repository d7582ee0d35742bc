"""Bidirectional focal attention, BFAN (Liu et al. 2019): SCAN's attention both ways, without what is irrelevant.

After attending with λ = 20, a fragment j of the context stays only if it gets more attention than its rivals,

    F(j) = Σ_t (a_j − a_t) g(t) > 0,

where g says how much a rival counts: 1 ("equal"), so that a_j must exceed the mean 1/N, or √a_t ("prob"), so that it
must exceed Σ √a a / Σ √a. The attention that stays is renormalised. The score is the mean cosine over words plus the
mean cosine over regions. The published model averages the scores of an "equal" and a "prob" one.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import torch
from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor

from vsekit.similarity.base import SimilarityPart
from vsekit.similarity.cross_attention import CrossAttention

Confidence = Literal["equal", "prob"]
# The last bits of an exponent are multiplied by λ = 20, and a few roundings add up.
_ROUNDING = 64


def focal(weights: Tensor, context: Tensor, confidence: Confidence) -> Tensor:
    """Attention on the focused fragments alone; which those are is decided, not differentiated through.

    The result is not renormalised, since nothing that is made of it looks at its length; nor need the weights be.

    Args:
        weights: (N, X, …), of the N fragments of X contexts; 0 where padded.
        context: (N, X) bool, the mask of the context.
    """
    with torch.no_grad():
        if confidence == "equal":
            threshold = weights.sum(0) / context.sum(0).view(-1, *[1] * (weights.ndim - 2))
        else:
            roots = weights.sqrt()
            threshold = (roots * weights).sum(0) / roots.sum(0)
        # Equal attention differs by rounding, which must not decide who stays.
        threshold *= 1 + _ROUNDING * torch.finfo(weights.dtype).eps
        # Where all get the same attention, or there is but one, F is 0 and nothing would stay: then all stay.
        threshold = torch.where(weights.amax(0) > threshold, threshold, -1.0)
        # As numbers from the start: a product with bools takes five times as long.
        focused = torch.gt(weights, threshold, out=torch.empty_like(weights))
    return weights * focused


class BfanSettings(SimilarityPart):
    """focal: how rivals count, "equal" or "prob". The other settings are as in `ScanSettings`."""

    kind: Literal["bfan"] = "bfan"
    focal: Confidence = "equal"
    lambda_softmax: PositiveFloat = 20.0
    slope: float = Field(default=0.1, ge=0, lt=1)
    block: PositiveInt = 512

    def build(self) -> CrossAttention:
        return CrossAttention(
            directions=("t2i", "i2t"),
            lambda_softmax=self.lambda_softmax,
            lambda_lse=None,
            slope=self.slope,
            focus=partial(focal, confidence=self.focal),
            block=self.block,
        )
