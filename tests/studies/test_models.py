from __future__ import annotations

from pathlib import Path

import pytest
from studies.models import WEIGHTS, measured
from tests.training.conftest import TINY, write_precomputed

from vsekit import recipes
from vsekit.data.readers import read
from vsekit.evaluation.meeting import score_runs
from vsekit.evaluation.protocols import evaluate
from vsekit.parts import merged
from vsekit.recipes.reproduce import Reproduced
from vsekit.training.loop import train
from vsekit.training.settings import RunSettings


def test_an_average_is_measured_with_and_without_banks_and_without_each_member(tmp_path: Path) -> None:
    data = write_precomputed(tmp_path / "data")
    pairs, runs = read(data), [tmp_path / "a", tmp_path / "b"]
    for seed, run in enumerate(runs):
        train(RunSettings.model_validate(merged(TINY, {"seed": seed, "querybank": {"weight": 2.0}})), pairs, run)
    test = pairs.split("test")

    def rsum(*chosen: Path, plain: bool = False) -> float:
        return evaluate(score_runs(chosen, test, plain=plain), test.picture_groups, test.caption_groups).rsum

    whole = evaluate(score_runs(runs, test), test.picture_groups, test.caption_groups)
    found = measured(Reproduced(recipes.find("flickr8k:best"), "full", "test", [runs], [whole], runs[0]), data)
    assert found["metrics"]["rsum"] == pytest.approx(rsum(*runs))
    assert found["plain"]["rsum"] == pytest.approx(rsum(*runs, plain=True))
    assert found["without"] == pytest.approx({"a": rsum(runs[1]), "b": rsum(runs[0])})
    assert found["by_weight"].keys() == {str(weight) for weight in WEIGHTS}
    assert len(set(found["by_weight"].values())) > 1
    assert found["cpu_minutes"] >= 0
    assert {len(found["gallery"][way][kind]) for way in ("i2t", "t2i") for kind in ("right", "wrong")} <= set(
        range(1, 5)
    )
