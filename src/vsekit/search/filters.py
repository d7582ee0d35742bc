"""Filters on metadata: `year >= 2020 and camera = "X100"`.

    filter     = and-chain { "or" and-chain }
    and-chain  = term { "and" term }
    term       = "not" term | "(" filter ")" | "has" field | field test
    test       = ("=" | "!=" | "<" | "<=" | ">" | ">=") value | ["not"] "in" "(" value { "," value } ")"
               | ["not"] ("contains" | "like") text

Values are "text" or 'text', numbers, true and false. Odd field names stand in quotes. In `like`, % is any text and _ one
character. `Filter.matches` is the meaning. A store that can be asked in its own language has a dialect of it, in a file
beside the store (`stores/*/filter.py`), which agrees with it:

- A field that is not there passes no test, not even `!=`; only `not` around a test turns that round.
- Text, numbers and booleans are never equal to one another, nor before or after one another.
- Text is ordered by code point, and case matters.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, NoReturn, cast

from vsekit.errors import UserError
from vsekit.search.items import Value

MOST_TESTS, MOST_VALUES, DEEPEST = 200, 1000, 50
INT64 = range(1 - 2**63, 2**63)  # Milvus can't read the least


class Filter(ABC):
    """A question about metadata, of which the classes below are the parts. Its repr tells it from every other."""

    @abstractmethod
    def asked(self) -> set[str]:
        """The fields it asks about."""

    @abstractmethod
    def matches(self, meta: Mapping[str, Value]) -> bool: ...


class FieldTest(Filter):
    """One that asks about one field."""

    field: str

    def asked(self) -> set[str]:
        return {self.field}


@dataclass(frozen=True)
class Has(FieldTest):
    field: str

    def matches(self, meta: Mapping[str, Value]) -> bool:
        return self.field in meta


@dataclass(frozen=True)
class OneOf(FieldTest):
    """`field = value`, `field in (value, …)`."""

    field: str
    values: tuple[Value, ...]

    def matches(self, meta: Mapping[str, Value]) -> bool:
        value = meta.get(self.field)
        return any(_type(value) == _type(other) and value == other for other in self.values)


@dataclass(frozen=True)
class Order(FieldTest):
    field: str
    operator: Literal["<", "<=", ">", ">="]
    value: str | int | float

    def matches(self, meta: Mapping[str, Value]) -> bool:
        value = meta.get(self.field)
        if _type(value) != _type(self.value):
            return False
        less, equal = value < self.value, value == self.value  # type: ignore[operator]
        return (equal and "=" in self.operator) or (not equal and less == ("<" in self.operator))


@dataclass(frozen=True)
class Contains(FieldTest):
    field: str
    text: str

    def matches(self, meta: Mapping[str, Value]) -> bool:
        value = meta.get(self.field)
        return isinstance(value, str) and self.text in value


@dataclass(frozen=True)
class Like(FieldTest):
    field: str
    pattern: str

    def matches(self, meta: Mapping[str, Value]) -> bool:
        value = meta.get(self.field)
        return isinstance(value, str) and bool(re.fullmatch(self.translated(".*", ".", re.escape), value, re.DOTALL))

    def translated(self, run: str, one: str, escape: Callable[[str], str]) -> str:
        """The pattern in another language, in which these two stand for % and _."""
        return "".join(run if c == "%" else one if c == "_" else escape(c) for c in self.pattern)


@dataclass(frozen=True)
class Not(Filter):
    term: Filter

    def asked(self) -> set[str]:
        return self.term.asked()

    def matches(self, meta: Mapping[str, Value]) -> bool:
        return not self.term.matches(meta)


@dataclass(frozen=True)
class And(Filter):
    terms: tuple[Filter, ...]

    def asked(self) -> set[str]:
        return set().union(*(term.asked() for term in self.terms))

    def matches(self, meta: Mapping[str, Value]) -> bool:
        return all(term.matches(meta) for term in self.terms)


@dataclass(frozen=True)
class Or(Filter):
    terms: tuple[Filter, ...]

    def asked(self) -> set[str]:
        return set().union(*(term.asked() for term in self.terms))

    def matches(self, meta: Mapping[str, Value]) -> bool:
        return any(term.matches(meta) for term in self.terms)


def _type(value: object) -> str:
    return (
        "boolean" if isinstance(value, bool) else "number" if isinstance(value, int | float) else type(value).__name__
    )


KEYWORDS = ("and", "or", "not", "in", "contains", "like", "has", "true", "false")
TOKEN = re.compile(
    r"""\s*(?:
        (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
      | (?P<word>[^\W\d][\w.:-]*)
      | (?P<sign><=|>=|!=|<>|==|[=<>(),])
      | (?P<end>$)
    )""",
    re.VERBOSE | re.DOTALL,
)
EXAMPLE = 'For example: year >= 2020 and camera = "X100"'


class Token(NamedTuple):
    """type: text, number, word, sign or end. column: of its first character, counted from 1."""

    type: str
    source: str
    column: int

    @property
    def lower(self) -> str:
        return self.source.lower() if self.type in ("word", "sign") else ""


def parse(text: str) -> Filter:
    """Reads a filter. A mistake raises a UserError that points at it.

    >>> parse("year >= 2020").matches({"year": 2021})
    True
    """
    return _Parser(text).whole()


class _Parser:
    """Recursive descent over the grammar at the top, a method for each rule."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = self._tokens()
        self.at = self.depth = self.tests = self.values = 0

    def _tokens(self) -> list[Token]:
        tokens: list[Token] = []
        place = 0
        while not tokens or tokens[-1].type != "end":
            match = TOKEN.match(self.text, place)
            if match is None or match.lastgroup is None:
                place += len(self.text[place:]) - len(self.text[place:].lstrip())
                if self.text[place] in "\"'":
                    self._wrong("this text has no closing quote", place + 1, f"Close it with {self.text[place]}.")
                self._wrong(f"'{self.text[place]}' does not belong here", place + 1, EXAMPLE)
            source = match[match.lastgroup]
            tokens.append(Token(match.lastgroup, source, match.end() - len(source) + 1))
            place = match.end()
        return tokens

    def _wrong(self, what: str, column: int, remedy: str) -> NoReturn:
        pointer = f"{self.text}\n  {' ' * (column - 1)}^" if "\n" not in self.text and len(self.text) <= 200 else ""
        raise UserError(f"{what}, at column {column}" + f"\n  {pointer}" * bool(pointer), field="filter", remedy=remedy)

    def _refuse(self, token: Token, expected: str, remedy: str = EXAMPLE) -> NoReturn:
        found = "the filter ends" if token.type == "end" else f"found {token.source}"
        self._wrong(f"expected {expected}, but {found}", token.column, remedy)

    def _next(self) -> Token:
        token = self.tokens[self.at]
        self.at += token.type != "end"
        return token

    def _take(self, *words: str) -> str:
        """The next token if it is one of `words`, which are then behind us; else "", and nothing has happened."""
        word = self.tokens[self.at].lower
        if word not in words:
            return ""
        self.at += 1
        return word

    def whole(self) -> Filter:
        if self.tokens[0].type == "end":
            self._wrong("the filter is empty", 1, EXAMPLE)
        result = self._chain("or", Or, lambda: self._chain("and", And, self._term))
        if (token := self._next()).type != "end":
            self._refuse(token, "'and', 'or' or the end", "Join tests with 'and' or 'or'; text stands in quotes.")
        return result

    def _chain(self, word: str, kind: type[And] | type[Or], part: Callable[[], Filter]) -> Filter:
        terms = [part()]
        while self._take(word):
            terms.append(part())
        return terms[0] if len(terms) == 1 else kind(tuple(terms))

    def _term(self) -> Filter:
        token = self.tokens[self.at]
        self.depth += 1
        if self.depth > DEEPEST:
            self._wrong(f"this is nested more than {DEEPEST} deep", token.column, "Write it with fewer parentheses.")
        if self._take("not"):
            result: Filter = Not(self._term())
        elif self._take("("):
            result = self._chain("or", Or, lambda: self._chain("and", And, self._term))
            if not self._take(")"):
                self._refuse(self._next(), "')'", f"The parenthesis opened at column {token.column} is never closed.")
        else:
            self.tests += 1
            if self.tests > MOST_TESTS:
                self._wrong(f"more than {MOST_TESTS} tests", token.column, "Use 'in (…)' for many values of a field.")
            result = Has(self._field()) if self._take("has") else self._test(self._field())
        self.depth -= 1
        return result

    def _field(self) -> str:
        token = self._next()
        if token.type == "text":
            return self._unquoted(token)
        if token.type != "word":
            self._refuse(token, "the name of a field")
        if token.lower in KEYWORDS:
            self._refuse(token, "the name of a field", f'A field that is called so stands in quotes: "{token.source}".')
        return token.source

    def _test(self, field: str) -> Filter:
        negated = bool(self._take("not"))
        token = self._next()
        test: Filter
        if token.lower == "in":
            test = OneOf(field, self._list())
        elif token.lower in ("contains", "like"):
            value = self._next()
            if value.type != "text":
                self._refuse(value, f"text after '{token.lower}'", f'Write it in quotes: {field} {token.lower} "text"')
            test = (Contains if token.lower == "contains" else Like)(field, self._unquoted(value))
        elif negated:
            self._refuse(token, "'in', 'contains' or 'like' after 'not'")
        elif token.source in ("=", "==", "!=", "<>"):
            test, negated = OneOf(field, (self._value(),)), token.source in ("!=", "<>")
        elif token.source in ("<", "<=", ">", ">="):
            start = self.tokens[self.at]
            value_read = self._value()
            if isinstance(value_read, bool):
                self._refuse(start, "text or a number", "Booleans have no order; use = or !=.")
            test = Order(field, cast(Literal["<", "<=", ">", ">="], token.source), value_read)
        else:
            self._refuse(token, f"a comparison after '{field}'", "One of: =, !=, <, <=, >, >=, in, contains, like.")
        return And((Has(field), Not(test))) if negated else test

    def _list(self) -> tuple[Value, ...]:
        if not self._take("("):
            self._refuse(self._next(), "'(' after 'in'", "For example: year in (2020, 2021)")
        values = [self._value()]
        while self._take(","):
            values.append(self._value())
        if not self._take(")"):
            self._refuse(self._next(), "',' or ')'", "Values are separated by commas: year in (2020, 2021)")
        return tuple(values)

    def _value(self) -> Value:
        token = self._next()
        self.values += 1
        if self.values > MOST_VALUES:
            self._wrong(f"more than {MOST_VALUES} values", token.column, "Ask about fewer at a time.")
        if token.type == "text":
            return self._unquoted(token)
        if token.type == "number":
            if abs(float(token.source)) == float("inf"):
                self._wrong("this number is too large", token.column, "Numbers go up to about 1.8e308.")
            return number(float(token.source) if re.search("[.eE]", token.source) else int(token.source))
        if token.lower in ("true", "false"):
            return token.lower == "true"
        remedy = f'Text stands in quotes: "{token.source}"' if token.type == "word" else EXAMPLE
        self._refuse(token, "a value", remedy)

    def _unquoted(self, token: Token) -> str:
        text = re.sub(r"\\([\\\"'])", r"\1", token.source[1:-1])
        if clean_text(text) != text:
            self._wrong("no metadata holds a NUL or half a surrogate pair", token.column, "Leave it out.")
        return text


def number(value: int | float) -> int | float:
    """A finite number as stores keep it: whole numbers of 64 bits as int, others as float. So every store finds the same
    numbers equal, whether it compares them as decimals, as binary fractions or as both."""
    return int(value) if value == int(value) and int(value) in INT64 else float(value)


def clean_text(text: str) -> str:
    """Text that every store can hold: without NUL, and with U+FFFD for halves of surrogate pairs."""
    return text.replace("\0", "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
