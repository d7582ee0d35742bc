"""From sentences to ids without torch or transformers: vsekit's own vocabulary, or a `tokenizer.json`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from vsekit.data.text import Vocabulary
from vsekit.errors import UserError, missing_extra

#: The file of the package tokenizers.
TOKENIZER = "tokenizer.json"


class SentenceReader(Protocol):
    def __call__(self, sentences: Sequence[str]) -> list[np.ndarray]:
        """One int32 array of ids a sentence, never empty, specials included."""
        ...

    def words(self, sentence: str, *, marks: bool = True) -> list[str]:
        """What the ids stand for; marks: those of start and end, too."""
        ...


def sentence_reader(folder: Path, written: dict[str, Any]) -> SentenceReader:
    """That of an exported folder. written: `text` of its config.json."""
    if written["tokenizer"] == "words":
        return Vocabulary.load(folder)
    return Pieces(folder / TOKENIZER, written["max_length"])


class Pieces:
    """Pieces of words, as a `tokenizer.json` has them. max_length: longer sentences are cut, specials included."""

    def __init__(self, path: Path, max_length: int) -> None:
        try:
            from tokenizers import Tokenizer
        except ImportError:
            raise missing_extra("tokenizers", "onnx") from None
        try:
            self.inner = Tokenizer.from_file(str(path))
        except Exception as error:  # it raises bare Exceptions
            raise UserError(f"not a tokenizer: {error}", file=path, remedy="Export the model again.") from None
        self.inner.enable_truncation(max_length)
        self.inner.no_padding()

    def __call__(self, sentences: Sequence[str]) -> list[np.ndarray]:
        return [np.array(encoded.ids, np.int32) for encoded in self.inner.encode_batch(list(sentences))]

    def words(self, sentence: str, *, marks: bool = True) -> list[str]:
        return self.inner.encode(sentence, add_special_tokens=marks).tokens
