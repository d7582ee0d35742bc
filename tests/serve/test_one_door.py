"""The same file, by every way into vsekit: the same pixels, and the same embedding."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
import torch
from PIL import Image
from tests.data.files import every_kind
from tests.models.conftest import VIEW, WORDS, settings
from tests.search.memory import MemoryStore
from tests.serve.conftest import serving

from vsekit.data.pairs import Picture
from vsekit.data.pictures import PictureLoader
from vsekit.data.views import normalised
from vsekit.models.embedder import Embedder
from vsekit.models.model import VSE
from vsekit.search.indexing import index
from vsekit.search.models import VSEModel
from vsekit.search.rerank import Reranker
from vsekit.search.searcher import Searcher

FILES = every_kind()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    for name, data in FILES.items():
        if not name.endswith(("ppm", "jp2")):  # are not looked for in folders
            (folder / name).write_bytes(data)
    return folder


@pytest.fixture(scope="module")
def searcher(folder: Path) -> Searcher:
    torch.manual_seed(0)
    model = VSEModel(VSE(settings(), WORDS, VIEW), "tiny")
    store = MemoryStore(model.dim, {})
    assert index(model, folder, store).broken == {}
    return Searcher(store, model)


@pytest.fixture(scope="module")
def client(searcher: Searcher) -> Iterator[httpx.Client]:
    with serving(searcher) as client:
        yield client


def indexed(searcher: Searcher, path: Path) -> np.ndarray:
    item = next(item for item in searcher.store.all_items("image") if item.path == str(path))
    return searcher.store.vectors([item.id])[0]


NAMES = sorted(name for name in FILES if not name.endswith(("ppm", "jp2")))


@pytest.mark.parametrize("name", NAMES)
def test_an_indexed_picture_that_is_uploaded_finds_itself(
    name: str, folder: Path, searcher: Searcher, client: httpx.Client
) -> None:
    answer = client.post("/api/search/picture", files={"file": FILES[name]}, data={"top": "100"})
    assert answer.status_code == 200, answer.text
    (score,) = [hit["score"] for hit in answer.json()["hits"] if hit["name"] == name]
    assert score == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_every_way_in_gives_the_indexed_embedding(name: str, folder: Path, searcher: Searcher) -> None:
    path, data = folder / name, FILES[name]
    (folder.parent / "shard").write_bytes(b"before" + data + b"after")
    expected = indexed(searcher, path)
    model: VSE = searcher.model.model  # type: ignore[attr-defined]
    found = {
        "search": searcher.model.encode_images([path, data, io.BytesIO(data), Image.open(path)]),
        "shard": searcher.model.encode_images([f"{folder.parent}/shard#6+{len(data)}"]),
        "python": Embedder(model).encode_images([path, str(path), data, io.BytesIO(data), Image.open(path)]),
        "alone": Embedder(model).encode_images(data),
        "file alone": Embedder(model).encode_images(io.BytesIO(data)),
    }
    loader = PictureLoader([Picture("a", path, "", "")], model.view, broken="error")
    pixels = loader.load(np.array([0]), np.random.default_rng(0)).pixels
    encoder = model.image.encoder
    with torch.inference_mode():
        found["training"] = model.embed_images(normalised(pixels, encoder.mean, encoder.std)).numpy()  # type: ignore[union-attr]
    item = next(item for item in searcher.store.all_items("image") if item.path == str(path))
    found["re-ranking"] = np.stack(Reranker(model).embedded([item]))  # type: ignore[arg-type]
    for way, vectors in found.items():
        for vector in vectors:
            np.testing.assert_allclose(vector / np.linalg.norm(vector), expected, atol=1e-5, err_msg=way)


@pytest.mark.parametrize(
    "name", ["16 bits.png", "16 bits.tif", "12 of 16 bits.png", "32 bits.tif", "unit float.tif", "float.tif"]
)
def test_pictures_of_more_than_8_bits_are_found_by_their_8_bit_original(
    name: str, folder: Path, searcher: Searcher
) -> None:
    assert indexed(searcher, folder / name) @ indexed(searcher, folder / "grey.png") > 0.99
    other = indexed(searcher, folder / "clear bit.png")  # white
    assert indexed(searcher, folder / "grey.png") @ other < 0.99


@pytest.mark.parametrize("name", NAMES)
def test_a_thumbnail_shows_what_the_model_saw(
    name: str, folder: Path, searcher: Searcher, client: httpx.Client
) -> None:
    item = next(item for item in searcher.store.all_items("image") if item.path == str(folder / name))
    answer = client.get(f"/api/items/{item.id}/thumbnail", params={"size": 1024})
    shown = np.asarray(Image.open(io.BytesIO(answer.content)).resize((20, 20)), int)
    seen = PictureLoader([Picture("a", folder / name, "", "")], VIEW, broken="error")
    pixels = seen.load(np.array([0]), np.random.default_rng(0)).pixels[0, 0].permute(1, 2, 0).numpy()
    assert np.abs(shown[2:18, 2:18] - pixels).mean() < 10
