"""Makes the starter model that comes with vsekit: teachers and a student on Flickr8k and COCO; half precision, with its card.

    python -m studies.both --flickr8k DIR --coco DIR
    python -m studies.starter --flickr8k DIR --coco DIR [--only NAME …] [--keep]
    python -m studies.starter --flickr8k DIR --coco DIR --measure MODEL [--as NAME]

The runs are those of studies/starter.yaml; each can be killed and goes on. --measure puts any model to both validation splits
and writes studies/results/both/NAME.json. The weights of the encoders are those of pip packages and stay out.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

import yaml

from studies.both import both, of
from vsekit import recipes
from vsekit.data.pairs import Pairs
from vsekit.evaluation.meeting import embedded, model_scorer
from vsekit.evaluation.metrics import Metrics
from vsekit.evaluation.protocols import evaluate
from vsekit.evaluation.scorers import Average
from vsekit.files import write_json, write_text
from vsekit.memory import keep_freed_memory
from vsekit.models.model import VSE, load_model
from vsekit.parts import merged
from vsekit.progress import QUIET, Progress
from vsekit.seals import write_sealed
from vsekit.search.calibration import calibrate_pairs
from vsekit.training.loop import train
from vsekit.training.settings import RunSettings
from vsekit.training.teacher import read_texts

HERE = Path(__file__).parent
OUT = HERE.parent / "src" / "vsekit" / "models" / "starter"
RESULTS = HERE / "results" / "both"
COLLECTIONS = ("flickr8k", "coco")
NOTE = """
## What to know

- **It is a starter**: small, fast on a CPU, trained on {pictures:,} everyday photographs: people, animals, streets, rooms, meals,
  sports. It knows little of documents, screenshots, products, faces or anything not in such photographs.
- **Training data**: Flickr8k (Hodosh, Young and Hockenmaier 2013) and a quarter of COCO (Lin et al. 2014), of both Karpathy's
  training split. The photographs belong to their Flickr users and were given for research and education; none is in this package.
  Whether a model trained on them may serve your purpose is for you to decide.
- **How it reads words**: with MiniLM, which has read much more than captions, and with a learned vector of each of the 6,000
  most frequent words of the captions beside it (`text.words`).
- **How it learned**: from the captions, and from the scores of {teachers} teachers trained on the same photographs
  (`distillation`).
- **Encoders**: EfficientNet-lite0 and lite2 (ImageNet; Apache-2.0) and MiniLM (MIT), read from their pip packages. MiniLM
  was trained on pairs of sentences, captions of COCO and Flickr30K among them, and Flickr30K contains Flickr8k's pictures: the
  figures lean to the good side.
- **Made by** `python -m studies.starter`; the figures are those of `--measure`, on the model as it is here, at half precision.

| validation pictures | i→t R@1 | R@5 | R@10 | t→i R@1 | R@5 | R@10 | rsum |
|---|---|---|---|---|---|---|---|
{rows}
"""


def runs() -> dict[str, Any]:
    """All runs of studies/starter.yaml by name, the teachers first."""
    study = yaml.safe_load((HERE / "starter.yaml").read_text(encoding="utf-8"))
    return study["teachers"] | {name: study[name] for name in ("student", "untaught", "clean")}


def settings_of(run: dict[str, Any], teachers: list[Path]) -> RunSettings:
    """The row with the changes; a distilling stage gets its teachers, and starts from one of them where `start` names it."""
    settings = merged(recipes.find(f"flickr8k:{run['row']}").settings, run["change"])
    if "distillation" in str(settings["stages"]["heads"]["loss"]):
        settings["stages"]["heads"]["teacher"] = [str(teacher) for teacher in teachers]
    if "start" in run:
        settings["stages"]["heads"]["start"] = str(next(path for path in teachers if path.name == run["start"]))
    return RunSettings.model_validate(settings)


def read(model: VSE, pairs: Pairs) -> tuple[Any, Any]:
    """The model's vectors of the pictures and of the captions; MiniLM's states are kept between models."""
    return embedded(model, pairs, tokens=read_texts(model, pairs, QUIET))


def measured(models: list[Path], pairs: Pairs) -> dict[str, Metrics]:
    """Both validation splits, scored by a model or by the mean of several; without querybanks."""
    found = {}
    for name in COLLECTIONS:
        val, scorers = of(pairs, name, "val"), []
        for model in map(load_model, models):
            model.querybank = None
            scorers.append(model_scorer(model, *read(model, val)))
        found[name] = evaluate(Average(scorers), val.picture_groups, val.caption_groups)
    return found


def report(name: str, models: list[Path], pairs: Pairs) -> dict[str, Metrics]:
    found = measured(models, pairs)
    write_json(RESULTS / f"{name}.json", {key: metrics.to_dict() for key, metrics in found.items()})
    for key, metrics in found.items():
        print(f"{name}, {key}:", *metrics.table(), sep="\n", flush=True)
    return found


def keep(run: Path, out: Path, pairs: Pairs, teachers: int) -> None:
    """The student as the starter: half precision, calibration on both validation splits, card."""
    load_model(run).save(out, half=True)
    model, val = load_model(out), pairs.split("val")
    images, captions = read(model, val)
    write_sealed(
        out / "calibration.json",
        calibrate_pairs(images.numpy(), captions.numpy(), val.picture_groups, val.caption_groups),
    )
    rows = []
    for key, m in report("starter", [out], pairs).items():
        numbers = [m.i2t[k] for k in ("r1", "r5", "r10")] + [m.t2i[k] for k in ("r1", "r5", "r10")] + [m.rsum]
        rows.append(f"| {key} | " + " | ".join(f"{number:.1f}" for number in numbers) + " |")
    shutil.copyfile(run / "model" / "README.md", out / "README.md")
    card = (out / "README.md").read_text(encoding="utf-8")
    note = NOTE.format(pictures=len(pairs.split("train").pictures), teachers=teachers, rows="\n".join(rows))
    write_text(out / "README.md", card.replace("\n## Use\n", f"{note}\n## Use\n", 1))


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m studies.starter", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--flickr8k", type=Path, required=True, help="Flickr8k in Karpathy's JSON, with the pictures")
    parser.add_argument("--coco", type=Path, required=True, help="COCO in Karpathy's JSON, with the pictures")
    parser.add_argument("--runs", type=Path, default=Path("runs/both"), help="where runs go")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="train and measure these runs, and keep none")
    parser.add_argument("--keep", action="store_true", help="train none, and keep the student that is there")
    parser.add_argument("--measure", type=Path, metavar="MODEL", help="measure this model, and train none")
    parser.add_argument("--as", dest="name", default="measured", help="the name of its results")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    keep_freed_memory()
    study = runs()
    names = [name for name in study if name not in ("student", "untaught", "clean")]
    teachers = [options.runs / name for name in names]
    progress = Progress()
    pairs = both(options.flickr8k, options.coco, settings_of(study["student"], teachers), progress)
    if options.measure:
        report(options.name, [options.measure], pairs)
        return
    for name in options.only or [*names, "student"]:
        if not options.keep:
            train(settings_of(study[name], teachers), pairs, options.runs / name, resume=True, progress=progress)
        report(name, [options.runs / name], pairs)
    if not options.only:
        report("teachers", teachers, pairs)
        keep(options.runs / "student", options.out, pairs, len(teachers))


if __name__ == "__main__":
    main()
