"""The rows of recipes/flickr8k.yaml or coco.yaml, trained where they are not yet, and measured; docs/study.md and docs/coco.md
show the results.

    python -m studies.models --data flickr8k [--out runs] [ROW …]
    python -m studies.models --recipe coco --data coco [--out runs] [--precision bf16-mixed] [ROW …]

Also without querybanks; of an ensemble, what it loses without each of its members, and of Flickr8k's a gallery of its retrievals.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vsekit import recipes
from vsekit.data.pairs import Pairs
from vsekit.diagnostics.galleries import Retrieval, gallery
from vsekit.evaluation.meeting import embedded, model_scorer
from vsekit.evaluation.metrics import Metrics
from vsekit.evaluation.protocols import evaluate
from vsekit.evaluation.scorers import Average, Scorer
from vsekit.evaluation.significance import confidence
from vsekit.files import write_json
from vsekit.memory import keep_freed_memory
from vsekit.models.model import load_model
from vsekit.progress import Progress
from vsekit.recipes.plan import Plan
from vsekit.recipes.reproduce import Collections, Reproduced, reproduce

RESULTS = Path(__file__).parent / "results"
#: Queries of each kind in a gallery, and answers of each.
QUERIES, ANSWERS = 4, 3
#: Of the querybank, to see how much depends on it.
WEIGHTS = (0.3, 0.5, 0.7, 0.9, 1.1)


def cpu_minutes(run: Path) -> float:
    """Of training and validation, without feature extraction."""
    lines = (run / "timings.jsonl").read_text(encoding="utf-8").splitlines()
    return sum(json.loads(line)["cpu_seconds"] for line in lines) / 60


def measured(result: Reproduced, data: Path) -> dict[str, Any]:
    row, metrics, runs = result.row, result.metrics[0], result.runs[0]
    answer: dict[str, Any] = {"row": row.name, "method": row.method, "ensemble": row.ensemble, "split": result.split}
    answer["cpu_minutes"] = round(sum(map(cpu_minutes, runs)), 1)
    answer["metrics"] = metrics.to_dict() | {"ci": confidence(metrics)}
    member = Plan.of(row, Path("runs"), [], 0).members[0]
    pairs = Collections([row], data, None, {}).measured(row, member)
    models = [load_model(run) for run in runs]
    embeddings = [embedded(model, pairs) for model in models]

    def measure(scorers: list[Scorer]) -> Metrics:
        return evaluate(Average(scorers), pairs.picture_groups, pairs.caption_groups)

    scorers = [model_scorer(model, *sides) for model, sides in zip(models, embeddings)]
    if len(runs) > 1:
        whole = slice(None)
        scores = torch.stack([scorer.block(whole, whole).clone() for scorer in scorers])
        answer["without"] = {run.name: measure(scorers[:i] + scorers[i + 1 :]).rsum for i, run in enumerate(runs)}
        if row.recipe == "flickr8k":  # of COCO's captions none is kept here
            answer["gallery"] = shown(scores.mean(0).numpy(), pairs)
        answer["by_weight"] = {}
        for weight in WEIGHTS:
            for model in models:
                model.querybank = model.querybank and replace(model.querybank, weight=weight)
            again = [model_scorer(model, *sides) for model, sides in zip(models, embeddings)]
            answer["by_weight"][str(weight)] = measure(again).rsum
    for model in models:
        model.querybank = None
    answer["plain"] = measure([model_scorer(model, *sides) for model, sides in zip(models, embeddings)]).to_dict()
    return answer


def shown(scores: np.ndarray, pairs: Pairs) -> dict[str, Any]:
    """Retrievals both ways, spread evenly over the split, by name and caption: photographs stay out of the repository."""
    captions = [caption.text for caption in pairs.captions]
    first = {caption.picture: caption.text for caption in reversed(pairs.captions)}
    pictures = [f"{picture.id}: {first[i]}" for i, picture in enumerate(pairs.pictures)]

    def lines(found: list[Retrieval], queries: list[str], items: list[str]) -> list[dict[str, Any]]:
        return [
            {"query": queries[r.query], "rank": r.rank, "found": [items[i] for i in r.found], "right": r.right}
            for r in found
        ]

    i2t = gallery(scores, pairs.picture_groups, pairs.caption_groups, QUERIES, ANSWERS)
    t2i = gallery(scores.T, pairs.caption_groups, pairs.picture_groups, QUERIES, ANSWERS)
    return {
        "i2t": {"right": lines(i2t.right, pictures, captions), "wrong": lines(i2t.wrong, pictures, captions)},
        "t2i": {"right": lines(t2i.right, captions, pictures), "wrong": lines(t2i.wrong, captions, pictures)},
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m studies.models", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", metavar="ROW", help="only these rows")
    parser.add_argument("--recipe", choices=["flickr8k", "coco"], default="flickr8k")
    parser.add_argument("--data", type=Path, required=True, help="the collection in Karpathy's JSON, with the pictures")
    parser.add_argument("--out", type=Path, default=Path("runs"), help="where runs go")
    parser.add_argument("--precision", default="32-true", help="of training, as for vse train")
    options = parser.parse_args()
    keep_freed_memory()
    for row in recipes.rows(options.recipe):
        if not options.rows or row.name in options.rows:
            how = {"precision": options.precision, "progress": Progress()}
            (result,) = reproduce([row.id], options.data, options.out, **how)
            found = measured(result, options.data) | {"precision": options.precision}
            write_json(RESULTS / f"{options.recipe}-models" / f"{row.name}.json", found)


if __name__ == "__main__":
    main()
