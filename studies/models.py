"""The rows of recipes/flickr8k.yaml, trained where they are not yet, and measured; docs/study.md shows the results.

python -m studies.models --data flickr8k [--out runs]
"""

from __future__ import annotations

import argparse
from pathlib import Path

from vsekit import recipes
from vsekit.evaluation.significance import confidence
from vsekit.files import write_json
from vsekit.memory import keep_freed_memory
from vsekit.progress import Progress
from vsekit.reproduce import reproduce

RESULTS = Path(__file__).parent / "results" / "flickr8k-models"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m studies.models", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="Flickr8k in Karpathy's JSON, with the pictures")
    parser.add_argument("--out", type=Path, default=Path("runs"), help="where runs go")
    options = parser.parse_args()
    keep_freed_memory()
    for row in recipes.rows("flickr8k"):
        (result,) = reproduce([row.id], options.data, options.out, progress=Progress())
        metrics = result.metrics[0]
        answer = {"row": row.name, "method": row.method, "ensemble": row.ensemble, "split": result.split}
        write_json(RESULTS / f"{row.name}.json", answer | {"metrics": metrics.to_dict() | {"ci": confidence(metrics)}})


if __name__ == "__main__":
    main()
