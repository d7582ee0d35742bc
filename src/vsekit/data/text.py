"""Sentences to words to numbers, the way the VSE++ family does it.

Words are what NLTK's word tokenizer (Penn Treebank rules) makes of the lower-cased sentence. The vocabulary keeps the
words that occur at least four times and puts pad, start, end and unk before them; a sentence becomes
`<start> word … word <end>`. Build it from the training captions: the vocabularies published with VSE++ hold words of
the test captions too.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vsekit.errors import UserError
from vsekit.files import write_json

if TYPE_CHECKING:
    from vsekit.parts import Tokens

SPECIALS = ("<pad>", "<start>", "<end>", "<unk>")
PAD, START, END, UNK = range(4)

# In these sentences NLTK's thirty substitutions do nothing but set commas and the last period apart.
_PLAIN = re.compile(r"(?:[a-z0-9 ]|-(?!-)|,(?= |$))*\.? *")
_CONTRACTIONS = re.compile(r"\b(?:cannot|gimme|gonna|gotta|lemme|wanna)\b")


@cache
def _treebank():  # type: ignore[no-untyped-def]
    from nltk.tokenize import NLTKWordTokenizer

    return NLTKWordTokenizer()


def tokenize(sentence: str) -> list[str]:
    """The words of one sentence: lower-cased, split as NLTK's `word_tokenize` splits a single sentence.

    >>> tokenize("A dog can't catch the man's frisbee.")
    ['a', 'dog', 'ca', "n't", 'catch', 'the', 'man', "'s", 'frisbee', '.']
    """
    text = sentence.lower()
    if _PLAIN.fullmatch(text) and not _CONTRACTIONS.search(text):
        return text.replace(",", " ,").replace(".", " .").split()
    return _treebank().tokenize(text)


class Vocabulary:
    """The words a model knows, and the `Tokenizer` that turns sentences into their numbers.

    Args:
        words: the words after the specials, in the order of their ids 4, 5, ….
    """

    mask_id = UNK
    special_ids = frozenset(range(len(SPECIALS)))

    def __init__(self, words: Iterable[str]) -> None:
        self.all_words = [*SPECIALS, *words]
        self._ids = {word: i for i, word in enumerate(self.all_words)}
        if len(self._ids) != len(self.all_words):
            twice = next(word for word, n in Counter(self.all_words).items() if n > 1)
            raise UserError(f"the word '{twice}' stands twice in the vocabulary", remedy="Each word needs one id.")

    @classmethod
    def build(cls, sentences: Iterable[str], min_count: int = 4) -> Vocabulary:
        """The words that occur at least `min_count` times, the most frequent first, equals in alphabetical order."""
        counts = Counter(chain.from_iterable(map(tokenize, sentences)))
        kept = [(-count, word) for word, count in counts.items() if count >= min_count]
        return cls(word for _, word in sorted(kept))

    def __len__(self) -> int:
        """Words and specials."""
        return len(self.all_words)

    def __contains__(self, word: str) -> bool:
        return word in self._ids

    def _sentence(self, sentence: str) -> list[int]:
        find = self._ids.get
        return [START, *(find(word, UNK) for word in tokenize(sentence)), END]

    def __call__(self, sentences: Sequence[str]) -> list[np.ndarray]:
        """One int32 array a sentence: start, the words (unk for unknown ones), end."""
        return [np.array(self._sentence(sentence), dtype=np.int32) for sentence in sentences]

    def words(self, sentence: str, *, marks: bool = True) -> list[str]:
        """What the ids of `sentence` stand for; marks: start and end, too."""
        ids = self._sentence(sentence)
        return [self.all_words[i] for i in (ids if marks else ids[1:-1])]

    def save(self, folder: Path) -> None:
        """Writes `vocab.json`: all words in the order of their ids."""
        write_json(Path(folder) / "vocab.json", self.all_words)

    @classmethod
    def load(cls, folder: Path) -> Vocabulary:
        """Reads the `vocab.json` of a folder."""
        return cls.read(Path(folder) / "vocab.json")

    @classmethod
    def read(cls, path: Path) -> Vocabulary:
        try:
            words = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise UserError("the vocabulary is missing", file=path, remedy="Copy the whole model folder.") from None
        except ValueError as error:
            raise UserError(f"not a vocabulary: {error}", file=path) from None
        if not isinstance(words, list) or words[:4] != list(SPECIALS) or not all(isinstance(w, str) for w in words):
            raise UserError(f"not a vocabulary: wanted a list of words that starts with {list(SPECIALS)}", file=path)
        return cls(words[4:])


@dataclass(frozen=True)
class Ragged:
    """Sentences of different lengths in one flat array, so that a batch is cut without a Python loop.

    flat: (Σ lengths,) int32, all ids one sentence after the other. offsets: (n + 1,) int64, where each starts.
    """

    flat: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, sentences: Sequence[np.ndarray]) -> Ragged:
        offsets = np.zeros(len(sentences) + 1, dtype=np.int64)
        np.cumsum([len(ids) for ids in sentences], out=offsets[1:])
        return cls(np.concatenate([np.empty(0, np.int32), *sentences]).astype(np.int32, copy=False), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def lengths(self) -> np.ndarray:
        """(n,) int64"""
        return np.diff(self.offsets)

    def batch(self, indices: Sequence[int] | np.ndarray) -> Tokens:
        """The sentences at `indices`, padded with 0 to the longest of them."""
        # A vocabulary alone, in an exported model, does without these.
        import torch

        from vsekit.parts import Tokens

        chosen = np.asarray(indices, dtype=np.int64)
        lengths = self.lengths[chosen]
        places = np.arange(lengths.max(initial=0))
        inside = places < lengths[:, None]
        ids = np.zeros(inside.shape, dtype=np.int64)
        ids[inside] = self.flat[(self.offsets[chosen, None] + places)[inside]]
        return Tokens(torch.from_numpy(ids), torch.from_numpy(lengths))
