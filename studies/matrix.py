"""A study: a matrix of configurations × seeds from one YAML, run on both cores, one small JSON a run.

    features:  name → {encoder, view, crops, dtype}        extracted once, kept under WORK/features
               name → {reduce: other, side: 4, dim: 256}   others' grids averaged to 4 × 4 cells, and of these the
                                                           first principal components, to save time
               name → {mean: other}                        the mean of others' cells
    base:      RunSettings
    precision: of training, as `vse train --precision` names it; 32-true unless said, and a run may say its own
    variants:  named changes that runs share
    runs:      name → {about, use: [variants], set: {changes}, features: name, seeds: [0, 1, 2], needs: run}
               name → {about, ensemble: [runs], seeds}     the mean of their scores
    claims:    what is asked of the results; see `studies.claims`

A run that starts from another, or mines with it, names it in `needs`; "$needs" in its settings is then the path of that
run with the same seed, or, where that one reads other features, of the lists that it mined with them. "$word_vectors" is
the file of that option; without it, runs that want it wait. Finished runs are skipped, unless their settings have changed
since; interrupted ones go on where they stopped. A run's folder is thrown away once its JSON is written, unless another run
needs it.
"""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from studies.matrix_features import features, needs_detector
from vsekit.data.readers import read
from vsekit.errors import UserError
from vsekit.evaluation.meeting import RunsOnData, score_runs
from vsekit.evaluation.metrics import Metrics, query_ranks
from vsekit.evaluation.protocols import evaluate
from vsekit.evaluation.scorers import Average
from vsekit.features.store import FeatureStore
from vsekit.files import write_json
from vsekit.mining.run import mine_met
from vsekit.parts import merged
from vsekit.progress import Progress
from vsekit.recipes import settings_of
from vsekit.training.loop import train
from vsekit.training.run import read_metrics
from vsekit.training.settings import RunSettings

#: Ranks of single queries are kept up to here; R@10 and the bulk of the distribution need no more.
LAST_RANK = 255
#: How often the CPU time so far is written down.
MARK_SECONDS = 5.0
FULL = "32-true"
RANK_BINS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5001)


@dataclass(frozen=True)
class Run:
    """One cell of the matrix. `name` is the configuration's."""

    name: str
    seed: int
    about: str
    features: str
    needs: tuple[str, ...]
    settings: dict[str, Any]
    ensemble: bool = False
    precision: str = FULL

    @property
    def id(self) -> str:
        return f"{self.name}.{self.seed}"

    @property
    def needed(self) -> list[str]:
        return [f"{name}.{self.seed}" for name in self.needs]


class Study:
    """The matrix of a YAML file. results: folder of the JSON files. work: folder of features and unfinished runs."""

    def __init__(self, file: Path, results: Path, work: Path) -> None:
        self.content: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
        self.results, self.work = results, work
        self.runs = {run.id: run for name in self.content["runs"] for run in self._runs(name)}

    def _runs(self, name: str) -> list[Run]:
        entry: dict[str, Any] = self.content["runs"][name]
        features, about, seeds = entry.get("features", "lite0"), entry["about"], entry.get("seeds", [0])
        if "ensemble" in entry:
            members = tuple(entry["ensemble"])
            settings: dict[str, Any] = {"ensemble": list(members)}
            return [Run(name, seed, about, "several", members, settings, ensemble=True) for seed in seeds]
        needs = (entry["needs"],) if "needs" in entry else ()
        settings = settings_of(self.content, entry)
        precision = entry.get("precision", self.content.get("precision", FULL))
        return [
            Run(name, seed, about, features, needs, merged(settings, {"seed": seed}), precision=precision)
            for seed in seeds
        ]

    def result(self, run: str) -> dict[str, Any] | None:
        """The result of a run, if it was made with the settings, features and precision the run has now."""
        file = self.results / f"{run}.json"
        found = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
        wanted = self.runs.get(run)
        if not found or not wanted:
            return None
        made = (found["settings"], found["features"], found.get("precision", FULL))
        return found if made == (wanted.settings, wanted.features, wanted.precision) else None

    def of(self, name: str) -> list[dict[str, Any]]:
        """The finished results of a configuration, a seed each."""
        found = (self.result(run.id) for run in self.runs.values() if run.name == name)
        return [result for result in found if result]

    def found(self) -> dict[str, list[dict[str, Any]]]:
        """The finished results of every configuration that has any."""
        return {name: results for name in self.content["runs"] if (results := self.of(name))}

    def folder(self, run: Run) -> Path:
        return self.work / "runs" / run.id

    def wanted(self) -> set[str]:
        """Runs whose model an unfinished run needs."""
        open_runs = [run for run in self.runs.values() if not self.result(run.id)]
        return {needed for run in open_runs for needed in run.needed}

    def todo(self, names: list[str]) -> list[Run]:
        """Runs without a result, or whose model is gone and needed: first seeds first, and needs before what needs them."""
        for name in names:
            if name not in self.content["runs"]:
                raise UserError(f"no run '{name}'", remedy=f"There are: {', '.join(self.content['runs'])}.")
        ordered: dict[str, Run] = {}

        def add(run: Run) -> None:
            if self.result(run.id) and not (run.id in needed and not (self.folder(run) / "model").is_dir()):
                return
            for needed_run in run.needed if not self.result(run.id) else []:
                add(self.runs[needed_run])
            ordered[run.id] = run

        needed = self.wanted()
        for run in self.runs.values():
            if (not names or run.name in names) and not self.result(run.id):
                add(run)
        return sorted(ordered.values(), key=lambda run: run.seed)  # stable: a run needs others of its own seed


def run_one(study: Study, run: Run, data: Path, word_vectors: Path | None, progress: Progress) -> None:
    """Trains one run, measures it on the validation split, and writes its JSON."""
    if run.ensemble:
        _measure_ensemble(study, run, data)
        return
    pairs = FeatureStore.open(study.work / "features" / run.features).attach(read(data))
    folder = study.folder(run)
    text = json.dumps(run.settings)
    for name, path in ("$needs", _needed(study, run, data, progress)), ("$word_vectors", word_vectors):
        text = text.replace(json.dumps(name), json.dumps(str(path)))
    # The marker is written while it trains, so that the CPU time of a run that was killed is that of all its parts.
    marker = study.work / "runs" / f"{run.id}.cpu.json"
    before = json.loads(marker.read_text())["cpu_seconds"] if marker.is_file() else 0.0
    trained = threading.Event()

    def mark() -> None:
        while not trained.wait(MARK_SECONDS):
            write_json(marker, {"cpu_seconds": before + time.process_time()})

    threading.Thread(target=mark, daemon=True).start()
    settings = RunSettings.model_validate(json.loads(text))
    end = train(settings, pairs, folder, resume=True, precision=run.precision, progress=progress)
    trained.set()
    cpu = before + time.process_time()
    val = pairs.split("val")
    metrics = evaluate(score_runs([folder], val), val.picture_groups, val.caption_groups)
    lines = read_metrics(folder)
    curve = [
        {
            "stage": x["stage"],
            "epoch": x["epoch"],
            "rsum": x["rsum"],
            "i2t_r1": x["i2t"]["r1"],
            "t2i_r1": x["t2i"]["r1"],
        }
        for x in lines
        if x["event"] == "validation"
    ]
    result = {
        **_opening(run),
        "curve": curve,
        "best": {key: end["best"][key] for key in ("stage", "epoch")},
        **summary(metrics),
        "cpu_seconds": round(cpu, 1),
        "threads": torch.get_num_threads(),
        "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        **logged(lines),
    }
    write_json(study.results / f"{run.id}.json", result)
    marker.unlink(missing_ok=True)
    shutil.rmtree(study.work / "lists" / run.id, ignore_errors=True)


def _needed(study: Study, run: Run, data: Path, progress: Progress) -> Path | None:
    """The folder of the run that this one needs; of lists it mined, where it can't read this one's features itself."""
    if not run.needed:
        return None
    needed = study.runs[run.needed[0]]
    if needed.features == run.features:
        return study.folder(needed)
    pairs = FeatureStore.open(study.work / "features" / needed.features).attach(read(data)).split("train")
    met = RunsOnData([study.folder(needed)], pairs).meet(plain=True, progress=progress)
    return mine_met(met, study.work / "lists" / run.id, progress=progress).folder


def _opening(run: Run) -> dict[str, Any]:
    return {
        "run": run.name,
        "seed": run.seed,
        "about": run.about,
        "features": run.features,
        "settings": run.settings,
        "precision": run.precision,
    }


def _measure_ensemble(study: Study, run: Run, data: Path) -> None:
    """The mean of the members' scores on the validation split, each read with its own features."""
    pairs, scorers, cpu = read(data), [], 0.0
    for needed in run.needed:
        member = study.runs[needed]
        val = FeatureStore.open(study.work / "features" / member.features).attach(pairs).split("val")
        scorers.append(score_runs([study.folder(member)], val))
        result = study.result(needed)
        assert result is not None
        cpu += result["cpu_seconds"]
    metrics = evaluate(Average(scorers), val.picture_groups, val.caption_groups)
    peak = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    result = {**_opening(run), "curve": [], **summary(metrics), "cpu_seconds": cpu, "threads": 1, "peak_mib": peak}
    write_json(study.results / f"{run.id}.json", result)


def summary(metrics: Metrics) -> dict[str, Any]:
    """Metrics; the ranks as a histogram, and of single queries (up to LAST_RANK, in hex) for paired intervals."""
    answer: dict[str, Any] = {"rsum": metrics.rsum}
    for way in ("i2t", "t2i"):
        ranks = np.floor(query_ranks(getattr(metrics.ranks[0], way))).astype(np.int64)
        counts = np.histogram(ranks, RANK_BINS)[0].tolist()
        answer[way] = {key: round(value, 3) for key, value in getattr(metrics, way).items()}
        answer[way] |= {"ranks_below": dict(zip(map(str, RANK_BINS[1:]), np.cumsum(counts).tolist()))}
        answer[way] |= {"ranks": np.minimum(ranks, LAST_RANK).astype(np.uint8).tobytes().hex()}
    return answer


def logged(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """AdOpt's K, alignment and uniformity over time, where there are any: at most 60 points."""
    steps = [line for line in lines if line["event"] == "train" and "k" in line]
    every = max(1, len(steps) // 60)
    keep = ("step", "k", "alignment", "uniformity")
    return {"adopt": [[round(line[key], 4) for key in keep] for line in steps[::every]]} if steps else {}


def run_all(
    study: Study,
    names: list[str],
    data: Path,
    workers: int,
    module: str,
    progress: Progress,
    word_vectors: Path | None = None,
    detector: Path | None = None,
) -> None:
    """Extracts features, then trains what is not finished, `workers` processes of one thread each at a time."""
    todo = study.todo(names)
    waiting_for_words = [run for run in todo if "$word_vectors" in json.dumps(run.settings)]
    if waiting_for_words and word_vectors is None:
        progress.say(f"Left out, for want of --word-vectors: {', '.join(run.id for run in waiting_for_words)}")
        todo = [run for run in todo if run not in waiting_for_words]
    without_detector = [run for run in todo if not run.ensemble and needs_detector(study.content, run.features)]
    if without_detector and detector is None:
        progress.say(f"Left out, for want of --detector: {', '.join(run.id for run in without_detector)}")
        todo = [run for run in todo if run not in without_detector]
    pairs = read(data)
    for name in dict.fromkeys(run.features for run in todo if not run.ensemble):
        features(study.content, study.work, name, pairs, progress, detector)
    running: dict[str, tuple[subprocess.Popen[bytes], float]] = {}
    waiting, done = list(todo), 0
    unfinished, failed = {run.id for run in todo}, set[str]()
    try:
        while waiting or running:
            failed |= {run.id for run in waiting if failed.intersection(run.needed)}
            waiting = [run for run in waiting if run.id not in failed]
            ready = [run for run in waiting if not unfinished.intersection(run.needed)]
            while ready and len(running) < workers:
                run = ready.pop(0)
                waiting.remove(run)
                command = [
                    sys.executable,
                    "-m",
                    module,
                    "--data",
                    str(data),
                    "--work",
                    str(study.work),
                    "--one",
                    run.id,
                    *(["--word-vectors", str(word_vectors)] if word_vectors else []),
                ]
                running[run.id] = (subprocess.Popen(command), time.monotonic())
            time.sleep(1)
            for id_, (process, started) in list(running.items()):
                if process.poll() is None:
                    continue
                del running[id_]
                if process.returncode:
                    progress.say(f"{id_} failed; see above")
                    failed.add(id_)
                    continue
                unfinished.discard(id_)
                done += 1
                result = study.result(id_)
                assert result is not None
                minutes = (time.monotonic() - started) / 60
                progress.say(f"{done}/{len(todo)} {id_}: rsum {result['rsum']:.1f}, {minutes:.1f} min")
                wanted = study.wanted()
                for old in (study.work / "runs").iterdir():
                    if old.is_dir() and old.name not in wanted and study.result(old.name):
                        shutil.rmtree(old)
    finally:
        for process, _ in running.values():
            process.terminate()
            process.wait()
    if failed:
        raise UserError(
            f"failed, or in need of what failed: {', '.join(sorted(failed))}",
            remedy=f"Look at one with: python -m {module} --data DATA --one RUN",
        )
