from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from vsekit.errors import UserError
from vsekit.evaluation.external import Embeddings
from vsekit.evaluation.positives import Positives
from vsekit.evaluation.scorers import Average, InnerProduct
from vsekit.mining.mine import MiningResult, mine, mine_scores
from vsekit.mining.run import mine_source
from vsekit.similarity.order import Order

RNG = np.random.default_rng(0)
N, M = 70, 210
# Small integers: products are exact in float32, and there are many ties.
IMAGES, CAPTIONS = (RNG.integers(-3, 4, (n, 5)).astype(np.float32) for n in (N, M))
IMAGE_GROUPS = RNG.permutation(np.arange(N) // 2)
CAPTION_GROUPS = RNG.permutation(np.arange(M) % (N // 2))
OWN = Positives.by_groups(IMAGE_GROUPS, CAPTION_GROUPS).i2t


def brute_force(scores: np.ndarray, own: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Items of other groups, best first, lower ones first among equals."""
    scores = np.where(own, -np.inf, scores)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(scores, order, axis=1)


def check(result: MiningResult, scores: np.ndarray) -> None:
    own = IMAGE_GROUPS[:, None] == CAPTION_GROUPS
    for found, found_scores, matrix, mask in (
        (result.captions, result.caption_scores, scores, own),
        (result.images, result.image_scores, scores.T, own.T),
    ):
        items, values = brute_force(matrix, mask, found.shape[1])
        assert np.array_equal(found, items)
        assert np.array_equal(found_scores, values)
        assert found.dtype == np.int32
    assert np.array_equal(result.positive_scores, scores[own])


@pytest.mark.parametrize(("panel", "block"), [(1000, 1000), (16, 32), (7, 5), (70, 1)])
def test_lists_equal_brute_force_whatever_the_blocks(tmp_path: Path, panel: int, block: int) -> None:
    scores = InnerProduct(IMAGES, CAPTIONS)
    result = mine_scores(scores, OWN, tmp_path / "m", top_captions=20, top_images=9, panel=panel, block=block)
    assert (result.captions.shape, result.images.shape) == ((N, 20), (M, 9))
    check(result, IMAGES @ CAPTIONS.T)


def test_the_longest_possible_lists_hold_all_negatives_and_one_more_is_refused(tmp_path: Path) -> None:
    groups = np.arange(8), np.repeat(np.arange(8), 3)
    result = mine(np.eye(8), np.repeat(np.eye(8), 3, axis=0), *groups, tmp_path / "m", top_captions=21, top_images=7)
    for i, row in enumerate(result.captions):
        assert set(row) == set(range(24)) - {3 * i, 3 * i + 1, 3 * i + 2}
    for kwargs in ({"top_captions": 22, "top_images": 7}, {"top_captions": 5, "top_images": 8}):
        with pytest.raises(UserError, match="of other groups"):
            mine(np.eye(8), np.repeat(np.eye(8), 3, axis=0), *groups, tmp_path / "other", **kwargs)
    assert not list(tmp_path.glob("other*"))


def test_random_embeddings_equal_brute_force_of_the_same_scores(tmp_path: Path) -> None:
    images, captions = (RNG.standard_normal((n, 16)).astype(np.float32) for n in (N, M))
    result = mine(images, captions, IMAGE_GROUPS, CAPTION_GROUPS, tmp_path / "m", top_captions=30, top_images=10)
    check(result, InnerProduct(images, captions).block(slice(0, N), slice(0, M)).numpy())


def test_other_similarities_and_ensembles_can_be_teachers(tmp_path: Path) -> None:
    order = mine(
        IMAGES,
        CAPTIONS,
        IMAGE_GROUPS,
        CAPTION_GROUPS,
        tmp_path / "o",
        top_captions=9,
        top_images=4,
        score=Order(squared=True),
    )
    excess = np.maximum(0, CAPTIONS - IMAGES[:, None])
    expected = brute_force(-(excess**2).sum(-1), IMAGE_GROUPS[:, None] == CAPTION_GROUPS, 9)[1]
    assert np.allclose(order.caption_scores, expected, atol=1e-4)
    twice = Average([InnerProduct(IMAGES, CAPTIONS)] * 2)
    check(mine_scores(twice, OWN, tmp_path / "a", top_captions=9, top_images=4), IMAGES @ CAPTIONS.T)


KILLED = """
import os, signal, sys
import numpy as np
from tests.mining.test_mine import *

class Deadly(InnerProduct):
    calls = 0
    def block(self, images, captions):
        self.calls += 1
        if self.calls > int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().block(images, captions)

settings = dict(top_captions=20, top_images=9, panel=10, block=50, save_seconds=0)
mine_scores(Deadly(IMAGES, CAPTIONS), OWN, sys.argv[1], **settings)
"""


def test_a_killed_run_leaves_no_lists_and_continues_to_the_same_result(tmp_path: Path) -> None:
    out = tmp_path / "m"
    root = Path(__file__).resolve().parents[2]
    environment = {"PYTHONPATH": f"{root}:{root / 'src'}", "PATH": ""}
    for calls in (2, 8, 13):  # in the first panel; in the second; later, having continued
        run = subprocess.run([sys.executable, "-c", KILLED, str(out), str(calls)], env=environment, check=False)
        assert run.returncode == -signal.SIGKILL
        assert not out.exists()
    asked: list[int] = []

    class Counting(InnerProduct):
        def block(self, images, captions):
            asked.append(1)
            return super().block(images, captions)

    settings = {"top_captions": 20, "top_images": 9, "panel": 10, "block": 50}
    result = mine_scores(Counting(IMAGES, CAPTIONS), OWN, out, **settings)
    check(result, IMAGES @ CAPTIONS.T)
    assert len(asked) < 1 + 7 * 5  # the probe, and fewer than all blocks
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m"]
    assert len(list(out.iterdir())) == 6
    mine_scores(InnerProduct(IMAGES, CAPTIONS), OWN, tmp_path / "whole", **settings)
    for file in out.iterdir():
        assert file.read_bytes() == (tmp_path / "whole" / file.name).read_bytes(), file.name


@pytest.mark.parametrize("panel", [10, 16, 1000])
def test_a_run_stopped_after_its_last_panel_does_not_mine_it_again(tmp_path: Path, panel: int) -> None:
    def stop(done: int, total: int) -> None:
        if done == total:
            raise KeyboardInterrupt

    settings = {"top_captions": 20, "top_images": 9, "panel": panel, "block": 50, "save_seconds": 0.0}
    with pytest.raises(KeyboardInterrupt):
        mine_scores(InnerProduct(IMAGES, CAPTIONS), OWN, tmp_path / "m", progress=stop, **settings)
    check(mine_scores(InnerProduct(IMAGES, CAPTIONS), OWN, tmp_path / "m", **settings), IMAGES @ CAPTIONS.T)


def test_room_for_the_lists_is_reserved_before_the_first_score_is_mined(tmp_path: Path) -> None:
    seen: list[set[str]] = []

    class Looking(InnerProduct):
        def block(self, images, captions):
            folder = tmp_path / "m.partial"
            seen.append({p.stem for p in folder.glob("*.npy") if p.stat().st_blocks * 512 >= p.stat().st_size})
            return super().block(images, captions)

    mine_scores(Looking(IMAGES, CAPTIONS), OWN, tmp_path / "m", top_captions=20, top_images=9)
    lists = {"captions", "caption_scores", "images", "image_scores", "positive_scores"}
    assert seen[1] >= lists  # seen[0] is the probe, before anything is written


def test_an_unfinished_run_of_another_model_is_not_continued(tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    settings = {"top_captions": 20, "top_images": 9, "panel": 10, "block": 50, "save_seconds": 0.0}
    with pytest.raises(KeyboardInterrupt):
        mine_scores(InnerProduct(-IMAGES, CAPTIONS), OWN, tmp_path / "m", progress=stop, **settings)
    check(mine_scores(InnerProduct(IMAGES, CAPTIONS), OWN, tmp_path / "m", **settings), IMAGES @ CAPTIONS.T)


def test_a_finished_run_is_kept_and_another_model_replaces_it_only_when_told(tmp_path: Path) -> None:
    groups = IMAGE_GROUPS, CAPTION_GROUPS
    first = mine(-IMAGES, CAPTIONS, *groups, tmp_path / "m", top_captions=5, top_images=5)
    stamp = (tmp_path / "m" / "captions.npy").stat().st_mtime_ns
    again = mine(-IMAGES, CAPTIONS, *groups, tmp_path / "m", top_captions=5, top_images=5)
    assert (tmp_path / "m" / "captions.npy").stat().st_mtime_ns == stamp
    assert again.info == first.info
    with pytest.raises(UserError, match="another model"):
        mine(IMAGES, CAPTIONS, *groups, tmp_path / "m", top_captions=5, top_images=5)
    assert (tmp_path / "m" / "captions.npy").stat().st_mtime_ns == stamp
    anew = mine(IMAGES, CAPTIONS, *groups, tmp_path / "m", top_captions=5, top_images=5, resume=False)
    check(anew, IMAGES @ CAPTIONS.T)
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match="other files"):
        mine(IMAGES, CAPTIONS, IMAGE_GROUPS, CAPTION_GROUPS, tmp_path, top_captions=5, top_images=5)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(UserError, match="not a folder of mined negatives"):
        MiningResult.load(tmp_path)


def test_the_distribution_holds_quantiles_of_positive_and_negative_scores(tmp_path: Path) -> None:
    result = mine(IMAGES, CAPTIONS, IMAGE_GROUPS, CAPTION_GROUPS, tmp_path / "m", top_captions=5, top_images=5)
    rows = json.loads((tmp_path / "m" / "mining.json").read_text())["distribution"]
    own = IMAGE_GROUPS[:, None] == CAPTION_GROUPS
    assert rows["positive"][3] == np.median((IMAGES @ CAPTIONS.T)[own])
    assert rows["negative, hardest of image"][3] == np.median(np.where(own, -np.inf, IMAGES @ CAPTIONS.T).max(1))
    assert len(result.summary()) == 5


def test_npy_files_are_mined_under_cosine_and_bad_ones_write_nothing(tmp_path: Path) -> None:
    images = RNG.standard_normal((6, 4))
    captions = np.repeat(images, 2, axis=0) * RNG.uniform(1, 9, (12, 1))
    np.save(tmp_path / "i.npy", images)
    np.save(tmp_path / "c.npy", captions)
    files = tmp_path / "i.npy", tmp_path / "c.npy"
    result = mine_source(Embeddings(*files, 2), tmp_path / "m", top_captions=3, top_images=2).lists
    unit = images / np.linalg.norm(images, axis=1, keepdims=True)
    scores = unit @ np.repeat(unit, 2, axis=0).T
    expected = brute_force(scores, np.arange(6)[:, None] == np.repeat(np.arange(6), 2), 3)[1]
    assert np.allclose(result.caption_scores, expected, atol=1e-6)
    with pytest.raises(UserError, match="12 captions are not 5"):
        mine_source(Embeddings(*files), tmp_path / "bad")
    images[2, 1] = np.nan
    np.save(tmp_path / "i.npy", images)
    with pytest.raises(UserError, match="row 2 holds NaN"):
        mine_source(Embeddings(*files, 2), tmp_path / "bad")
    assert not list(tmp_path.glob("bad*"))
