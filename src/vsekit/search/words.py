"""The words of an item: what its file and folder are called, what its caption, its columns and its EXIF say, and what is
written in the picture (`vsekit.search.ocr`).

All stores hold the same words and are asked for the same ones, whatever their own languages know of words: case and Latin
accents don't count, punctuation separates, and each character of a script without spaces is a word. Names that are
written together are there whole and in pieces: `myHoliday2019.jpg` holds myholiday2019, and my, holiday and 2019.
A *phrase* is words in a row within one of these texts; a word is a phrase of one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from vsekit.search.filters import Filter
from vsekit.search.items import Item, Value

Phrase: TypeAlias = tuple[str, ...]
Where: TypeAlias = Literal["name", "folder", "caption", "about", "column", "picture"]

#: Changes when the same item gets other words: then stores make theirs anew.
VERSION = 1
#: Between two texts; no word of a query, so that no phrase reaches over it.
GAP = "\ue000"
#: Metadata in which the text of a picture is kept, and what pictures say of themselves.
WRITTEN, ABOUT = "written", ("title", "description", "keywords", "comment", "camera", "lens")
LONGEST = 64  # of a word; the rest is cut off
#: Text that says nothing a person would look for in words.
_TECHNICAL = frozenset({"collection", "split", "group", "extension", "orientation", "type", "dated", "taken"})
_RUNS = re.compile(r"[a-z0-9]+")
# Kana and Chinese characters, and the scripts of South East Asia that put no spaces between words.
_UNSPACED = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_PIECES = re.compile(
    r"(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])|(?<=[a-zß-öø-ÿ])(?=[A-ZÀ-ÖØ-Þ])|(?<=[A-ZÀ-ÖØ-Þ])(?=[A-ZÀ-ÖØ-Þ][a-zß-öø-ÿ])"
)
_LATIN_MARKS = re.compile(r"(?<=[a-z])[\u0300-\u036f]+")


def words_of(text: str) -> Phrase:
    """The words of a text, in its order."""
    if text.isascii():
        return tuple(run[:LONGEST] for run in _RUNS.findall(text.lower()))
    plain = _LATIN_MARKS.sub("", unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold()))
    # A vowel sign or another mark is no letter, and yet part of a word.
    spaced = "".join(c if c.isalnum() or unicodedata.category(c)[0] == "M" else " " for c in plain)
    runs = _UNSPACED.sub(r" \g<0> ", unicodedata.normalize("NFKC", spaced)).split()
    return tuple(run[:LONGEST] for run in runs if any(c.isalnum() for c in run))


def texts_of(item: Item) -> Iterator[tuple[Where, str]]:
    """What of an item is searched for words, with where it stands."""
    if item.kind == "caption":
        yield "caption", item.text
    else:
        yield from _of_meta(item.meta)


def _of_meta(meta: Mapping[str, Value]) -> Iterator[tuple[Where, str]]:
    known: dict[str, Where] = {"name": "name", "folder": "folder", WRITTEN: "picture", **dict.fromkeys(ABOUT, "about")}
    for name, value in meta.items():
        if isinstance(value, str) and value and name not in _TECHNICAL:
            where = known.get(name, "column")
            # Folders lie in one another; a phrase is one folder's.
            yield from ((where, part) for part in (value.split("/") if where == "folder" else [value]))


def phrases_of(text: str) -> list[Phrase]:
    """The words of a text and, where some are written together, those of its pieces."""
    whole, pieces = words_of(text), words_of(_PIECES.sub(" ", text))
    return [phrase for phrase in dict.fromkeys([whole, pieces]) if phrase]


def stream(item: Item) -> list[str]:
    """All words of an item, with `GAP` between texts."""
    return _joined(texts_of(item))


def _joined(texts: Iterator[tuple[Where, str]]) -> list[str]:
    found: list[str] = []
    for _, text in texts:
        for phrase in phrases_of(text):
            found += [*([GAP] if found else []), *phrase]
    return found


def holds(words: Sequence[str], phrase: Phrase) -> bool:
    """Whether a phrase stands among these words."""
    n = len(phrase)
    return any(tuple(words[i : i + n]) == phrase for i, word in enumerate(words) if word == phrase[0])


@dataclass(frozen=True)
class Holds(Filter):
    """Passes items that hold a phrase, and pictures that have a caption which does. Not of the filters people write: made of
    "exact words" in a query. Stores ask their own words; `matches` sees only what metadata says."""

    phrase: Phrase

    def asked(self) -> set[str]:
        return set()

    def matches(self, meta: Mapping[str, Value]) -> bool:
        return holds(_joined(_of_meta(meta)), self.phrase)
