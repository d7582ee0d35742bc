"""Features, embeddings, mined lists and indexes made by workers are those of one process, bit for bit: also when a worker and
then a node are killed on the way, and when the work is stopped and goes on elsewhere."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.bulk.conftest import Machines
from tests.export.conftest import build
from tests.features.test_store import SPEC, encoder, make_pictures, view

from vsekit.bulk.ray import Ray
from vsekit.bulk.work import Work
from vsekit.data.pairs import Caption, Pairs
from vsekit.encoders.image.small_cnn import SmallCNN
from vsekit.errors import UserError
from vsekit.evaluation.positives import Positives
from vsekit.evaluation.scorers import InnerProduct
from vsekit.export import embeddings
from vsekit.export.embeddings import embed
from vsekit.export.sources import VSESource
from vsekit.features.extraction import extract
from vsekit.mining.mine import mine_scores
from vsekit.progress import Bar, Progress

#: A worker's seconds a batch: there must be work left when one is killed.
SLOWLY = 0.02


class Elsewhere(Ray):
    """Does the blocks in this process, with work that was sent through a pickle: what a worker does, without one."""

    def ready(self) -> None:
        pass

    def map(self, work: Work, blocks: range) -> Iterator[Any]:
        yield from map(pickle.loads(pickle.dumps(work)), blocks)


class Told(Progress):
    """Calls a function with what is done and its number."""

    def __init__(self, call: Callable[[int, int], None]) -> None:
        super().__init__(quiet=True)
        self._call = call

    @contextmanager
    def bar(self, name: str, unit: str = "") -> Iterator[Bar]:
        yield Bar(lambda done, total, note: self._call(done, total))


class Killing:
    """Kills a worker when a sixth of the work is done, and a node at a third."""

    def __init__(self, machines: Machines) -> None:
        self.machines, self.killed = machines, 0

    def __call__(self, done: int, total: int) -> None:
        if not self.killed and done >= total / 6:
            self.killed = self.machines.kill_worker("one") or self.machines.kill_worker("two")
            assert self.killed
        if "two" in self.machines.nodes and done >= total / 3:
            self.machines.kill("two")

    def both(self) -> bool:
        return bool(self.killed) and "two" not in self.machines.nodes


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def slowly(net: SmallCNN) -> SmallCNN:
    net.register_forward_hook(_wait)
    return net


def _wait(*_: Any) -> None:
    time.sleep(SLOWLY)


class SlowSource(VSESource):
    def encode_images(self, images: Sequence[Any]) -> np.ndarray:
        time.sleep(SLOWLY)
        return super().encode_images(images)


class SlowScores(InnerProduct):
    def block(self, images: Any, captions: Any) -> Any:
        time.sleep(SLOWLY)
        return super().block(images, captions)


@pytest.fixture(autouse=True)
def at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work is slow only where a worker is to be killed at it."""
    if "two_nodes" not in request.fixturenames:
        monkeypatch.setitem(globals(), "SLOWLY", 0.0)


@pytest.fixture
def pairs(tmp_path: Path) -> Pairs:
    """300 pictures, one of them broken, with two captions each."""
    pictures = make_pictures(tmp_path / "pictures", 300)
    assert pictures[70].path is not None
    pictures[70].path.write_bytes(b"no picture")
    captions = [Caption(text, number) for number in range(300) for text in ("a red wall", f"dog {number} , blue")]
    return Pairs(pictures, captions, tmp_path)


def features(pairs: Pairs, out: Path, engine: Ray | None = None, progress: Any = None) -> dict[str, bytes]:
    options: dict[str, Any] = {"batch_size": 2, "skip_broken": True, "engine": engine, "progress": progress}
    extract(slowly(encoder()), SPEC, pairs.pictures, view(), out, **options)
    return files(out)


def embedded(pairs: Pairs, out: Path, engine: Ray | None = None, progress: Any = None) -> dict[str, bytes]:
    progress = Told(progress or (lambda done, total: None))
    embed(SlowSource(build(), "model"), pairs, out, skip_broken=True, engine=engine, progress=progress)
    return files(out)


def mined(pairs: Pairs, out: Path, engine: Ray | None = None, progress: Any = None) -> dict[str, bytes]:
    rng = np.random.default_rng(0)
    # Few values, so that many scores are equal and ties must be broken the same way.
    images, captions = (rng.integers(-1, 2, (n, 8)).astype(np.float32) for n in (700, 900))
    own = Positives.by_groups(np.arange(700), np.arange(900) % 700).i2t
    sizes: dict[str, Any] = {"top_captions": 30, "top_images": 20, "panel": 8, "block": 128}
    mine_scores(SlowScores(images, captions), own, out, fingerprint="x", engine=engine, progress=progress, **sizes)
    return files(out)


COMMANDS = pytest.mark.parametrize("command", [features, embedded, mined])


@COMMANDS
def test_blocks_sent_elsewhere_give_the_files_of_one_process(command: Any, pairs: Pairs, tmp_path: Path) -> None:
    assert command(pairs, tmp_path / "sent", Elsewhere()) == command(pairs, tmp_path / "here")


@COMMANDS
def test_what_one_engine_began_the_other_finishes(
    command: Any, pairs: Pairs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = command(pairs, tmp_path / "whole")
    monkeypatch.setattr("vsekit.features.writer.FLUSH_SECONDS", 0)
    for name, engines in (("a", (None, Elsewhere())), ("b", (Elsewhere(), None))):

        def stop(done: int, total: int) -> None:
            if done > total / 4:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            command(pairs, tmp_path / name, engines[0], stop)
        assert command(pairs, tmp_path / name, engines[1]) == whole


@pytest.mark.slow
@COMMANDS
def test_a_killed_worker_and_a_killed_node_leave_the_files_of_one_process(
    command: Any, pairs: Pairs, tmp_path: Path, two_nodes: Machines
) -> None:
    killing = Killing(two_nodes)
    made = command(pairs, tmp_path / "cluster", Ray(two_nodes.address), killing)
    assert killing.both()
    assert made == command(pairs, tmp_path / "here")


def test_a_broken_picture_is_an_error_elsewhere_as_it_is_here(pairs: Pairs, tmp_path: Path) -> None:
    said = []
    for engine in (None, Elsewhere()):
        with pytest.raises(UserError) as error:
            embed(VSESource(build(), "model"), pairs, tmp_path / f"{engine}", engine=engine)
        said.append(str(error.value))
    assert said[0] == said[1]
    assert "70.png" in said[0]


def test_a_block_names_the_files_it_reads(pairs: Pairs) -> None:
    header = {"images": {"done": 16, "count": 300}, "captions": {"done": 0, "count": 600}}
    images = embeddings._Side("images", VSESource(build(), "model"), pairs, header)
    size = embeddings.BATCHES * embeddings.PICTURES
    assert images.paths(1) == [picture.path for picture in pairs.pictures[16 + size : 16 + 2 * size]]
    assert images.blocks == range(-(-284 // size))
    assert images.paths(images.blocks[-1])[-1] == pairs.pictures[-1].path
    assert embeddings._Side("captions", images.model, pairs, header).paths(0) == []
