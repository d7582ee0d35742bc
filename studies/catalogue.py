"""What `vse train --data` makes of a small catalogue of photographs that the starter has not learned from.

    python -m studies.catalogue --flickr8k DIR [--pictures 1000] [--out runs/catalogue]

The catalogue is of Flickr8k's validation pictures, split anew by a hash of their names: the starter has not learned from them,
but its settings were chosen on them. Writes studies/results/catalogue.json: the validation and test rsum of each model, of what
is averaged, and of the starter as it comes.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import vsekit
from vsekit.data.pairs import Pairs
from vsekit.data.readers import read
from vsekit.data.readers.base import hash_split
from vsekit.files import write_json
from vsekit.memory import keep_freed_memory
from vsekit.progress import Progress

RESULTS = Path(__file__).parent / "results" / "catalogue.json"


def catalogue(collection: Pairs, pictures: int) -> Pairs:
    """The first so many validation pictures, with splits of their own."""
    val = collection.split("val")
    some = val.take(range(min(pictures, len(val.pictures))))
    return replace(some, pictures=[replace(p, split=hash_split(p.group)) for p in some.pictures])


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m studies.catalogue", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--flickr8k", type=Path, required=True, help="Flickr8k in Karpathy's JSON, with the pictures")
    parser.add_argument("--pictures", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=Path("runs/catalogue"))
    options = parser.parse_args()
    keep_freed_memory()
    pairs, began = catalogue(read(options.flickr8k), options.pictures), time.process_time()
    end = vsekit.train(None, pairs, options.out, resume=True, report=False, progress=Progress())
    minutes = (time.process_time() - began) / 60
    models = {"the average": options.out, "starter as it comes": "starter"}
    models |= {name: options.out / "members" / name for name in end["alone"]}
    rsums = {
        name: {split: round(vsekit.evaluate(model, pairs, split=split).rsum, 1) for split in ("val", "test")}
        for name, model in models.items()
    }
    found = {"splits": pairs.splits, "captions": len(pairs.captions), "averaged": end["members"]}
    write_json(RESULTS, found | {"cpu_minutes": round(minutes, 1), "rsum": rsums})
    print(RESULTS.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
