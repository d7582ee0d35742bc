from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageFile

from vsekit.data.pairs import Picture
from vsekit.data.pictures import PictureLoader
from vsekit.data.views import ViewSettings, crops, resized
from vsekit.errors import UserError

CENTRE = ViewSettings.model_validate({"kind": "1C", "resize": 32, "pixels": 24})
RANDOM = ViewSettings.model_validate({"kind": "RC", "resize": 32, "pixels": 24})


def picture(path: Path) -> Picture:
    return Picture(id=path.name, path=path, split="train", group=path.name)


@pytest.fixture
def pictures(tmp_path: Path) -> list[Picture]:
    """Twelve noisy PNGs of different sizes."""
    rng = np.random.default_rng(0)
    paths = [tmp_path / f"{i:02d}.png" for i in range(12)]
    for i, path in enumerate(paths):
        Image.fromarray(rng.integers(0, 256, (30 + i, 50 - i, 3), dtype=np.uint8)).save(path)
    return [picture(path) for path in paths]


def break_(broken: Picture) -> None:
    assert broken.path is not None
    broken.path.write_bytes(broken.path.read_bytes()[:600])


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("cache", [False, True])
def test_a_batch_is_what_a_plain_loop_makes_whatever_the_threads(
    pictures: list[Picture], workers: int, cache: bool
) -> None:
    loader = PictureLoader(pictures, RANDOM, broken="error", cache=cache, workers=workers)
    indices = np.array([5, 0, 11, 5, 7])
    for seed in range(3):  # the second time from the cache
        rng = generator(seed)
        expected = np.stack([crops(resized(pictures[i].open(), RANDOM), RANDOM, rng) for i in indices])
        loaded = loader.load(indices, generator(seed))
        assert loaded.pixels.shape == (5, 1, 3, 24, 24)
        assert loaded.pixels.dtype == torch.uint8
        assert np.array_equal(loaded.pixels.numpy(), expected)
        assert loaded.shown.tolist() == indices.tolist()


def test_the_cache_reads_each_file_once(pictures: list[Picture]) -> None:
    loader = PictureLoader(pictures, CENTRE, broken="error", cache=True)
    first = loader.load(np.arange(12), generator()).pixels
    for gone in pictures:
        assert gone.path is not None
        gone.path.unlink()
    assert torch.equal(loader.load(np.arange(12), generator()).pixels, first)


def test_several_random_crops_of_one_picture_are_cut_from_one_decode(pictures: list[Picture]) -> None:
    loaded = PictureLoader(pictures, RANDOM, broken="error", crops=4).load(np.array([3, 4]), generator(9))
    rng = generator(9)
    expected = np.stack(
        [np.concatenate([crops(resized(pictures[i].open(), RANDOM), RANDOM, rng) for _ in range(4)]) for i in (3, 4)]
    )
    assert np.array_equal(loaded.pixels.numpy(), expected)
    with pytest.raises(ValueError, match="RC"):
        PictureLoader(pictures, CENTRE, broken="error", crops=4)


def test_a_broken_picture_is_replaced_by_the_next_readable_one_and_reported(pictures: list[Picture]) -> None:
    for i in (4, 5, 11):
        break_(pictures[i])
    loader = PictureLoader(pictures, CENTRE, broken="replace", cache=True)
    for _ in range(2):
        loaded = loader.load(np.arange(12), generator())
        assert loaded.shown.tolist() == [0, 1, 2, 3, 6, 6, 6, 7, 8, 9, 10, 0]  # the last one wraps around
        assert torch.equal(loaded.pixels[4], loaded.pixels[6])
        assert torch.equal(loaded.pixels[11], loaded.pixels[0])
    assert set(loader.broken) == {"04.png", "05.png", "11.png"}
    assert "truncated" in loader.broken["04.png"]


def test_in_evaluation_a_broken_picture_is_an_error_that_names_the_file(pictures: list[Picture]) -> None:
    break_(pictures[4])
    loader = PictureLoader(pictures, CENTRE, broken="error")
    assert loader.load(np.array([3]), generator()).shown.tolist() == [3]
    with pytest.raises(UserError, match=r"04\.png.*truncated"):
        loader.load(np.arange(12), generator())


def test_a_truncated_jpeg_is_never_shown_half_grey(tmp_path: Path) -> None:
    assert not ImageFile.LOAD_TRUNCATED_IMAGES
    whole = tmp_path / "whole.jpg"
    Image.fromarray(generator().integers(0, 256, (400, 300, 3), dtype=np.uint8)).save(whole, quality=90)
    data = whole.read_bytes()
    cut_ = [picture(whole)]
    for share in (0.0, 0.001, 0.1, 0.5, 0.9, 0.99):
        path = tmp_path / f"{share}.jpg"
        path.write_bytes(data[: int(share * len(data))])
        cut_.append(picture(path))
    for resize in (32, 256):  # with and without decoding at a fraction of the size
        view = ViewSettings.model_validate({"kind": "1C", "resize": resize, "pixels": 24})
        loader = PictureLoader(cut_, view, broken="replace")
        assert loader.load(np.arange(len(cut_)), generator()).shown.tolist() == [0] * len(cut_)
        assert len(loader.broken) == len(cut_) - 1


@pytest.mark.parametrize(
    "content", [b"", b"not a picture", b"\x89PNG\r\n\x1a\n" + b"\0" * 40, b"GIF89a", b"BM" + b"\xff" * 60]
)
def test_whatever_stands_in_a_broken_file_training_goes_on(
    tmp_path: Path, pictures: list[Picture], content: bytes
) -> None:
    path = tmp_path / "broken"
    path.write_bytes(content)
    loader = PictureLoader([picture(path), *pictures], CENTRE, broken="replace")
    assert loader.load(np.array([0]), generator()).shown.tolist() == [1]
    assert loader.broken["broken"]


def test_a_missing_file_is_broken_too(tmp_path: Path, pictures: list[Picture]) -> None:
    loader = PictureLoader([*pictures, picture(tmp_path / "gone.png")], CENTRE, broken="replace")
    assert loader.load(np.array([12]), generator()).shown.tolist() == [0]
    assert "No such file" in loader.broken["gone.png"]


def test_when_nothing_can_be_read_training_says_so(pictures: list[Picture]) -> None:
    for one in pictures:
        break_(one)
    with pytest.raises(UserError, match="none of the pictures"):
        PictureLoader(pictures, CENTRE, broken="replace").load(np.array([2]), generator())


def test_a_collection_of_features_has_no_pictures_to_replace() -> None:
    only_features = Picture(id="a", path=None, split="train", group="a", row=0)
    with pytest.raises(UserError, match="features only"):
        PictureLoader([only_features], CENTRE, broken="replace").load(np.array([0]), generator())


@pytest.mark.parametrize("ahead", [0, 1, 3])
def test_prefetching_changes_nothing_but_the_waiting(pictures: list[Picture], ahead: int) -> None:
    batches = [generator(100 + i).integers(0, 12, 4) for i in range(5)]
    plain = PictureLoader(pictures, RANDOM, broken="error")
    expected = [plain.load(batch, generator(i)) for i, batch in enumerate(batches)]
    loader = PictureLoader(pictures, RANDOM, broken="error", ahead=ahead)
    got = list(loader.prefetch((batch, generator(i)) for i, batch in enumerate(batches)))
    assert len(got) == 5
    for one, other in zip(got, expected):
        assert torch.equal(one.pixels, other.pixels)
        assert np.array_equal(one.shown, other.shown)


def test_pixels_are_channels_last_in_memory(pictures: list[Picture]) -> None:
    pixels = PictureLoader(pictures, CENTRE, broken="error").load(np.arange(3), generator()).pixels
    assert pixels.flatten(0, 1).is_contiguous(memory_format=torch.channels_last)


def test_pictures_stand_upright(tmp_path: Path) -> None:
    """A camera held sideways writes EXIF orientation 6: turn by 90° clockwise to look at it."""
    side = np.zeros((40, 40, 3), np.uint8)
    side[:, :20] = 255  # left half bright in the file → upper half when upright
    exif = Image.Exif()
    exif[0x0112] = 6
    path = tmp_path / "sideways.png"
    Image.fromarray(side).save(path, exif=exif)
    shown = PictureLoader([picture(path)], CENTRE, broken="error").load(np.array([0]), generator()).pixels[0, 0]
    assert shown[:, 1].min() == 255
    assert shown[:, -2].max() == 0
