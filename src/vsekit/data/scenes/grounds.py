"""The backgrounds, computed from noise and sines: for each a wide panorama, of which a picture shows a part."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from PIL import Image

WIDE = 4


@lru_cache(maxsize=16)
def panorama(background: str, side: int) -> Image.Image:
    """The panorama of a background, `side` high and `WIDE` times as wide."""
    rng = np.random.default_rng(list(PAINTERS).index(background))
    y, x = np.mgrid[0:side, 0 : WIDE * side] / side
    rgb = PAINTERS[background](rng, x, y)
    return Image.fromarray(np.clip(rgb, 0, 255).astype(np.uint8))


Painter = Callable[[np.random.Generator, np.ndarray, np.ndarray], np.ndarray]


def _noise(rng: np.random.Generator, like: np.ndarray, cells_x: float, cells_y: float, octaves: int = 3) -> np.ndarray:
    """Smooth noise about zero, `cells` bumps per picture side, and finer ones on top."""
    total = np.zeros_like(like)
    for octave in range(octaves):
        shape = (max(2, round(cells_y * 2**octave)), max(2, round(WIDE * cells_x * 2**octave)))
        coarse = Image.fromarray(rng.normal(size=shape).astype(np.float32))
        total += np.asarray(coarse.resize(like.shape[::-1], Image.Resampling.BICUBIC)) / 2**octave
    return total


def _blend(weight: np.ndarray, low: tuple[int, int, int], high: tuple[int, int, int]) -> np.ndarray:
    """(height, width, 3): `low` where the weight is 0, `high` where it is 1."""
    return np.array(low) + np.clip(weight, 0, 1)[..., None] * (np.array(high) - np.array(low))


def _sky(rng: np.random.Generator, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    air = _blend(y, (92, 160, 226), (190, 222, 246))
    cloud = np.clip(_noise(rng, x, 2, 4) * 0.8 - 0.1, 0, 1)[..., None] ** 0.7
    return air + cloud * 0.9 * (np.array([252, 253, 255]) - air)


def _grass(rng: np.random.Generator, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    blades = _noise(rng, x, 40, 7, 2)
    return _blend(0.45 + 0.2 * blades + 0.1 * _noise(rng, x, 2, 2), (74, 122, 48), (164, 204, 104))


def _sand(rng: np.random.Generator, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    ripples = np.sin(2 * np.pi * (9 * y + 0.9 * _noise(rng, x, 1.5, 1.5, 2)))
    return _blend(0.55 + 0.2 * ripples + 0.12 * rng.normal(size=x.shape), (212, 180, 128), (246, 226, 182))


def _night(rng: np.random.Generator, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    dark = _blend(y + 0.12 * _noise(rng, x, 1, 1), (14, 18, 48), (58, 52, 104))
    near = x.shape[0] // 96
    sparks = np.zeros_like(x)
    at = rng.integers(0, x.shape[0] - near, 260), rng.integers(0, x.shape[1] - near, 260), rng.uniform(0.3, 1, 260)
    for row, column, light in zip(*at):
        sparks[row : row + near + 1, column : column + near + 1] = light
    return dark + sparks[..., None] * (np.array([250, 246, 220]) - dark)


def _water(rng: np.random.Generator, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    waves = np.sin(2 * np.pi * (7 * y**0.8 + 0.18 * np.sin(2 * np.pi * 4 * x) + 0.35 * _noise(rng, x, 2, 3, 2)))
    sea = _blend(y, (92, 190, 204), (22, 112, 150))
    return sea + (np.clip(waves - 0.55, 0, 1) / 0.45)[..., None] * 0.6 * (np.array([222, 246, 246]) - sea)


def _snow(rng: np.random.Generator, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    drifts = _noise(rng, x, 1, 2.5, 2)
    return _blend(0.62 + 0.28 * drifts + 0.05 * rng.normal(size=x.shape), (204, 218, 236), (254, 254, 255))


def _bricks(rng: np.random.Generator, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    rows, length = 8, 4
    row = np.floor(y * rows).astype(int)
    along = x * length + 0.5 * (row % 2)
    tone = rng.uniform(0, 1, (rows, WIDE * length + 1))[row, along.astype(int)]
    mortar = ((y * rows) % 1 < 0.14) | (along % 1 < 0.07)
    clay = _blend(0.2 + 0.6 * tone + 0.1 * _noise(rng, x, 24, 24, 1), (160, 98, 78), (208, 150, 122))
    return np.where(mortar[..., None], np.array([226, 214, 200]), clay)


def _wood(rng: np.random.Generator, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    planks = 5
    plank = np.floor(y * planks).astype(int)
    grain = np.sin(2 * np.pi * (14 * y + 1.2 * _noise(rng, x, 0.8, 4, 2)))
    tone = rng.uniform(0, 0.3, planks)[plank]
    board = _blend(0.35 + tone + 0.16 * grain + 0.05 * _noise(rng, x, 3, 40, 1), (140, 96, 56), (214, 168, 112))
    return board * np.where((y * planks) % 1 < 0.05, 0.55, 1)[..., None]


PAINTERS: dict[str, Painter] = {
    "sky": _sky,
    "grass": _grass,
    "sand": _sand,
    "night": _night,
    "water": _water,
    "snow": _snow,
    "bricks": _bricks,
    "wood": _wood,
}
