from __future__ import annotations

from collections.abc import Iterator

import pytest

from vsekit import recipes
from vsekit.evaluation.throughput import items_per_second, multiples_of_slowest


class Clock:
    """Moves on only when the work says so."""

    def __init__(self, seconds: list[float]) -> None:
        self.now, self.seconds = 0.0, iter(seconds)

    def work(self) -> None:
        self.now += next(self.seconds)

    def __call__(self) -> float:
        return self.now


def test_it_is_items_over_seconds_of_the_best_turn_after_a_warm_up() -> None:
    clock = Clock([0.5, 4.0, 2.0, 8.0])  # the first is not counted, though the fastest
    assert items_per_second(60, clock.work, repeats=3, clock=clock) == 30.0


def test_it_runs_once_more_than_it_repeats() -> None:
    calls: list[int] = []
    ticks: Iterator[int] = iter(range(100))
    items_per_second(1, lambda: calls.append(1), repeats=5, clock=lambda: float(next(ticks)))
    assert len(calls) == 6


@pytest.mark.parametrize(("items", "repeats"), [(0, 1), (1, 0)])
def test_nothing_to_measure_is_refused(items: int, repeats: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        items_per_second(items, lambda: None, repeats=repeats)


def test_multiples_are_of_the_slowest() -> None:
    assert multiples_of_slowest({"a": 30.0, "b": 12.0, "c": 18.0}) == {"a": 2.5, "b": 1.0, "c": 1.5}


def test_rows_of_table_4_have_the_papers_multiples_and_gcn_is_the_slowest() -> None:
    rows = {row.name: row.published["oips"] for row in recipes.rows("vse_2ad") if "oips" in row.published}
    assert rows.pop("2.bert-rgp-coco") == [45.3]
    assert rows == {
        **{"4.lip": [4.6], "4.seq2seq": [1.8], "4.gcn": [1.0], "4.self_attention": [1.6], "4.ada_pool": [4.1]},
        **{"4.soft_pool": [5.1], "4.gpo": [4.3], "4.manual": [5.6], "4.ad_pool": [4.9]},
    }
