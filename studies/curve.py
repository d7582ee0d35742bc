"""How much the number of training pictures, and the encoder, matter on COCO: one row of recipes/coco.yaml, trained on more and
more of them, and on what the first of its image encoders sees alone.

    python -m studies.curve --coco DIR [--row bow] [--pictures 3000 7000 15000] [--runs runs/curve] [--precision bf16-mixed]
    python -m studies.curve --coco DIR --alone --pictures 29536
    python -m studies.curve --coco DIR --pictures 7000 --teachers bow bow-adopt

The pictures are drawn once, each set within the next; passes, schedule and validation split are the row's. Plain scores. With
--teachers, these rows are trained on the N pictures, and the row twice more, following their scores as well as the captions: on the
N pictures, and with all others beside them, whose captions it does not see.
Writes studies/results/coco-curve/ROW-N.json (ROW-alone-N, ROW-taught-N, ROW-unlabelled-N), which docs/coco.md shows.
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
from vsekit.training.settings import RunSettings

RESULTS = Path(__file__).parent / "results" / "coco-curve"
#: Pictures without captions in a batch, as many as others.
UNLABELLED = 256


def some(pairs: Pairs, count: int) -> Pairs:
    """The first `count` training pictures of an order drawn once, and all validation pictures."""
    training = np.flatnonzero([picture.split == "train" for picture in pairs.pictures])
    drawn = set(np.random.default_rng(0).permutation(training)[:count].tolist())
    return pairs.take(i for i, picture in enumerate(pairs.pictures) if picture.split == "val" or i in drawn)


def rest_without_captions(pairs: Pairs, count: int) -> Pairs:
    """All pictures, with the captions of `some` alone."""
    captioned = {picture.id for picture in some(pairs, count).pictures}
    return replace(pairs, captions=[c for c in pairs.captions if pairs.pictures[c.picture].id in captioned])


def taught(settings: RunSettings, teachers: list[Path], unlabelled: int | None) -> RunSettings:
    """The row following teachers' scores beside its own loss, on so many pictures without captions in each batch too."""
    (name, stage), *_ = settings.stages.items()
    own = stage.model_dump(mode="json")
    terms = [{"weight": 1, "loss": own["loss"]}, {"weight": 2, "loss": {"kind": "distillation", "temperature": 0.05}}]
    more = {"loss": {"kind": "weighted_sum", "terms": terms}, "teacher": teachers, "unlabelled": unlabelled}
    return RunSettings.model_validate(settings.model_dump(mode="json") | {"stages": {name: own | more}})


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
    parser.add_argument("--teachers", nargs="+", default=[], metavar="ROW", help="rows to be taught by")
    options = parser.parse_args()
    if options.alone and options.teachers:
        parser.error("--alone and --teachers: their results would have the names of others; give one of them")
    keep_freed_memory()
    progress = Progress()

    def row(name: str) -> RunSettings:
        encoder = ["model.image.encoder=precomputed"] if options.alone else []
        return recipes.load_settings(f"coco:{name}", ["querybank=null", *encoder])

    whole = recipes.load_settings(f"coco:{options.row}")
    pairs = with_features({"coco": read(options.coco)}, whole, whole.data.eval_view, progress)
    pairs = first_encoder(pairs) if options.alone else pairs

    def put_to(how: str, settings: RunSettings, part: Pairs, count: int, name: str = options.row) -> Path:
        """Trains and measures, where that is not done. name: of the row."""
        label = f"{name}-{how}{count}"
        run = options.runs / label
        train(settings, part, run, resume=True, precision=options.precision, progress=progress)
        val, model = part.split("val"), load_model(run)
        metrics = evaluate(model_scorer(model, *embedded(model, val)), val.picture_groups, val.caption_groups)
        train_part = part.split("train")
        found = {
            "row": name,
            "how": how.rstrip("-"),
            "pictures": count,
            "captions": len(train_part.captions),
            "without_captions": len(train_part.pictures) - count,
            "precision": options.precision,
            "encoders": 2 - options.alone,
            "cpu_minutes": round(cpu_minutes(run), 1),
            "metrics": metrics.to_dict(),
        }
        write_json(RESULTS / f"{label}.json", found)
        return run

    for count in options.pictures:
        part = some(pairs, count)
        if not options.teachers:
            put_to("alone-" * options.alone, row(options.row), part, count)
            continue
        teachers = [put_to("", row(name), part, count, name) for name in options.teachers]
        put_to("taught-", taught(row(options.row), teachers, None), part, count)
        student = taught(row(options.row), teachers, UNLABELLED)
        put_to("unlabelled-", student, rest_without_captions(pairs, count), count)


if __name__ == "__main__":
    main()
