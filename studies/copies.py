"""How far copies of photographs and pages of text are from their originals, by `search.same` and by the starter's vectors.

python -m studies.copies FOLDER [--count 60] [--vectors]
"""

from __future__ import annotations

import argparse
import io
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageEnhance, ImageFont

from vsekit.data.decoding import decode
from vsekit.data.readers.base import IMAGE_SUFFIXES
from vsekit.search.models import load_search_model
from vsekit.search.same import SIDE, difference, edited, same, small

WORDS = (
    "the",
    "of",
    "a",
    "picture",
    "dog",
    "house",
    "running",
    "under",
    "table",
    "seven",
    "blue",
    "river",
    "paper",
    "again",
)


def saved(image: Image.Image, format: str, **options: int) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format, **options)
    return buffer.getvalue()


def copies(image: Image.Image) -> Iterator[tuple[str, bytes]]:
    """A picture saved otherwise."""
    w, h = image.size
    for quality in (30, 60, 75, 95):
        yield f"JPEG of quality {quality}", saved(image, "JPEG", quality=quality)
    yield "WebP of quality 60", saved(image, "WEBP", quality=60)
    yield "PNG", saved(image, "PNG")
    for way in (Image.Resampling.LANCZOS, Image.Resampling.BILINEAR, Image.Resampling.BOX):
        yield f"half the size, {way.name.lower()}", saved(image.resize((w // 2, h // 2), way), "JPEG", quality=75)
    yield "half as large again", saved(image.resize((w * 3 // 2, h * 3 // 2)), "JPEG", quality=80)


def edits(image: Image.Image) -> Iterator[tuple[str, bytes]]:
    """A picture that somebody worked on."""
    w, h = image.size
    for enhance, name, factors in (
        (ImageEnhance.Brightness, "brightness", (0.92, 0.96, 1.04, 1.08)),
        (ImageEnhance.Contrast, "contrast", (0.9, 0.95, 1.05, 1.1)),
        (ImageEnhance.Color, "saturation", (0.9, 1.1, 1.2)),
    ):
        for factor in factors:
            yield f"{name} × {factor}", saved(enhance(image).enhance(factor), "JPEG", quality=90)
    for turn in (3, 6):
        hue, *rest = image.convert("HSV").split()
        turned = Image.merge("HSV", (hue.point([(v + turn) % 256 for v in range(256)]), *rest)).convert("RGB")
        yield f"hue + {turn * 360 / 256:.0f}°", saved(turned, "JPEG", quality=90)
    red, green, blue = image.split()
    warm = Image.merge("RGB", (red.point(lambda v: min(255, v * 1.04)), green, blue.point(lambda v: v * 0.96)))
    yield "4 % warmer", saved(warm, "JPEG", quality=90)
    for part in (0.005, 0.01):
        inside = (round(w * part), round(h * part), round(w * (1 - part)), round(h * (1 - part)))
        yield f"cropped by {part:.1%} on each side", saved(image.crop(inside), "JPEG", quality=90)
    yield "moved by 1.5 %", saved(image.crop((round(w * 0.015), 0, w, h)), "JPEG", quality=90)
    pasted = image.copy()
    pasted.paste(image.crop((0, 0, w // 10, h // 10)), (w // 2, h // 2))
    yield "a tenth of it pasted in", saved(pasted, "JPEG", quality=90)
    yield "mirrored", saved(image.transpose(Image.Transpose.FLIP_LEFT_RIGHT), "JPEG", quality=90)


def page(seed: int) -> Image.Image:
    """A page of words, of 1000 × 1400 pixels."""
    rng, image = random.Random(seed), Image.new("RGB", (1000, 1400), "white")
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(22)
    for y in range(60, 1340, 32):
        draw.text((60, y), " ".join(rng.choice(WORDS) for _ in range(13))[:72], fill="black", font=font)
    return image


def apart(a: bytes, b: bytes) -> tuple[float, float, float, bool]:
    """difference, tone, moved, and whether they are the same picture."""
    one, other = (small(decode(data, 4 * SIDE)) for data in (a, b))
    tone, _, moved = edited(one, other)
    return difference(one, other), tone, moved, same(one, other)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--vectors", action="store_true", help="the starter's cosines, too")
    given = parser.parse_args()
    files = sorted(path for path in given.folder.rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES)
    random.Random(0).shuffle(files)
    model = load_search_model("starter") if given.vectors else None
    found: dict[str, list[tuple[float, ...]]] = {}
    for file in [file for file in files if min(Image.open(file).size) >= 2 * SIDE][: given.count]:
        whole = file.read_bytes()
        image = decode(whole)
        made = {**dict(copies(image)), **dict(edits(image))}
        vectors = model.encode_images([whole, *made.values()]) if model else np.full((1 + len(made), 1), np.nan)
        for (name, data), vector in zip(made.items(), vectors[1:]):
            found.setdefault(name, []).append((*apart(whole, data), float(vectors[0] @ vector)))
    for seed in range(20):
        text = page(seed)
        for name, data in (
            ("text: at a half", saved(text.resize((500, 700), Image.Resampling.LANCZOS), "JPEG", quality=75)),
            ("text: at a third", saved(text.resize((333, 466), Image.Resampling.LANCZOS), "JPEG", quality=75)),
            ("text: another page", saved(page(1000 + seed), "PNG")),
        ):
            found.setdefault(name, []).append((*apart(saved(text, "PNG"), data), float("nan")))
    print("| | difference: least, median, most | tone | moved | taken for copies | cosine: least, median |")
    print("|---|---|---|---|---|---|")
    for name, rows in found.items():
        *three, taken, cosine = np.array(rows).T
        cells = [f"{one.min():.2f}, {np.median(one):.2f}, {one.max():.2f}" for one in three]
        near = "–" if np.isnan(cosine).any() else f"{cosine.min():.2f}, {np.median(cosine):.2f}"
        print("|", " | ".join([name, *cells, f"{int(taken.sum())} of {len(taken)}", near]), "|")


if __name__ == "__main__":
    main()
