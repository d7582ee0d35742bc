"""One process's part of a stream: shared out by shards, drawn from a buffer, described by positions."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tests.data.stream.shards import jpeg, sample, write_members, write_shards
from tests.training.stream.seen import VIEW, source

from vsekit.data.readers.problems import Problem
from vsekit.training.stream.shuffled import Position, Shuffled, Source, begun, kept, shared_anew


@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_shards_are_shared_out_each_to_one_process(size: int) -> None:
    key = (0, 0, 3)
    parts = [begun(7, rank, size, np.random.default_rng(key)).pieces for rank in range(size)]
    assert sorted(piece for part in parts for piece in part) == [(shard, 0) for shard in range(7)]
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_the_buffer_holds_no_more_than_it_may_beyond_a_sample(tmp_path: Path) -> None:
    said = write_shards(tmp_path, [20, 20])
    shuffled = Shuffled(source([*said]), begun(2, 0, 1, np.random.default_rng(0)), 10)
    rng, count = np.random.default_rng(0), 0
    while shuffled.buffer:
        assert len(shuffled.buffer) <= 11  # two captions a sample
        count += len(shuffled.draw(min(4, len(shuffled.buffer)), rng))
    assert count == 80


@pytest.mark.parametrize("size", [1, 2, 3])
def test_what_is_left_can_be_shared_out_among_other_processes(tmp_path: Path, size: int) -> None:
    said = write_shards(tmp_path, [9, 2, 14, 5])
    rng = np.random.default_rng(0)
    before = [Shuffled(source([*said]), begun(4, rank, 2, np.random.default_rng(7)), 8) for rank in range(2)]
    texts = [pair.text for part in before for _ in range(2) for pair in part.draw(5, rng)]
    told = [vars(part.position(20)) for part in before]
    anew = shared_anew([kept(one) for one in told], size)
    assert [position.pairs for position in anew] == [20] * size
    assert sum(position.read for position in anew) == sum(part.read for part in before)
    for position in anew:
        part = Shuffled(source([*said]), position, 8)
        while part.buffer:
            texts += [pair.text for pair in part.draw(1, rng)]
    assert Counter(texts) == Counter(text for shard in said.values() for text in shard)


def test_only_the_shards_of_buffered_pairs_are_read_again(tmp_path: Path) -> None:
    said = write_shards(tmp_path, [4, 4, 4])
    (tmp_path / "train-0.tar").unlink()
    position = Position(pieces=[(2, 3)], buffer=[(1, 2, 1), (1, 0, 0)])
    shuffled = Shuffled(source([*said]), position, 3)
    assert [pair.text.split()[-2:] for pair in shuffled.buffer[:2]] == [["s1k2", "1"], ["s1k0", "0"]]
    assert {pair.text.split()[-2] for pair in shuffled.buffer[2:]} == {"s2k3"}


def test_broken_pictures_and_other_splits_never_enter_the_buffer(tmp_path: Path) -> None:
    broken = jpeg("red")[:200]
    members = [*sample("1", 0), ("2.jpg", broken), ("2.txt", "Broken."), *sample("3", 1, split="val")]
    path = write_members(tmp_path / "0.tar", [*members, *sample("4", 2, split="training")])
    problems: list[Problem] = []
    found = Source([str(path)], VIEW, ["train"], None, lambda count, _: range(count), problems.append)
    shuffled = Shuffled(found, Position([(0, 0)]), 100)
    assert [pair.position for pair in shuffled.buffer] == [(0, 0, 0), (0, 0, 1), (0, 3, 0), (0, 3, 1)]
    assert [(problem.at.field, problem.kind) for problem in problems] == [("2.jpg", "broken-picture")]
    assert found.others == {"val": 1}
