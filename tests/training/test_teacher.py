"""Distilling from runs: the teacher's vectors, kept once, and a student that learns from them."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.training.conftest import TINY

from vsekit.data.pairs import Pairs
from vsekit.data.readers import read
from vsekit.errors import UserError
from vsekit.evaluation.meeting import ENSEMBLE, score_runs
from vsekit.models.inputs import FeatureInputs
from vsekit.progress import QUIET
from vsekit.training.loop import train
from vsekit.training.settings import RunSettings
from vsekit.training.teacher import Teacher


def settings(seed: int = 0, **stage) -> RunSettings:
    tiny = copy.deepcopy(TINY)
    first = {**tiny["stages"]["first"], **stage}
    return RunSettings.model_validate({**tiny, "seed": seed, "stages": {"first": first}})


@pytest.fixture
def pairs(collection) -> Pairs:
    return read(collection)


@pytest.fixture
def runs(pairs, tmp_path, monkeypatch):
    monkeypatch.setenv("VSEKIT_CACHE", str(tmp_path / "cache"))
    for seed in (0, 1):
        train(settings(seed, epochs=6), pairs, tmp_path / f"teacher{seed}")
    return [tmp_path / "teacher0", tmp_path / "teacher1"]


def without_captions(pairs: Pairs, every: int) -> Pairs:
    """Every n-th training picture loses its captions."""
    return replace(
        pairs,
        captions=[c for c in pairs.captions if c.picture % every or pairs.pictures[c.picture].split != "train"],
    )


def test_a_batch_holds_the_ensembles_mean_scores(runs, pairs):
    part = pairs.split("train")
    teacher = Teacher(runs, part, 0, QUIET)
    pictures, captions = np.array([3, 0, 7]), np.array([1, 9, 4])
    batch = teacher.batch(FeatureInputs(part), pictures, captions, np.random.default_rng(0))
    scores = score_runs(runs, part, plain=True).block(slice(None), slice(None))
    torch.testing.assert_close(
        batch.images @ batch.captions.T, scores[pictures][:, captions].float(), atol=2e-3, rtol=0
    )
    assert batch.unlabelled is None


def test_a_run_folder_of_several_members_teaches_as_they_do(runs, pairs, tmp_path):
    (tmp_path / ENSEMBLE).write_text('{"members": ["teacher0", "teacher1"]}')
    args = FeatureInputs(part := pairs.split("train")), np.array([3, 0, 7]), np.array([1, 9, 4])
    one, both = (Teacher(named, part, 0, QUIET).batch(*args, np.random.default_rng(0)) for named in ([tmp_path], runs))
    assert torch.equal(one.images, both.images)
    assert torch.equal(one.captions, both.captions)


def test_vectors_are_computed_once_and_again_for_other_captions(runs, pairs, tmp_path):
    kept = tmp_path / "cache" / "teachers"
    Teacher(runs, pairs.split("train"), 0, QUIET)
    assert len(list(kept.iterdir())) == 2
    before = {file: file.stat().st_mtime_ns for file in kept.rglob("*.npy")}
    Teacher(runs[:1], pairs.split("train"), 0, QUIET)
    assert {file: file.stat().st_mtime_ns for file in kept.rglob("*.npy")} == before
    Teacher(runs[:1], without_captions(pairs, 3).split("train"), 0, QUIET)
    assert len(list(kept.iterdir())) == 3


def test_a_student_with_no_labels_but_the_teachers_learns_what_it_knows(runs, pairs, tmp_path):
    loss = {"kind": "distillation", "temperature": 0.1}
    tiny = settings(2, epochs=10, loss=loss, teacher=[str(run) for run in runs])
    # Groups that say nothing: all that tells right from wrong is the teacher.
    blind = replace(pairs, pictures=[replace(p, group="one") if p.split == "train" else p for p in pairs.pictures])
    end = train(tiny, blind, tmp_path / "student")
    chance = 2 * (1 + 5 + 10) / 18 * 100
    assert end["best"]["rsum"] > 1.5 * chance
    lines = [json.loads(line) for line in (tmp_path / "student" / "metrics.jsonl").read_text().splitlines()]
    kl = [line["kl"] for line in lines if line["event"] == "train"]
    assert np.mean(kl[-10:]) < 0.3 * np.mean(kl[:3])


def test_pictures_without_captions_are_drawn_for_the_teacher_and_a_resumed_run_is_the_same(runs, pairs, tmp_path):
    loss = {"kind": "weighted_sum", "terms": [{"loss": "info_nce"}, {"loss": "distillation"}]}
    tiny = settings(2, epochs=2, loss=loss, teacher=str(runs[0]), unlabelled=4)
    part = without_captions(pairs, 3)
    train(tiny, part, tmp_path / "whole")

    class Stop(Exception):
        pass

    teacher = Teacher(runs[:1], part.split("train"), 4, QUIET)
    rng = np.random.default_rng(0)
    batch = teacher.batch(FeatureInputs(part.split("train")), np.array([1]), np.array([0]), rng)
    assert batch.unlabelled.vectors.shape[0] == len(batch.unlabelled_images) == 4
    assert set(teacher.uncaptioned.tolist()) == set(range(0, 36, 3))

    from vsekit.training import loop

    def killed(*given):
        if given[-1] == 1:  # the epoch
            raise Stop
        return epochs(*given)

    epochs = loop.Trainer._epoch
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop.Trainer, "_epoch", killed)
        with pytest.raises(Stop):
            train(tiny, part, tmp_path / "killed")
    train(tiny, part, tmp_path / "killed", resume=True)
    whole, again = ((tmp_path / name / "metrics.jsonl").read_bytes() for name in ("whole", "killed"))
    assert whole == again


def test_mistakes_are_named(runs, pairs, tmp_path):
    with pytest.raises(UserError, match="follows a teacher, and the stage has none"):
        train(settings(loss="distillation"), pairs, tmp_path / "a")
    with pytest.raises(UserError, match="every training picture has a caption"):
        train(settings(loss="distillation", teacher=str(runs[0]), unlabelled=2), pairs, tmp_path / "b")
    with pytest.raises(ValueError, match="name one"):
        settings(unlabelled=2)
    order = RunSettings.model_validate(
        {**settings(epochs=1).model_dump(), "model": {**TINY["model"], "similarity": "order"}}
    )
    train(order, pairs, tmp_path / "order")
    with pytest.raises(UserError, match="similarity 'order' has no vectors"):
        train(settings(loss="distillation", teacher=str(tmp_path / "order")), pairs, tmp_path / "c")
