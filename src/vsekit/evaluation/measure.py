"""What `vse evaluate` and `vse compare` do: runs, ensembles or embeddings measured, and runs beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from vsekit.data.pairs import Pairs
from vsekit.errors import UserError, nearest
from vsekit.evaluation.meeting import Meeting, RunsOnData, Source, kept_captions
from vsekit.evaluation.metrics import KS, Metrics, Ties, metrics
from vsekit.evaluation.outputs import write_csv, write_trec
from vsekit.evaluation.positives import Positives, coco_positives
from vsekit.evaluation.protocols import Protocol, check_protocol, check_ties, evaluate
from vsekit.evaluation.ranks import count_ranks
from vsekit.evaluation.rerank import reranked
from vsekit.evaluation.significance import compare as paired_tests
from vsekit.evaluation.significance import confidence, over_seeds
from vsekit.progress import QUIET, Progress

JUDGEMENTS = ("cxc", "eccv")


@dataclass(frozen=True)
class Question:
    """What is measured, and how.

    positives: "cxc" or "eccv", human judgements for COCO's 5K test, instead of groups.
    rerank_with, rerank: a slower run that re-ranks the best so many of each query.
    plain: without the querybanks of models that have one.
    confidence: 95 % bootstrap intervals.
    csv, trec: files to write as well.
    """

    protocol: Protocol = "full"
    ks: Sequence[int] = KS
    ties: Ties = "mean"
    confidence: bool = True
    positives: str | None = None
    rerank_with: Path | str | None = None
    rerank: int = 50
    plain: bool = False
    csv: Path | None = None
    trec: Path | None = None

    def check(self) -> None:
        """UserError for what contradicts itself."""
        check_protocol(self.protocol)
        check_ties(self.ties)
        if self.positives not in (None, *JUDGEMENTS):
            raise UserError(
                f"no judgements '{self.positives}'{nearest(self.positives, JUDGEMENTS)}",
                field="--positives",
                remedy=f"There are: {', '.join(JUDGEMENTS)}.",
            )
        if (self.rerank_with or self.positives) and self.protocol != "full":
            raise UserError(
                f"--protocol {self.protocol} doesn't go with --rerank-with or --positives",
                remedy="Leave --protocol out.",
            )
        if self.trec and self.protocol not in ("full", "person"):
            raise UserError(
                f"--trec writes one ranking of everything, and --protocol {self.protocol} ranks less",
                remedy="Leave one out.",
            )
        if self.rerank_with and self.trec:
            raise UserError(
                "--trec writes one scorer's lists, and --rerank-with has two", remedy="Leave one of them out."
            )


def measure(source: Source, asked: Question, progress: Progress = QUIET) -> Metrics:
    """Measures runs on data, or embeddings made elsewhere. What can be refused is refused before anything is encoded."""
    asked.check()
    source.check(asked.protocol)
    judged = _judged(asked.positives, source.pairs)
    slow = None
    if asked.rerank_with:
        if source.pairs is None:
            raise UserError("--rerank-with re-ranks runs, not embeddings", remedy="Give RUN … and --data.")
        slow = RunsOnData([asked.rerank_with], source.pairs)
        slow.check()
    met = source.meet(plain=asked.plain, progress=progress)
    again = slow.meet(plain=asked.plain, progress=progress) if slow else None
    right = judged or Positives.by_groups(*met.groups)
    found = _measured(met, again, right, judged is not None, asked, progress)
    if asked.confidence:
        found = replace(found, ci=confidence(found))
    if asked.csv:
        write_csv(asked.csv, {source.name: found})
    if asked.trec:
        ids = [picture.id for picture in met.pairs.pictures] if met.pairs else None
        write_trec(asked.trec, met.scores, right, tag=source.name, image_ids=ids)
    return found


def _measured(
    met: Meeting, again: Meeting | None, right: Positives, judged: bool, asked: Question, progress: Progress
) -> Metrics:
    with progress.bar("Ranking", "scores") as bar:
        if again:
            ranks = reranked(met.scores, again.scores, right, asked.rerank, progress=bar)
        elif judged:
            ranks = count_ranks(met.scores, right, progress=bar)
        else:
            return evaluate(
                met.scores, *met.groups, protocol=asked.protocol, ks=asked.ks, ties=asked.ties, progress=bar
            )
        return metrics(ranks, ks=asked.ks, ties=asked.ties)


def _judged(kind: str | None, pairs: Pairs | None) -> Positives | None:
    """Who is right for whom by the judgements of CxC or ECCV Caption."""
    if kind is None:
        return None
    images = [picture.meta.get("cocoid") for picture in pairs.pictures] if pairs else [None]
    captions = [caption.meta.get("sentid") for caption in pairs.captions] if pairs else [None]
    if None in images or None in captions:
        raise UserError(
            f"--positives {kind} needs COCO's ids of pictures and captions",
            remedy="Give runs and --data with COCO's Karpathy JSON, and --split test.",
        )
    return coco_positives(kind, np.array(images), np.array(captions))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Comparison:
    """Runs side by side. tests: of each but the first against the first; spread: over seeds, in place of tests."""

    runs: list[Path | str]
    metrics: list[Metrics]
    tests: list[dict[str, Any]]
    spread: dict[str, Any] | None

    def to_dict(self) -> dict[str, Any]:
        """What `--json` prints."""
        rows = [{"run": str(run), **metrics.to_dict()} for run, metrics in zip(self.runs, self.metrics)]
        return {"runs": rows, "against_first": self.tests, "over_seeds": self.spread}


def compare_runs(
    runs: Sequence[Path | str],
    pairs: Pairs,
    *,
    protocol: Protocol = "full",
    seeds: bool = False,
    progress: Progress = QUIET,
) -> Comparison:
    """Measures runs on the same pairs. seeds: they differ in the seed alone: mean and deviation, in place of tests."""
    if len(runs) < 2:
        raise UserError("there is nothing to compare: give two runs or more")
    pairs = kept_captions(runs, pairs)
    sources = [RunsOnData([run], pairs) for run in runs]
    for source in sources:
        source.check(protocol)
    met = (source.meet(progress=progress) for source in sources)
    measured = [evaluate(one.scores, *one.groups, protocol=protocol) for one in met]
    tests = [] if seeds else [paired_tests(measured[0], other) for other in measured[1:]]
    return Comparison(list(runs), measured, tests, over_seeds(measured) if seeds else None)
