"""Vectors in half precision, made single again where they are multiplied.

A half has 1 + 5 + 10 bits of sign, exponent and fraction, a single 1 + 8 + 23. Its bits put at the same places of a single, with
the sign moved to the top, are that number divided by 2¹¹²: the exponents' zeros lie 127 − 15 apart. So one multiplication makes
it whole, those below the smallest normal half too. Exact, and several times as fast as `astype`, which goes number by number.
"""

from __future__ import annotations

import numpy as np

from vsekit.errors import UserError

SINGLE, HALF = np.dtype("<f4"), np.dtype("<f2")
LARGEST = float(np.finfo(np.float16).max)
_BITS = np.uint32(0x8FFFE000).astype(np.int32)  # of a single, that a half fills once its sign is moved
_WHOLE = np.float32(2.0**112)


def single(block: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """(n, dim) float32 of the same in single or half precision, all finite. out: (n or more, dim) float32 to be written to."""
    if block.dtype != HALF:
        return block
    result = np.empty(block.shape, dtype=np.float32) if out is None else out[: len(block)]
    bits = result.view(np.int32)
    np.copyto(bits, block.view(np.int16))
    np.left_shift(bits, 13, out=bits)
    np.bitwise_and(bits, _BITS, out=bits)
    return np.multiply(result, _WHOLE, out=result)


def narrowed(vectors: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Vectors (n, dim) as a file of this type holds them. UserError for one that half precision can't hold."""
    if dtype == HALF and len(vectors) and (most := float(np.abs(vectors).max())) > LARGEST:
        raise UserError(
            f"a vector holds {most:g}, and half precision ends at {LARGEST:g}",
            remedy="Make the index with --dtype float32.",
        )
    return vectors.astype(dtype, copy=False)
