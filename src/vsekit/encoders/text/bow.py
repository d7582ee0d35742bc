"""Bag of words: the mean or the sum of a sentence's word embeddings, a set of one.

    f = 1/n Σ_i e(w_i)        (mean)        f = Σ_i e(w_i)        (sum)

It knows nothing of the order of words, which makes it the honest baseline for encoders that do: with an MLP head behind
it, it learns in minutes. Known words alone count; a sentence without any is the zero vector.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn
from torch.nn import functional as F

from vsekit.encoders.base import TextEncoder, Tokenizer, Tokens
from vsekit.encoders.text.words import VocabularySettings, known_words
from vsekit.parts import Sets


class BagOfWords(TextEncoder):
    """found_share: share of the vocabulary found in the word-vector file; None when there was none."""

    def __init__(self, words: nn.Embedding, reduce: str, found_share: float | None = None) -> None:
        super().__init__()
        self.dim, self.found_share = words.embedding_dim, found_share
        self.words, self.reduce = words, reduce

    def forward(self, tokens: Tokens) -> Sets:
        """Tokens (B, T) → Sets of (B, 1, dim)."""
        known = known_words(tokens)
        counts = known.sum(1)
        starts = counts.cumsum(0) - counts
        vectors = F.embedding_bag(tokens.ids[known], self.words.weight, starts, mode=self.reduce)
        return Sets(vectors[:, None], torch.ones_like(counts, dtype=torch.bool)[:, None])


class BagOfWordsSettings(VocabularySettings):
    kind: Literal["bag_of_words"] = "bag_of_words"
    reduce: Literal["mean", "sum"] = "mean"

    def build(self, tokenizer: Tokenizer, initialise: bool = True) -> BagOfWords:
        words, found_share = self.embedding(tokenizer, initialise)
        return BagOfWords(words, self.reduce, found_share)
