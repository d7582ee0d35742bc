from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.search.stores.reference import NUMBERS, TEXTS

from vsekit.errors import UserError
from vsekit.search.filters import DEEPEST, And, Contains, Has, Like, Not, OneOf, Or, Order, clean_text, number, parse
from vsekit.search.items import Value
from vsekit.search.stores.embedded import filter as embedded
from vsekit.search.stores.milvus import filter as milvus
from vsekit.search.stores.postgres import filter as postgres

PHOTO: dict[str, Value] = {
    "year": 2021, "camera": "X100", "iso": 0.5, "flash": True, "focal length": 35, "name": "IMG_12.jpg", "in": "x"
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('year >= 2020 and camera = "X100"', True),
        ("year = 2021 and year == 2021.0 and year <= 2021 and year >= 2021", True),
        ("year != 2020 and year <> 2020 and year < 2021.5 and year > 2.0e3", True),
        ("YEAR = 2021", False),
        ("year = '2021'", False),
        ("year != '2021'", True),
        ("flash = true AND flash != 1 and not flash = 1", True),
        ("flash = TRUE or flash = false", True),
        ("iso in (1, 'x', .5)", True),
        ("iso not in (1, 2)", True),
        ("lens not in (1, 2)", False),
        ("lens != 3", False),
        ("not lens = 3", True),
        ("lens = 3 or lens < 3 or lens > 3 or lens contains ''", False),
        ("has year and not has lens", True),
        ('"focal length" = 35', True),
        ("\"in\" = 'x'", True),
        ('camera contains "10" and camera not contains "x"', True),
        ('name like "IMG%.jpg" and name like "IMG___.jpg" and name not like "img%" and name like "%"', True),
        ('name like "IMG"', False),
        ("year contains '2'", False),
        ('camera > "X" and camera < "Y" and camera < "a"', True),
        ("camera > 3", False),
        ("year = 1 or year = 2021 and flash = false", False),
        ("(year = 1 or year = 2021) and flash = true", True),
        ("not year = 1 and flash = true", True),
        ("not (year = 2021 or flash = false)", False),
        ("  year\n=\t2021 ", True),
    ],
)
def test_a_filter_means_what_it_says(text: str, expected: bool) -> None:
    assert parse(text).matches(PHOTO) is expected


def test_and_binds_closer_than_or_and_not_closest() -> None:
    a, b, c = (OneOf(name, (1,)) for name in "abc")
    assert parse("a=1 or b=1 and c=1") == Or((a, And((b, c))))
    assert parse("not a=1 and b=1") == And((Not(a), b))
    assert parse("not (a=1 and b=1) or c=1") == Or((Not(And((a, b))), c))


def test_the_parts_are_read_as_written() -> None:
    assert parse(r"""a like "x\"\\y%" """) == Like("a", 'x"\\y%')
    assert parse(r"a contains 'C:\photos'") == Contains("a", r"C:\photos")
    assert parse("größe.x:y-z <= -1.5e-2") == Order("größe.x:y-z", "<=", -0.015)
    assert parse("has 'a b'") == Has("a b")
    assert parse("a != 1") == And((Has("a"), Not(OneOf("a", (1,)))))


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("", 1, "empty"),
        ("year >=", 8, "expected a value, but the filter ends"),
        ("camera = X100", 10, 'quotes: "X100"'),
        ('camera = "X100', 10, "no closing quote"),
        ("year ~ 2", 6, "'~' does not belong here"),
        ("(a = 1", 7, "opened at column 1 is never closed"),
        ("a = 1)", 6, "found )"),
        ("a = 1 b = 2", 7, "expected 'and', 'or' or the end"),
        ("a = 1 and", 10, "name of a field"),
        ("a < true", 5, "no order"),
        ("and = 1", 1, 'in quotes: "and"'),
        ("a in 3", 6, "expected '('"),
        ("a in (1 2)", 9, "separated by commas"),
        ("a in ()", 7, "expected a value"),
        ("a", 2, "expected a comparison"),
        ("a not = 1", 7, "expected 'in', 'contains' or 'like'"),
        ("a like 3", 8, "in quotes"),
        ("a = 12ab", 5, "does not belong"),
        ("a = 1e999", 5, "too large"),
        ("a = " + "9" * 400, 5, "too large"),
        ("a = 'x\0'", 5, "NUL"),
        ("a = '\udc80'", 5, "surrogate"),
        ("(" * 60 + "a = 1" + ")" * 60, DEEPEST + 1, "nested"),
        ("not " * 60 + "a = 1", 4 * DEEPEST + 1, "nested"),
        (" or ".join(["a = 1"] * 201), 1801, "200 tests"),
        ("a in (" + ",".join("1" * 1001) + ")", 2007, "1000 values"),
    ],
)
def test_a_mistake_is_pointed_at(text: str, column: int, message: str) -> None:
    with pytest.raises(UserError) as caught:
        parse(text)
    assert message in str(caught.value)
    assert f"at column {column}\n" in str(caught.value)
    if 0 < len(text) < 100 and text.isprintable():
        lines = str(caught.value).splitlines()
        at = lines.index(f"  {text}")
        assert lines[at + 1] == " " * (column + 1) + "^"


@given(st.text(alphabet="abin0'\"\\()<>=!,. \n%", max_size=30))
def test_any_text_is_read_or_refused_with_a_reason(text: str) -> None:
    reason = ""
    try:
        parse(text).matches(PHOTO)
    except UserError as error:
        reason = str(error)
    assert not reason or "at column" in reason


@given(st.text(), st.sampled_from(['"', "'"]))
def test_any_text_can_be_quoted(text: str, quote: str) -> None:
    text = clean_text(text)
    quoted = quote + text.replace("\\", "\\\\").replace(quote, "\\" + quote) + quote
    assert parse(f"{quoted} = {quoted}") == OneOf(text, (text,))


@given(st.sampled_from(TEXTS) | st.text(max_size=3), st.sampled_from(TEXTS) | st.text(max_size=3))
def test_text_is_ordered_by_code_point(one: str, other: str) -> None:
    expected = [ord(c) for c in one] < [ord(c) for c in other]
    assert Order("a", "<", other).matches({"a": one}) == expected
    assert Order("a", ">=", other).matches({"a": one}) == (not expected)


def test_numbers_are_kept_exactly() -> None:
    for value in [*NUMBERS, 2.0, -0.0, 1e18, float(2**70), -(2.0**63)]:
        kept = number(value)
        assert kept == value
        assert isinstance(kept, int) == (value == int(value) and -(2**63) < value < 2**63)


def test_values_stand_nowhere_in_the_sql() -> None:
    text = "'; drop table items; --"
    filter = parse(f'"{text}" = "{text}" or "{text}" < "{text}" or has "{text}" or "{text}" like "{text}"')
    for sql, params in (embedded.condition(filter), postgres.condition(filter, "items")):
        assert "drop" not in sql
        assert sum(text in str(value) for value in params) >= 6
    assert "drop" not in str(milvus.condition(parse(f'"{text}" = "{text}"')))


def test_a_filter_knows_the_fields_it_asks_about() -> None:
    assert parse('a = 1 and not (b < 2 or "c d" contains "x") or has e').asked() == {"a", "b", "c d", "e"}
