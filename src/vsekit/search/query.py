"""Queries: words, a picture, an item of the index, or arithmetic over them.

    query      = words | expression
    expression = [sign] term { sign term }                      sign:   + or -
    term       = [number "*"] factor
    factor     = quoted words | item:ID | picture file | "(" expression ")"

What makes a text an expression is its beginning: one term, after any signs and opening parentheses, with a sign, a
closing parenthesis or the end of the text behind it. Everything else is words, so "t-shirt" and "black-and-white" need
no care. Signs after an ID or a file name need a space before them, since both may hold "-".
Quotes are "…" or “…”; a " inside is written \\". A picture file is one that exists and is named like a picture.

Quotes among words, or around all of them, hold *exact words*: only what holds them is found (`vsekit.search.words`), and the
other words rank it; so `"Guernica" on a wall`, and `"Guernica"` alone.

    "dog" + photo.jpg - "water"        0.5*"snow" + item:3f2a        ("dog" + "cat") - 2*"indoors"

The vector of a query is the sum of its terms' unit vectors, each times its weight, brought to unit length.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn, TypeAlias

import numpy as np

from vsekit.data.readers.base import IMAGE_SUFFIXES
from vsekit.errors import UserError
from vsekit.search.words import words_of

if TYPE_CHECKING:
    from vsekit.data.decoding import Source
    from vsekit.search.base import Prepared

TermKind: TypeAlias = Literal["text", "item", "picture"]
#: Of a weight: single precision still sees the other terms beside it.
LARGEST = 1e6
_SPACE = re.compile(r"\s*")
_NUMBER = re.compile(r"((?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+\-]?\d+)?)\s*\*\s*")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"|“([^”]*)”')
# Among words; 5" is a length.
_EXACT = re.compile(rf"(?<!\S)(?:{_QUOTED.pattern})(?=[\s.,;:!?]|$)")
_ITEM = re.compile(r'item:([^\s"“()+*]+)')
_SIGN = re.compile(r"[+\-−]")
_BARE = re.compile(r'[^\s"“()+*]+')
#: Words for sure, and most queries: a term begins with a quote, a number, item: or a file name, which has a dot.
_PLAIN = re.compile(r'\s*[^\W\d_][^.:"“]*\Z')
WEIGHTS = f"Weights go up to {LARGEST:,.0f}; only their proportions matter."


@dataclass(frozen=True)
class Term:
    """value: the words, the id of an item, or a picture: its path or, from Python, all that `SearchModel.encode_images` takes."""

    weight: float
    kind: TermKind
    value: str | Source | Prepared


@dataclass(frozen=True)
class Query:
    """A weighted sum. text: as it was written. exact: words in a row that an answer must hold."""

    terms: tuple[Term, ...]
    text: str = ""
    exact: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for term in self.terms:
            if not abs(term.weight) <= LARGEST:
                raise UserError(f"a term of this query weighs {term.weight:g}", remedy=WEIGHTS)

    @classmethod
    def of(cls, kind: TermKind, value: str | Source | Prepared) -> Query:
        """One term of weight 1."""
        return cls((Term(1.0, kind, value),), value if isinstance(value, str) else "")

    @property
    def texts(self) -> list[str]:
        return [str(term.value) for term in self.terms if term.kind == "text"]

    @property
    def items(self) -> list[str]:
        return [str(term.value) for term in self.terms if term.kind == "item"]

    @property
    def words(self) -> str | None:
        """The words, when the query is nothing else."""
        return str(self.terms[0].value) if len(self.terms) == 1 and self.terms[0].kind == "text" else None


def combined(weights: Sequence[float], vectors: np.ndarray) -> np.ndarray:
    """Σ wᵢ vᵢ/‖vᵢ‖ at unit length: (n,), (n, D) → (D,) float32. Zero when the terms cancel out."""
    vectors = np.asarray(vectors, np.float32)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    total = np.asarray(weights, np.float32) @ (vectors / np.where(lengths > 0, lengths, 1))
    length = float(np.linalg.norm(total))
    # What rounding leaves of terms that cancel is no direction.
    return total / length if length > 1e-6 else np.zeros_like(total)


def parse(text: str, *, files: bool = False) -> Query:
    """Reads a query.

    Args:
        files: whether names of pictures on this machine may be read; never for what comes over the network.

    Raises UserError, pointing at the column, for an expression that breaks off or goes wrong.
    """
    if not text.strip():
        raise UserError("the query is empty", remedy='Say what to look for, for example "a brown dog on sand".')
    reader = _Reader(text, files)
    quoted = _QUOTED.fullmatch(text.strip())
    if _PLAIN.match(text) or not reader.is_expression() or (quoted and words_of(text)):
        return _sentence(text)
    return Query(tuple(reader.expression()), text)


def _sentence(text: str) -> Query:
    """Words, of which those in quotes are exact; quotes without words mean nothing."""
    exact: list[str] = []

    def take(quoted: re.Match[str]) -> str:
        if not words_of(quoted[0]):
            return quoted[0]
        exact.append(_unquoted(quoted))
        return " "

    others = " ".join(_EXACT.sub(take, text).split())
    return Query((Term(1.0, "text", others if words_of(others) else " ".join(exact) or others),), text, tuple(exact))


def _unquoted(quoted: re.Match[str]) -> str:
    words = quoted[2] if quoted[1] is None else re.sub(r"\\(.)", r"\1", quoted[1])
    return " ".join(words.split())


class _Reader:
    def __init__(self, text: str, files: bool) -> None:
        self.text, self.files, self.at, self.depth = text, files, 0, 0

    def is_expression(self) -> bool:
        """Whether a whole term opens the text, and nothing but a sign, a parenthesis or the end follows it."""
        opened = re.match(r"[\s(+\-−]*", self.text)
        self.at = opened.end() if opened else 0
        try:
            number = self._take(_NUMBER)
            if number and self._peek() == "(":
                self._take(re.compile(r"[\s(]*"))
            found = self._factor(lambda: None)
            after = self._peek()
        except UserError:
            return True  # begins like a term and is not one: better said than searched for
        finally:
            self.at = 0
        return found is not None and (not after or after == ")" or bool(_SIGN.match(after)))

    def expression(self) -> list[Term]:
        terms = self._sum()
        if self.at < len(self.text):
            self._wrong("nothing was opened here" if self._peek() == ")" else "a + or - is missing here")
        return terms

    def _sum(self) -> list[Term]:
        terms: list[Term] = []
        first = True
        while True:
            self._take(_SPACE)
            sign = self._take(_SIGN)
            if sign is None and not first:
                return terms
            first = False
            self._take(_SPACE)
            number = self._take(_NUMBER)
            if number and float(number[1]) > LARGEST:
                self.at = number.start()
                self._wrong("this weight is too large", WEIGHTS)
            weight = (float(number[1]) if number else 1.0) * (-1 if sign and sign[0] != "+" else 1)
            inner = self._parenthesised() or self._factor(self._missing)
            terms += [replace(term, weight=term.weight * weight) for term in inner or []]
            self._take(_SPACE)

    def _parenthesised(self) -> list[Term] | None:
        if self._peek() != "(":
            return None
        opened = self.at
        self.at += 1
        self.depth += 1
        if self.depth > 50:
            self._wrong("parentheses in more than 50 parentheses")
        inner = self._sum()
        if self._peek() != ")":
            self.at = self.at if self.at < len(self.text) else opened
            self._wrong("this parenthesis is not closed" if self.at == opened else "a + or - is missing here")
        self.at += 1
        self.depth -= 1
        return inner

    def _factor(self, missing: Callable[[], None]) -> list[Term] | None:
        if (quoted := self._take(_QUOTED)) is not None:
            if not (words := _unquoted(quoted)):
                self.at = quoted.start()
                self._wrong("there are no words in these quotes")
            return [Term(1.0, "text", words)]
        if (item := self._take(_ITEM)) is not None:
            return [Term(1.0, "item", item[1])]
        if (path := self._file()) is not None:
            return [Term(1.0, "picture", path)]
        missing()
        return None

    def _file(self) -> Path | None:
        """The longest piece from here on that names a picture; names may hold spaces."""
        bare = _BARE.match(self.text, self.at)
        if bare is None:
            return None
        if self.files:
            ends = [m.start() for m in re.finditer(r"[\s+\-)]|$", self.text[self.at :])]
            for end in reversed(ends[:64]):
                path = Path(self.text[self.at : self.at + end].strip()).expanduser()
                if path.suffix.lower() in IMAGE_SUFFIXES and _is_file(path):
                    self.at += end
                    return path
        after = self.text[bare.end() :].lstrip()
        named = Path(bare[0]).suffix.lower() in IMAGE_SUFFIXES
        if named and (_SIGN.match(after) or (self.files and not after)):
            self._wrong(
                f"no such picture: {bare[0]}" if self.files else "files can't be named here",
                "Check its name." if self.files else "Upload the picture, or name one of the index: item:ID.",
            )
        return None

    def _missing(self) -> None:
        if self._peek() in ('"', "“"):
            self._wrong("these quotes are not closed")
        rest = _BARE.match(self.text, self.at)
        self._wrong(f"words must stand in quotes: {rest[0]}" if rest else "a term is missing here")

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self.at)
        if found:
            self.at = found.end()
        return found

    def _peek(self) -> str:
        """The next character that is no space, or ""; spaces are passed."""
        self._take(_SPACE)
        return self.text[self.at : self.at + 1]

    def _wrong(self, what: str, remedy: str = "") -> NoReturn:
        raise UserError(
            f"can't read the query at column {self.at + 1}: {what}\n    {self.text}\n    {' ' * self.at}^",
            remedy=remedy or 'Write for example: "dog" + item:ID - 0.5*"water"',
        )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # names that are too long, or hold a zero byte
        return False


def asked(words: str | None, image: Source | None, like: str | None) -> Query:
    """The query that one of the three gives: words or arithmetic, which may name files; a picture; an item's id."""
    if sum(given is not None for given in (words, image, like)) != 1:
        raise UserError(
            "give either a query, --image or --like",
            remedy="To ask with words and a picture at once, write a sum: '\"dog\" + photo.jpg'.",
        )
    if image is not None:
        if isinstance(image, str | Path) and not Path(image).is_file():
            raise UserError(f"no such picture: {image}")
        return Query.of("picture", image)
    return Query.of("item", like) if like is not None else parse(words or "", files=True)
