"""GCN: layers of graph reasoning between the vectors of a set (VSRN, Li et al., ICCV 2019, Eq. 2–3), then MeanPool.

    R = θ(v) · φ(v)ᵀ / N          affinity of all pairs, divided by the size of the set; no softmax
    v* = v + BN(W_r · (R · g(v)))

θ, φ, g and W_r are linear maps d → d. BN counts valid places only; its gain and shift start at 0, so that each layer
starts as the identity and GCN as MeanPool. The paper writes R · v · W_g, the same as R · g(v) but for the order.
Without a softmax the product is associative: (θ φᵀ) g for small sets, θ (φᵀ g) for sets larger than d, so that the cost
is bounded by a line in N.

VSE+2AD (Table 4) names the GCN of Li et al. as an aggregator and says no more; VSRN's four layers and the mean are our
choice.
"""

from __future__ import annotations

from typing import Literal

from pydantic import PositiveInt
from torch import Tensor, nn

from vsekit.pooling.base import Pooling, PoolingPart
from vsekit.pooling.masked import masked_batch_norm, zero_padding
from vsekit.pooling.mean import mean_pool


class GraphReasoning(nn.Module):
    """One layer. In training, a batch that holds a single vector in all is normalised by the running statistics."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.theta, self.phi, self.g, self.w = (nn.Linear(dim, dim) for _ in range(4))
        self.norm = nn.BatchNorm1d(dim)
        nn.init.zeros_(self.norm.weight)

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """(B, N, d) with zeros at the padded places, (B, N) → the same."""
        theta, phi, g = self.theta(vectors), self.phi(vectors).mT, zero_padding(self.g(vectors), mask)
        small = vectors.shape[1] <= vectors.shape[2]
        related = (theta @ phi) @ g if small else theta @ (phi @ g)
        return vectors + masked_batch_norm(self.norm, self.w(related / mask.sum(1)[:, None, None]), mask)


class GCN(Pooling):
    def __init__(self, dim: int, layers: int = 4) -> None:
        super().__init__(dim)
        self.layers = nn.ModuleList(GraphReasoning(dim) for _ in range(layers))

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        vectors = zero_padding(vectors, mask)
        for layer in self.layers:
            vectors = layer(vectors, mask)
        return mean_pool(vectors, mask)


class GCNSettings(PoolingPart):
    kind: Literal["gcn"] = "gcn"
    layers: PositiveInt = 4

    def build(self, dim: int) -> GCN:
        return GCN(dim, self.layers)
