"""Pixels of more than 8 bits, brought to 8: 16-bit scans, depth and heat cameras, float TIFFs.

With l and h the least and the largest finite value, and t the smallest of 255, 65,535 and, for floating numbers, 1 that is not
below h:

    v ↦ 255 · v / t                where 0 ≤ l and h − l ≥ t/4:  what was made to be looked at keeps its brightness and contrast
    v ↦ 255 · (v − l) / (h − l)    else:  12-bit X-rays, heights, temperatures … are spread over the whole range

One flat value is scaled by t, where there is one. NaN and −∞ are the darkest, ∞ the brightest. Nothing finite is clipped.
"""

from __future__ import annotations

import math

import numpy as np

#: Values worked on at a time, so that a large picture takes little more memory than its 8 bits.
_BLOCK = 1 << 20


def eight_bits(values: np.ndarray) -> np.ndarray:
    """Numbers of any kind and shape → uint8 of that shape. What is uint8 is returned as it is.

    >>> eight_bits(np.array([[0, 257, 65535]], np.uint16)).tolist()
    [[0, 1, 255]]
    >>> eight_bits(np.array([[1000, 1500, 2000]], np.uint16)).tolist()
    [[0, 128, 255]]
    >>> eight_bits(np.array([[0.0, 0.4, 1.0]])).tolist()
    [[0, 102, 255]]
    """
    if values.dtype == np.uint8:
        return values
    if values.dtype == bool:
        return values.astype(np.uint8) * np.uint8(255)
    bottom, top = _range(values)
    span = top / 2 - bottom / 2  # halves, since the largest floats have no difference
    shown = np.zeros(values.shape, np.uint8)
    if not span:
        return shown
    step = max(1, _BLOCK // max(1, math.prod(values.shape[1:])))
    for start in range(0, len(values), step):
        block = np.nan_to_num(values[start : start + step].astype(np.float64), nan=bottom, posinf=top, neginf=bottom)
        block /= 2
        block -= bottom / 2
        block /= span
        block *= 255
        shown[start : start + step] = np.rint(block, out=block)
    return shown


def _range(values: np.ndarray) -> tuple[float, float]:
    """What becomes 0 and what becomes 255."""
    floating = values.dtype.kind == "f"
    finite = np.isfinite(values) if floating else np.True_
    if not finite.any():
        return 0.0, 0.0
    if floating:
        low, high = float(values.min(where=finite, initial=np.inf)), float(values.max(where=finite, initial=-np.inf))
    else:
        low, high = float(values.min()), float(values.max())
    top = next((top for top in ((1.0,) if floating else ()) + (255.0, 65535.0) if high <= top), None)
    if top is not None and low >= 0 and (high == low or high - low >= top / 4):
        return 0.0, top
    return low, high
