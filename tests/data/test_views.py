from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from pydantic import TypeAdapter, ValidationError

from vsekit.data.views import ViewSettings, chosen_crops, crops, normalised, resized


def view(name: str, **changes: object) -> ViewSettings:
    return ViewSettings.model_validate({"kind": name, **changes})


def coordinates(side: int) -> np.ndarray:
    """A picture whose pixel at (y, x) is (y, x, 7), so that every crop tells where it was cut."""
    y, x = np.mgrid[:side, :side]
    return np.stack([y, x, np.full_like(y, 7)], axis=-1).astype(np.uint8)


def test_a_bare_name_is_the_papers_view() -> None:
    settings = TypeAdapter(ViewSettings).validate_python("RC")
    assert (settings.resize, settings.pixels, settings.flip, settings.keep_aspect) == (256, 224, True, False)
    assert ViewSettings.model_validate(settings.model_dump()) == settings


def test_only_rc_is_random_and_only_1c_does_not_flip_by_default() -> None:
    views = {name: view(name) for name in ("1C", "10C", "RC")}
    assert [v.deterministic for v in views.values()] == [True, True, False]
    assert [v.flip for v in views.values()] == [False, True, True]
    assert [v.count for v in views.values()] == [1, 10, 1]


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"kind": "2C"}, "kind"),
        ({"kind": "1C", "pixels": 300}, "300"),
        ({"kind": "1C", "scale": [0.1, 1.0]}, "scale"),
        ({"kind": "RC", "scale": [0.5, 1.5]}, "scale"),
        ({"kind": "RC", "crop": 3}, "crop"),
        ({}, "kind"),
    ],
)
def test_impossible_views_are_refused_by_name(wrong: dict[str, object], word: str) -> None:
    with pytest.raises(ValidationError, match=word):
        ViewSettings.model_validate(wrong)


def test_1c_is_the_middle() -> None:
    (crop,) = crops(coordinates(10), view("1C", resize=10, pixels=6))
    assert crop.shape == (3, 6, 6)
    assert crop[0, :, 0].tolist() == [2, 3, 4, 5, 6, 7]
    assert crop[1, 0, :].tolist() == [2, 3, 4, 5, 6, 7]


def test_1c_with_flip_adds_the_mirror_image() -> None:
    plain, mirrored = crops(coordinates(10), view("1C", resize=10, pixels=6, flip=True))
    assert np.array_equal(mirrored, plain[:, :, ::-1])


def test_10c_is_four_corners_and_the_centre_with_their_mirror_images() -> None:
    ten = crops(coordinates(10), view("10C", resize=10, pixels=6))
    assert ten.shape == (10, 3, 6, 6)
    # The top left pixel tells the place of the five crops; in the mirror images it is the top right one.
    assert {(int(c[0, 0, 0]), int(c[1, 0, 0])) for c in ten[:5]} == {(0, 0), (0, 4), (4, 0), (4, 4), (2, 2)}
    for plain, mirrored in zip(ten[:5], ten[5:]):
        assert np.array_equal(mirrored, plain[:, :, ::-1])


def test_rc_reaches_every_place_and_flips_half_the_time() -> None:
    rng = np.random.default_rng(0)
    drawn = [chosen_crops(view("RC", resize=6, pixels=4), rng)[0] for _ in range(900)]
    places = {(c.top, c.left) for c in drawn}
    assert places == {(y, x) for y in range(3) for x in range(3)}
    assert 0.45 < sum(c.mirrored for c in drawn) / len(drawn) < 0.55
    assert not any(chosen_crops(view("RC", flip=False), rng)[0].mirrored for _ in range(50))


def test_rc_repeats_with_its_seed_and_needs_one() -> None:
    picture, settings = coordinates(40), view("RC", resize=40, pixels=20)
    once, again = (crops(picture, settings, np.random.default_rng(3)) for _ in range(2))
    assert np.array_equal(once, again)
    with pytest.raises(ValueError, match="generator"):
        crops(picture, settings)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32), low=st.floats(0.01, 1), side=st.integers(8, 64))
def test_crops_by_scale_stay_inside_and_cover_the_share_asked(seed: int, low: float, side: int) -> None:
    settings_ = view("RC", resize=side, pixels=8, scale=(low, 1.0))
    (crop,) = chosen_crops(settings_, np.random.default_rng(seed))
    assert 0 <= crop.top <= crop.top + crop.height <= side
    assert 0 <= crop.left <= crop.left + crop.width <= side
    rounding = 0.5 * (crop.height + crop.width) + 1
    assert low * side * side - rounding <= crop.height * crop.width <= side * side
    assert crops(coordinates(side), settings_, np.random.default_rng(seed)).shape == (1, 3, 8, 8)


def test_a_crop_by_scale_is_scaled_not_padded() -> None:
    constant = np.full((32, 32, 3), 90, np.uint8)
    assert (crops(constant, view("RC", resize=32, pixels=20, scale=(0.1, 0.2)), np.random.default_rng(0)) == 90).all()


def test_resizing_squeezes_by_default_and_keeps_the_middle_on_request() -> None:
    wide = np.zeros((40, 120, 3), np.uint8)
    wide[:, 40:80] = 200  # the middle third is bright
    image = Image.fromarray(wide)
    squeezed = resized(image, view("1C", resize=24, pixels=24))
    assert squeezed.shape == (24, 24, 3)
    assert squeezed.dtype == np.uint8
    assert squeezed[0, 3, 0] == 0
    assert squeezed[0, 12, 0] == 200
    middle = resized(image, view("1C", resize=24, pixels=24, keep_aspect=True))
    assert (middle[:, 1:-1] == 200).all()  # the outermost columns blend with what lies beside the square


@pytest.mark.parametrize("keep_aspect", [False, True])
def test_a_square_of_the_right_size_stays_as_it_is(keep_aspect: bool) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (24, 24, 3), dtype=np.uint8)
    settings_ = view("1C", resize=24, pixels=16, keep_aspect=keep_aspect)
    np.testing.assert_array_equal(resized(Image.fromarray(pixels), settings_), pixels)


def test_normalising_is_the_formula_and_leaves_its_input_alone() -> None:
    pixels = torch.randint(0, 256, (2, 5, 3, 4, 6), dtype=torch.uint8)
    before = pixels.clone()
    mean, std = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)
    result = normalised(pixels, mean, std)
    assert result.dtype == torch.float32
    for c in range(3):
        torch.testing.assert_close(result[:, :, c], (before[:, :, c].float() / 255 - mean[c]) / std[c])
    assert torch.equal(pixels, before)
    floats = torch.rand(3, 2, 2)
    kept = floats.clone()
    normalised(floats, mean, std)
    assert torch.equal(floats, kept)
