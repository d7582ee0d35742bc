"""What one stage hands to the next, seen in runs whose last stage has a rate of next to nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.training.conftest import TINY

from vsekit.data.pairs import Pairs
from vsekit.data.readers import read
from vsekit.errors import UserError
from vsekit.evaluation.meeting import ENSEMBLE, RunsOnData, embedded
from vsekit.mining.mine import MiningResult
from vsekit.mining.run import mine_source
from vsekit.models.model import load_model
from vsekit.parts import merged
from vsekit.training.loop import train
from vsekit.training.run import read_metrics
from vsekit.training.settings import RunSettings

#: Learns nothing: what a stage ends with is what it began with.
STILL = {"epochs": 1, "optimiser": {"kind": "sgd", "lr": 1e-12}, "freeze": []}


def settings(**change: Any) -> RunSettings:
    return RunSettings.model_validate(merged(TINY, change))


def lines(run: Path, event: str, stage: str) -> list[dict[str, Any]]:
    return [line for line in read_metrics(run) if line["event"] == event and line["stage"] == stage]


def test_a_stage_that_starts_with_the_best_goes_on_from_it_and_keeps_it(collection: Path, tmp_path: Path) -> None:
    ruin = {"epochs": 1, "start": "best", "optimiser": {"kind": "sgd", "lr": 1e4}, "freeze": []}
    stages = {
        "first": {"epochs": 6},
        "second": ruin,
        "third": {**TINY["stages"]["second"], **STILL, "start": "best"},
    }
    run, pairs = tmp_path / "run", read(collection)
    end = train(settings(stages=stages), pairs, run)
    best = max(lines(run, "validation", "first"), key=lambda line: line["rsum"])
    (ruined,), (still,) = (lines(run, "validation", name) for name in ("second", "third"))
    assert ruined["rsum"] < best["rsum"]
    assert still["rsum"] == best["rsum"]
    assert (end["best"]["stage"], end["best"]["epoch"]) == ("first", best["epoch"])

    # The model that is kept is the best one, too.
    val = pairs.split("val")
    images, captions = embedded(load_model(run), val)
    scores = (images @ captions.T).numpy()
    first = scores.argmax(0)
    hits = val.picture_groups[first] == val.caption_groups
    assert 100 * hits.mean() == pytest.approx(best["t2i"]["r1"])


def test_a_stage_that_goes_on_from_the_last_one_is_judged_by_itself(collection: Path, tmp_path: Path) -> None:
    ruin = {"epochs": 1, "start": "previous", "optimiser": {"kind": "sgd", "lr": 1e4}, "freeze": []}
    end = train(settings(stages={"first": {"epochs": 6}, "second": ruin}), read(collection), tmp_path / "run")
    (ruined,) = lines(tmp_path / "run", "validation", "second")
    assert ruined["rsum"] < max(line["rsum"] for line in lines(tmp_path / "run", "validation", "first"))
    assert (end["best"]["stage"], end["best"]["rsum"]) == ("second", ruined["rsum"])


def test_a_stage_with_another_model_begins_with_the_weights_that_fit(collection: Path, tmp_path: Path) -> None:
    pairs = read(collection)
    train(settings(stages={"second": None}), pairs, tmp_path / "one")
    change = {"model": {"image": {"head": "mlp", "projection": "linear"}}, **STILL}
    train(settings(stages={"second": change}), pairs, tmp_path / "two")
    before, after = (load_model(tmp_path / name).state_dict() for name in ("one", "two"))
    same = [name for name in before if name in after and before[name].shape == after[name].shape]
    assert [name for name in before if name.startswith("text.")] == [name for name in same if name.startswith("text.")]
    for name in same:
        torch.testing.assert_close(after[name], before[name], atol=1e-6, rtol=0, msg=name)
    assert any(name.startswith("image.head.") and name not in before for name in after)


@pytest.mark.parametrize("start", ["previous", "best", "scratch"])
def test_a_classifier_learned_in_one_stage_is_used_in_the_next(start: str, collection: Path, tmp_path: Path) -> None:
    first = {"epochs": 12, "loss": "instance"}
    second = {**STILL, "loss": "instance", "start": start}
    train(settings(stages={"first": first, "second": second}), read(collection), tmp_path / "run")
    untrained = lines(tmp_path / "run", "train", "first")[0]["loss"]
    learned = np.mean([line["loss"] for line in lines(tmp_path / "run", "train", "first")[-9:]])
    used = np.mean([line["loss"] for line in lines(tmp_path / "run", "train", "second")])
    assert learned < 0.7 * untrained
    if start == "scratch":
        assert used == pytest.approx(untrained, rel=0.1)
    else:
        assert used < 1.1 * learned


@pytest.mark.parametrize("teacher", ["a run", "best"])
def test_a_teacher_mines_with_its_plain_scores(teacher: str, collection: Path, tmp_path: Path) -> None:
    # With a bank, every score would be less what it is now by the hubness of its picture and its caption.
    pairs, run = read(collection), tmp_path / "run"
    bank = {"weight": 3.0, "temperature": 0.1}
    train(settings(stages={"second": None}, querybank=bank), pairs, tmp_path / "teacher")
    model = load_model(tmp_path / "teacher")
    assert model.querybank is not None
    loss = {"loss": "offline_triplet", "freeze": []}
    named = tmp_path / "teacher" if teacher == "a run" else teacher
    second = {**STILL, **loss, "mine": {"captions": 5, "images": 4, "teacher": str(named)}}
    train(settings(stages={"second": second}, querybank=bank), pairs, run)
    mined = MiningResult.load(run / "mined" / "second")

    images, captions = embedded(model, pairs.split("train"))
    scores = (images @ captions.T).numpy()
    train_pairs = pairs.split("train")
    for picture, row in enumerate(scores):
        negative = train_pairs.caption_groups != train_pairs.picture_groups[picture]
        expected = np.sort(row[negative])[::-1][:5]
        np.testing.assert_allclose(mined.caption_scores[picture][:5], expected, atol=1e-3)
        np.testing.assert_allclose(row[mined.captions[picture][:5]], expected, atol=1e-3)


def test_words_beside_a_frozen_encoder_are_those_of_the_training_captions_and_learn(
    collection: Path, tmp_path: Path
) -> None:
    run, pairs = tmp_path / "run", read(collection)
    words = {"size": 6, "dim": 4, "dropout": 0.0}
    stages = {"first": {"freeze": ["text.encoder"]}, "second": None}
    train(settings(model={"text": {"words": words}}, stages=stages), pairs, run)
    model = load_model(run)
    said = Counter(word for caption in pairs.split("train").captions for word in caption.text.split())
    rows = {model.tokenizer.all_words[i]: int(row) for i, row in enumerate(model.text.words.rows) if row}  # type: ignore[attr-defined, union-attr]
    # Frequent first; of those said equally often, the first of the vocabulary.
    assert rows.keys() <= said.keys()
    assert len(rows) == 6
    assert min(said[word] for word in rows) >= max(said[word] for word in said.keys() - rows.keys())
    assert [said[word] for word in sorted(rows, key=rows.__getitem__)] == sorted(
        map(said.__getitem__, rows), reverse=True
    )
    torch.manual_seed(RunSettings.model_validate(TINY).seed)
    untrained = model.settings.text.words.build(len(model.tokenizer))  # type: ignore[union-attr]
    assert model.text.words is not None
    learned, drawn = (bag.vectors.weight.detach().abs().max() for bag in (model.text.words, untrained))
    assert learned > drawn


@pytest.mark.parametrize("teacher", ["previous", "best"])
def test_a_stage_mines_with_the_model_as_it_was_left_or_with_the_best(
    teacher: str, collection: Path, tmp_path: Path
) -> None:
    pairs, run = read(collection), tmp_path / "run"
    stages: dict[str, Any] = {
        "first": {"epochs": 3},
        "second": {"epochs": 1, "start": "best", "optimiser": {"kind": "sgd", "lr": 1e4}, "freeze": []},
    }
    train(settings(stages={**stages, "second": None}), pairs, tmp_path / "best")
    mine = {"captions": 5, "images": 4, "teacher": teacher}
    last = {**TINY["stages"]["second"], **STILL, "loss": "offline_triplet", "mine": mine}
    train(settings(stages={**stages, "third": last}), pairs, run)
    images, captions = embedded(load_model(tmp_path / "best"), pairs.split("train"))
    of_best, mined = (images @ captions.T).numpy(), MiningResult.load(run / "mined" / "third")
    agree = np.isclose(
        np.take_along_axis(of_best, mined.captions[:, :5], axis=1), mined.caption_scores[:, :5], atol=1e-3
    )
    assert agree.all() == (teacher == "best")
    assert agree.mean() < 0.5 or teacher == "best"


#: A stage that mines with a teacher that is named, and learns from what it drew.
TAUGHT = {"epochs": 1, "loss": "offline_triplet"}


def taught_by(teacher: Path, pairs: Pairs, run: Path, **mine: int) -> list[float]:
    """The losses of such a stage."""
    named = {"captions": 5, "images": 4, "teacher": str(teacher), **mine}
    train(settings(stages={"first": {**TAUGHT, "mine": named}, "second": None}), pairs, run)
    return [line["loss"] for line in lines(run, "train", "first")]


def test_lists_that_were_mined_before_teach_as_their_run_does(collection: Path, tmp_path: Path) -> None:
    pairs, teacher, mined = read(collection), tmp_path / "teacher", tmp_path / "lists"
    train(settings(stages={"second": None}), pairs, teacher)
    mine_source(RunsOnData.of([teacher], pairs.split("train"), "train"), mined, top_captions=6, top_images=4)
    assert taught_by(mined, pairs, tmp_path / "by-lists") == taught_by(teacher, pairs, tmp_path / "by-run")
    assert not (tmp_path / "by-lists" / "mined").exists()


def test_a_run_folder_of_several_members_mines_with_their_mean_score(collection: Path, tmp_path: Path) -> None:
    pairs, both = read(collection), tmp_path / "both"
    for seed in (0, 1):
        train(settings(stages={"second": None}, seed=seed), pairs, both / f"member{seed}")
    (both / ENSEMBLE).write_text('{"members": ["member0", "member1"]}')
    taught_by(both, pairs, tmp_path / "run")
    part = pairs.split("train")
    vectors = [embedded(load_model(both / f"member{seed}"), part) for seed in (0, 1)]
    mean = sum((images @ captions.T).numpy() for images, captions in vectors) / 2
    mined = MiningResult.load(tmp_path / "run" / "mined" / "first")
    there = np.take_along_axis(mean, np.asarray(mined.captions), axis=1)
    np.testing.assert_allclose(there, mined.caption_scores, atol=1e-3)


def test_lists_of_other_data_and_short_lists_are_refused(collection: Path, tmp_path: Path) -> None:
    pairs, teacher, mined = read(collection), tmp_path / "teacher", tmp_path / "lists"
    train(settings(stages={"second": None}), pairs, teacher)
    mine_source(RunsOnData.of([teacher], pairs.split("train"), "train"), mined, top_captions=5, top_images=4)
    with pytest.raises(UserError, match=r"hold 5 captions, and 6 .*"):
        taught_by(mined, pairs, tmp_path / "run", captions=6)
    with pytest.raises(UserError, match=r"hold 4 images, and 9 .*"):
        taught_by(mined, pairs, tmp_path / "run", images=9)
    # As many pictures and captions, of which two are told apart by their words alone.
    first, second, *others = pairs.captions
    swapped = replace(pairs, captions=[replace(first, text=second.text), replace(second, text=first.text), *others])
    with pytest.raises(UserError, match="other pictures and captions"):
        taught_by(mined, swapped, tmp_path / "run")
    assert not (tmp_path / "run").exists()
