"""Rows of the papers' tables, run: trained, measured the way the table was, and put beside the published numbers.

    OUT/PAPER/ROW             the run of a row (rows that share a model share the run)
    OUT/PAPER/ROW-seedN       the same row with another seed
    …/ensemble.json           of a row that averages several models: which, for vse evaluate, index and export

A row whose numbers average several models names them in `ensemble`: other rows of its paper. A path `runs/PAPER/ROW` in a
row's settings (a teacher to mine with or to distil from, a model to start from) means the run of that row, which is
trained first; as the teacher of a distillation, a row with an ensemble means all its members.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from vsekit import recipes
from vsekit.data.pairs import Pairs
from vsekit.errors import UserError
from vsekit.evaluation.metrics import Metrics
from vsekit.evaluation.protocols import check_protocol, fewest_images
from vsekit.files import write_json
from vsekit.progress import QUIET, Progress
from vsekit.recipes import Row, datasets
from vsekit.recipes.plan import Plan, Run, refuse_unknown_stages

COLUMNS = {"r1": "R@1", "r5": "R@5", "r10": "R@10", "medr": "Med r"}
WAYS = {"i2t": "image → text", "t2i": "text → image"}
#: Between repetitions, so that the seeds of an ensemble (0 and 1) never meet those of another repetition.
SEED_STEP = 100

Numbers = dict[str, list[float | None]]


@dataclass(frozen=True)
class Reproduced:
    """A row with what was measured. runs, metrics: one entry a repetition (`seeds`). model: that of the first, to be used."""

    row: Row
    protocol: str
    split: str
    runs: list[list[Path]]
    metrics: list[Metrics]
    model: Path

    @property
    def measured(self) -> Numbers:
        """R@1, R@5, R@10 and Med r both ways, and rsum, averaged over the repetitions."""
        return self._over(np.mean)

    @property
    def spread(self) -> Numbers | None:
        """Their standard deviation over the repetitions, where there are several."""
        return self._over(partial(np.std, ddof=1)) if len(self.metrics) > 1 else None

    @property
    def difference(self) -> Numbers:
        """measured − published, where the paper prints a number."""
        measured = self.measured
        return {
            key: [None if p is None or m is None else m - p for p, m in zip(numbers, measured[key])]
            for key, numbers in self.row.published.items()
            if key in measured
        }

    def _over(self, summary: Callable[[list[float]], Any]) -> Numbers:
        numbers: Numbers = {"rsum": [float(summary([m.rsum for m in self.metrics]))]}
        for way in WAYS:
            numbers[way] = [float(summary([getattr(m, way)[key] for m in self.metrics])) for key in COLUMNS]
        return numbers

    def to_dict(self) -> dict[str, Any]:
        """What --json prints."""
        row = self.row
        return {
            "id": row.id,
            **{key: getattr(row, key) for key in ("table", "method", "dataset", "trainset", "note")},
            "protocol": self.protocol,
            "split": self.split,
            "runs": [[str(run) for run in runs] for runs in self.runs],
            "model": str(self.model),
            "columns": list(COLUMNS),
            "published": row.published,
            "measured": self.measured,
            "difference": self.difference,
            "spread": self.spread,
            "metrics": [metrics.to_dict() for metrics in self.metrics],
        }

    def lines(self) -> list[str]:
        """A plain table: published, measured and their difference, both ways."""
        row, times, models = self.row, len(self.metrics), len(self.runs[0])
        title = f"{row.id}: {row.method}, {datasets.dataset(row)} {self.split}, protocol {self.protocol}"
        title += self.metrics[0].of_folds
        title += f", {models} models averaged" * (models > 1) + f", mean of {times} seeds" * (times > 1)
        lines = [title, " " * 28 + "".join(f"{name:>8}" for name in COLUMNS.values())]
        kinds = {"published": row.published, "measured": self.measured, "difference": self.difference}
        kinds |= {"spread": self.spread} if self.spread else {}
        for key, name in {**WAYS, "rsum": "rsum"}.items():
            for kind, numbers in kinds.items():
                if key in numbers:
                    style = "+.1f" if kind == "difference" else ".1f"
                    cells = "".join(f"{'–' if x is None else format(x, style):>8}" for x in numbers[key])
                    lines.append(f"{name if kind == 'measured' else '':15}{kind:13}{cells}")
        return [*lines, f"The model is {self.model}."]


def reproduce(
    row_ids: Sequence[str],
    data: Path | Mapping[str, Path] | None,
    out: Path,
    *,
    sets: Sequence[str] = (),
    seeds: int = 1,
    protocol: str | None = None,
    features: Path | None = None,
    reading: dict[str, Any] | None = None,
    progress: Progress = QUIET,
    **training: Any,
) -> list[Reproduced]:
    """Trains and measures rows; what is finished is not trained again, what was interrupted goes on.

    Args:
        row_ids: `paper:row`, all of one dataset.
        data: the collection, or several by form (pictures, regions, grid) for ensembles over them; None explains what
            is needed.
        sets: key.path=value assignments laid over every row's settings; a seed is added to the row's own.
        seeds: how often to repeat each row, with other seeds.
        protocol: in place of the row's own, for collections smaller than the paper's.
        features: a feature store of the collection's pictures.
        reading: format, images, columns of `readers.read`.
        training: device, precision, checkpoint_seconds, tensorboard of `train`.

    Raises UserError, with a paragraph on how to lay the data out, when they are missing or lack what a row needs.
    """
    from vsekit.evaluation.meeting import ENSEMBLE, score_runs
    from vsekit.evaluation.protocols import evaluate
    from vsekit.evaluation.scorers import Average
    from vsekit.training.loop import train

    if protocol is not None:
        check_protocol(protocol)
    rows = [recipes.find(name) for name in row_ids]
    plans = [[Plan.of(row, out, sets, n * SEED_STEP) for n in range(seeds)] for row in rows]
    refuse_unknown_stages(sets, plans)
    collections = Collections(rows, data, features, reading or {})
    for row, plan in zip(rows, plans):
        _check(row, plan[0], collections, protocol or row.protocol)
    results = []
    for row, plan in zip(rows, plans):
        used, metrics = protocol or row.protocol, []
        for repetition in plan:
            for run in repetition.runs():
                progress.say(f"{run.row.id}, seed {run.settings.seed}: {run.folder}")
                path, pairs = collections.of(run.row)
                source = {"recipe": run.row.id, "data": str(path), "features": str(features) if features else None}
                train(run.settings, pairs, run.folder, source=source, resume=True, progress=progress, **training)
            tests = [collections.measured(row, member) for member in repetition.members]
            folders = [member.folder for member in repetition.members]
            scores = Average([score_runs([folder], test, progress) for folder, test in zip(folders, tests)])
            groups = tests[0].picture_groups, tests[0].caption_groups
            metrics.append(evaluate(scores, *groups, protocol=used))  # type: ignore[arg-type]
            if row.ensemble:
                paths = [os.path.relpath(folder, repetition.folder) for folder in folders]
                write_json(repetition.folder / ENSEMBLE, {"members": paths, "rsum": metrics[-1].rsum})
        runs = [[member.folder for member in repetition.members] for repetition in plan]
        model = plan[0].folder / (ENSEMBLE if row.ensemble else "model")
        results.append(Reproduced(row, used, tests[0].pictures[0].split, runs, metrics, model))
    return results


class Collections:
    """The collections that rows read: one, or one a form (pictures, regions, grid) for ensembles over several."""

    def __init__(
        self,
        rows: Sequence[Row],
        data: Path | Mapping[str, Path] | None,
        features: Path | None,
        reading: dict[str, Any],
    ) -> None:
        names = sorted({datasets.dataset(row) for row in rows})
        if len(names) != 1:
            what = f"rows of {' and '.join(names)}"
            raise UserError(what, field="rows", remedy="Reproduce rows of one dataset at a time.")
        self.paths = {} if data is None else dict(data) if isinstance(data, Mapping) else {"": Path(data)}
        absent = [f"there is nothing at {path}" for path in self.paths.values() if not path.exists()]
        if absent or not self.paths:
            raise UserError(*absent[:1] or ["no data given"], field="--data", remedy=datasets.explain(rows[0]))
        self.features, self.reading = features, reading
        self._pairs: dict[str, Pairs] = {}

    def of(self, row: Row) -> tuple[Path, Pairs]:
        """Where the row's data are, and what is there."""
        form = "" if "" in self.paths else datasets.form(row)
        if form not in self.paths:
            raise UserError(f"no {form} given", field="--data", remedy=datasets.explain(row))
        if form not in self._pairs:
            self._pairs[form] = self._read(self.paths[form], form)
        return self.paths[form], self._pairs[form]

    def _read(self, path: Path, form: str) -> Pairs:
        from vsekit.data.readers import read
        from vsekit.features.store import FeatureStore

        pairs = read(path, **self.reading)
        # Of several collections, one that came with features, or whose pictures are read as such, has no use for more.
        wanted = not form or (pairs.features is None and form != "pictures")
        return FeatureStore.open(self.features).attach(pairs) if self.features and wanted else pairs

    def measured(self, row: Row, member: Run) -> Pairs:
        """What the row is measured on, as its member reads it."""
        pairs = self.of(member.row)[1]
        measured = pairs.split(datasets.split(row, pairs.splits))
        return measured.first_captions(member.settings.data.captions_per_picture)


def _check(row: Row, plan: Plan, collections: Collections, protocol: str) -> None:
    """Raises UserError when the collection lacks something that training or measuring the row needs."""
    for run in plan.runs():
        _, pairs = collections.of(run.row)
        lacking = _lacking(run, pairs, datasets.split(row, pairs.splits), protocol)
        if lacking:
            raise UserError(lacking, file=pairs.root, remedy=datasets.explain(run.row))
    said = {tuple(map(_words, collections.measured(row, member).captions)) for member in plan.members}
    if len(said) > 1:
        raise UserError(
            "the collections have other captions, or in another order, so that scores can't be averaged",
            field="--data",
            remedy="All of them must have the test pictures in the order of Karpathy's file.",
        )


def _lacking(run: Run, pairs: Pairs, measured: str, protocol: str) -> str | None:
    """What the collection lacks, in words."""
    model, have, shape = run.settings.model, pairs.splits, None if pairs.features is None else pairs.features.shape
    frozen = all("image.encoder" in stage.freeze for stage in run.settings.stages.values())
    if model.image.encoder.reads_features:
        if shape is None:
            return "the row reads features, and this collection has none"
        if not model.image.pooling.one_vector and len(shape) < 3:
            return f"the row reads sets of features, and these have the shape {shape}"
    elif not (shape and frozen) and any(picture.path is None for picture in pairs.pictures):
        return "the row reads pictures, and this collection has features only"
    if datasets.needs_word_vectors(run.row) and getattr(model.text.encoder, "word_vectors", None) is None:
        return "the row starts from word2vec, and no word vectors are given"
    for split in (run.settings.data.train, run.settings.data.val, measured):
        if split not in have:
            return f"no split '{split}' in this collection (it has {', '.join(have)})"
    if have[measured] < fewest_images(protocol):
        fewest = fewest_images(protocol)
        return f"protocol {protocol} ranks {fewest} pictures, and split '{measured}' has {have[measured]}"
    if protocol == "person" and len({picture.group for picture in pairs.pictures}) == len(pairs.pictures):
        return "every picture of this collection is a person of its own"
    return None


def _words(caption: Any) -> str:
    """A caption as far as formats agree on it: without case and punctuation."""
    return re.sub(r"\W", "", caption.text.lower())
