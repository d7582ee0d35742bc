"""A learned bag of tokens beside what the pooling gives, for the head to read both.

    x = [ pool(states) ; 1/n Σ_i e(w_i) ],   e(w) a learned vector for each of the most frequent tokens of training, 0 for others

A frozen encoder reads a sentence as it was taught to; the bag learns what single words look like in these pictures. The tokens are
the encoder's own, so that one tokenizer serves both. `rows` holds the number of a token's vector, 0 for none, and is saved with
the weights.
"""

from __future__ import annotations

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from vsekit.parts import Settings


class TokenBag(nn.Module):
    """vocabulary: how many ids there are. size: how many of them get a vector."""

    rows: Tensor

    def __init__(self, vocabulary: int, size: int, dim: int, dropout: float, spread: float) -> None:
        super().__init__()
        self.dim, self.dropout = dim, dropout
        self.vectors = nn.Embedding(size + 1, dim)
        nn.init.uniform_(self.vectors.weight, -spread, spread)
        self.register_buffer("rows", torch.zeros(vocabulary, dtype=torch.int32))

    def choose(self, ids: np.ndarray, specials: frozenset[int]) -> None:
        """Gives vectors to the most frequent of these training tokens that are words."""
        counts = np.bincount(ids, minlength=len(self.rows))
        counts[list(specials)] = 0
        frequent = np.argsort(-counts, kind="stable")[: self.vectors.num_embeddings - 1]
        frequent = frequent[counts[frequent] > 0]
        self.rows.zero_()
        self.rows[torch.from_numpy(frequent)] = torch.arange(1, len(frequent) + 1, dtype=torch.int32)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """ids (B, T) int64, padded; lengths (B,) → (B, dim). In training, words are left out with the dropout's probability."""
        rows = self.rows[ids]
        there = (rows > 0) & (torch.arange(ids.shape[1], device=ids.device) < lengths[:, None])
        if self.training and self.dropout:
            there = there & (torch.rand(ids.shape, device=ids.device) >= self.dropout)
        total = (self.vectors(rows) * there[..., None]).sum(1)
        return total / there.sum(1, keepdim=True).clamp(min=1)


class TokenBagSettings(Settings):
    """size: how many tokens get a vector, the most frequent ones. dim: its size. dropout: the probability that a token
    is left out, in training. spread: vectors start in U(−spread, spread)."""

    size: int = Field(6000, ge=1)
    dim: int = Field(200, ge=1)
    dropout: float = Field(0.3, ge=0, lt=1)
    spread: float = Field(0.5, gt=0)

    def build(self, vocabulary: int) -> TokenBag:
        return TokenBag(vocabulary, self.size, self.dim, self.dropout, self.spread)
