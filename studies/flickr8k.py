"""The claims of the five papers on Flickr8k's photographs.

    python -m studies.flickr8k --data DATA [RUN …] [--work runs/flickr8k] [--workers 2] [--word-vectors GLOVE]
    python -m studies.flickr8k --render

DATA is Flickr8k in Karpathy's JSON with the pictures beside it. The matrix is studies/flickr8k.yaml; finished runs are
skipped and interrupted ones go on. Each run writes studies/results/flickr8k/RUN.SEED.json; docs/study.md is made of these
files alone.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

from studies.matrix import Study, run_all, run_one
from studies.study_page import render
from vsekit.errors import UserError
from vsekit.memory import keep_freed_memory
from vsekit.progress import QUIET, Progress

HERE = Path(__file__).parent


def main(name: str = "flickr8k", description: str | None = __doc__) -> None:
    """name: of the matrix, its module and its folder of results."""
    parser = argparse.ArgumentParser(
        prog=f"python -m studies.{name}", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="*", metavar="RUN", help="only these configurations, and what they need")
    parser.add_argument("--data", type=Path, help="the collection: its JSON, or the folder")
    parser.add_argument("--work", type=Path, default=Path("runs") / name, help="where features and runs go")
    parser.add_argument(
        "--word-vectors", type=Path, help="GloVe of 100 numbers a word, for the runs that start with it"
    )
    parser.add_argument(
        "--detector",
        type=Path,
        metavar="FILE",
        help="centernet.json, for the runs on objects; see studies/centernet.py",
    )
    parser.add_argument("--workers", type=int, default=2, help="runs at a time, a thread each")
    parser.add_argument("--render", action="store_true", help="only write docs/study.md")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    study = Study(HERE / f"{name}.yaml", HERE / "results" / name, options.work)
    try:
        if not options.render and options.data is None:
            raise UserError(
                "where is the collection?", field="--data", remedy="Give --data, or --render to write the page."
            )
        if options.one:
            keep_freed_memory()
            torch.set_num_threads(1)
            run_one(study, study.runs[options.one], options.data, options.word_vectors, QUIET)
            return
        if not options.render:
            run_all(
                study,
                options.runs,
                options.data,
                options.workers,
                f"studies.{name}",
                Progress(),
                word_vectors=options.word_vectors,
                detector=options.detector,
            )
        if name == "flickr8k":
            render(study, HERE.parent / "docs")
    except UserError as error:
        sys.exit(f"{error}")


if __name__ == "__main__":
    main()
