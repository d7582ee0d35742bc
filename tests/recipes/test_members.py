"""Several models of one collection: trained, averaged, kept to a budget, interrupted. Tiny features stand for pictures."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest
import yaml
from tests.training.conftest import write_precomputed

import vsekit
from vsekit.data.pairs import Caption, Pairs, Picture
from vsekit.data.readers import read
from vsekit.errors import UserError
from vsekit.evaluation.meeting import members_of, score_runs
from vsekit.evaluation.protocols import evaluate
from vsekit.evaluation.scorers import Average
from vsekit.models.model import load_model
from vsekit.recipes import members
from vsekit.recipes.choose import Cost
from vsekit.recipes.members import fewer, read_members, train_members, with_val
from vsekit.recipes.tune import tuning
from vsekit.training import loop

QUICK = ["stages.heads.epochs=2", "model.dim=8", "model.image.head=linear", "querybank=null"]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Pairs:
    return read(write_precomputed(tmp_path_factory.mktemp("members") / "data"))


def chosen(pairs: Pairs, out: Path):
    return train_members(None, pairs, out, sets=QUICK, cost=Cost(), minutes=60)


@pytest.fixture(scope="module")
def run(pairs: Pairs, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    """A folder of what was chosen and trained, for reading alone, and what training said."""
    out = tmp_path_factory.mktemp("members") / "run"
    return out, chosen(pairs, out)


@pytest.fixture
def two(run: tuple[Path, dict], tmp_path: Path) -> Path:
    """A recipe of two members that differ in their seed."""
    member = next(iter(yaml.safe_load((run[0] / "recipe.yaml").read_text())["members"].values()))
    recipe = tmp_path / "r.yaml"
    recipe.write_text(yaml.safe_dump({"members": {"one": member, "two": member | {"seed": 1}}}))
    return recipe


def test_without_a_recipe_models_are_chosen_trained_averaged_and_written_to_be_edited(run, pairs):
    out, end = run
    written = read_members(out / "recipe.yaml")
    assert written is not None
    assert list(end["alone"]) == list(written.members)
    assert "# - InfoNCE" in (out / "recipe.yaml").read_text()
    # The average is that of the members' scores, and the folder stands for it.
    val = pairs.split("val")
    runs = [out / "members" / name for name in end["members"]]
    assert members_of(out) == runs
    by_hand = Average([score_runs([run], val) for run in runs]) if len(runs) > 1 else None
    scores = by_hand or score_runs(runs, val)
    assert end["rsum"] == pytest.approx(evaluate(scores, val.picture_groups, val.caption_groups).rsum)
    assert vsekit.evaluate(out, pairs, split="val").rsum == pytest.approx(end["rsum"])
    assert end["rsum"] >= max(end["alone"].values())
    # What needs one model finds the best.
    best = load_model(out / "members" / max(end["alone"], key=end["alone"].get))
    assert load_model(out).fingerprint() == best.fingerprint()


def test_the_written_recipe_trains_again_to_the_same_numbers_and_a_deadline_that_is_far_changes_nothing(
    run, tmp_path, pairs
):
    recipe = run[0] / "recipe.yaml"
    assert train_members(recipe, pairs, tmp_path / "b", sets=QUICK, minutes=time.monotonic() + 1e6) == run[1]


def test_no_member_is_begun_when_the_time_is_over_but_one_is_always_trained(two, tmp_path, pairs):
    end = train_members(two, pairs, tmp_path / "b", sets=QUICK, minutes=1e-9)
    assert list(end["alone"]) == ["one"]
    lines = [json.loads(line) for line in (tmp_path / "b/members/one/metrics.jsonl").read_text().splitlines()]
    assert max(line["epoch"] for line in lines if "epoch" in line) == 1  # of two


def test_interrupted_what_is_there_can_be_used_and_resume_goes_on(two, tmp_path, pairs, monkeypatch):
    out = tmp_path / "run"
    validate, count = loop.Trainer._validate, []

    def interrupted(self, stage, epoch):
        validate(self, stage, epoch)
        count.append(epoch)
        if len(count) == 3:  # the first epoch of the second member
            raise KeyboardInterrupt

    monkeypatch.setattr(loop.Trainer, "_validate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train_members(two, pairs, out, sets=QUICK)
    assert vsekit.evaluate(out, pairs, split="val").rsum > 0
    assert load_model(out)
    monkeypatch.undo()
    end = train_members(None, pairs, out, sets=QUICK, resume=True)
    whole = train_members(two, pairs, tmp_path / "whole", sets=QUICK)
    assert list(whole["alone"]) == ["one", "two"]
    assert end == whole


def test_the_average_begins_with_the_best_alone_and_takes_in_turn_what_makes_it_better(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rsums = {"a": 10.0, "b": 12.0, "c": 11.0, "ab": 11.5, "bc": 13.0, "ac": 14.0, "abc": 12.5}

    def trained(settings: object, pairs: Pairs, folder: Path, **_: object) -> None:
        (folder / "model").mkdir(parents=True)

    monkeypatch.setattr(members, "train", trained)
    monkeypatch.setattr(members, "score_runs", lambda runs, *_: runs[0].name)
    monkeypatch.setattr(members.Members, "_measure", lambda self, names: rsums["".join(sorted(names))])
    averaged = []
    take = members.Members._take
    monkeypatch.setattr(members.Members, "_take", lambda self, name: (take(self, name), averaged.append(self.together)))
    end = members.Members(dict.fromkeys("abc", tuning("starter")), small(["train", "val"]), tmp_path).run()
    # b alone is better than with a; c is worse than b alone and makes it better.
    assert averaged == [["a"], ["b"], ["b", "c"]]
    assert (end["members"], end["rsum"], end["best"]) == (["b", "c"], 13.0, "b")
    assert json.loads((tmp_path / "ensemble.json").read_text())["members"] == ["members/b", "members/c"]


def test_a_folder_with_something_in_it_is_refused(tmp_path, pairs):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("mine")
    with pytest.raises(UserError, match="not empty"):
        chosen(pairs, tmp_path / "run")


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ({"members": {}}, "members holds"),
        ({"members": {"a": {"stages": {}}}}, r"members\.a"),
        ({"members": {"a": {}}, "minutes": 3}, "no setting 'minutes'"),
        ({"members": {"a": {}}, "pictures": "many"}, "pictures is a whole number"),
    ],
)
def test_a_mistake_in_a_recipe_of_members_is_told(tmp_path, content, what):
    (tmp_path / "r.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(UserError, match=what):
        read_members(tmp_path / "r.yaml")


def test_a_recipe_of_one_model_is_none_of_members(tmp_path):
    (tmp_path / "r.yaml").write_text("seed: 1\n")
    assert read_members(tmp_path / "r.yaml") is None
    assert read_members(Path("vsepp:1.6")) is None


def small(splits: list[str]) -> Pairs:
    pictures = [Picture(f"{n}.jpg", None, split, f"{n}.jpg") for n, split in enumerate(splits)]
    return Pairs(pictures, [Caption("a", n) for n in range(len(splits))], Path("x"))


def test_a_tenth_of_train_selects_where_there_is_no_val():
    whole = small(["train"] * 300 + ["test"] * 20)
    made = with_val(whole)
    assert made.splits["test"] == 20
    assert 15 <= made.splits["val"] <= 45
    assert made.splits["train"] + made.splits["val"] == 300
    kept = small(["train", "val"])
    assert with_val(kept) is kept


def test_fewer_pictures_are_spread_over_the_collection():
    taken = fewer(small(["train"] * 100 + ["val"] * 40), 10, 20)
    assert taken.splits == {"train": 10, "val": 20}
    numbers = np.array([int(picture.id.removesuffix(".jpg")) for picture in taken.pictures if picture.split == "train"])
    assert np.ptp(numbers) >= 80


def test_a_folder_that_holds_something_is_refused_before_the_collection_is_read(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "recipe.yaml").write_text("members: {}\n")
    with pytest.raises(UserError, match="not empty"):
        vsekit.train(None, tmp_path / "nowhere.csv", tmp_path / "run")
    with pytest.raises(UserError, match="no such file"):
        vsekit.train(None, tmp_path / "nowhere.csv", tmp_path / "run", resume=True)
