from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from vsekit.recipes.choose import Cost, choose
from vsekit.recipes.look import Look, language
from vsekit.training.settings import RunSettings

SATELLITE = Look(pictures=1758, captions=8790, val_pictures=220, words=11.0, vocabulary=900, language="English")
COST = Cost()


def names(choice):
    return [member.name for member in choice.members]


@pytest.mark.parametrize("captions", [40, 600, 8790, 500_000])
@pytest.mark.parametrize("seen", ["English", "German", "unknown"])
@pytest.mark.parametrize("features", [None, 2, 3])
def test_every_choice_is_made_of_settings_that_can_be_trained(captions, seen, features):
    look = replace(SATELLITE, captions=captions, language=seen, features=features)
    for minutes in (None, 1, 600):
        choice = choose(look, minutes, COST, minilm=True)
        assert choice.members
        for member in choice.members:
            settings = RunSettings.model_validate(member.settings)
            stage = settings.stages["heads"]
            assert stage.loss.kind == "info_nce"
            assert stage.batch_size <= max(32, captions / 8)
            assert settings.model.text.encoder.kind != "transformer" or seen != "German"
            assert (settings.model.image.encoder.kind == "precomputed") == (features is not None)
        assert len(set(names(choice))) == len(choice.members)


def test_the_best_comes_first_and_different_models_follow():
    assert names(choose(SATELLITE, None, COST, minilm=True)) == ["starter", "minilm", "bow", "starter-crops"]


def test_the_starter_goes_on_where_it_reads_the_captions_and_sees_the_pictures():
    choice = choose(SATELLITE, None, COST, minilm=True)
    assert any("starter" in reason for reason in choice.reasons)
    assert {m.settings["stages"]["heads"]["start"] for m in choice.members if "starter" in m.name} == {"starter"}
    for look, minilm in (
        (replace(SATELLITE, language="German"), True),
        (SATELLITE, False),
        (replace(SATELLITE, features=2), True),
    ):
        choice = choose(look, 600, COST, minilm=minilm)
        assert not any("starter" in name for name in names(choice))
        assert not any("starter" in reason for reason in choice.reasons)


def test_words_are_learned_where_minilm_does_not_read_them():
    for look, installed, why in (
        (replace(SATELLITE, language="German"), True, "captions are in German"),
        (SATELLITE, False, "pip install"),
    ):
        choice = choose(look, None, COST, minilm=installed)
        assert names(choice)[:2] == ["bow", "gru"]
        assert not any("minilm" in name for name in names(choice))
        assert any(why in reason for reason in choice.reasons)


@pytest.mark.parametrize("minutes", [2, 5, 10, 20, 60, 240])
def test_what_is_chosen_fits_the_budget(minutes):
    choice = choose(SATELLITE, minutes, COST, minilm=True)
    assert choice.seconds <= 60 * minutes
    assert choice.pictures is None or minutes < 10


def test_the_cheapest_model_is_hurried_where_none_fits():
    choice = choose(SATELLITE, 1, COST, minilm=True)
    (member,) = choice.members
    epochs = member.settings["stages"]["heads"]["epochs"]
    assert member.name == "bow"
    assert 2 <= epochs < 12
    assert member.seconds <= 60
    assert not any("MiniLM" in reason for reason in choice.reasons)
    assert any("a bag of words alone" in reason for reason in choice.reasons)


def test_what_did_not_fit_is_spare_and_what_is_told_first_comes_first():
    choice = choose(SATELLITE, 8, COST, minilm=True)
    assert {member.name for member in choice.spare}.isdisjoint(names(choice))
    assert {"starter", "minilm", "bow", "starter-crops"} <= set(names(choice)) | {
        member.name for member in choice.spare
    }
    assert choose(SATELLITE, 600, COST, minilm=True).spare == []
    assert choose(SATELLITE, None, COST, minilm=True).spare == []


def test_more_minutes_never_give_fewer_models():
    counts = [len(choose(SATELLITE, minutes, COST, minilm=True).members) for minutes in (10, 20, 40, 80, 160)]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]


def test_a_budget_too_small_for_all_pictures_takes_some_and_says_so():
    large = replace(SATELLITE, pictures=1_000_000, captions=1_000_000)
    choice = choose(large, 20, COST, minilm=True)
    assert choice.pictures is not None
    assert choice.pictures * COST.small_view < 20 * 60
    assert any(f"{choice.pictures} pictures" in reason for reason in choice.reasons)
    assert choose(large, None, COST, minilm=True).pictures is None


def test_a_slower_machine_takes_longer_in_proportion():
    fast, slow = (choose(SATELLITE, None, COST.times(factor), minilm=True).seconds for factor in (1, 3))
    assert slow == pytest.approx(3 * fast)


def test_features_shared_by_members_are_counted_once_and_the_starters_are_its_own():
    seconds = {m.name: m.seconds for m in choose(SATELLITE, 10_000, COST, minilm=True).members}
    trained = COST.start + COST.pair * SATELLITE.captions * 16
    looked = COST.view * (SATELLITE.pictures + SATELLITE.val_pictures)
    cropped = COST.view * (4 * SATELLITE.pictures + 10 * SATELLITE.val_pictures)
    assert seconds["starter"] == pytest.approx(trained + looked + COST.caption * SATELLITE.captions)
    assert seconds["minilm"] == pytest.approx(trained + looked)
    assert seconds["bow"] == pytest.approx(trained)
    assert seconds["starter-crops"] == seconds["minilm-crops"] == pytest.approx(trained + cropped)
    assert seconds["bow-crops"] == seconds["starter-crops-seed1"] == pytest.approx(trained)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a dog is running on the beach with some people near the sea", "English"),
        ("ein Hund rennt mit einem Ball auf der Wiese und die Sonne scheint", "German"),
        ("un chien court avec une balle dans les champs et sur la plage", "French"),
        ("una playa con dos barcos en el mar y los árboles", "Spanish"),
        ("собака бежит по пляжу", "other letters"),
        ("leather handbag red, cotton shirt blue", "unknown"),
    ],
)
def test_the_language_is_told_by_its_little_words(text, expected):
    assert language(Counter(text.lower().replace(",", "").split())) == expected
