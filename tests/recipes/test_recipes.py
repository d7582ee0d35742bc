from __future__ import annotations

from importlib import resources

import numpy as np
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
    with pytest.raises(UserError, match=r"It has 114 rows\. See: vse recipes aoq$"):
        find("aoq:9.9")


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


def test_stage_one_of_dual_path_is_as_long_as_its_networks_checkpoint() -> None:
    epochs = {
        row.name: row.settings["stages"]["stage1"]["epochs"] for row in recipes.rows("dual_path") if row.table in "178"
    }
    for name, count in epochs.items():
        table, network = name[0], name.split(".")[1].split("-")[0]
        expected = {"1": 240, "7": 120 if network == "vgg16" else 150, "8": 70 if network == "vgg19" else 75}[table]
        assert count == expected, name


def test_code_rows_of_dual_path_weigh_one_mean_and_draw_the_image() -> None:
    rows = [row for row in recipes.rows("dual_path") if row.name.endswith("-code")]
    assert len(rows) == 3
    for row in rows:
        settings = recipes.load_settings(row.id)
        rank, instance = settings.stages["stage2"].loss.terms
        assert rank.weight == 1.0
        assert rank.loss.pool == 1 or rank.loss.image_negative == "random"  # of one pair drawn, the image is random
        assert settings.model.text.head.dropout == settings.model.image.head.dropout == 0
        assert instance.loss.dropout == settings.stages["stage1"].loss.dropout > 0


def test_dual_path_averages_final_features_and_vsepp_those_of_the_cnn() -> None:
    for recipe, where in (("dual_path", "after_head"), ("vsepp", "before_head")):
        for row in recipes.rows(recipe):
            settings = recipes.load_settings(row.id)
            assert {settings.model.image.average_views, settings.model.text.average_views} == {where}


def test_rows_on_coco_keep_five_captions_and_the_vsepp_family_selects_on_a_thousand() -> None:
    for row in recipes.rows():
        if row.recipe in ("vsepp", "convse", "aoq", "vse_2ad"):
            data = recipes.load_settings(row.id).data
            coco, family = row.dataset == "coco", row.recipe != "vse_2ad"
            assert data.captions_per_picture == (5 if coco else None), row.id
            assert data.val_pictures == (1000 if coco and family else None), row.id


def test_table_6_has_the_papers_seconds() -> None:
    seconds = {r.method: r.published["seconds_a_batch"] for r in recipes.rows("aoq") if r.table == "6"}
    assert seconds == {
        "VSRN": [1.096],
        "VSRN + OffTri": [1.489],
        "VSRN + OffQuin": [1.557],
        "VSRN + AdapOffQuin": [1.604],
    }


def test_grid_cells_are_dropped_as_often_as_the_recipe_says() -> None:
    draws = np.random.default_rng(0).random(1_000_000)
    assert np.where(draws > 0.2, 0.2 * draws, 0).mean() == pytest.approx(0.096, abs=3e-4)
    content = (resources.files(recipes) / "vse_2ad.yaml").read_text(encoding="utf-8")
    assert "drops 9.6 % on average" in content
