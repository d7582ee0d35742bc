from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vsekit.errors import UserError
from vsekit.evaluation.external import evaluate_embeddings, load_array
from vsekit.evaluation.protocols import evaluate
from vsekit.evaluation.scorers import InnerProduct


@pytest.fixture
def save(tmp_path: Path):
    def write(name: str, array: np.ndarray) -> Path:
        np.save(tmp_path / f"{name}.npy", array)
        return tmp_path / f"{name}.npy"

    return write


def embeddings(n: int = 12, dim: int = 6, per_image: int = 5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    images = rng.standard_normal((n, dim)) * 3
    return images, np.repeat(images, per_image, axis=0) + 4 * rng.standard_normal((n * per_image, dim))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_cosine_scales_rows_and_inner_product_takes_them_as_they_are(save, dtype) -> None:
    images, captions = (x.astype(dtype) for x in embeddings())
    files = save("images", images), save("captions", captions)
    groups = np.arange(12), np.repeat(np.arange(12), 5)
    unit = [x / np.linalg.norm(x.astype(np.float32), axis=1, keepdims=True) for x in (images, captions)]
    assert evaluate_embeddings(*files).i2t == evaluate(InnerProduct(*unit), *groups).i2t
    raw = evaluate(InnerProduct(images, captions), *groups)
    assert evaluate_embeddings(*files, similarity="inner_product").t2i == raw.t2i


def test_order_similarity_ranks_by_what_sticks_out(save) -> None:
    images = np.array([[1.0, 0.0], [0.0, 1.0]])
    captions = np.array([[0.5, 0.0], [0.0, 0.5]])  # each below its own image in every dimension: no violation
    found = evaluate_embeddings(
        save("images", images), save("captions", captions), captions_per_image=1, similarity="order"
    )
    assert found.i2t["r1"] == found.t2i["r1"] == 100


def test_group_files_pair_rows_in_any_order(save) -> None:
    images, captions = embeddings()
    order = np.random.default_rng(1).permutation(60)
    shuffled = evaluate_embeddings(
        save("images", images),
        save("captions", captions[order]),
        image_groups=save("ig", np.arange(12)),
        caption_groups=save("cg", np.repeat(np.arange(12), 5)[order]),
    )
    plain = evaluate_embeddings(save("images", images), save("plain", captions))
    assert (shuffled.i2t, shuffled.t2i) == (plain.i2t, plain.t2i)


def _with(array: np.ndarray, row: int, value: float) -> np.ndarray:
    array = array.copy()
    array[row] = value
    return array


IMAGES, CAPTIONS = embeddings()


@pytest.mark.parametrize(
    ("images", "captions", "message"),
    [
        (IMAGES[0], CAPTIONS, r"shape \(6,\)"),
        (IMAGES[:0], CAPTIONS, r"shape \(0, 6\)"),
        (IMAGES, CAPTIONS[:, :5], "5 dimensions"),
        (IMAGES.astype(int), CAPTIONS, "holds int64"),
        (_with(IMAGES, 7, np.nan), CAPTIONS, "row 7 holds NaN"),
        (IMAGES, _with(CAPTIONS, 59, np.inf), "row 59 holds NaN or infinity"),
        (_with(IMAGES, 3, 0), CAPTIONS, "row 3 is a zero vector"),
        (IMAGES, CAPTIONS[:-1], "59 captions are not 5 for each of 12 images"),
        (IMAGES, CAPTIONS[:36], "--captions-per-image 3"),
        (np.repeat(IMAGES, 5, axis=0), CAPTIONS, r"repeats every image 5 times: .*\[::5\]"),
        (np.array(["a"], dtype=object), CAPTIONS, "not a plain .npy array"),
    ],
)
def test_what_is_wrong_is_said(save, images: np.ndarray, captions: np.ndarray, message: str) -> None:
    with pytest.raises(UserError, match=message):
        evaluate_embeddings(save("images", images), save("captions", captions))


def test_a_zero_vector_is_fine_without_cosine(save) -> None:
    files = save("images", _with(IMAGES, 3, 0)), save("captions", CAPTIONS)
    assert evaluate_embeddings(*files, similarity="inner_product").n_images == 12


def test_missing_broken_and_half_given_files_are_named(save, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.npy.*no such file"):
        load_array(tmp_path / "none.npy")
    (tmp_path / "text.npy").write_text("hello")
    with pytest.raises(UserError, match=r"text\.npy.*not a plain"):
        load_array(tmp_path / "text.npy")
    files = save("images", IMAGES), save("captions", CAPTIONS)
    with pytest.raises(UserError, match="one side only"):
        evaluate_embeddings(*files, image_groups=save("groups", np.arange(12)))
    with pytest.raises(UserError, match=r"shape \(60,\)"):
        evaluate_embeddings(*files, image_groups=save("ig", np.arange(12)), caption_groups=save("cg", np.arange(9)))
    with pytest.raises(UserError, match="no similarity"):
        evaluate_embeddings(*files, similarity="euclid")
