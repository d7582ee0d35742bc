from __future__ import annotations

import pytest

from vsekit import recipes
from vsekit.errors import UserError
from vsekit.recipes import apply_sets, find, merged


def test_merging_goes_key_by_key_and_leaves_the_base_alone() -> None:
    base = {"a": {"b": 1, "c": 2}}
    assert merged(base, {"a": {"c": 3}}) == {"a": {"b": 1, "c": 3}}
    assert base == {"a": {"b": 1, "c": 2}}


def test_another_kind_replaces_the_whole_part() -> None:
    base = {"loss": {"kind": "max_of_hinges", "margin": 0.2}}
    assert merged(base, {"loss": {"kind": "info_nce"}}) == {"loss": {"kind": "info_nce"}}
    assert merged(base, {"loss": "info_nce"}) == {"loss": "info_nce"}
    assert merged(base, {"loss": {"margin": 0.1}}) == {"loss": {"kind": "max_of_hinges", "margin": 0.1}}


def test_a_bare_name_takes_changes_as_its_kind() -> None:
    assert merged({"pooling": "mean"}, {"pooling": {"p": 1}}) == {"pooling": {"kind": "mean", "p": 1}}


def test_set_reads_values_as_yaml() -> None:
    settings = apply_sets({}, ["a.b=3", "a.c=[1, 2]", "d=true", "e=x"])
    assert settings == {"a": {"b": 3, "c": [1, 2]}, "d": True, "e": "x"}


@pytest.mark.parametrize("wrong", ["novalue", "=3", "a=[1"])
def test_a_set_that_cannot_be_read_is_an_error(wrong: str) -> None:
    with pytest.raises(UserError):
        apply_sets({}, [wrong])


def test_unknown_names_list_what_there_is() -> None:
    with pytest.raises(UserError, match="vsepp"):
        find("nosuch:1")
    with pytest.raises(UserError, match=r"1\.11"):
        find("vsepp:9.9")


def test_an_unknown_setting_is_refused_by_name() -> None:
    with pytest.raises(UserError, match=r"stages\.main\.epoch"):
        recipes.load_settings("vsepp:demo", ["stages.main.epoch=3"])


def test_every_row_of_every_recipe_is_valid_settings() -> None:
    for row in recipes.rows():
        recipes.load_settings(row.id)


def test_published_numbers_are_recalls_in_rising_order() -> None:
    for row in recipes.rows():
        for way in row.published.keys() & {"i2t", "t2i"}:
            known = [x for x in row.published[way][:3] if x is not None]
            assert known == sorted(known), row.id
            assert all(0 <= x <= 100 for x in known), row.id


def test_every_row_says_what_data_it_needs() -> None:
    assert [row.id for row in recipes.rows() if not row.needs] == []
