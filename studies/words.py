"""What words beside vectors gain, and whether they cost plain sentences anything; the figures of docs/search.md.

python -m studies.words --data flickr8k [--model starter] [--out studies/results/words.json]

The pictures of a split lie in one folder, generated pages (receipts, letters, tickets: names, numbers and everyday words) in
another, and what is written on the pages is read from their pixels. Photographs are not read, which would take most of the time.
Every query is asked twice: of the vectors alone, and of both. Then captions come into the index, all but the one that asks.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from vsekit.data.readers import read
from vsekit.files import write_text
from vsekit.search.asking import Ask
from vsekit.search.indexing import index
from vsekit.search.items import Item
from vsekit.search.models import load_search_model
from vsekit.search.ocr import read_pictures
from vsekit.search.query import parse
from vsekit.search.searcher import Searcher
from vsekit.search.stores import Store, open_store
from vsekit.search.words import WRITTEN

PAGES, NAMES = 40, 200
FIRMS = ("Brauner", "Kowalczyk", "Okonkwo", "Fjellheim", "Marchetti", "Novotny", "Tanahashi", "Delacroix")
GOODS = ("garden chairs", "running shoes", "dog food", "beach towels", "red bicycle", "football shirt", "snow boots",
         "water bottle", "white wall paint", "black leather jacket")  # fmt: skip
KINDS = ("Invoice", "Receipt", "Delivery note", "Order confirmation")


class Vectors(Searcher):
    """Of which words are no part."""

    def _spoken(self, ask: Ask) -> None:
        return None


def page(number: int) -> tuple[list[str], str, str]:
    """The lines of a page, and two queries for it: by its number and name, and by what it is about."""
    rng = random.Random(number)
    firm, goods, kind = FIRMS[number % len(FIRMS)], GOODS[number // len(FIRMS) % len(GOODS)], rng.choice(KINDS)
    code = f"{rng.randrange(10_000, 100_000)}"
    lines = [f"{firm} Ltd", f"{kind} No. {code}", f"{rng.randrange(2, 9)} x {goods}", f"Total {rng.randrange(20, 900)}.50",
             "Thank you for your order"]  # fmt: skip
    return lines, f"the {kind.lower()} {code} from {firm}", f"{firm} {goods}"


def draw(lines: Sequence[str], path: Path) -> None:
    image = Image.new("RGB", (700, 60 + 90 * len(lines)), "white")
    pen = ImageDraw.Draw(image)
    for i, line in enumerate(lines):
        pen.text((40, 40 + 90 * i), line, fill="black", font=ImageFont.load_default(36))
    image.save(path)


def recalls(searcher: Searcher, asked: Sequence[tuple[str, str]]) -> dict[str, float]:
    """Of (query, name of the picture that is right), in per cent."""
    answers = searcher.search_many([Ask(parse(query), top=10) for query, _ in asked])
    places = []
    for (_, name), answer in zip(asked, answers):
        assert not isinstance(answer, Exception), answer
        names = [hit.item.meta["name"] for hit in answer.hits]
        places.append(names.index(name) if name in names else 10)
    return {f"R@{k}": round(100 * float(np.mean(np.array(places) < k)), 1) for k in (1, 5, 10)}


def measured(store: Store, model: Any, queries: dict[str, list[tuple[str, str]]]) -> dict[str, Any]:
    found = {}
    for label, asked in queries.items():
        both = {"vectors": recalls(Vectors(store, model), asked), "both": recalls(Searcher(store, model), asked)}
        found[label] = {"queries": len(asked), **both}
        print(label, found[label], flush=True)
    return found


def study(data: Path, split: str, name: str, scratch: Path) -> dict[str, Any]:
    pairs = read(data)
    pairs = pairs.take([i for i, picture in enumerate(pairs.pictures) if picture.split == split])
    model = load_search_model(name)
    for folder in ("photos", "papers"):
        (scratch / folder).mkdir()
    names = []
    for picture in pairs.pictures:
        assert picture.path is not None
        names.append(Path(picture.path).name)
        (scratch / "photos" / names[-1]).symlink_to(Path(picture.path).resolve())
    pages = {f"scan{i:03d}.png": page(i) for i in range(PAGES)}
    for file, (lines, *_) in pages.items():
        draw(lines, scratch / "papers" / file)
    captions: list[list[str]] = [[] for _ in names]
    for caption in pairs.captions:
        captions[caption.picture].append(caption.text)
    queries = {
        "sentences": [(texts[0].replace('"', ""), file) for texts, file in zip(captions, names)],
        "file names": [(file.rpartition(".")[0], file) for file in names[:NAMES]],
        "parts of file names": [(f"the picture {file.partition('_')[0]}", file) for file in names[:NAMES]],
        "pages by number and name": [(first, file) for file, (_, first, _) in pages.items()],
        "pages by what they are about": [(second, file) for file, (_, _, second) in pages.items()],
    }
    with open_store(scratch / "index", create=model.dim) as store:
        index(model, scratch, store)
        photographs = [item for item in store.all_items("image") if not str(item.meta["name"]).startswith("scan")]
        store.update([Item(**{**vars(item), "meta": {**item.meta, WRITTEN: ""}}) for item in photographs])
        read_pictures(store)
        result: dict[str, Any] = {"without captions": measured(store, model, queries)}
        ids = {item.meta["name"]: item for item in photographs}
        said = [
            Item(f"{ids[file].id}#{n}", "caption", ids[file].path, text, ids[file].id)
            for texts, file in zip(captions, names)
            for n, text in enumerate(texts[1:])
        ]
        # Words alone of them are asked for, so that they need no vectors.
        store.write(said, np.zeros((len(said), store.dim), np.float32))
        result["four captions of each picture in the index, the fifth asks"] = measured(store, model, queries)
    return {"model": name, "data": f"{data.name} {split}", "pictures": len(names), "pages": PAGES, **result}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--split", default="val")
    parser.add_argument("--model", default="starter")
    parser.add_argument("--out", type=Path, default=Path("studies/results/words.json"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        write_text(given.out, json.dumps(study(given.data, given.split, given.model, Path(scratch)), indent=1) + "\n")


if __name__ == "__main__":
    main()
