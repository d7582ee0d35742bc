"""The picture of a scene: stickers on a background, drawn twice as large and reduced, so that edges are smooth.

Lengths are in 96ths of the picture. Things keep to their own half or quarter of the picture, so nothing hides anything.
"""

from __future__ import annotations

import math
from functools import lru_cache
from random import Random

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from vsekit.data.scenes.grounds import WIDE, panorama
from vsekit.data.scenes.world import Scene, Thing

SIZE = 96
RADIUS = {"big": 13.4, "small": 8.4}
RIM = 1.1  # the white rim sets every colour off from every background
GAP = 2.2  # between the objects of a thing
PERIOD = {"big": 7.6, "small": 6.2}  # of the patterns
TILE = 64  # patterns and grain are cut from tiles of this side

RGB = tuple[int, int, int]
#: Fill, and the ink of its pattern: light, but dark on yellow.
PAINT: dict[str, tuple[RGB, RGB]] = {
    "red": ((214, 32, 38), (255, 232, 224)),
    "orange": ((246, 126, 10), (255, 246, 224)),
    "yellow": ((255, 220, 30), (120, 84, 10)),
    "green": ((24, 148, 64), (226, 250, 214)),
    "blue": ((28, 84, 216), (222, 236, 255)),
    "purple": ((126, 44, 168), (242, 222, 255)),
    "pink": ((248, 104, 176), (255, 240, 250)),
    "black": ((36, 36, 40), (214, 214, 216)),
}


def _arc(start: float, end: float, radius: float = 1, x: float = 0, y: float = 0, steps: int = 32) -> np.ndarray:
    angle = np.radians(np.linspace(start, end, steps))
    return np.stack([x + radius * np.cos(angle), y + radius * np.sin(angle)], 1)


def _star() -> np.ndarray:
    angle = np.radians(np.arange(10) * 36 - 90)
    radius = np.where(np.arange(10) % 2, 0.48, 1.08)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle) + 0.06], 1)


def _heart() -> np.ndarray:
    t = np.linspace(0, 2 * np.pi, 48)
    down = -(13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t))
    return np.stack([np.sin(t) ** 3, (down - 2.5) / 15.5], 1)


def _moon() -> np.ndarray:
    return np.concatenate([_arc(45, 315, 1.08, 0.16), _arc(286, 74, 0.8, 0.6)])


#: The outlines of each shape in a circle of radius about 1; a second outline is a hole.
OUTLINES: dict[str, list[np.ndarray]] = {
    "circle": [_arc(0, 360) * 0.95],
    "square": [np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)]) * 0.84],
    "triangle": [_arc(-90, 150, 1.08, 0, 0.2, steps=3)],
    "star": [_star()],
    "heart": [_heart()],
    "cross": [
        np.array(
            [(-1, -3), (1, -3), (1, -1), (3, -1), (3, 1), (1, 1), (1, 3), (-1, 3), (-1, 1), (-3, 1), (-3, -1), (-1, -1)]
        )
        / 3
    ],
    "ring": [_arc(0, 360), _arc(360, 0, 0.46)],
    "moon": [_moon()],
}


def _dense(outline: np.ndarray) -> np.ndarray:
    """The outline with about 60 points at equal distances, fine enough to fray."""
    closed = np.concatenate([outline, outline[:1]])
    along = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(closed, axis=0), axis=1))])
    at = np.union1d(along[:-1], np.linspace(0, along[-1], 60, endpoint=False))
    return np.stack([np.interp(at, along, closed[:, axis]) for axis in (0, 1)], 1)


FRAYED = {shape: [_dense(outline) for outline in outlines] for shape, outlines in OUTLINES.items()}
FRAY = np.random.default_rng(1).uniform(0.87, 1, 256)  # inwards, so that neighbours never touch


def draw(scene: Scene, pixels: int = 96) -> Image.Image:
    """The picture of a scene, an RGB image of `pixels` × `pixels`. Equal scenes give equal pictures."""
    side = 2 * pixels
    unit = side / SIZE
    rng = Random(scene["look"])
    left = rng.randrange((WIDE - 1) * side + 1)
    canvas = panorama(scene["background"], side).crop((left, 0, left + side, side))
    if rng.random() < 0.5:
        canvas = canvas.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    shade = Image.new("L", canvas.size)
    stickers = []
    for index, thing in enumerate(scene["things"]):
        own = Random(f"{scene['look']} {index}")
        for x, y in _centres(thing, own):
            sticker, rim, mask = _sticker(thing, unit, own)
            corner = round(x * unit - sticker.width / 2), round(y * unit - sticker.height / 2)
            shade.paste(110, (corner[0] + round(0.5 * unit), corner[1] + round(1.4 * unit)), rim)
            stickers.append((corner, sticker, rim, mask))
    canvas.paste((10, 12, 30), mask=shade.filter(ImageFilter.BoxBlur(0.9 * unit)))
    for corner, sticker, rim, mask in stickers:
        canvas.paste((255, 255, 255), corner, rim)
        canvas.paste(sticker, corner, mask)
    return canvas.reduce(2)


def _centres(thing: Thing, rng: Random) -> list[tuple[float, float]]:
    """Where the objects of a thing stand: in a row, a triangle or a square, somewhere about the thing's place."""
    count, radius = thing["count"], RADIUS[thing["size"]]
    step = 2 * (radius + RIM) + GAP
    x, y = thing["at"]
    upright = x != 0.5 if 0.5 in (x, y) else rng.random() < 0.5  # along the half that is the thing's place
    if count == 4:
        offsets = [(-0.5, -0.5), (0.5, -0.5), (-0.5, 0.5), (0.5, 0.5)]
    elif count == 3 and thing["size"] == "small":
        offsets = [(-0.5, 0.43), (0.5, 0.43), (0.0, -0.43)]
    else:
        row = [(i - (count - 1) / 2, 0.0) for i in range(count)]
        offsets = [(across, along) for along, across in row] if upright else row
    centre = []
    for axis, place in enumerate((x, y)):
        reach = max(abs(offset[axis]) for offset in offsets) * step + radius + RIM + 1
        slack = max(0.0, min(6.0, (SIZE / 2 if place == 0.5 else SIZE / 4) - reach))
        centre.append(place * SIZE + rng.uniform(-slack, slack))
    return [(centre[0] + dx * step, centre[1] + dy * step) for dx, dy in offsets]


def _sticker(thing: Thing, unit: float, rng: Random) -> tuple[Image.Image, Image.Image, Image.Image]:
    """One object: its colours, and the masks of its rim and of itself."""
    radius = RADIUS[thing["size"]] * unit * rng.uniform(0.93, 1)
    half = math.ceil(radius * 1.22 + (RIM + 1) * unit)
    box = (2 * half, 2 * half)
    turn = math.radians(rng.uniform(-12, 12))
    spin = np.array([[math.cos(turn), math.sin(turn)], [-math.sin(turn), math.cos(turn)]])
    fill, ink = PAINT[thing["colour"]]
    sticker, mask, rim = Image.new("RGB", box, fill), Image.new("L", box), Image.new("L", box)
    masking, rimming, painting = ImageDraw.Draw(mask), ImageDraw.Draw(rim), ImageDraw.Draw(sticker)

    left, top = rng.randrange(half), rng.randrange(half)
    window = (left, top, left + box[0], top + box[1])
    if thing["pattern"] != "plain":
        tile = _pattern(thing["pattern"], rng.randrange(4), unit, PERIOD[thing["size"]])
        sticker.paste(ink, mask=tile.crop(window))
    edge = tuple(round(0.62 * value) for value in fill)
    rough = thing["texture"] == "rough"
    for hole, outline in enumerate((FRAYED if rough else OUTLINES)[thing["shape"]]):
        if rough:
            outline = outline * np.roll(FRAY, left)[: len(outline), None]
        points = (outline @ spin * radius + half).ravel().tolist()
        closed = points + points[:4]
        masking.polygon(points, fill=0 if hole else 255)
        rimming.polygon(points, fill=0 if hole else 255)
        rimming.line(closed, fill=255, width=round(2 * RIM * unit), joint="curve")
        painting.line(closed, fill=edge, width=round(1.4 * unit), joint="curve")
    if thing["texture"] == "shiny":
        for light, tile in zip((255, 0), _gloss(box[0])):
            sticker.paste((light,) * 3, mask=tile)
    elif rough:
        for light, tile in zip((255, 0), _grain(unit)):
            sticker.paste((light,) * 3, mask=tile.crop(window))
    return sticker, rim, mask


def _mask(opacity: np.ndarray) -> Image.Image:
    return Image.fromarray((255 * np.clip(opacity, 0, 1)).astype(np.uint8))


@lru_cache(maxsize=64)
def _pattern(name: str, variant: int, unit: float, period: float) -> Image.Image:
    """Where the ink of a pattern goes, on a tile larger than any object; the variant turns it."""
    y, x = np.mgrid[0 : math.ceil(TILE * unit), 0 : math.ceil(TILE * unit)] / unit / period
    turn = math.radians({"striped": 45, "dotted": 15, "checked": 15}[name] * variant)
    u, v = x * math.cos(turn) + y * math.sin(turn), y * math.cos(turn) - x * math.sin(turn)
    if name == "striped":
        return _mask(u % 1 < 0.42)
    if name == "dotted":
        v, u = v / 0.87, u + 0.5 * (np.floor(v / 0.87) % 2)
        return _mask((u % 1 - 0.5) ** 2 + (0.87 * (v % 1 - 0.5)) ** 2 < 0.29**2)
    return _mask((u % 1 < 0.5) != (v % 1 < 0.5))


@lru_cache(maxsize=64)
def _gloss(side: int) -> tuple[Image.Image, Image.Image]:
    """The light and the dark of a shiny object, lit from the top left."""
    y, x = np.mgrid[0:side, 0:side] / side * 2 - 1
    slope = (x + y) / 2
    spot = np.exp(-(((x + 0.3) ** 2 + (y + 0.34) ** 2) / 0.035))
    return _mask(np.clip(-slope, 0, 1) * 0.75 + 0.95 * spot), _mask(np.clip(slope, 0, 1) * 0.9)


@lru_cache(maxsize=2)
def _grain(unit: float) -> tuple[Image.Image, Image.Image]:
    """The light and the dark specks of a rough object."""
    specks = np.random.default_rng(0).normal(size=(TILE, TILE)).astype(np.float32)
    side = math.ceil(TILE * unit)
    specks = np.asarray(Image.fromarray(specks).resize((side, side), Image.Resampling.BICUBIC))
    return _mask(0.24 * specks), _mask(-0.3 * specks)
