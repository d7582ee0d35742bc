from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vsekit.errors import UserError
from vsekit.search.query import _PLAIN, Query, Term, _Reader, asked, combined, parse
from vsekit.search.words import words_of


def terms(text: str, files: bool = False) -> list[tuple[float, str, str]]:
    return [(term.weight, term.kind, str(term.value)) for term in parse(text, files=files).terms]


@pytest.mark.parametrize(
    "text",
    [
        "a brown dog running on sand",
        "a t-shirt - black-and-white",
        'a 5" pipe and a 6" one',
        '"dog"s and "cats',
        '"!!!" she said',
        "- a dog",
        "+",
        "3 * 4 grid",
        "item: a thing",
        "(a dog) + (a cat)",
        "photo.jpg of a dog",
    ],
)
def test_what_does_not_open_with_a_term_is_words(text: str) -> None:
    assert terms(text) == [(1.0, "text", text)]
    assert parse(text).words == text
    assert parse(text).exact == ()


@pytest.mark.parametrize(
    ("text", "exact", "others"),
    [
        ('"dog"', ["dog"], "dog"),
        (' "wet  dog" ', ["wet dog"], "wet dog"),
        ('"Guernica" on a wall', ["Guernica"], "on a wall"),
        ('"dog" "big cat"', ["dog", "big cat"], "dog big cat"),
        ('she said "stop", and ran', ["stop"], "she said , and ran"),
        ("“Straße” at night", ["Straße"], "at night"),
        ('"日本" の写真', ["日本"], "の写真"),
        (r'a sign "say \"cheese\""', ['say "cheese"'], "a sign"),
        ('"t-shirt - red" for sale', ["t-shirt - red"], "for sale"),
        ('"NOT a OR b*" dog', ["NOT a OR b*"], "dog"),
    ],
)
def test_words_in_quotes_are_exact_and_the_others_rank(text: str, exact: list[str], others: str) -> None:
    query = parse(text)
    assert list(query.exact) == exact
    assert query.words == others


@given(st.text(max_size=40))
def test_every_text_with_words_is_a_query_and_only_quotes_make_words_exact(text: str) -> None:
    try:
        query = parse(text)
    except UserError:
        return
    assert bool(query.exact) <= any(c in text for c in '"“')
    for phrase in query.exact:
        assert " ".join(phrase.split()) == phrase
        assert words_of(phrase)


@pytest.mark.parametrize("text", ['"dog" + "cat"', '-"dog"', '2*"dog"', '("dog")', '"dog" - item:ab'])
def test_quotes_in_a_sum_hold_terms_and_nothing_exact(text: str) -> None:
    assert parse(text).exact == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"dog"', [(1, "text", "dog")]),
        ('"dog" + "cat"-"mouse"', [(1, "text", "dog"), (1, "text", "cat"), (-1, "text", "mouse")]),
        ('0.5*"snow" + 2 * item:ab-c', [(0.5, "text", "snow"), (2, "item", "ab-c")]),
        ('-"water"', [(-1, "text", "water")]),
        ("“wet dog” − “cat”", [(1, "text", "wet dog"), (-1, "text", "cat")]),
        ('"a" - 2*("b" - .5*"c")', [(1, "text", "a"), (-2, "text", "b"), (1, "text", "c")]),
        (r'"say \"cheese\"" + "b"', [(1, "text", 'say "cheese"'), (1, "text", "b")]),
        ('"t-shirt - red" + "b"', [(1, "text", "t-shirt - red"), (1, "text", "b")]),
        ("item:p1#3", [(1, "item", "p1#3")]),
        ('5e-1*"snow" + 2E+1*"b"', [(0.5, "text", "snow"), (20, "text", "b")]),
    ],
)
def test_expressions_give_weighted_terms(text: str, expected: list[tuple[float, str, str]]) -> None:
    assert terms(text) == expected


def test_names_of_pictures_may_hold_spaces_and_signs(tmp_path: Path) -> None:
    for name in ("my dog-1.jpg", "my.jpg"):
        (tmp_path / name).touch()
    found = terms(f'{tmp_path}/my dog-1.jpg - "water" + {tmp_path}/my.jpg', files=True)
    assert found == [
        (1, "picture", f"{tmp_path}/my dog-1.jpg"),
        (-1, "text", "water"),
        (1, "picture", f"{tmp_path}/my.jpg"),
    ]


def test_files_are_never_looked_at_unless_allowed(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").touch()
    assert terms(f"{tmp_path}/a.jpg") == [(1, "text", f"{tmp_path}/a.jpg")]
    with pytest.raises(UserError, match="files can't be named here"):
        parse(f'"dog" + {tmp_path}/a.jpg - "b"')


@pytest.mark.parametrize(
    ("text", "column", "what"),
    [
        ('"dog" - the movie', 9, "words must stand in quotes: the"),
        ('"dog" +', 8, "a term is missing"),
        ('"dog" + "unclosed', 9, "quotes are not closed"),
        ('("dog" + "cat"', 1, "not closed"),
        ('"dog")', 6, "nothing was opened"),
        ('"a" + ""', 7, "no words"),
        ('2*"dog" - x', 11, "words must stand in quotes"),
        ('("a" + "b" "c") + "d"', 12, r"a \+ or - is missing"),
        ('missing.jpg - "x"', 1, "no such picture: missing.jpg"),
        ('( missing.jpg - "x")', 3, "no such picture: missing.jpg"),
    ],
)
def test_errors_point_at_the_column(text: str, column: int, what: str) -> None:
    with pytest.raises(UserError, match=f"column {column}: .*{what}") as error:
        parse(text, files=True)
    lines = str(error.value).splitlines()
    assert lines[2] == "    " + " " * (column - 1) + "^"


def test_an_empty_query_is_refused() -> None:
    with pytest.raises(UserError, match="empty"):
        parse("  ")


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet='"“”\\()+-*0.5 itemag:#.jp', max_size=30), st.booleans())
def test_any_text_is_a_query_or_a_mistake(text: str, files: bool) -> None:
    try:
        query = parse(text, files=files)
    except UserError:
        return
    assert query.terms
    assert all(np.isfinite(term.weight) and str(term.value).strip() for term in query.terms)


def test_the_vector_is_the_weighted_sum_of_unit_vectors_at_unit_length() -> None:
    vectors = np.array([[3.0, 0, 0], [0, 2.0, 0]])
    np.testing.assert_allclose(combined([1, -0.5], vectors), np.array([1, -0.5, 0]) / 1.25**0.5, rtol=1e-6)


def test_terms_that_cancel_out_have_no_direction() -> None:
    assert not combined([1, -1], np.array([[0.6, 0.8], [0.6, 0.8]])).any()


def test_a_query_of_one_term_has_weight_one() -> None:
    assert Query.of("item", "x").terms == (Term(1.0, "item", "x"),)
    assert Query.of("item", "x").words is None


@pytest.mark.parametrize(
    ("text", "column"),
    [('1e39*"red"', 1), ('"dog" - 1e999999*"red"', 9), ('1' + '0' * 39 + '*"red"', 1),
     ('"dog" - ' + '9' * 400 + '*"red"', 9), ('1000001*"red"', 1)],
)  # fmt: skip
def test_a_weight_that_single_precision_can_not_hold_is_pointed_at(text: str, column: int) -> None:
    with pytest.raises(UserError, match=rf"column {column}: this weight is too large[\s\S]*1,000,000"):
        parse(text)


@pytest.mark.parametrize("weight", [1e39, -2e6, float("inf"), float("nan")])
def test_a_query_made_in_python_has_weights_that_can_be_added_up(weight: float) -> None:
    with pytest.raises(UserError, match="weighs"):
        Query((Term(weight, "text", "red"),))


def test_weights_that_are_too_large_only_when_multiplied_are_refused() -> None:
    with pytest.raises(UserError, match=r"weighs 1e\+12"):
        parse('1000000*("dog" + 1000000*"red")')


def test_the_largest_weights_keep_their_proportions() -> None:
    vectors = np.eye(3, dtype=np.float32)
    np.testing.assert_allclose(combined([1e6, 1e6, 0], vectors), [0.5**0.5, 0.5**0.5, 0], rtol=1e-6)


def test_one_of_words_picture_and_item_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "there.jpg").touch()
    for path in (tmp_path / "there.jpg", str(tmp_path / "there.jpg")):
        assert asked(None, path, None) == Query.of("picture", path)
    assert asked(None, None, "p7") == Query.of("item", "p7")
    assert asked("a dog", None, None) == Query.of("text", "a dog")
    for missing in (tmp_path / "nowhere.jpg", str(tmp_path / "nowhere.jpg")):
        with pytest.raises(UserError, match=r"no such picture: .*nowhere\.jpg"):
            asked(None, missing, None)
    for several in ((None, None, None), ("a dog", None, "p7"), ("a dog", tmp_path / "there.jpg", None)):
        with pytest.raises(UserError, match="give either"):
            asked(*several)


@given(st.text(st.sampled_from('ab é日9_ \t\n.:"“”()+-−*#/'), max_size=20) | st.text(max_size=20))
@settings(max_examples=500, deadline=None)
def test_plain_words_are_told_without_reading_them_as_a_term(text: str) -> None:
    if _PLAIN.match(text):
        assert not _Reader(text, files=False).is_expression()
        assert not _Reader(text, files=True).is_expression()


def test_usual_queries_are_plain_words() -> None:
    assert all(map(_PLAIN.match, ("a dog", " Ein Hund, nass - und müde?", "un château (rouge)", "犬")))
    assert not any(map(_PLAIN.match, ('"dog"', 'a "dog"', "item:a", "a.jpg + b", "2 dogs", "(dog)", "-dog", "", " ")))
