"""Fifty everyday queries, looked at: the five best pictures of each, for several models side by side.

    python -m studies.everyday MODEL … --flickr8k DIR --coco DIR --out FOLDER

The queries (studies/everyday.txt) were written before any answer was looked at. FOLDER gets contact sheets: a row a query, the
models' answers from left to right. Pictures are the validation splits of both collections together, without captions. What a
person counted on the sheets, right ones among five, is studies/results/everyday.json; docs/coco.md sums it up.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from studies.both import collections
from vsekit.search.models import load_search_model

QUERIES = (Path(__file__).parent / "everyday.txt").read_text(encoding="utf-8").splitlines()
BEST, ROWS, SIDE, GAP = 5, 10, 150, 24


def answers(model: str, pictures: list[Path]) -> list[list[int]]:
    """The best pictures of each query, as a search ranks them: with the model's querybank, if it has one."""
    search = load_search_model(model)
    search.get_ready(len(pictures))
    parts = [search.encode_images(pictures[start : start + 64]) for start in range(0, len(pictures), 64)]
    images = np.concatenate(parts)
    scores = search.encode_texts(QUERIES) @ images.T - (search.bank.owed(images, "image") if search.bank else 0)
    return np.argsort(-scores, axis=1, kind="stable")[:, :BEST].tolist()


def sheet(first: int, found: list[list[list[int]]], pictures: list[Path]) -> Image.Image:
    """ROWS queries from number `first` on."""
    wide = len(found) * (BEST * SIDE + GAP)
    page = Image.new("RGB", (wide, ROWS * (SIDE + GAP)), "white")
    draw, font = ImageDraw.Draw(page), ImageFont.load_default(16)
    for row, query in enumerate(QUERIES[first : first + ROWS]):
        top = row * (SIDE + GAP)
        draw.text((4, top + 2), f"{first + row + 1}. {query}", fill="black", font=font)
        for column, answered in enumerate(found):
            for place, picture in enumerate(answered[first + row]):
                small = Image.open(pictures[picture]).convert("RGB").resize((SIDE - 4, SIDE - 2))
                page.paste(small, (column * (BEST * SIDE + GAP) + place * SIDE, top + GAP))
    return page


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m studies.everyday", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--flickr8k", type=Path, required=True)
    parser.add_argument("--coco", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    both = collections(options.flickr8k, options.coco).values()
    pictures = [p.path for pairs in both for p in pairs.split("val").pictures if p.path is not None]
    found = [answers(model, pictures) for model in options.models]
    options.out.mkdir(parents=True, exist_ok=True)
    for first in range(0, len(QUERIES), ROWS):
        sheet(first, found, pictures).save(options.out / f"{first // ROWS + 1}.png")


if __name__ == "__main__":
    main()
