"""The verbs of who wants vectors: embeddings as files, and the model itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from vsekit.progress import QUIET, Progress

if TYPE_CHECKING:
    from vsekit.data.pairs import Pairs
    from vsekit.features.reading import Reading
    from vsekit.models.embedder import Embedder

    #: A collection: where it is, how it is read, or what was read.
    Data: TypeAlias = Path | str | Reading | Pairs
    Runs: TypeAlias = Path | str | Sequence[Path | str]


def embed(
    model: str | Path, data: Data, out: Path | str, *, progress: Progress = QUIET, **options: Any
) -> dict[str, Any]:
    """Embeddings of a collection's pictures and captions, or of a folder of pictures, as .npy files with their ids.

    >>> vsekit.embed("starter", "~/Pictures", "vectors")                                # doctest: +SKIP

    Args:
        model: "starter", a run or model folder, an exported folder, or a model like CLIP.
        options: those of `vsekit.export.embeddings.embed`: parquet, skip_broken, engine.
    """
    from vsekit.data.pairs import Pairs
    from vsekit.export.embeddings import embed as write
    from vsekit.export.embeddings import open_model, pictures_below
    from vsekit.features.reading import Reading

    if isinstance(data, Reading):
        data = data.pairs()
    pairs = data if isinstance(data, Pairs) else pictures_below(Path(data).expanduser())
    return write(open_model(model), pairs, Path(out), progress=progress, **options)


def load(run_or_model: str | Path, *, trust: bool = False) -> Embedder:
    """Loads a trained model, from a run folder or a model folder; "starter" is the one that comes with vsekit.

    >>> model = vsekit.load("starter")                                                  # doctest: +SKIP
    >>> scores = model.similarity(model.encode_images(["a.jpg"]), model.encode_texts(["a red ball"]))  # doctest: +SKIP

    Args:
        trust: import the code that the model names, where parts of it are not vsekit's.
    """
    from vsekit.models.embedder import load as load_embedder

    return load_embedder(run_or_model, trust=trust)
