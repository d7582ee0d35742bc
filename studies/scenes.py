"""The headline methods of the five papers on generated scenes: every row of `recipes/scenes.yaml`, trained and tested.

    python -m studies.scenes [ROW …] [--runs runs/study] [--render]

Finished rows are skipped, interrupted ones go on. Each writes studies/results/scenes/ROW.json; the table in
docs/scenes.md is made of these files alone. Two processes with a thread each finish sooner than one with two.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vsekit import recipes
from vsekit.data.readers import read
from vsekit.data.scenes import holds, write_scenes
from vsekit.evaluation.meeting import score_runs
from vsekit.evaluation.metrics import chance_level
from vsekit.evaluation.positives import Positives
from vsekit.evaluation.protocols import evaluate
from vsekit.evaluation.significance import confidence
from vsekit.files import write_json, write_text
from vsekit.progress import Progress
from vsekit.training.loop import train

RESULTS = Path(__file__).parent / "results" / "scenes"
PAGE = Path(__file__).parents[1] / "docs" / "scenes.md"
COUNTS = {"train": 3000, "val": 300, "test": 300}


def study(name: str, collection: Path, runs: Path, progress: Progress) -> None:
    """Trains and tests one row, unless its result is there."""
    result_file = RESULTS / f"{name}.json"
    if result_file.is_file():
        return
    row = recipes.find(f"scenes:{name}")
    pairs = read(collection)
    started = time.process_time()
    teacher = row.settings["stages"].get("second", {}).get("mine", {}).get("teacher", "")
    sets = [f"stages.second.mine.teacher={runs / Path(teacher).name}"] if teacher.startswith("runs/") else []
    end = train(recipes.load_settings(row.id, sets), pairs, runs / name, resume=True, progress=progress)
    seconds = time.process_time() - started
    test = pairs.split("test")
    scores = score_runs([runs / name], test)
    metrics = evaluate(scores, test.picture_groups, test.caption_groups)
    first = scores.block(slice(0, scores.n_images), slice(0, scores.n_captions)).argmax(0).tolist()
    truth = np.mean([holds(c.meta["facts"], test.pictures[p].meta["scene"]) for c, p in zip(test.captions, first)])
    result: dict[str, Any] = {
        "row": row.id,
        "method": row.method,
        "settings": row.settings,
        "collection": {**COUNTS, "seed": 0},
        "i2t": metrics.i2t,
        "t2i": metrics.t2i,
        "rsum": metrics.rsum,
        "ci": confidence(metrics),
        "first_answer_true": 100 * float(truth),
        "best": end["best"],
        "cpu_seconds": seconds,
        "threads": torch.get_num_threads(),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    write_json(result_file, result)


def render() -> None:
    """docs/scenes.md from the result files."""
    found = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in RESULTS.glob("*.json")}
    groups = np.arange(COUNTS["test"])
    chance = chance_level(Positives.by_groups(groups, np.repeat(groups, 5)))
    lines = []
    for row in recipes.rows("scenes"):
        result = found.get(row.name)
        if result:
            low, high = result["ci"]["rsum"]
            cells = [f"{result[way][key]:.1f}" for way in ("i2t", "t2i") for key in ("r1", "r5", "r10")]
            rsum = f"**{result['rsum']:.1f}** ({low:.0f}–{high:.0f})"
            extra = [f"{result['first_answer_true']:.0f} %", f"{result['cpu_seconds'] / 60:.1f}"]
            lines.append(f"| {result['method']} | `{row.id}` | {' | '.join([*cells, rsum, *extra])} |")
    level = [f"{side[key]:.1f}" for side in (chance.i2t, chance.t2i) for key in ("r1", "r5", "r10")]
    lines.append(f"| chance | | {' | '.join(level)} | {chance.rsum:.1f} | | |")
    write_text(PAGE, TEXT.format(table="\n".join(lines), **COUNTS))


TEXT = """# The headline methods on generated scenes

Every method of the five papers, trained from scratch by `vse train` on {train:,} generated scenes and tested on {test} scenes
that show combinations of shape with colour or pattern that training never did
(`vse data scenes --train {train} --val {val} --test {test}`). One seed; 95 % intervals over test queries in brackets. "True" is
the share of captions whose first answer is a picture they are true of, their own or not. CPU-minutes are those of training
on one thread of a busy machine.

| method | row | i→t R@1 | R@5 | R@10 | t→i R@1 | R@5 | R@10 | rsum | true | CPU-min |
|---|---|---|---|---|---|---|---|---|---|---|
{table}

All of it: `python -m studies.scenes`; one row: `vse reproduce ROW --data scenes --out runs`. The settings are in
[`recipes/scenes.yaml`](../src/vsekit/recipes/scenes.yaml), the results in
[`studies/results/scenes/`](../studies/results/scenes). Budgets are tiny and one seed is one seed: this shows that every
method runs end to end and learns, not which is best.
"""


def main() -> None:
    names = [row.name for row in recipes.rows("scenes")]
    parser = argparse.ArgumentParser(prog="python -m studies.scenes", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(names))
    parser.add_argument("--runs", type=Path, default=Path("runs/study"), help="where runs and the collection go")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--render", action="store_true", help="only write docs/scenes.md")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    progress = Progress()
    if not options.render:
        collection = options.runs / "collection" / "dataset_scenes.json"
        if not collection.is_file():
            write_scenes(collection.parent, **COUNTS, seed=0)
        for name in options.rows or names:
            progress.say(f"{name} …")
            study(name, collection, options.runs, progress)
    render()


if __name__ == "__main__":
    main()
