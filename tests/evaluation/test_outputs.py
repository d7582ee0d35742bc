from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from tests.evaluation.test_ranks import Table

from vsekit.errors import UserError
from vsekit.evaluation.metrics import metrics
from vsekit.evaluation.outputs import best_items, write_csv, write_trec
from vsekit.evaluation.positives import Positives
from vsekit.evaluation.protocols import average
from vsekit.evaluation.ranks import count_ranks

SCORES = np.array([[9, 5, 7, 1], [8, 1, 6, 7]], dtype=np.float32)
POSITIVES = Positives.by_groups(np.arange(2), np.array([0, 0, 1, 1]))


def test_csv_has_a_line_a_run_and_a_fold(tmp_path: Path) -> None:
    one = metrics(count_ranks(Table(SCORES), POSITIVES))
    write_csv(tmp_path / "m.csv", {"a": one, "b": average([one, one])})
    with (tmp_path / "m.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["run"], row["fold"]) for row in rows] == [("a", ""), ("b", ""), ("b", "1"), ("b", "2")]
    assert all(float(row["i2t_r1"]) == 50 and float(row["rsum"]) == one.rsum for row in rows)


def test_best_items_equal_a_sort_over_several_blocks() -> None:
    scores = np.random.default_rng(0).integers(0, 50, (1100, 2100)).astype(np.float32)
    captions, caption_scores, images, _ = best_items(Table(scores), 12)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :12]
    assert np.array_equal(captions, order)
    assert np.array_equal(caption_scores, np.take_along_axis(scores, order, axis=1))
    assert np.array_equal(images, np.argsort(-scores.T, axis=1, kind="stable")[:, :12])


def test_trec_files_hold_queries_items_ranks_and_scores(tmp_path: Path) -> None:
    write_trec(tmp_path, Table(SCORES), POSITIVES, top=2, tag="t", image_ids=["x", "y"])
    assert (tmp_path / "i2t.run").read_text() == "x Q0 0 1 9 t\nx Q0 2 2 7 t\ny Q0 0 1 8 t\ny Q0 3 2 7 t\n"
    assert (tmp_path / "i2t.qrels").read_text() == "x 0 0 1\nx 0 1 1\ny 0 2 1\ny 0 3 1\n"
    assert (tmp_path / "t2i.run").read_text().splitlines()[:2] == ["0 Q0 x 1 9 t", "0 Q0 y 2 8 t"]
    assert (tmp_path / "t2i.qrels").read_text() == "0 0 x 1\n1 0 x 1\n2 0 y 1\n3 0 y 1\n"


def test_ids_that_trec_cannot_hold_are_refused(tmp_path: Path) -> None:
    for ids, message in ((["a b", "c"], "cannot be an id"), (["a", "a"], "1 different ids")):
        with pytest.raises(UserError, match=message):
            write_trec(tmp_path, Table(SCORES), POSITIVES, image_ids=ids)
    assert not list(tmp_path.iterdir())
