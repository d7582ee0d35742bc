"""What a collection is, as far as choosing a model asks: how much of it, in which words, in which language."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import numpy as np

from vsekit.data.pairs import Pairs

_WORD = re.compile(r"[^\W\d_]+")
#: Short words that make up much of any text in a language, and little of any other.
_COMMON = {
    "English": "the of and with is are there on at by from near some two many this that an",
    "German": "der die das und mit ein eine einen auf ist sind im von zwei neben viele",
    "French": "le les des et avec un une sur dans est sont du au près deux plusieurs",
    "Spanish": "el los las y con un una sobre en es son del al cerca dos muchos",
    "Italian": "il gli le e con un una su nel è sono del al vicino due molti",
    "Portuguese": "o os as e com um uma em no na é são do ao perto dois muitos",
    "Dutch": "de het een en met op in is zijn van bij twee naast veel",
}
#: A share of letters of another alphabet from which the captions are not in a language written in Latin letters.
_FOREIGN = 0.3


@dataclass(frozen=True)
class Look:
    """What was seen.

    pictures, captions: of the training split; val_pictures: of the validation split.
    words: the mean length of a caption; vocabulary: different words that occur three times or more.
    language: English, another of the languages known here, "other letters", or "unknown" (names without little words).
    features: None, or the axes of features that came with the collection: 2 (a vector a picture) or 3 (a set).
    """

    pictures: int
    captions: int
    val_pictures: int
    words: float
    vocabulary: int
    language: str
    features: int | None = None

    def lines(self) -> list[str]:
        return [
            f"{self.pictures} pictures to train on with {self.captions} captions, {self.val_pictures} pictures to select on",
            f"{self.words:.1f} words a caption, {self.vocabulary} words that occur three times, language: {self.language}",
        ]


def look(pairs: Pairs, train: str = "train", val: str = "val") -> Look:
    """Looks at a collection. Raises UserError when it lacks one of the splits."""
    part, held = pairs.split(train), pairs.split(val)
    texts = [caption.text for caption in part.captions]
    counts = Counter(word for text in texts for word in _WORD.findall(text.lower()))
    lengths = [len(_WORD.findall(text)) for text in texts]
    return Look(
        pictures=len(part.pictures),
        captions=len(texts),
        val_pictures=len(held.pictures),
        words=float(np.mean(lengths)) if lengths else 0.0,
        vocabulary=sum(count >= 3 for count in counts.values()),
        language=language(counts),
        features=None if pairs.features is None else pairs.features.ndim - pairs.feature_crops,
    )


def language(counts: Counter[str]) -> str:
    """The language of words, by how often the common little ones of each occur.

    >>> language(Counter("ein hund und eine katze auf der wiese".split()))
    'German'
    """
    letters = sum(len(word) * n for word, n in counts.items())
    foreign = sum(n for word, n in counts.items() for letter in word if letter > "\u024f")
    if letters and foreign > _FOREIGN * letters:
        return "other letters"
    hits = {name: sum(counts[word] for word in words.split()) for name, words in _COMMON.items()}
    best = max(hits, key=lambda name: hits[name])
    return best if hits[best] > 0.02 * counts.total() else "unknown"
