"""Flickr8k and COCO as one collection, with the features of a frozen image encoder from the cache.

    python -m studies.both --flickr8k DIR --coco DIR

looks for pictures that stand twice, within and between collections and splits, with `diagnostics.duplicates`, and writes
studies/results/both/duplicates.json. `both` leaves out training pictures that are found beside a validation picture there.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from vsekit import recipes
from vsekit.data.pairs import Caption, Pairs
from vsekit.data.readers import read
from vsekit.data.views import ViewSettings
from vsekit.diagnostics.duplicates import duplicate_pictures
from vsekit.encoders.base import ImageEncoder
from vsekit.features.cache import stored_features
from vsekit.files import write_json
from vsekit.memory import keep_freed_memory
from vsekit.progress import Progress
from vsekit.training.settings import RunSettings

DUPLICATES = Path(__file__).parent / "results" / "both" / "duplicates.json"
#: Cosine, as seen from the mean, from which two photographs count as one.
THRESHOLD = 0.9


@cache
def collections(flickr8k: Path, coco: Path) -> dict[str, Pairs]:
    """The training and validation pictures of each."""
    return {name: read(folder).split("train", "val") for name, folder in (("flickr8k", flickr8k), ("coco", coco))}


def joined(parts: dict[str, Pairs]) -> Pairs:
    """One collection of several; pictures are named `collection/id`, and their splits stay."""
    pictures, captions = [], []
    for name, pairs in parts.items():
        first = len(pictures)
        captions += [Caption(c.text, c.picture + first, c.meta) for c in pairs.captions]
        pictures += [replace(p, id=f"{name}/{p.id}", group=f"{name}/{p.group}") for p in pairs.pictures]
    return Pairs(pictures, captions, Path("+".join(parts)))


def with_features(
    parts: dict[str, Pairs],
    settings: RunSettings,
    view: ViewSettings,
    progress: Progress,
    encoder: ImageEncoder | None = None,
) -> Pairs:
    """`joined`, with the features that the run's image encoder makes of the pictures under `view`.

    encoder: the same with the weights that it has in a model, and with its tail.

    They are kept by split, as `vse train` keeps those of a collection, so that either finds what the other made.
    """
    encoder = encoder or settings.model.image.encoder.build().eval()
    spec = settings.model.image.encoder.model_dump(mode="json")
    arrays, rows, source = [], [], None
    for pairs in parts.values():
        own = np.zeros(len(pairs.pictures), np.int64)
        for split in pairs.splits:
            stored, _ = stored_features(encoder, spec, pairs.split(split), view, progress)
            assert stored.features is not None
            own[[p.split == split for p in pairs.pictures]] = sum(map(len, arrays)) + np.arange(len(stored.features))
            arrays.append(stored.features)
            source = stored.feature_source
        rows += own.tolist()
    whole = joined(parts)
    pictures = [replace(picture, row=row) for picture, row in zip(whole.pictures, rows)]
    return replace(whole, pictures=pictures, features=np.concatenate(arrays), feature_source=source)


def names(flickr8k: Path, coco: Path, split: str) -> list[str]:
    """The pictures of a split of both, without training pictures that are validation pictures too."""
    leaks = set(json.loads(DUPLICATES.read_text(encoding="utf-8"))["left_out"])
    return [p.id for p in joined(collections(flickr8k, coco)).split(split).pictures if p.id not in leaks]


def both(
    flickr8k: Path,
    coco: Path,
    settings: RunSettings,
    progress: Progress,
    encoder: ImageEncoder | None = None,
    only: Iterable[str] | None = None,
) -> Pairs:
    """The training and validation splits of both, or `only` some of their pictures; of the latter alone features are made."""
    whole = [*names(flickr8k, coco, "train"), *names(flickr8k, coco, "val")]
    wanted = set(whole if only is None else only)
    parts = collections(flickr8k, coco)
    if only is not None:
        parts = {
            name: pairs.take(i for i, p in enumerate(pairs.pictures) if f"{name}/{p.id}" in wanted)
            for name, pairs in parts.items()
        }
    pairs = with_features(parts, settings, settings.data.eval_view, progress, encoder)
    return pairs.take(i for i, picture in enumerate(pairs.pictures) if picture.id in wanted)


def of(pairs: Pairs, name: str, split: str) -> Pairs:
    """The split of one of the collections."""
    chosen = (i for i, p in enumerate(pairs.pictures) if p.split == split and p.id.startswith(f"{name}/"))
    return pairs.take(chosen)


def find_duplicates(pairs: Pairs) -> dict[str, object]:
    """How many pairs of pictures stand twice, by collections and splits; those between train and val by name."""
    assert pairs.features is not None
    vectors = np.asarray(pairs.features)[[p.row for p in pairs.pictures]]
    found = duplicate_pictures(pairs.pictures, vectors, pairs.picture_groups, THRESHOLD)
    counts: Counter[str] = Counter()
    leaks = []
    for duplicate in found:
        ends = [pairs.pictures[i] for i in (duplicate.first, duplicate.second)]
        counts[" = ".join(sorted(f"{p.id.partition('/')[0]} {p.split}" for p in ends))] += 1
        if len({p.split for p in ends}) > 1:
            leaks.append(
                {"pictures": [p.id for p in ends], "cosine": round(duplicate.score, 3), "exact": duplicate.exact}
            )
    left_out = sorted({id_ for leak in leaks for id_ in leak["pictures"] if _split(pairs, id_) == "train"})
    return {"threshold": THRESHOLD, "pairs": dict(counts), "between_splits": leaks, "left_out": left_out}


def _split(pairs: Pairs, id_: object) -> str:
    return next(p.split for p in pairs.pictures if p.id == id_)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m studies.both", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--flickr8k", type=Path, required=True, help="Flickr8k in Karpathy's JSON, with the pictures")
    parser.add_argument("--coco", type=Path, required=True, help="COCO in Karpathy's JSON, with the pictures")
    options = parser.parse_args()
    keep_freed_memory()
    settings = recipes.load_settings("flickr8k:starter")
    parts = collections(options.flickr8k, options.coco)
    found = find_duplicates(with_features(parts, settings, settings.data.eval_view, Progress()))
    write_json(DUPLICATES, found)
    print(json.dumps(found["pairs"], indent=2))


if __name__ == "__main__":
    main()
