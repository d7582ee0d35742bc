from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from vsekit.data.depth import eight_bits

RAMP = np.arange(256, dtype=np.uint8).reshape(16, 16)


@pytest.mark.parametrize(
    "values",
    [
        RAMP.astype(np.uint16) * 257,
        RAMP.astype(np.uint16),
        RAMP.astype(np.int32),
        RAMP.astype(np.int64) * 257,
        RAMP.astype(np.int32) * 8_000_000 - 2**30,
        RAMP / np.float32(255),
        RAMP / 255,
        RAMP.astype(np.float32),
        RAMP.astype(np.float32) * 257,
        RAMP.astype(np.float32) * 1e30 - 1e32,
        (RAMP / 127.5 - 1) * 1.7e308,
        RAMP.astype(np.float16) / 8,
        RAMP.astype(np.uint16) * 4,
    ],
    ids=lambda values: f"{values.dtype} {values.min():g} to {values.max():g}",
)
def test_whatever_the_range_the_picture_is_the_same(values: np.ndarray) -> None:
    assert np.array_equal(eight_bits(values), RAMP)


def test_what_fills_a_quarter_of_the_usual_range_keeps_its_brightness() -> None:
    dim = np.array([[0, 64 * 257]], np.uint16)
    assert eight_bits(dim).tolist() == [[0, 64]]
    assert eight_bits(np.array([[200, 255]]) / 255).tolist() == [[0, 255]]  # 55 of 255 are less
    assert eight_bits(np.array([[190, 255]]) / 255).tolist() == [[190, 255]]


@pytest.mark.parametrize(
    ("value", "expected"),
    [(np.uint16(65535), 255), (np.uint16(0), 0), (np.float32(0.5), 128), (np.int32(-7), 0), (np.float64(1e9), 0)],
)
def test_a_flat_picture_has_its_own_grey_where_its_range_is_known(value: np.generic, expected: int) -> None:
    assert eight_bits(np.full((2, 3), value)).tolist() == [[expected] * 3] * 2


def test_what_is_no_number_is_dark_and_infinity_is_an_end_of_the_range() -> None:
    values = np.array([[np.nan, -np.inf, 0, 0.6, 1, np.inf]])
    assert eight_bits(values).tolist() == [[0, 0, 0, 153, 255, 255]]
    assert eight_bits(np.full((2, 2), np.nan)).tolist() == [[0, 0], [0, 0]]


def test_truth_is_white() -> None:
    assert eight_bits(np.array([[True, False]])).tolist() == [[255, 0]]


KINDS = st.sampled_from([np.uint16, np.int16, np.int32, np.uint32, np.int64, np.float16, np.float32, np.float64])


@given(KINDS.flatmap(lambda kind: arrays.arrays(kind, st.tuples(st.integers(1, 4), st.integers(1, 5)))))
def test_brighter_stays_brighter_and_nothing_is_clipped(values: np.ndarray) -> None:
    shown = eight_bits(values)
    assert shown.dtype == np.uint8
    finite = np.isfinite(values)
    order = np.argsort(values[finite].astype(np.float64), kind="stable")
    assert (np.diff(shown[finite][order].astype(int)) >= 0).all()
    numbers = values[finite].astype(np.float64)
    if numbers.size and np.ptp(numbers / 2) > np.abs(numbers).max() / 1000:  # the ends are told apart
        assert shown[finite].min() < shown[finite].max()
