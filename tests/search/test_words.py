from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsekit.search.items import Item
from vsekit.search.words import GAP, LONGEST, Holds, holds, phrases_of, stream, words_of


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("IMG_1234.JPG", "img 1234 jpg"),
        ("Café, Zürich: ÅNGSTRÖM!", "cafe zurich angstrom"),
        ("don't t-shirt", "don t t shirt"),
        ("日本語 menu", "日 本 語 menu"),
        ("Straße STRASSE", "strasse strasse"),
        ("ﬁne ²", "fine 2"),
        ("की का", "की का"),
        ("й и", "й и"),
        ("", ""),
        ("!!! --- \u0301 \x00", ""),
        ("a" * 100, "a" * LONGEST),
    ],
)
def test_case_accents_and_punctuation_make_no_difference(text: str, words: str) -> None:
    assert words_of(text) == tuple(unicodedata.normalize("NFKC", words).split())


@pytest.mark.parametrize(
    ("name", "held"),
    [
        ("myHoliday2019.jpg", ["myholiday2019", "my holiday", "holiday 2019", "2019 jpg"]),
        ("DSC04512.JPG", ["dsc04512", "dsc", "04512", "dsc04512 jpg"]),
        ("iPhone", ["iphone", "i phone"]),
        ("ACMEHardwareStore", ["acmehardwarestore", "acme hardware store"]),
        ("invoice_ACME-4711", ["invoice acme 4711", "acme"]),
    ],
)
def test_names_are_held_whole_and_in_pieces(name: str, held: list[str]) -> None:
    for phrase in held:
        assert any(holds(own, tuple(phrase.split())) for own in phrases_of(name)), phrase


@given(st.text(max_size=60))
def test_words_are_words_of_themselves_and_hold_nothing_that_a_store_could_read(text: str) -> None:
    words = words_of(text)
    assert words_of(" ".join(words)) == words
    for word in words:
        assert 0 < len(word) <= LONGEST
        assert word != GAP
        assert not any(c.isspace() or c in "\"'\\():*^+-{}&|!<>" for c in word)


@given(st.lists(st.sampled_from("abc"), max_size=8), st.lists(st.sampled_from("abc"), min_size=1, max_size=3))
def test_a_phrase_is_held_where_it_stands_in_a_row(words: list[str], phrase: list[str]) -> None:
    assert holds(words, tuple(phrase)) == (f" {' '.join(phrase)} " in f" {' '.join(words)} ")


def test_a_picture_says_its_names_its_texts_and_what_is_written_in_it_and_nothing_technical() -> None:
    meta = {
        "name": "a1.jpg", "folder": "photos/Old Paris", "title": "Louvre", "written": "Ticket Hall", "colour": "red",
        "split": "val", "collection": "/data/secret", "dated": "2021-07-04 15:30:00", "year": 2021, "extension": "jpg",
    }  # fmt: skip
    words = stream(Item("p", "image", "/x/secret/a1.jpg", meta=meta))
    assert [word for word in words if word != GAP] == [
        *("a1", "jpg", "a", "1", "jpg", "photos", "old", "paris", "louvre", "ticket", "hall", "red"),
    ]
    assert not holds(words, ("photos", "old"))  # two folders are no phrase
    assert stream(Item("p#0", "caption", "/x/a1.jpg", "Two dogs", meta=meta)) == ["two", "dogs"]


def test_the_filter_by_words_reads_metadata() -> None:
    meta = {"name": "invoice.png", "written": "Total 12.50 EUR"}
    assert Holds(("total", "12", "50")).matches(meta)
    assert not Holds(("invoice", "total")).matches(meta)
    assert Holds(("a",)).asked() == set()
