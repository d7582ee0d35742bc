"""vsekit: visual-semantic embeddings. Train on image–caption pairs, measure as the papers do, search with words.

>>> model = vsekit.load("starter")                                                  # doctest: +SKIP
>>> scores = model.similarity(model.encode_images(["a.jpg"]), model.encode_texts(["a red ball"]))  # doctest: +SKIP

The verbs are in `vsekit.verbs`; docs/python.md shows them at work.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from vsekit import verbs
from vsekit.progress import Progress
from vsekit.verbs import duplicates, embed, evaluate, index, load, mine, read, search, serve, train, vocabulary, watch
from vsekit.version import __version__


class _Room(ModuleType):
    """A room whose name is a verb, too: importing `vsekit.search.…` must not hide `vsekit.search(…)`."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        return getattr(verbs, self.__name__.rpartition(".")[2])(*args, **options)


class _Package(ModuleType):
    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, ModuleType) and callable(getattr(verbs, name, None)):
            value.__class__ = _Room
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

__all__ = [
    "Progress",
    "__version__",
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
