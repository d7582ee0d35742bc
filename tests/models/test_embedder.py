from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.models.conftest import VIEW, WORDS, sets, settings

from vsekit.errors import UserError
from vsekit.models.embedder import Embedder
from vsekit.models.model import VSE


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    path = tmp_path / "photo.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (24, 30, 3), dtype=np.uint8)).save(path)
    return path


def test_batches_do_not_change_what_comes_out(model: VSE) -> None:
    embedder = Embedder(model)
    images = list(np.random.default_rng(0).integers(0, 256, (5, 20, 20, 3), dtype=np.uint8))
    texts = ["a red wall", "dog", "a", "blue blue blue blue dog", "red"]
    np.testing.assert_allclose(embedder.encode_images(images, 2), embedder.encode_images(images), atol=1e-6)
    np.testing.assert_allclose(embedder.encode_texts(texts, 2), embedder.encode_texts(texts), atol=1e-6)
    np.testing.assert_allclose(embedder.encode_texts(texts)[3], embedder.encode_texts(texts[3])[0], atol=1e-6)


def test_one_counts_as_a_list_of_one_and_none_gives_none(model: VSE, photo: Path) -> None:
    embedder = Embedder(model)
    for one in (photo, str(photo), Image.open(photo), np.asarray(Image.open(photo))):
        assert embedder.encode_images(one).shape == (1, 12)
    assert embedder.encode_texts("a dog").shape == (1, 12)
    assert embedder.encode_images(path for path in [photo, photo]).shape == (2, 12)
    assert embedder.encode_images([]).shape == embedder.encode_texts([]).shape == (0, 12)


def test_a_rotated_photo_is_read_upright(model: VSE, photo: Path, tmp_path: Path) -> None:
    upright = Image.open(photo).convert("RGB")
    turned, exif = upright.transpose(Image.Transpose.ROTATE_90), Image.Exif()
    exif[0x0112] = 6  # "rotate 90° clockwise to view"
    turned.save(tmp_path / "turned.png", exif=exif)
    both = Embedder(model).encode_images([upright, tmp_path / "turned.png"])
    np.testing.assert_allclose(both[0], both[1], atol=1e-6)


def test_similarity_is_the_cosine(model: VSE, photo: Path) -> None:
    embedder = Embedder(model)
    images, texts = embedder.encode_images([photo, photo]), embedder.encode_texts(["a dog", "red", "blue"])
    np.testing.assert_allclose(embedder.similarity(images, texts), images @ texts.T, atol=1e-6)


def test_sets_of_different_sizes_score_as_they_do_alone() -> None:
    torch.manual_seed(0)
    embedder = Embedder(VSE(sets("scan"), WORDS, VIEW))
    images = embedder.encode_images(list(np.random.default_rng(0).integers(0, 256, (2, 20, 20, 3), dtype=np.uint8)))
    texts = ["a dog", "a red red red wall"]
    together = embedder.similarity(images, embedder.encode_texts(texts))
    alone = [embedder.similarity(images, embedder.encode_texts(text))[:, 0] for text in texts]
    np.testing.assert_allclose(together, np.stack(alone, 1), atol=1e-5)


def test_wrong_things_are_named(model: VSE, tmp_path: Path) -> None:
    embedder = Embedder(model)
    (tmp_path / "text.jpg").write_text("no picture")
    with pytest.raises(UserError, match="no such picture"):
        embedder.encode_images(tmp_path / "gone.jpg")
    with pytest.raises(UserError, match=r"text\.jpg"):
        embedder.encode_images([tmp_path / "text.jpg"])
    with pytest.raises(UserError, match="bytes"):
        embedder.encode_texts([b"a dog"])  # type: ignore[list-item]


def test_a_model_of_features_takes_features_and_says_so() -> None:
    model = VSE(settings(image={"encoder": "precomputed"}), WORDS, VIEW, image_dim=7)
    embedder = Embedder(model)
    features = np.random.default_rng(0).normal(size=(3, 7)).astype(np.float32)
    assert embedder.encode_images(features).shape == (3, 12)
    np.testing.assert_allclose(embedder.encode_images(features[0])[0], embedder.encode_images(features)[0], atol=1e-6)
    with pytest.raises(UserError, match="precomputed features"):
        embedder.encode_images(["photo.jpg"])
