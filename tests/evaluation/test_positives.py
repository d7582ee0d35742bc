from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from tests.evaluation.test_ranks import Table

from vsekit.errors import UserError
from vsekit.evaluation.metrics import metrics
from vsekit.evaluation.positives import Positives, coco_positives
from vsekit.evaluation.ranks import count_ranks


def test_groups_pair_every_image_with_every_caption_of_its_group() -> None:
    positives = Positives.by_groups(np.array([7, 3, 7]), np.array([3, 7, 9, 7]))
    assert [positives.i2t.items[a:b].tolist() for a, b in zip(positives.i2t.starts, positives.i2t.starts[1:])] == [
        [1, 3],
        [0],
        [1, 3],
    ]
    assert positives.t2i.counts.tolist() == [1, 2, 0, 2]
    assert positives.t2i.asked.tolist() == [0, 1, 3]


def test_collections_without_a_pair_are_refused() -> None:
    with pytest.raises(UserError, match="belong together"):
        Positives.by_groups(np.arange(3), np.arange(3, 6))


@pytest.fixture
def judgements(tmp_path: Path) -> Path:
    """The package's files for a tiny COCO: images 10, 20; captions 1, 2 of image 10 and 3 of image 20."""
    for name, content in {
        "original_caption_to_image": {"1": [10], "2": [10], "3": [20]},
        "cxc_image_to_caption": {"10": [2, 1, 3], "20": [3]},
        "cxc_caption_to_image": {"1": [10], "3": [20, 10]},
    }.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    return tmp_path


def test_judgements_are_read_by_coco_ids_each_direction_for_itself(judgements: Path) -> None:
    positives = coco_positives("cxc", np.array([20, 10]), np.array([3, 1, 2]), folder=judgements)
    assert positives.i2t.counts.tolist() == [1, 3]
    assert positives.t2i.counts.tolist() == [2, 1, 0]  # caption 2 was not judged
    assert positives.caption_clusters.tolist() == [0, 1, 1]


def test_a_part_of_the_test_set_is_refused(judgements: Path) -> None:
    with pytest.raises(UserError, match="1 of 2 judged queries are not in this collection"):
        coco_positives("cxc", np.array([10]), np.array([1, 2, 3]), folder=judgements)


def test_captions_beyond_the_five_may_be_there_or_not(judgements: Path) -> None:
    more = coco_positives("cxc", np.array([10, 20]), np.array([1, 2, 3, 99]), folder=judgements)
    assert more.caption_clusters.tolist() == [0, 0, 1, 5]  # the unknown one on its own
    fewer = coco_positives("cxc", np.array([10, 20]), np.array([1, 3]), folder=judgements)
    assert fewer.i2t.counts.tolist() == [2, 1]


def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"vsekit\[eccv\]"):
        coco_positives("eccv", np.arange(1), np.arange(1))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_package_itself_computes_the_same_numbers() -> None:
    package = pytest.importorskip("eccv_caption")
    theirs = package.Metrics()
    caption_ids = theirs.coco_ids
    image_ids = np.array(list(dict.fromkeys(theirs.coco_gts["t2i"][int(c)][0] for c in caption_ids)))
    rng = np.random.default_rng(0)
    own = np.array([theirs.coco_gts["t2i"][int(c)][0] for c in caption_ids])
    scores = rng.standard_normal((5000, 25_000), dtype=np.float32) + 4 * (image_ids[:, None] == own)
    best = np.argsort(-scores, axis=1)[:, :60]
    i2t = {int(i): caption_ids[row].tolist() for i, row in zip(image_ids, best)}
    best = np.argsort(-scores.T, axis=1)[:, :60]
    t2i = {int(c): image_ids[row].tolist() for c, row in zip(caption_ids, best)}
    wanted = ("eccv_r1", "eccv_map_at_r", "eccv_rprecision", "cxc_recalls")
    expected = theirs.compute_all_metrics(i2t, t2i, target_metrics=wanted, Ks=(1, 5, 10))
    eccv, cxc = (
        metrics(count_ranks(Table(scores), coco_positives(kind, image_ids, caption_ids))) for kind in ("eccv", "cxc")
    )
    for side in ("i2t", "t2i"):
        for name in ("r1", "map_at_r", "rprecision"):
            # Two judged captions are not among the 25,000; the package counts them as never found.
            assert getattr(eccv, side)[name] == pytest.approx(100 * expected[f"eccv_{name}"][side], abs=0.02)
        for name in ("r1", "r5", "r10"):
            assert getattr(cxc, side)[name] == pytest.approx(100 * expected[f"cxc_{name}"][side], abs=1e-6)
