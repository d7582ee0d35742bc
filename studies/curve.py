"""How much the number of training pictures, and the encoder, matter on COCO: one row of recipes/coco.yaml, trained on more and
more of them, and on what the first of its image encoders sees alone.

    python -m studies.curve --coco DIR [--row bow] [--pictures 3000 7000 15000] [--runs runs/curve] [--precision bf16-mixed]
    python -m studies.curve --coco DIR --alone --pictures 29536
    python -m studies.curve --coco DIR --pictures 7000 --teachers bow bow-adopt
    python -m studies.curve --coco DIR --alone --pictures 29536 --teachers bow-adopt minilm --more FOLDER

The pictures are drawn once, each set within the next; passes, schedule and validation split are the row's. Plain scores. With
--teachers, these rows are trained on the N pictures, and the row twice more, following their scores as well as the captions: on the
N pictures, and with all others beside them, whose captions it does not see. --more adds a folder of pictures to these others; those
that look like a validation picture are left out.
Writes studies/results/coco-curve/ROW-N.json (ROW-alone-N, ROW-taught-N, ROW-unlabelled-N), which docs/coco.md shows.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import normalize

from studies.both import THRESHOLD, with_features
from studies.models import cpu_minutes
from vsekit import recipes
from vsekit.data.pairs import Pairs, Picture
from vsekit.data.readers import read
from vsekit.evaluation.meeting import embedded, model_scorer
from vsekit.evaluation.protocols import evaluate
from vsekit.files import write_json
from vsekit.memory import keep_freed_memory
from vsekit.models.model import load_model
from vsekit.parts import merged
from vsekit.progress import Progress
from vsekit.training.loop import train
from vsekit.training.settings import RunSettings

RESULTS = Path(__file__).parent / "results" / "coco-curve"
#: Pictures without captions in a batch, as many as others.
UNLABELLED = 256


def some(pairs: Pairs, count: int) -> Pairs:
    """The first `count` training pictures of an order drawn once, and all validation pictures."""
    captioned = set(pairs.caption_pictures.tolist())
    training = np.flatnonzero([p.split == "train" and i in captioned for i, p in enumerate(pairs.pictures)])
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


def first_encoder(settings: RunSettings) -> RunSettings:
    """The row with the first of its image encoders alone, which sees pictures at its own size."""
    whole = settings.model_dump(mode="json")
    encoder = whole["model"]["image"]["encoder"]["members"][0]
    view = {"resize": encoder["pixels"], "pixels": encoder["pixels"]}
    alone = {"model": {"image": {"encoder": encoder}}, "data": {"view": view, "eval_view": view}}
    return RunSettings.model_validate(merged(whole, alone))


def pictures_in(folder: Path) -> Pairs:
    """Training pictures without captions."""
    files = sorted(file for file in folder.iterdir() if file.suffix == ".jpg")
    return Pairs([Picture(file.name, file, "train", file.name) for file in files], [], folder)


def without_doubles(pairs: Pairs) -> Pairs:
    """Without pictures that have no captions and look like a validation picture: a cosine of THRESHOLD, as seen from the mean."""
    assert pairs.features is not None
    rows = [picture.row for picture in pairs.pictures]
    features = torch.from_numpy(np.asarray(pairs.features, np.float32))[rows]
    vectors = normalize(features - features.mean(0))
    val = torch.tensor([picture.split == "val" for picture in pairs.pictures])
    double = (vectors @ vectors[val].T).amax(1).ge(THRESHOLD).numpy()
    captioned = set(pairs.caption_pictures.tolist())
    return pairs.take(i for i in range(len(pairs.pictures)) if i in captioned or not double[i])


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
    parser.add_argument(
        "--more", type=Path, metavar="FOLDER", help="of further pictures, for the teachers to score; with --teachers"
    )
    options = parser.parse_args()
    if options.more and not options.teachers:
        parser.error("--more: pictures without captions are for teachers to score; give --teachers too")
    keep_freed_memory()
    progress = Progress()

    def row(name: str) -> RunSettings:
        settings = recipes.load_settings(f"coco:{name}", ["querybank=null"])
        return first_encoder(settings) if options.alone else settings

    parts = {"coco": read(options.coco).split("train", "val")}
    if options.more:
        parts["more"] = pictures_in(options.more)
    whole = row(options.row)
    pairs = without_doubles(with_features(parts, whole, whole.data.eval_view, progress))

    def put_to(how: str, settings: RunSettings, part: Pairs, count: int, name: str = options.row) -> Path:
        """Trains and measures, where that is not done. name: of the row."""
        how = "alone-" * options.alone + how
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
            put_to("", row(options.row), part, count)
            continue
        teachers = [put_to("", row(name), part, count, name) for name in options.teachers]
        put_to("taught-", taught(row(options.row), teachers, None), part, count)
        student = taught(row(options.row), teachers, UNLABELLED)
        put_to("unlabelled-", student, rest_without_captions(pairs, count), count)


if __name__ == "__main__":
    main()
