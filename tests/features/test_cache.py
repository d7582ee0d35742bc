from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.training.conftest import TINY

import vsekit
from vsekit.data.readers import read
from vsekit.data.views import ViewSettings
from vsekit.encoders.image import encoder_settings
from vsekit.errors import UserError
from vsekit.features.cache import stored_features
from vsekit.features.making import picture_features
from vsekit.features.reading import Reading
from vsekit.parts import merged
from vsekit.progress import QUIET, Progress
from vsekit.search.indexing import index
from vsekit.search.stores import open_store
from vsekit.training.loop import train
from vsekit.training.settings import RunSettings

VIEW = {"kind": "1C", "resize": 20, "pixels": 16}
FROZEN = {
    "model": {"image": {"encoder": {"kind": "small_cnn", "widths": [4, 8], "pixels": 16}, "pooling": "single"}},
    "data": {"view": VIEW, "eval_view": VIEW},
    "stages": {"first": {"epochs": 1, "freeze": ["image.encoder"]}, "second": None},
}


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Thirteen captioned pictures, and a cache with nothing in it."""
    monkeypatch.setenv("VSEKIT_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    for split, count in (("train", 9), ("val", 4)):
        (tmp_path / "data" / split).mkdir(parents=True)
        for i in range(count):
            path = tmp_path / "data" / split / f"{i}.png"
            Image.fromarray(rng.integers(0, 256, (25, 30, 3), dtype=np.uint8)).save(path)
            path.with_suffix(".txt").write_text(f"a dog {i}\n")
    return tmp_path / "data"


def vectors_of(place: Path) -> np.ndarray:
    with open_store(place) as store:
        items = sorted(store.all_items("image"), key=lambda item: item.path)
        return store.vectors([item.id for item in items])


def test_an_index_after_training_encodes_no_picture_of_the_training_set_again(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(RunSettings.model_validate(merged(TINY, FROZEN)), read(data), tmp_path / "run")
    found = index(tmp_path / "run", data / "train", tmp_path / "with")
    assert (found.added, found.encoded) == (9, 0)
    both = index(tmp_path / "run", data, tmp_path / "both")
    assert (both.added, both.encoded) == (13, 4)  # a small network's validation pictures are not kept
    monkeypatch.setenv("VSEKIT_CACHE", str(tmp_path / "empty"))
    assert index(tmp_path / "run", data / "train", tmp_path / "without").encoded == 9
    np.testing.assert_allclose(vectors_of(tmp_path / "with"), vectors_of(tmp_path / "without"), atol=1e-5)


def test_an_index_finds_the_features_that_are_named(tmp_path: Path, data: Path) -> None:
    small = {"sets": ["widths=[4,8]", "pixels=16"], "resize": 20}
    store = picture_features("small_cnn", vsekit.read(data), tmp_path / "store", splits=["train"], **small)
    assert len(store.ids) == 9
    settings = RunSettings.model_validate(TINY)
    train(
        settings,
        picture_features("small_cnn", read(data), tmp_path / "all", **small).attach(read(data)),
        tmp_path / "run",
    )
    found = vsekit.index(data, model=tmp_path / "run", out=tmp_path / "with", features=tmp_path / "store")
    assert (found.added, found.encoded) == (13, 4)
    assert vsekit.index(data, model=tmp_path / "run", out=tmp_path / "without").encoded == 13
    np.testing.assert_allclose(vectors_of(tmp_path / "with"), vectors_of(tmp_path / "without"), atol=1e-5)
    other = {
        "view": {"resize": 24},
        "weights": {"sets": ["widths=[4,16]", "pixels=16"]},
        "dtype": {"dtype": "float16"},
        "crops": {"view": "RC", "crops": 2},
    }
    for number, changed in enumerate(other.values()):
        picture_features("small_cnn", read(data), tmp_path / f"other{number}", **(small | changed))
        with pytest.raises(UserError, match="made with other"):
            vsekit.index(data, model=tmp_path / "run", out=tmp_path / "x", features=tmp_path / f"other{number}")
    with pytest.raises(UserError, match="no features here"):
        vsekit.index(data, model=tmp_path / "run", out=tmp_path / "x", features=data)


def test_what_is_kept_of_a_picture_is_named_by_all_that_changes_it(tmp_path: Path, data: Path) -> None:
    """Each asks for other features, and none is given those of another."""
    pairs, kept = read(data).split("val"), tmp_path / "cache" / "features"
    settings = encoder_settings({"kind": "small_cnn", "widths": [4, 8], "pixels": 16})
    encoder, spec = settings.build(), settings.model_dump(mode="json")

    def features(kind: str, **more: Any) -> np.ndarray:
        view = ViewSettings.model_validate(VIEW | {"kind": kind})
        found, broken = stored_features(encoder, spec, pairs, view, QUIET, **more)
        assert not broken
        return np.asarray(found.features)

    one = features("1C")
    assert features("1C", crops=1, keep_views=True).shape == one.shape == (4, encoder.dim)
    assert len(list(kept.iterdir())) == 1  # of a single view there is nothing to keep apart
    mean, apart = features("10C"), features("10C", keep_views=True)
    assert apart.shape == (4, 10, encoder.dim)
    np.testing.assert_allclose(apart.mean(1), mean, atol=1e-6)
    assert features("RC").shape == one.shape  # one crop is no pool
    assert features("RC", crops=3).shape == (4, 3, encoder.dim)
    assert len(list(kept.iterdir())) == 5


def test_two_at_once_encode_each_picture_once_and_both_have_all(tmp_path: Path, data: Path) -> None:
    pairs, view = read(data), ViewSettings.model_validate(VIEW)
    settings = encoder_settings({"kind": "small_cnn", "widths": [4, 8], "pixels": 16})
    encoder, spec = settings.build(), settings.model_dump(mode="json")
    told, seen, waiting = list[str](), list[int](), threading.Event()
    progress = Progress(quiet=True)
    progress.say = lambda text: (told.append(text), waiting.set())  # type: ignore[assignment, method-assign]

    def slowly(module: Any, given: tuple[Any, ...]) -> None:
        seen.append(len(given[0]))
        assert waiting.wait(60)  # the other has come while this one is at work

    encoder.register_forward_pre_hook(slowly)
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(stored_features, encoder, spec, pairs, view, progress) for _ in range(2)]
        one, other = (np.asarray(made.result()[0].features) for made in both)
    assert sum(seen) == 13
    assert told == ["Another process is making the features of these pictures: waiting for it."]
    assert np.array_equal(one, other)
    assert np.abs(one).min(0).max() > 0


def test_a_dtype_or_view_that_does_not_go_is_refused_before_the_collection_is_read(tmp_path: Path) -> None:
    for changed, message in (({"dtype": "float61"}, "did you mean 'float16'"), ({"crops": 2}, "whose crops are fixed")):
        with pytest.raises(UserError, match=message):
            picture_features("small_cnn", Reading(tmp_path / "nowhere"), tmp_path / "out", **changed)
    with pytest.raises(UserError, match="nowhere"):
        picture_features("small_cnn", Reading(tmp_path / "nowhere"), tmp_path / "out")
