"""What a run logged, as curves: R@1 against epoch, the loss, and K of the adaptive objective (VSE+2AD, Fig. C-2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vsekit.drawing.charts import lines

POINTS = 300  # of a curve; longer ones are averaged piece by piece

Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Curves:
    """Points of each curve; epochs count on over all stages. k, alignment and uniformity are empty if not logged."""

    i2t_r1: Points
    t2i_r1: Points
    rsum: Points
    loss: Points
    k: Points
    alignment: Points
    uniformity: Points


def training_curves(log: Iterable[dict[str, Any]]) -> Curves:
    """Args: log: the lines of metrics.jsonl, see `vsekit.training.run`."""
    log = list(log)
    validations = [line for line in log if line["event"] == "validation"]
    steps = [line for line in log if line["event"] == "train"]
    epochs = range(1, len(validations) + 1)
    logged = {
        name: thinned([(line["step"], float(line[name])) for line in steps if name in line])
        for name in ("loss", "k", "alignment", "uniformity")
    }
    recall = {f"{way}_r1": [(e, line[way]["r1"]) for e, line in zip(epochs, validations)] for way in ("i2t", "t2i")}
    return Curves(**recall, rsum=[(e, line["rsum"]) for e, line in zip(epochs, validations)], **logged)  # type: ignore[arg-type]


def thinned(points: Sequence[tuple[float, float]], most: int = POINTS) -> Points:
    """At most `most` points: the means of equally long pieces of a curve."""
    if len(points) <= most:
        return list(points)
    return [(float(x), float(y)) for x, y in (p.mean(0) for p in np.array_split(np.array(points), most))]


def draw_curves(found: Curves) -> list[str]:
    charts = [
        lines({"image → text": found.i2t_r1, "text → image": found.t2i_r1}, "epoch", "R@1 on the validation split")
    ]
    charts.append(lines({"loss": found.loss}, "step", "training loss", log=True))
    if found.k:
        charts.append(lines({"K": found.k}, "step", "K, negatives of each pair"))
    if found.alignment:
        measures = {"alignment": found.alignment, "uniformity": found.uniformity}
        charts.append(lines(measures, "step", "measures of a batch"))
    return charts
