"""The verbs: what the command line does, as functions. `vsekit.read`, `vsekit.train`, … are these.

They take paths or what was read before, return what was found, and show progress only when told to:

    pairs = vsekit.read("catalogue.csv")
    vsekit.train("my.yaml", pairs, "runs/catalogue", progress=vsekit.Progress())
    print(vsekit.evaluate("runs/catalogue", pairs, split="val").rsum)

Everything heavy is imported when a verb is called.
"""

from __future__ import annotations

from vsekit.verbs.learning import evaluate, mine, read, train, vocabulary
from vsekit.verbs.searching import duplicates, index, search, serve, watch
from vsekit.verbs.vectors import embed, load

__all__ = [
    "duplicates",
    "embed",
    "evaluate",
    "index",
    "load",
    "mine",
    "read",
    "search",
    "serve",
    "train",
    "vocabulary",
    "watch",
]
