from __future__ import annotations

import numpy as np
import pytest

from vsekit.errors import UserError
from vsekit.evaluation.protocols import evaluate
from vsekit.evaluation.scorers import InnerProduct


@pytest.fixture(scope="module")
def embeddings() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    images = rng.standard_normal((5000, 8)).astype(np.float32)
    return images, (np.repeat(images, 2, axis=0) + rng.standard_normal((10_000, 8))).astype(np.float32)


GROUPS = np.arange(5000), np.repeat(np.arange(5000), 2)


def test_1k_is_the_mean_of_five_sequential_folds(embeddings: tuple[np.ndarray, np.ndarray]) -> None:
    images, captions = embeddings
    found = evaluate(InnerProduct(images, captions), *GROUPS, protocol="1k")
    folds = [
        evaluate(
            InnerProduct(images[f : f + 1000], captions[2 * f : 2 * f + 2000]),
            np.arange(1000),
            np.repeat(np.arange(1000), 2),
        )
        for f in range(0, 5000, 1000)
    ]
    assert found.i2t == pytest.approx({k: np.mean([f.i2t[k] for f in folds]) for k in folds[0].i2t})
    assert found.t2i == pytest.approx({k: np.mean([f.t2i[k] for f in folds]) for k in folds[0].t2i})
    assert found.rsum == pytest.approx(np.mean([f.rsum for f in folds]))
    assert [f["rsum"] for f in found.to_dict()["folds"]] == pytest.approx([f.rsum for f in folds])
    assert (found.n_images, found.n_captions) == (5000, 10_000)


def test_1k_ranks_as_many_whole_folds_as_there_are_and_says_so(embeddings: tuple[np.ndarray, np.ndarray]) -> None:
    images, captions = embeddings[0][:2407], embeddings[1][: 2 * 2407]
    groups = GROUPS[0][:2407], GROUPS[1][: 2 * 2407]
    found = evaluate(InnerProduct(images, captions), *groups, protocol="1k")
    folds = [
        evaluate(InnerProduct(images[f : f + 1000], captions[2 * f : 2 * f + 2000]), GROUPS[0][:1000], GROUPS[1][:2000])
        for f in (0, 1000)
    ]
    assert found.rsum == pytest.approx(np.mean([f.rsum for f in folds]))
    assert (len(found.folds), found.n_images, found.n_captions) == (2, 2000, 4000)
    assert "protocol 1k (2 folds of 1000)" in found.table()[-1]
    single = evaluate(InnerProduct(images[:1001], captions[:2002]), GROUPS[0][:1001], GROUPS[1][:2002], protocol="1k")
    assert "protocol 1k (1 fold of 1000)" in single.table()[-1]
    assert single.rsum == folds[0].rsum


def test_captions_in_any_order_find_their_fold(embeddings: tuple[np.ndarray, np.ndarray]) -> None:
    images, captions = embeddings
    order = np.random.default_rng(1).permutation(10_000)
    plain = evaluate(InnerProduct(images, captions), *GROUPS, protocol="1k-single")
    shuffled = evaluate(InnerProduct(images, captions[order]), GROUPS[0], GROUPS[1][order], protocol="1k-single")
    assert (shuffled.n_images, shuffled.n_captions) == (1000, 2000)
    assert shuffled.rsum == pytest.approx(plain.rsum, abs=0.3)  # near-ties may fall the other way


def test_in_person_search_any_image_of_the_person_counts() -> None:
    # Two persons, two images each; the caption of person 1 scores highest with that person's second image.
    images = np.array([[1, 0], [0.9, 0], [0, 0.1], [0, 1]], dtype=np.float32)
    captions = np.array([[1, 0], [0, 1]], dtype=np.float32)
    found = evaluate(InnerProduct(images, captions), np.array([0, 0, 1, 1]), np.arange(2), protocol="person")
    assert found.t2i["r1"] == 100
    assert found.t2i["map_at_r"] == 100


def test_person_search_without_persons_is_refused() -> None:
    with pytest.raises(UserError, match="person of its own"):
        evaluate(InnerProduct(np.eye(3), np.eye(3)), np.arange(3), np.arange(3), protocol="person")


@pytest.mark.parametrize("protocol", ["1k", "1k-single", "5k"])
def test_too_few_images_for_a_protocol_are_refused(protocol: str) -> None:
    with pytest.raises(UserError, match="too few"):
        evaluate(InnerProduct(np.eye(3), np.eye(3)), np.arange(3), np.arange(3), protocol=protocol)


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    with pytest.raises(UserError, match="pessimistic"):
        evaluate(InnerProduct(np.eye(3), np.eye(3)), np.arange(3), np.arange(3), ties="lucky")
    with pytest.raises(UserError, match="1k-single"):
        evaluate(InnerProduct(np.eye(3), np.eye(3)), np.arange(3), np.arange(3), protocol="2k")
