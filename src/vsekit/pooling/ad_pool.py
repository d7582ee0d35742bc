"""AdPool, adaptive pooling (VSE+2AD, Sec. 3.2): pooling at the token level and at the embedding level, balanced.

    token level (Eq. 3):      u = sort(t), every dimension on its own, largest first
                              θ = softmax(u · W_tok) over the set,  W_tok ∈ R^{d×1}
                              t^tok = Σ_m θ_m · u_m
    embedding level (Eq. 4):  t^emb = SoftPool(t)
    balance (Eq. 5):          ω = softmax([t^tok · W_bal, t^emb · W_bal]),  t = ω_1 · t^tok + ω_2 · t^emb

`levels` keeps one level alone (Table 3). `balance` also takes Table C-2's fixed weight of the token level (0.25, 0.5 or
0.75; the embedding level gets the rest) and its "random": one draw from U(0, 1) when the model is built, saved with it;
the paper averages five such runs. The published code differs from Eq. 3 in two ways:
- W_tok is d×d with bias, followed by a ReLU, so θ differs between dimensions: `token_weights: per_dimension`;
- padding takes part in the token level's softmax. That is not offered: padding never matters here.
"""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from vsekit.pooling.base import Pooling, PoolingPart
from vsekit.pooling.masked import softmax, sort_descending
from vsekit.pooling.soft_pool import soft_pool

Levels = Literal["both", "token", "embedding"]
Balance = Literal["learned", "random"] | Annotated[float, Field(ge=0, le=1)]
TokenWeights = Literal["row", "per_dimension"]


def token_level(vectors: Tensor, mask: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Eq. 3. (B, N, d), (B, N), W_tok (1, d) → (B, d); or, with W_tok (d, d) and bias (d,), as published."""
    u, valid = sort_descending(vectors, mask)
    if bias is None:
        return torch.einsum("bn,bnd->bd", softmax(torch.einsum("bnd,d->bn", u, weight[0]), valid), u)
    return (softmax(nn.functional.linear(u, weight, bias).relu(), valid) * u).sum(1)


def balance(token: Tensor, embedding: Tensor, weight: Tensor) -> Tensor:
    """Eq. 5. (B, d), (B, d), W_bal (1, d) → (B, d)."""
    levels = torch.stack([token, embedding], 1)
    return ((levels @ weight.T).softmax(1) * levels).sum(1)


class AdPool(Pooling):
    def __init__(
        self,
        dim: int,
        levels: Levels = "both",
        balance: Balance = "learned",
        token_weights: TokenWeights = "row",
    ) -> None:
        super().__init__(dim)
        self.levels = levels
        if levels != "embedding":
            per_dimension = token_weights == "per_dimension"
            self.token = nn.Linear(dim, dim if per_dimension else 1, bias=per_dimension)
            nn.init.xavier_uniform_(self.token.weight)
            if per_dimension:
                nn.init.zeros_(self.token.bias)
        self.balance = nn.Linear(dim, 1, bias=False) if levels == "both" and balance == "learned" else None
        if levels == "both" and balance != "learned":
            share = torch.rand(()) if balance == "random" else torch.tensor(float(balance))
            self.register_buffer("token_share", share)

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        if self.levels == "embedding":
            return soft_pool(vectors, mask)
        token = token_level(vectors, mask, self.token.weight, self.token.bias)
        if self.levels == "token":
            return token
        embedding = soft_pool(vectors, mask)
        if self.balance is not None:
            return balance(token, embedding, self.balance.weight)
        return torch.lerp(embedding, token, self.get_buffer("token_share"))


class AdPoolSettings(PoolingPart):
    kind: Literal["ad_pool"] = "ad_pool"
    levels: Levels = "both"
    balance: Balance = "learned"
    token_weights: TokenWeights = "row"

    def build(self, dim: int) -> AdPool:
        return AdPool(dim, self.levels, self.balance, self.token_weights)
