"""Where a model meets data: scores, vectors and groups of a collection, whoever asks for them.

`meet` reads a collection as the model wants it (features that came with it, features in the cache, or the pictures, through
the encoder that made the features a model was trained on), and scores with the model's querybank or without.
`RunsOnData` does so for run folders and their ensembles; `external.Embeddings` is its counterpart for files. `RunsOnData.of`
keeps the captions that the runs were trained and are measured with.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from vsekit.data.pairs import Pairs
from vsekit.data.text import Ragged
from vsekit.errors import UserError
from vsekit.evaluation.config import CONFIG, written_config
from vsekit.evaluation.protocols import check_protocol
from vsekit.evaluation.scorers import Average, Less, Scorer, scorer
from vsekit.features.texts import TextStates
from vsekit.models.embed import embed_captions, embed_images
from vsekit.models.inputs import ImageInputs, image_inputs
from vsekit.models.model import VSE, load_model, model_folder
from vsekit.models.querybank import Querybank, hubness
from vsekit.parts import Sets
from vsekit.progress import QUIET, Progress

#: Items whose scores with the whole bank are held at a time.
HUBS_AT_ONCE = 1024

#: In a run folder of several members: which of them are averaged.
ENSEMBLE = "ensemble.json"


def embedded(
    model: VSE,
    pairs: Pairs,
    inputs: ImageInputs | None = None,
    tokens: Ragged | TextStates | None = None,
    progress: Progress = QUIET,
) -> tuple[Any, Any]:
    """Embeddings of a collection's pictures and captions: (n, D) tensors, or `Sets`.

    Args:
        inputs, tokens: pictures and captions made ready before, where the caller has them.
    """
    model.eval()
    inputs = inputs or image_inputs(model, pairs, model.view, progress=progress)
    tokens = tokens or Ragged.of(model.tokenizer([caption.text for caption in pairs.captions]))
    with progress.bar("Pictures", "pictures") as bar:
        images = embed_images(model, inputs, len(pairs.pictures), progress=bar)
    with progress.bar("Captions", "captions") as bar:
        captions = embed_captions(model, tokens, progress=bar)
    return images, captions


def model_scorer(model: VSE, images: Any, captions: Any, *, plain: bool = False) -> Scorer:
    """Scores by the model's similarity, the plain matrix product where that is the same.

    plain: without the model's querybank, if it has one.
    """
    scores = scorer(images, captions, model.similarity)
    bank = model.querybank
    if bank is None or plain:
        return scores
    of_images = _hubness(scorer(images, bank.captions, model.similarity), bank, of="images")
    of_captions = _hubness(scorer(bank.images, captions, model.similarity), bank, of="captions")
    return Less(scores, bank.weight * of_images, bank.weight * of_captions)


def _hubness(scores: Scorer, bank: Querybank, of: Literal["images", "captions"]) -> Tensor:
    """h of every picture, or of every caption; a block of them at a time."""
    n, everything = scores.n_images if of == "images" else scores.n_captions, slice(None)
    parts = []
    for start in range(0, n, HUBS_AT_ONCE):
        some = slice(start, start + HUBS_AT_ONCE)
        block = scores.block(some, everything) if of == "images" else scores.block(everything, some).T
        parts.append(hubness(block, bank.temperature))
    return torch.cat(parts)


@dataclass(frozen=True)
class Meeting:
    """A model, an ensemble, or embeddings made elsewhere, on a collection.

    scores: of its pictures with its captions; image_groups, caption_groups: which belong together.
    images, captions: embeddings, (n, D) or `Sets`; None for an ensemble, which has none of its own.
    pairs: the collection; None where only embeddings were given.
    model, inputs: the model, and what its image tower read; None for ensembles and embeddings.
    named_by: what names model and data; asked for only where it is needed, since it reads all weights.
    """

    scores: Scorer
    image_groups: np.ndarray
    caption_groups: np.ndarray
    images: Any = None
    captions: Any = None
    pairs: Pairs | None = None
    model: VSE | None = None
    inputs: ImageInputs | None = None
    named_by: Callable[[], Any] = lambda: None

    @property
    def groups(self) -> tuple[np.ndarray, np.ndarray]:
        return self.image_groups, self.caption_groups

    @property
    def vectors(self) -> np.ndarray | None:
        """(n_images, D), by which pictures are compared with each other; None for sets and ensembles."""
        return None if self.images is None or isinstance(self.images, Sets) else np.asarray(self.images)

    @property
    def texts(self) -> list[str] | None:
        return [caption.text for caption in self.pairs.captions] if self.pairs else None


class Source(Protocol):
    """What can be met: `RunsOnData`, or `external.Embeddings`."""

    @property
    def name(self) -> str: ...

    @property
    def pairs(self) -> Pairs | None: ...

    def check(self, protocol: str) -> None:
        """UserError for all that can be seen without encoding anything."""
        ...

    def meet(self, *, plain: bool = False, progress: Progress = QUIET) -> Meeting: ...


def meet(
    model: VSE,
    pairs: Pairs,
    *,
    plain: bool = False,
    inputs: ImageInputs | None = None,
    tokens: Ragged | TextStates | None = None,
    progress: Progress = QUIET,
) -> Meeting:
    """A model on a collection.

    Args:
        plain: without the model's querybank. Where the collection is the training set (mining, audits), the bank's
            queries are the very pictures and captions to be ranked.
        inputs, tokens: pictures and captions made ready before, where the caller has them.
    """
    if inputs is None:
        if pairs.features is None and model.feature_source is not None:
            model.read_pictures()
        inputs = image_inputs(model, pairs, model.view, progress=progress)
    images, captions = embedded(model, pairs, inputs, tokens, progress)
    scores = model_scorer(model, images, captions, plain=plain)
    groups = pairs.picture_groups, pairs.caption_groups
    return Meeting(scores, *groups, images, captions, pairs, model, inputs, model.fingerprint)


@dataclass(frozen=True)
class RunsOnData:
    """Run or model folders on a split of a collection; several are an ensemble: their scores are averaged.

    A run folder of several members, as vse train makes without a recipe, or its ensemble.json, stands for them.
    """

    runs: Sequence[Path | str]
    pairs: Pairs
    split: str = ""

    @classmethod
    def of(cls, runs: Sequence[Path | str], pairs: Pairs, split: str = "") -> RunsOnData:
        """With the captions of `pairs` that the runs keep."""
        return cls(runs, kept_captions(runs, pairs), split)

    @property
    def name(self) -> str:
        return "+".join(_folder(run).name for run in self.runs)

    def check(self, protocol: str = "full") -> None:
        check_protocol(protocol, self.pairs.picture_groups)
        for run in self._members:
            model_folder(run)
        if not self.pairs.captions:
            raise UserError("there are no captions", file=self.pairs.root, remedy="Choose another --split.")

    def meet(self, *, plain: bool = False, progress: Progress = QUIET) -> Meeting:
        met = [meet(load_model(run), self.pairs, plain=plain, progress=progress) for run in self._members]
        if len(met) == 1:
            return replace(met[0], named_by=self._named)
        scores = Average([one.scores for one in met])
        return Meeting(scores, *met[0].groups, pairs=self.pairs, named_by=self._named)

    @property
    def _members(self) -> list[Path | str]:
        return [member for run in self.runs for member in members_of(run)]

    def _named(self) -> list[Any]:
        runs: list[Any] = [[str(run), load_model(run).fingerprint()] for run in self._members]
        return [*runs, self.split, [caption.text for caption in self.pairs.captions]]


def members_of(run: Path | str) -> list[Path | str]:
    """The runs whose scores are averaged for a run folder of several, or for its ensemble.json; for any other, itself."""
    folder = _folder(run)
    file = folder / ENSEMBLE
    if not file.is_file():
        return [run]
    return [folder / member for member in json.loads(file.read_text(encoding="utf-8"))["members"]]


def _folder(run: Path | str) -> Path:
    return Path(run).parent if Path(run).name == ENSEMBLE else Path(run)


def kept_captions(runs: Sequence[Path | str], pairs: Pairs) -> Pairs:
    """The collection with as many captions a picture as the runs' settings say (`data.captions_per_picture`).

    Of several runs the fewest count, so that all of them rank the same captions. A model folder says nothing.
    """
    counts = [count for run in runs for member in members_of(run) if (count := _captions_per_picture(Path(member)))]
    return pairs.first_captions(min(counts, default=None))


def _captions_per_picture(run: Path) -> int | None:
    if not (run / CONFIG).is_file():
        return None
    data = written_config(run)[1].get("data")
    count = data.get("captions_per_picture") if isinstance(data, dict) else None
    return count if isinstance(count, int) and count > 0 else None


def score_runs(runs: Sequence[Path | str], pairs: Pairs, progress: Progress = QUIET, *, plain: bool = False) -> Scorer:
    """Scores of a run on a collection, or of an ensemble."""
    return RunsOnData(runs, pairs).meet(plain=plain, progress=progress).scores
