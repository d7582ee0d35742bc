"""How much the number of training pictures, and the encoder, matter on COCO: one row of recipes/coco.yaml, trained on more and
more of them, and on what the first of its image encoders sees alone.

    python -m studies.curve --coco DIR [--row bow] [--pictures 3000 7000 15000] [--runs runs/curve] [--precision bf16-mixed]
    python -m studies.curve --coco DIR --alone --pictures 29536

The pictures are drawn once, each set within the next; passes, schedule and validation split are the row's. Plain scores.
Writes studies/results/coco-curve/ROW-N.json (ROW-alone-N.json), which docs/coco.md shows beside the whole row's.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from studies.both import with_features
from studies.models import cpu_minutes
from vsekit import recipes
from vsekit.data.pairs import Pairs
from vsekit.data.readers import read
from vsekit.evaluation.meeting import embedded, model_scorer
from vsekit.evaluation.protocols import evaluate
from vsekit.files import write_json
from vsekit.memory import keep_freed_memory
from vsekit.models.model import load_model
from vsekit.progress import Progress
from vsekit.training.loop import train

RESULTS = Path(__file__).parent / "results" / "coco-curve"


def some(pairs: Pairs, count: int) -> Pairs:
    """The first `count` training pictures of an order drawn once, and all validation pictures."""
    training = np.flatnonzero([picture.split == "train" for picture in pairs.pictures])
    drawn = set(np.random.default_rng(0).permutation(training)[:count].tolist())
    return pairs.take(i for i, picture in enumerate(pairs.pictures) if picture.split == "val" or i in drawn)


def first_encoder(pairs: Pairs, size: int = 1280) -> Pairs:
    """With the features of EfficientNet-lite0 alone, which stand first."""
    assert pairs.features is not None
    return replace(pairs, features=np.ascontiguousarray(pairs.features[:, :size]))


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m studies.curve", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--coco", type=Path, required=True, help="COCO in Karpathy's JSON, with the pictures")
    parser.add_argument("--row", default="bow", help="of recipes/coco.yaml")
    parser.add_argument("--pictures", type=int, nargs="+", default=[3000, 7000, 15000], metavar="N")
    parser.add_argument("--runs", type=Path, default=Path("runs/curve"), help="where runs go")
    parser.add_argument("--precision", default="32-true", help="of training, as for vse train")
    parser.add_argument("--alone", action="store_true", help="with EfficientNet-lite0's features alone")
    options = parser.parse_args()
    keep_freed_memory()
    settings, progress = recipes.load_settings(f"coco:{options.row}", ["querybank=null"]), Progress()
    pairs = with_features({"coco": read(options.coco)}, settings, settings.data.eval_view, progress)
    if options.alone:
        sets = ["querybank=null", "model.image.encoder=precomputed"]
        pairs, settings = first_encoder(pairs), recipes.load_settings(f"coco:{options.row}", sets)
    for count in options.pictures:
        part, name = some(pairs, count), f"{options.row}-{'alone-' * options.alone}{count}"
        run = options.runs / name
        train(settings, part, run, resume=True, precision=options.precision, progress=progress)
        val, model = part.split("val"), load_model(run)
        metrics = evaluate(model_scorer(model, *embedded(model, val)), val.picture_groups, val.caption_groups)
        captions = len(part.split("train").captions)
        found = {"row": options.row, "pictures": count, "captions": captions, "precision": options.precision}
        found |= {
            "encoders": 2 - options.alone,
            "cpu_minutes": round(cpu_minutes(run), 1),
            "metrics": metrics.to_dict(),
        }
        write_json(RESULTS / f"{name}.json", found)


if __name__ == "__main__":
    main()
