"""A catalogue of tiles as a satellite sees them, drawn: fields, roads, roofs, woods, water; with captions, and with dirt.

    python -m tools.walks.catalogue --out catalogue

writes OUT/tiles/*.jpg and OUT/catalogue.csv (columns `image`, `caption`, `region`), three captions a tile, without splits, in
Windows' encoding, as a spreadsheet exports it. Among its rows are an empty caption, a file that is not there, a file that is no
picture, and rows that stand there twice.
"""

from __future__ import annotations

import argparse
import csv
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

SIDE = 192
TILES = 360
REGIONS = ("Orléans", "Žatec", "Zürich", "Málaga")  # Windows has the Ž in its encoding, Latin-1 has not
EARTH, WHEAT, LAWN, FOREST, WATER, ASPHALT = (
    (148, 118, 86), (214, 190, 112), (104, 150, 70), (38, 78, 40), (32, 74, 128), (96, 96, 100),
)  # fmt: skip
ROOFS = {"red": (176, 62, 48), "grey": (150, 152, 156), "white": (236, 236, 232)}

Draw = ImageDraw.ImageDraw


def ground(rng: random.Random, colour: tuple[int, int, int], roughness: float = 14.0) -> Image.Image:
    """A colour with smooth noise in it."""
    noise = np.random.default_rng(rng.randrange(2**32))
    coarse = Image.fromarray(noise.normal(size=(12, 12)).astype(np.float32)).resize(
        (SIDE, SIDE), Image.Resampling.BICUBIC
    )
    rough = roughness * np.asarray(coarse)[..., None] + noise.normal(size=(SIDE, SIDE, 1)) * 5
    return Image.fromarray(np.clip(np.array(colour) + rough, 0, 255).astype(np.uint8))


def fields(rng: random.Random) -> tuple[Image.Image, list[str]]:
    colour, name = rng.choice([(WHEAT, "yellow"), (LAWN, "green"), (EARTH, "brown")])
    image, draw = _on(rng, colour)
    step = rng.randint(14, 26)
    for x in range(0, 2 * SIDE, step):
        draw.line((x, 0, x - SIDE // 2, SIDE), fill=tuple(c - 28 for c in colour), width=3)
    return image, [
        f"{name} fields with furrows",
        f"farmland: a {name} field seen from above",
        f"rows of crops on {name} land",
    ]


def road(rng: random.Random) -> tuple[Image.Image, list[str]]:
    colour, name = rng.choice([(LAWN, "meadows"), (EARTH, "bare earth")])
    image, draw = _on(rng, colour)
    a, b = rng.randint(20, SIDE - 20), rng.randint(20, SIDE - 20)
    crossing = rng.random() < 0.5
    ends = [((0, a), (SIDE, b)), ((b, 0), (a, SIDE))][: 1 + crossing]
    for start, end in ends:
        draw.line((*start, *end), fill=ASPHALT, width=18)
        draw.line((*start, *end), fill=(230, 230, 220), width=2)
    what = "a crossroads" if crossing else "a road"
    return image, [
        f"{what} through {name}",
        f"{what} with a white line, {name} on both sides",
        f"asphalt: {what} seen from above",
    ]


def roofs(rng: random.Random) -> tuple[Image.Image, list[str]]:
    name, colour = rng.choice(list(ROOFS.items()))
    image, draw = _on(rng, LAWN if rng.random() < 0.5 else ASPHALT)
    for x in range(14, SIDE - 30, 44):
        for y in range(14, SIDE - 30, 44):
            if rng.random() < 0.8:
                w, h = rng.randint(20, 32), rng.randint(20, 32)
                draw.rectangle((x + 4, y + 4, x + w + 4, y + h + 4), fill=(30, 30, 30))
                draw.rectangle((x, y, x + w, y + h), fill=colour)
    return image, [f"houses with {name} roofs", f"a dense village, its roofs {name}", f"many {name} roofs in rows"]


def wood(rng: random.Random) -> tuple[Image.Image, list[str]]:
    image, draw = _on(rng, FOREST)
    for _ in range(500):
        x, y, r = rng.randrange(SIDE), rng.randrange(SIDE), rng.randint(3, 8)
        shade = rng.randint(-18, 24)
        draw.ellipse((x - r, y - r, x + r, y + r), fill=(38 + shade, 78 + shade, 40 + shade))
    return image, ["a dense wood", "dark green trees, crown beside crown", "forest without a clearing"]


def water(rng: random.Random) -> tuple[Image.Image, list[str]]:
    if rng.random() < 0.5:
        image, draw = _on(rng, LAWN)
        at = rng.randint(50, SIDE - 50)
        points = [(at + 22 * np.sin(y / 28 + at), y) for y in range(-10, SIDE + 20, 6)]
        draw.line(points, fill=WATER, width=28, joint="curve")
        return image, [
            "a river winds through meadows",
            "a blue river between green banks",
            "a curved stream seen from above",
        ]
    image, draw = _on(rng, WATER)
    for _ in range(rng.randint(2, 5)):
        x, y = rng.randrange(20, SIDE - 30), rng.randrange(20, SIDE - 20)
        draw.polygon([(x, y), (x + 16, y - 4), (x + 22, y), (x + 16, y + 4)], fill=(245, 245, 245))
    return image, ["boats on open water", "white ships on a blue lake", "water with some boats"]


def tanks(rng: random.Random) -> tuple[Image.Image, list[str]]:
    image, draw = _on(rng, ASPHALT)
    r = rng.randint(16, 24)
    for x in range(r + 8, SIDE - r, 2 * r + 10):
        for y in range(r + 8, SIDE - r, 2 * r + 10):
            draw.ellipse((x - r, y - r, x + r, y + r), fill=(240, 240, 240), outline=(60, 60, 60), width=3)
    return image, [
        "round white storage tanks",
        "an industrial site with circular tanks",
        "white circles in rows on asphalt",
    ]


SCENES: tuple[Callable[[random.Random], tuple[Image.Image, list[str]]], ...] = (fields, road, roofs, wood, water, tanks)


def _on(rng: random.Random, colour: tuple[int, int, int]) -> tuple[Image.Image, Draw]:
    image = ground(rng, colour)
    return image, ImageDraw.Draw(image)


def write(out: Path, tiles: int = TILES, seed: int = 0) -> None:
    rng = random.Random(seed)
    (out / "tiles").mkdir(parents=True)
    rows: list[tuple[str, str, str]] = []
    for i in range(tiles):
        scene = SCENES[i % len(SCENES)]
        image, captions = scene(rng)
        name = f"tiles/{scene.__name__}-{i // len(SCENES):03}.jpg"
        image.filter(ImageFilter.GaussianBlur(0.6)).save(out / name, quality=90)
        region = rng.choice(REGIONS)
        rows += [
            (name, f"{caption} near {region}" if j == 0 else caption, region) for j, caption in enumerate(captions)
        ]
    rng.shuffle(rows)
    (out / "tiles" / "torn.jpg").write_bytes((out / "tiles" / "wood-000.jpg").read_bytes()[:900])
    rows += [rows[0], rows[1]]  # twice
    rows += [
        (rows[2][0], "", rows[2][2]),
        ("tiles/never-sent.jpg", "a harbour at night", REGIONS[0]),
        ("tiles/torn.jpg", "a picture whose end was lost", REGIONS[0]),
    ]
    with (out / "catalogue.csv").open("w", encoding="cp1252", newline="") as file:
        csv.writer(file).writerows([("image", "caption", "region"), *rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tiles", type=int, default=TILES)
    options = parser.parse_args()
    write(options.out, options.tiles)


if __name__ == "__main__":
    main()
