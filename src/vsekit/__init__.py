"""vsekit: visual-semantic embeddings. Train on image–caption pairs, measure as the papers do, search with words.

>>> model = vsekit.load("runs/demo/run")                                           # doctest: +SKIP
>>> scores = model.similarity(model.encode_images(["a.jpg"]), model.encode_texts(["a red ball"]))  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from pathlib import Path

    from vsekit.models.embedder import Embedder


def load(run_or_model: str | Path, *, trust: bool = False) -> Embedder:
    """Loads a trained model, from a run folder or a model folder; see `vsekit.models.embedder.Embedder`.

    trust: parts that the folder names as `module:Class` may be imported, which runs their code.
    """
    from vsekit.models.embedder import load as load_embedder

    return load_embedder(run_or_model, trust=trust)


__all__ = ["__version__", "load"]
