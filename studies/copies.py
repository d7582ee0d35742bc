"""How far copies of photographs and pages of text are from their originals, by `search.same` and by the starter's vectors.

python -m studies.copies FOLDER [--count 60]
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
from vsekit.search.same import SIDE, difference, small

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


def variants(image: Image.Image) -> Iterator[tuple[str, bytes]]:
    """What becomes of a picture: first what is a copy, then what is none."""
    w, h = image.size
    yield "JPEG of quality 30", saved(image, "JPEG", quality=30)
    yield "half the size", saved(image.resize((w // 2, h // 2), Image.Resampling.LANCZOS), "JPEG", quality=85)
    yield "WebP of quality 60", saved(image, "WEBP", quality=60)
    yield "PNG", saved(image, "PNG")
    yield "moved by 1.5 %", saved(image.crop((round(w * 0.015), 0, w, h)), "JPEG", quality=90)
    inside = (round(w * 0.01), round(h * 0.01), round(w * 0.99), round(h * 0.99))
    yield "cropped by 1 % on each side", saved(image.crop(inside), "JPEG", quality=90)
    yield "8 % brighter", saved(ImageEnhance.Brightness(image).enhance(1.08), "JPEG", quality=90)
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


def apart(a: bytes, b: bytes) -> float:
    one, other = (small(decode(data, 4 * SIDE)) for data in (a, b))
    return difference(one, other)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=60)
    given = parser.parse_args()
    files = sorted(path for path in given.folder.rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES)
    random.Random(0).shuffle(files)
    model = load_search_model("starter")
    found: dict[str, list[tuple[float, float]]] = {}
    for file in files[: given.count]:
        whole = file.read_bytes()
        made = dict(variants(decode(whole)))
        vectors = model.encode_images([whole, *made.values()])
        for (name, data), vector in zip(made.items(), vectors[1:]):
            found.setdefault(name, []).append((apart(whole, data), float(vectors[0] @ vector)))
    for seed in range(20):
        text, third = page(seed), page(seed).resize((333, 466), Image.Resampling.LANCZOS)
        for name, data in (
            ("text: at a third", saved(third, "JPEG", quality=75)),
            ("text: another page", saved(page(1000 + seed), "PNG")),
        ):
            found.setdefault(name, []).append((apart(saved(text, "PNG"), data), float("nan")))
    print("| | d / max(s, FLAT): least, median, most | cosine: least, median |\n|---|---|---|")
    for name, pairs in found.items():
        d, cosine = np.array(pairs).T
        print(
            f"| {name} | {d.min():.2f}, {np.median(d):.2f}, {d.max():.2f} | {cosine.min():.2f}, {np.median(cosine):.2f} |"
        )


if __name__ == "__main__":
    main()
