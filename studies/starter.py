"""Makes the starter model that comes with vsekit, on Flickr8k and COCO: trains, measures, keeps it in 8 bits with a card.

    python -m studies.both --flickr8k DIR --coco DIR
    python -m studies.starter --flickr8k DIR --coco DIR [--only NAME …] [--keep NAME … [--again]]
    python -m studies.starter --flickr8k DIR --coco DIR --measure MODEL [--as NAME]

The runs are those of studies/starter.yaml; each can be killed and goes on. --measure puts any model to both validation splits
and writes studies/results/both/NAME.json. The weights of the encoders are those of pip packages and stay out.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from studies.both import both, names, of
from vsekit import recipes
from vsekit.data.pairs import Pairs
from vsekit.evaluation.meeting import embedded, model_scorer
from vsekit.evaluation.metrics import Metrics
from vsekit.evaluation.protocols import evaluate
from vsekit.evaluation.scorers import Average
from vsekit.files import write_json, write_text
from vsekit.memory import keep_freed_memory
from vsekit.models.model import VSE, load_model, take_weights
from vsekit.models.querybank import Querybank, QuerybankSettings, fitted
from vsekit.models.settings import ModelSettings
from vsekit.parts import merged
from vsekit.progress import QUIET, Progress
from vsekit.seals import write_sealed
from vsekit.search.calibration import calibrate_pairs
from vsekit.training.loop import train
from vsekit.training.settings import RunSettings
from vsekit.training.teacher import keep_vectors, read_texts

HERE = Path(__file__).parent
OUT = HERE.parent / "src" / "vsekit" / "models" / "starter"
RESULTS = HERE / "results" / "both"
COLLECTIONS = ("flickr8k", "coco")
#: Vectors a side that stand for training pictures and captions: what fits into 12 MB.
BANK = QuerybankSettings(fitted=512, rank=128)
TAUGHT = {
    False: "from the captions",
    True: "from the captions, and from the scores of teachers trained on the same photographs (`distillation`)",
}
#: Of the forward and backward passes; weights and their moments are 32-bit floats. Twice as fast here.
PRECISION = "bf16-mixed"
NOTE = """
## What to know

- **It is a starter**: small, fast on a CPU, trained on {pictures:,} everyday photographs: people, animals, streets, rooms, meals,
  sports. It knows little of documents, screenshots, products, faces or anything not in such photographs.
- **Training data**: Flickr8k (Hodosh, Young and Hockenmaier 2013) and a quarter of COCO (Lin et al. 2014), of both Karpathy's
  training split. The photographs belong to their Flickr users and were given for research and education; none is in this package.
  Whether a model trained on them may serve your purpose is for you to decide.
- **How it reads words**: with MiniLM, which has read much more than captions, and with a learned vector of each of the 5,000
  most frequent words of the captions beside it (`text.words`).
- **How it learned**: {taught}.
  The last half of both image encoders learned too and comes with it, but for depthwise filters; all before it is as the pip
  packages bring it. {weights} in studies/starter.yaml.
- **Its querybank**: {bank} vectors a side in {rank} directions that stand for 8,192 training pictures and captions lower the
  scores of pictures that score high with every sentence; `vse evaluate --plain` does without.
- **Encoders**: EfficientNet-lite0 and lite2 (ImageNet; Apache-2.0) and MiniLM (MIT), read from their pip packages. MiniLM
  was trained on pairs of sentences, captions of COCO and Flickr30K among them, and Flickr30K contains Flickr8k's pictures: the
  figures lean to the good side.
- **Made by** `python -m studies.starter`; the figures are those of `--measure`, on the model as it is here, in 8 bits.

| validation pictures | i→t R@1 | R@5 | R@10 | t→i R@1 | R@5 | R@10 | rsum |
|---|---|---|---|---|---|---|---|
{rows}
"""


def _study() -> dict[str, Any]:
    return yaml.safe_load((HERE / "starter.yaml").read_text(encoding="utf-8"))


def runs() -> dict[str, Any]:
    """All runs of studies/starter.yaml by name, the teachers first."""
    study = _study()
    return study["teachers"] | {name: run for name, run in study.items() if name not in ("teachers", "means")}


def means() -> dict[str, list[str]]:
    """Models whose weights are the mean of others', by name."""
    return _study()["means"]


def settings_of(run: dict[str, Any], folder: Path) -> RunSettings:
    """The row with the changes; it starts from the run that `start` names, and a distilling stage gets its teachers."""
    settings = merged(recipes.find(f"flickr8k:{run['row']}").settings, run["change"])
    stage = settings["stages"]["heads"]
    if "teachers" in run:
        stage["teacher"] = [folder / name for name in run["teachers"]]
        if "cut" in str(settings["model"]["image"]) and not tails_stay(stage["freeze"]):
            stage["teacher"] = [one if one.name in means() else cut_folder(one) for one in stage["teacher"]]
    if "start" in run:
        stage["start"] = str(folder / run["start"])
    return RunSettings.model_validate(settings)


def tails_stay(freeze: Sequence[str]) -> bool:
    """Whether a run reads what the tails of its image encoders give, as those are in the model it starts from."""
    return "image.tail" in freeze


@dataclass
class Views:
    """Both collections with what a model reads of the pictures: maps for one whose encoders are cut, features for others."""

    flickr8k: Path
    coco: Path
    cut: RunSettings
    whole: RunSettings
    progress: Progress

    @cached_property
    def maps(self) -> Pairs:
        return both(self.flickr8k, self.coco, self.cut, self.progress)

    @cached_property
    def features(self) -> Pairs:
        return both(self.flickr8k, self.coco, self.whole, self.progress)

    def of(self, settings: ModelSettings) -> Pairs:
        return self.maps if self.is_cut(settings) else self.features

    def is_cut(self, settings: ModelSettings) -> bool:
        return settings.image.encoder == self.cut.model.image.encoder

    def seen_by(self, model: VSE, only: Sequence[str] | None = None) -> Pairs:
        """The features that a model's image encoders make, tails and all; of some pictures alone where they are named."""
        run, encoder = (self.cut, model.image.with_tail()) if self.is_cut(model.settings) else (self.whole, None)
        return both(self.flickr8k, self.coco, run, self.progress, encoder, only)

    def names(self, split: str) -> list[str]:
        return names(self.flickr8k, self.coco, split)


def cut_folder(run: Path) -> Path:
    return run.with_name(f"{run.name}-cut")


def make_mean(run: Path) -> None:
    """One of `means`, as it is kept, and those that it is made of."""
    if run.name not in means() or run.is_dir():
        return
    members = [run.with_name(name) for name in means()[run.name]]
    for member in members:
        make_mean(member)
    mean_of(members).save(run, bits=8)


def make_teacher(run: Path, views: Views) -> None:
    """A teacher with frozen encoders as the same model with cut ones, so that it reads the student's maps, and its vectors,
    which it has from features sooner than from maps."""
    model = load_model(run)
    image = model.settings.image.model_copy(update={"encoder": views.cut.model.image.encoder})
    cut = VSE(model.settings.model_copy(update={"image": image}), model.tokenizer, model.view)
    take_weights(cut, model)
    cut.save(cut_folder(run))
    keep_vectors(load_model(cut_folder(run)), views.maps.split("train"), *read(model, views.features.split("train")))


def read(model: VSE, pairs: Pairs) -> tuple[Any, Any]:
    """The model's vectors of the pictures and of the captions; MiniLM's states are kept between models."""
    return embedded(model, pairs, tokens=read_texts(model, pairs, QUIET))


def measured(models: list[Path], views: Views, plain: bool) -> dict[str, Metrics]:
    """Both validation splits, scored by a model or by the mean of several. plain: without querybanks."""
    found = {}
    for name in COLLECTIONS:
        scorers = []
        for model in map(load_model, models):
            val = of(views.seen_by(model, views.names("val")), name, "val")
            scorers.append(model_scorer(model, *read(model, val), plain=plain))
        found[name] = evaluate(Average(scorers), val.picture_groups, val.caption_groups)
    return found


def report(name: str, models: list[Path], views: Views, plain: bool = True) -> dict[str, Metrics]:
    found = measured(models, views, plain)
    write_json(RESULTS / f"{name}.json", {key: metrics.to_dict() for key, metrics in found.items()})
    for key, metrics in found.items():
        print(f"{name}, {key}:", *metrics.table(), sep="\n", flush=True)
    return found


def mean_of(runs: Sequence[Path]) -> VSE:
    """A model whose weights are the mean of those of runs that went on from each other."""
    models = [load_model(run) for run in runs]
    # Of what they learned alone: even 0 + −0 is another number than the one that a pip package brings.
    parts = [model.kept_weights() for model in models]
    mean = {name: torch.stack([part[name].double() for part in parts]).mean(0) for name in parts[0]}
    models[0].load_state_dict({name: value.to(parts[0][name].dtype) for name, value in mean.items()}, strict=False)
    return models[0]


def bank_of(model: VSE, views: Views) -> Querybank:
    """Fitted to a sample of the training pictures, each with one of its captions."""
    train = views.names("train")

    def of_some(chosen: np.ndarray) -> tuple[Any, Any]:
        return read(model, views.seen_by(model, [train[i] for i in chosen]).first_captions(1))

    whole = Querybank(*of_some(BANK.sample(len(train))), BANK.temperature, BANK.weight)
    further = of_some(BANK.items(len(train))[BANK.size :])
    return fitted(whole, BANK.fitted or BANK.size, model.similarity, BANK.rank, further)


def keep(runs: Sequence[Path], out: Path, views: Views, taught: str, again: bool = False) -> None:
    """The mean of runs as the starter: in 8 bits, a querybank, calibration on both validation splits, and the card of the
    last. again: it is there already, and only what stands beside its weights is made."""
    run = runs[-1]
    card = (out if again else run / "model") / "README.md"
    opening, _, use = card.read_text(encoding="utf-8").partition("\n## Use\n")
    if not again:
        mean_of(runs).save(out, bits=8)
    model = load_model(out)
    bank_of(model, views).save(out)
    val = views.seen_by(model, views.names("val"))
    images, captions = read(model, val)
    write_sealed(
        out / "calibration.json",
        calibrate_pairs(images.numpy(), captions.numpy(), val.picture_groups, val.caption_groups),
    )
    rows = []
    for name, plain in (("starter", True), ("starter-bank", False)):
        for key, m in report(name, [out], views, plain).items():
            numbers = [m.i2t[k] for k in ("r1", "r5", "r10")] + [m.t2i[k] for k in ("r1", "r5", "r10")] + [m.rsum]
            told = key + ", with the querybank" * (not plain)
            rows.append(f"| {told} | " + " | ".join(f"{number:.1f}" for number in numbers) + " |")
    of_runs = " and ".join(f"`{one.name}`" for one in runs)
    weights = f"Its weights are the mean of {of_runs}" if len(runs) > 1 else f"It is {of_runs}"
    about = {"pictures": len(views.names("train")), "taught": taught, "weights": weights}
    note = NOTE.format(**about, bank=BANK.fitted, rank=BANK.rank, rows="\n".join(rows))
    opening = opening.partition("\n## What to know\n")[0].replace(str(run.parent), "runs/both")
    write_text(out / "README.md", f"{opening}{note}\n## Use\n{use.replace(str(run.parent), 'runs/both')}")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m studies.starter", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--flickr8k", type=Path, required=True, help="Flickr8k in Karpathy's JSON, with the pictures")
    parser.add_argument("--coco", type=Path, required=True, help="COCO in Karpathy's JSON, with the pictures")
    parser.add_argument("--runs", type=Path, default=Path("runs/both"), help="where runs go")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="train and measure these runs, and keep none")
    parser.add_argument(
        "--keep", nargs="+", metavar="NAME", help="train none; keep the mean of these runs' weights as the starter"
    )
    parser.add_argument(
        "--again",
        action="store_true",
        help="with --keep: the weights are kept already; make querybank, calibration, figures and card anew",
    )
    parser.add_argument("--measure", type=Path, metavar="MODEL", help="measure this model, and train none")
    parser.add_argument("--as", dest="name", default="measured", help="the name of its results")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    keep_freed_memory()
    study, progress = runs(), Progress()
    settings = {name: settings_of(run, options.runs) for name, run in study.items()}
    views = Views(options.flickr8k, options.coco, settings["student"], settings["words"], progress)
    if options.measure:
        report(options.name, [options.measure], views)
        return
    for name in [] if options.keep else options.only or study:
        folder, run = options.runs / name, study[name]
        teachers = [options.runs / one for one in run.get("teachers", ())]
        start = options.runs / run.get("start", name)
        for one in (*teachers, start):
            make_mean(one)
        if tails_stay(settings[name].stages["heads"].freeze):
            pairs = views.seen_by(load_model(start))
        else:
            pairs = views.of(settings[name].model)
            for teacher in teachers if pairs is views.maps else ():
                if teacher.name not in means():
                    make_teacher(teacher, views)
        how = {"resume": True, "precision": PRECISION, "checkpoint_seconds": 120, "progress": progress}
        train(settings[name], pairs, folder, **how)
        report(name, [folder], views)
        if teachers:
            report(f"{name}-teachers", teachers, views)
            for bank, plain in (("", True), ("-bank", False)):
                report(f"{name}-together{bank}", [folder, *teachers], views, plain)
    for name in [] if options.again else options.keep or ():
        make_mean(options.runs / name)
    if options.keep:
        taught = TAUGHT[bool(settings[options.keep[-1]].stages["heads"].teacher)]
        keep([options.runs / name for name in options.keep], options.out, views, taught, options.again)


if __name__ == "__main__":
    main()
