"""What encoders over a vocabulary of words share: its settings, and the table of word embeddings."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch
from pydantic import Field
from torch import Tensor, nn

from vsekit.data.text import SPECIALS, Vocabulary
from vsekit.data.word_vectors import read_word_vectors
from vsekit.encoders.base import TextEncoderPart, Tokenizer, Tokens
from vsekit.errors import UserError


def known_words(tokens: Tokens) -> Tensor:
    """(B, T) bool: True at words of the vocabulary, False at start, end, unknown words and padding."""
    inside = torch.arange(tokens.ids.shape[1], device=tokens.ids.device) < tokens.lengths[:, None]
    return inside & (tokens.ids >= len(SPECIALS))


class VocabularySettings(TextEncoderPart):
    """min_count: rarer words become `<unk>`. word_dim: size of a word's embedding, drawn from U(−word_range, word_range).
    word_vectors: a GloVe or word2vec file the embeddings start from; once the model is saved it is not needed any more.
    """

    min_count: int = Field(4, ge=1)
    word_dim: int = Field(300, ge=1)
    word_range: float = Field(default=0.1, gt=0)
    word_vectors: Path | None = None

    def make_tokenizer(self, sentences: Iterable[str]) -> Tokenizer:
        return Vocabulary.build(sentences, self.min_count)

    def load_tokenizer(self, folder: Path) -> Tokenizer:
        return Vocabulary.load(folder)

    def embedding(self, tokenizer: Tokenizer, initialise: bool) -> tuple[nn.Embedding, float | None]:
        """The table (words, word_dim), drawn from U(−word_range, word_range), and the share of words found in `word_vectors`.

        Args:
            initialise: False when saved weights will be loaded over it, so that the word-vector file may be gone.
        """
        if not isinstance(tokenizer, Vocabulary):
            raise TypeError(f"the encoder '{self.kind}' reads a Vocabulary, not a {type(tokenizer).__name__}")
        table = nn.Embedding(len(tokenizer), self.word_dim)
        nn.init.uniform_(table.weight, -self.word_range, self.word_range)
        if self.word_vectors is None or not initialise:
            return table, None
        found = read_word_vectors(self.word_vectors, tokenizer.all_words[len(SPECIALS) :])
        if found.dim != self.word_dim:
            raise UserError(
                f"the vectors have {found.dim} dimensions, the encoder wants {self.word_dim}",
                file=self.word_vectors,
                field="word_dim",
                remedy=f"Set word_dim to {found.dim}.",
            )
        with torch.no_grad():
            table.weight[torch.from_numpy(found.rows) + len(SPECIALS)] = torch.from_numpy(found.vectors)
        return table, found.share
