"""vse evaluate: the papers' numbers for a run, an ensemble of runs, or embeddings made elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vsekit.cli import app
from vsekit.cli.groups import grouped
from vsekit.cli.options import (
    Data,
    EmbeddingOptions,
    OutputOptions,
    ReadingOptions,
    Runs,
    examples,
    print_json,
    read_source,
)
from vsekit.errors import UserError

if TYPE_CHECKING:
    from vsekit.evaluation.measure import Question


@dataclass(frozen=True)
class QuestionOptions:
    """What is measured, and how; see `evaluation.measure.Question`."""

    protocol: Annotated[str, typer.Option("--protocol", help="full, 5k, 1k (five folds), 1k-single or person.")] = (
        "full"
    )
    ties: Annotated[str, typer.Option("--ties", help="mean, optimistic or pessimistic; see docs/evaluation.md.")] = (
        "mean"
    )
    at: Annotated[str, typer.Option("--at", help="The K of R@K.")] = "1,5,10"
    confidence: Annotated[bool, typer.Option("--confidence/--no-confidence", help="95 % bootstrap intervals.")] = True
    rerank_with: Annotated[
        Path | None, typer.Option("--rerank-with", help="A slower run (SCAN, BFAN) that re-ranks the best answers.")
    ] = None
    rerank: Annotated[
        int, typer.Option("--rerank", min=1, help="With --rerank-with: how many answers of each query are re-ranked.")
    ] = 50
    plain: Annotated[bool, typer.Option("--plain", help="Ignore the querybanks of models that have one.")] = False
    positives: Annotated[
        str | None,
        typer.Option("--positives", help="cxc or eccv: human judgements for COCO's 5K test, instead of groups."),
    ] = None
    csv: Annotated[Path | None, typer.Option("--csv", help="Also write the numbers as CSV.")] = None
    trec: Annotated[Path | None, typer.Option("--trec", help="Also write TREC runs and qrels into this folder.")] = None

    def question(self) -> Question:
        from vsekit.evaluation.measure import Question

        names = ("protocol", "ties", "confidence", "positives", "rerank_with", "rerank", "plain", "csv", "trec")
        asked = Question(ks=_whole_numbers(self.at), **{name: getattr(self, name) for name in names})
        asked.check()
        return asked


@app.command(
    epilog=examples(
        "vse evaluate runs/demo/run --data runs/demo/scenes --split test",
        "vse evaluate runs/coco --data coco --protocol 1k --json",
        "vse evaluate runs/seed0 runs/seed1 --data flickr8k --split val   (their ensemble)",
        "vse evaluate runs/vsepp --rerank-with runs/scan --rerank 50 --data flickr8k --split val",
        "vse evaluate --image-embeddings A.npy --caption-embeddings B.npy --captions-per-image 5",
    )
)
@grouped
def evaluate(
    question: QuestionOptions,
    embeddings: EmbeddingOptions,
    reading: ReadingOptions,
    output: OutputOptions,
    runs: Runs = None,
    data: Data = None,
    split: Annotated[str, typer.Option("--split", help="Which split to measure.")] = "test",
) -> None:
    """Measure retrieval both ways: R@K, median and mean rank, rsum, mAP@R, R-precision, with 95 % intervals."""
    from vsekit.evaluation.measure import measure

    asked = question.question()
    metrics = measure(read_source(runs, data, split, reading, embeddings), asked, output.progress)
    if output.json:
        print_json(metrics.to_dict())
    else:
        typer.echo("\n".join(metrics.table()))


def _whole_numbers(text: str) -> list[int]:
    try:
        numbers = [int(number) for number in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise UserError(f"can't read --at {text}", remedy="Write whole numbers with commas, for example 1,5,10.")
    return numbers
