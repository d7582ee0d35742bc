"""Every pair comes exactly once an epoch, whatever the sizes of shards, batches, buffers and the number of processes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as examples
from hypothesis import settings
from hypothesis import strategies as st
from PIL import ImageColor
from tests.data.stream.shards import write_shards
from tests.training.processes import ends, start
from tests.training.stream.seen import Recorder, batches

from vsekit.errors import UserError
from vsekit.training.epoch import ahead
from vsekit.training.stream.batches import given, shares
from vsekit.training.world import World

SIZES = [7, 3, 11, 1, 6]


def flat(lists: list[list[str]]) -> list[str]:
    return [one for inner in lists for one in inner]


@settings(max_examples=200, deadline=None)
@examples(st.lists(st.integers(0, 30), min_size=1, max_size=5), st.integers(1, 20))
def test_a_batch_is_full_while_there_is_enough_and_nobody_gives_more_than_he_has(have: list[int], batch: int) -> None:
    gives = given(have, batch)
    assert sum(gives) == min(batch, sum(have))
    assert all(0 <= gave <= had for gave, had in zip(gives, have))
    if all(had >= share for had, share in zip(have, shares(batch, len(have)))):
        assert gives == shares(batch, len(have))


@pytest.mark.parametrize(("batch", "buffer"), [(8, 8), (8, 20), (5, 1000), (100, 100)])
def test_an_epoch_of_one_process_is_the_collection(tmp_path: Path, batch: int, buffer: int) -> None:
    said = write_shards(tmp_path, SIZES)
    orders = []
    for epoch in range(2):
        recorder = Recorder()
        made = [one for _, one in ahead(batches([*said], batch, buffer, World(), recorder, epoch=epoch), 0)]
        assert Counter(flat(recorder.batches)) == Counter(text for texts in said.values() for text in texts)
        assert [len(one.batch) for one in made] == [min(batch, 56 - n) for n in range(0, 56, batch)]
        assert [one.more for one in made] == [True] * (len(made) - 1) + [False]
        orders.append(flat(recorder.batches))
    assert orders[0] != orders[1]
    assert orders[0] != flat([*said.values()])


@pytest.mark.parametrize("stop", [1, 3, 5, 6])
def test_a_stream_goes_on_from_any_batch_with_the_same_batches(tmp_path: Path, stop: int) -> None:
    said = write_shards(tmp_path, SIZES)
    whole, first, rest = Recorder(), Recorder(), Recorder()
    all_of = [made for _, made in ahead(batches([*said], 8, 12, World(), whole), 0)]
    made = next(one for number, one in ahead(batches([*said], 8, 12, World(), first), 0) if number + 1 == stop)
    again = [one for _, one in ahead(batches([*said], 8, 12, World(), rest, made.position), stop)]
    assert rest.batches == whole.batches[stop:]
    assert [one.batch.epoch for one in again] == [one.batch.epoch for one in all_of[stop:]]
    for one, two in zip(again, all_of[stop:], strict=True):
        assert one.batch.images.equal(two.batch.images)  # type: ignore[union-attr, arg-type]
        assert one.position == two.position


def test_a_shard_that_changed_since_is_told(tmp_path: Path) -> None:
    said = write_shards(tmp_path, SIZES)
    _, made = next(ahead(batches([*said], 8, 12, World(), Recorder()), 0))
    write_shards(tmp_path, [1, 1, 1, 1, 1])
    with pytest.raises(UserError, match="not what it was when the run was interrupted"):
        batches([*said], 8, 12, World(), Recorder(), made.position)


def test_the_share_of_the_epoch_grows_from_0_and_ends_below_1(tmp_path: Path) -> None:
    said = write_shards(tmp_path, SIZES)
    made = [one.batch.epoch for _, one in ahead(batches([*said], 4, 4, World(), Recorder()), 0)]
    assert made[0] == 0
    assert all(0 < epoch <= 1 for epoch in made[1:])
    assert made[-1] == pytest.approx(52 / 56)  # all is read, so the total is known
    known = [one.batch.epoch for _, one in ahead(batches([*said], 4, 4, World(), Recorder(), known=56), 0)]
    assert known == [pytest.approx(n / 14) for n in range(14)]


def test_steps_are_known_once_all_is_read_or_an_epoch_was_seen(tmp_path: Path) -> None:
    said = write_shards(tmp_path, SIZES)
    assert batches([*said], 8, 12, World(), Recorder()).steps is None
    assert batches([*said], 8, 1000, World(), Recorder()).steps == 7
    assert batches([*said], 8, 12, World(), Recorder(), known=56).steps == 7


def test_shards_without_any_pair_are_an_error(tmp_path: Path) -> None:
    from tests.data.stream.shards import sample, write_members

    path = write_members(tmp_path / "0.tar", [*sample("1", 0, split="test"), ("2.txt", "No picture.")])
    with pytest.raises(UserError, match=r"no pair.*1 samples of the split 'test'") as error:
        batches([str(path)], 8, 12, World(), Recorder())
    assert "no image" in str(error.value)


def seen(processes: int, pattern: str, batch: int, buffer: int) -> list[dict[str, Any]]:
    command = ["-m", "tests.training.stream.seen", pattern, str(batch), str(buffer)]
    told = ends(start([command] * processes))
    assert [code for code, *_ in told] == [0] * processes, told
    return [json.loads(out) for _, out, _ in told]


@pytest.mark.parametrize(
    ("processes", "sizes"),
    [
        (2, [7, 3, 11, 1, 6]),
        pytest.param(2, [30, 1], marks=pytest.mark.slow),
        pytest.param(3, [7, 3, 11, 1, 6], marks=pytest.mark.slow),
        pytest.param(3, [20], marks=pytest.mark.slow),
    ],
)
def test_an_epoch_of_several_processes_is_the_collection_whatever_the_sizes_of_shards(
    tmp_path: Path, processes: int, sizes: list[int]
) -> None:
    said = write_shards(tmp_path, sizes)
    told = seen(processes, f"{tmp_path}/train-{{0..{len(sizes) - 1}}}.tar", 8, 9)
    everything, total = Counter(text for texts in said.values() for text in texts), 2 * sum(sizes)
    steps = [min(8, total - n) for n in range(0, total, 8)]
    found: Counter[str] = Counter()
    for rank, one in enumerate(told):
        assert [whole for *_, whole in one["totals"]] == steps
        for (of, own, whole), texts in zip(one["totals"], one["texts"], strict=True):
            assert own == len(texts)
            if whole < processes:
                assert (of, own) == (None, whole)  # each embeds all of what is left
            else:
                assert (of, own) == (whole, shares(whole, processes)[rank])
            found.update(texts if whole >= processes or rank == 0 else [])
        for text, colour in zip(flat(one["texts"]), one["colours"], strict=True):
            # The picture that came with a caption is the caption's, also where both have travelled.
            assert colour == pytest.approx(ImageColor.getrgb(text.split()[1]), abs=4)
        assert one["epochs"] == told[0]["epochs"]
    assert found == everything
