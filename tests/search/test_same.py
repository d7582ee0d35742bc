"""What is one and the same picture, saved otherwise, and what somebody worked on: drawn, and photographs where there are some."""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from studies.copies import copies, edits, saved
from tests.search.test_duplicates import Album, album, photo  # noqa: F401

from vsekit.data.decoding import decode
from vsekit.search.same import MOVED, SIDE, TINT, TONE, edited, same, small

#: A folder of photographs, e.g. flickr8k/images.
PHOTOGRAPHS = os.environ.get("VSEKIT_PHOTOGRAPHS")
#: So poor, or so small, that it may count as near, too.
POOR = "JPEG of quality 30"


def looked(data: bytes) -> np.ndarray:
    return small(decode(data, 4 * SIDE))


@pytest.mark.parametrize("seed", range(4))
def test_a_picture_saved_otherwise_is_the_same(seed: int) -> None:
    image = photo(seed)
    whole = looked(saved(image, "PNG"))
    others = [name for name, data in copies(image) if not same(whole, looked(data))]
    assert not others


@pytest.mark.parametrize("seed", range(4))
def test_a_picture_that_was_worked_on_is_not_the_same(seed: int) -> None:
    image = photo(seed)
    whole = looked(saved(image, "JPEG", quality=90))
    copies = [name for name, data in edits(image) if same(whole, looked(data))]
    assert not copies


def test_of_a_dark_picture_a_few_levels_are_an_edit() -> None:
    """8 % of it are less than a grey level or two, which a light picture may differ by."""
    dark = photo(0).point(lambda v: v // 8)
    whole, lighter = (looked(saved(one, "PNG")) for one in (dark, dark.point(lambda v: round(v * 1.08))))
    tone, light, _ = edited(whole, lighter)
    assert tone < 2
    assert tone > TINT * light
    assert not same(whole, lighter)


def test_tone_and_place_are_measured_in_grey_levels_and_pixels() -> None:
    image = photo(1).resize((SIDE, SIDE))
    a = np.asarray(image).astype(np.int64).clip(10, 240)
    tone, light, moved = edited(a.astype(np.uint8), (a + 5).astype(np.uint8))
    assert tone == pytest.approx(5, abs=1e-6)
    assert light == pytest.approx(np.sqrt((a.reshape(8, 8, 8, 8, 3).mean((1, 3)) ** 2).mean()), rel=1e-6)
    assert moved == pytest.approx(0, abs=1e-6)
    large = photo(1).resize((SIDE * 8, SIDE * 8))
    here, there = (small(large.crop((x, 0, x + SIDE * 7, SIDE * 7))) for x in (0, 4))
    assert edited(here, there)[2] == pytest.approx(4 / 7, rel=0.2), "4 pixels of 448 are 4/7 of 64"


def test_a_brighter_picture_is_listed_as_near_and_never_as_a_copy(album: Album) -> None:  # noqa: F811
    image = photo(0)
    album.put("first.png", image, 0)
    album.put("brighter.jpg", image.point(lambda v: round(min(255, v * 1.04))), 0, 0.05, quality=92)
    album.put("small.jpg", image.resize((240, 180), Image.Resampling.LANCZOS), 0, 0.1, quality=75)
    found = album.groups()
    assert found["copies"] == [("first.png", {"small.jpg": "same picture"})]
    assert found["near-copies"] == [("first.png", {"brighter.jpg": "alike"})]


def test_small_steps_make_no_copy_of_what_is_far_from_the_best(album: Album) -> None:  # noqa: F811
    """Each is one grey level lighter than the one before, which alone would be a copy."""
    image = photo(0).point(lambda v: min(v, 250))
    for step in range(4):
        lighter = image.point(lambda v, step=step: v + step)
        album.put(f"{step}.png", lighter, 0, 0.01 * step, **({"favourite": True} if not step else {}))
    found = album.groups()
    assert found["copies"] == [("0.png", {"1.png": "same picture"})]
    assert found["near-copies"] == [("0.png", {"2.png": "alike", "3.png": "alike"})]


@pytest.mark.skipif(not PHOTOGRAPHS, reason="needs VSEKIT_PHOTOGRAPHS, a folder of photographs")
def test_photographs_too() -> None:
    """Of what was worked on nothing visible may be taken for a copy; of copies hardly any may be missed."""
    files = sorted(Path(str(PHOTOGRAPHS)).rglob("*.jpg"))
    random.Random(1).shuffle(files)
    chosen = [file for file in files if min(Image.open(file).size) >= 2 * SIDE][:20]
    missed = wrong = asked = 0
    for file in chosen:
        data = file.read_bytes()
        image, whole = decode(data), looked(data)
        found = [same(whole, looked(one)) for name, one in copies(image) if name != POOR]
        missed, asked = missed + found.count(False), asked + len(found)
        wrong += sum(same(whole, looked(one)) for name, one in edits(image) if name.startswith(("brightness", "crop")))
    assert len(chosen) == 20
    assert wrong == 0
    assert missed <= 0.05 * asked


def test_the_limits_are_what_the_documents_say() -> None:
    text = (Path(__file__).parents[2] / "docs" / "search.md").read_text()
    assert f"at most {TONE} grey levels, {TINT:.0%} of the picture's own" in " ".join(text.split())
    assert f"within {MOVED} pixels of 64" in " ".join(text.split())
