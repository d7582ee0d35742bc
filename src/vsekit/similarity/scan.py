"""Stacked cross attention, SCAN (Lee et al. 2018): each word, or each region, is compared with what it attends to.

    t2i: s(i, c) = agg over words w of cos(w, Σ_v a_vw v)
    i2t: s(i, c) = agg over regions v of cos(v, Σ_w a_vw w)

agg is the mean, or LogSumExp, (1/λ') log Σ exp(λ' r), not divided by the number of terms. `cross_attention` tells how
the attention a is made. Published results named "t-i + i-t" average the scores of two models, one of each direction.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt

from vsekit.similarity.base import SimilarityPart
from vsekit.similarity.cross_attention import CrossAttention, Direction

#: The λs published for Flickr30K; COCO has lambda_lse 20 for i2t.
LAMBDA_SOFTMAX: dict[Direction, float] = {"t2i": 9.0, "i2t": 4.0}
LAMBDA_LSE: dict[Direction, float] = {"t2i": 6.0, "i2t": 5.0}


class ScanSettings(SimilarityPart):
    """direction: "t2i", words attend to regions; "i2t", regions attend to words.

    aggregate: LogSumExp or mean of the cosines.
    lambda_softmax: sharpness of the attention; by default 9 for t2i and 4 for i2t.
    lambda_lse: sharpness of LogSumExp; by default 6 for t2i and 5 for i2t.
    slope: of the LeakyReLU before the attention: 0.1 in the published code, 0 (a plain ReLU) in the paper's equations.
    block: at most block × block products of regions and words are held at once; more suits a GPU.
    """

    kind: Literal["scan"] = "scan"
    direction: Direction = "t2i"
    aggregate: Literal["lse", "mean"] = "lse"
    lambda_softmax: PositiveFloat | None = None
    lambda_lse: PositiveFloat | None = None
    slope: float = Field(default=0.1, ge=0, lt=1)
    block: PositiveInt = 512

    def build(self) -> CrossAttention:
        return CrossAttention(
            directions=(self.direction,),
            lambda_softmax=self.lambda_softmax or LAMBDA_SOFTMAX[self.direction],
            lambda_lse=None if self.aggregate == "mean" else self.lambda_lse or LAMBDA_LSE[self.direction],
            slope=self.slope,
            block=self.block,
        )
