"""Scores of trained models on whole collections: what evaluation, mining and ensembles read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from vsekit.data.pairs import Pairs
from vsekit.data.text import Ragged
from vsekit.evaluation.scorers import Average, Less, Scorer, scorer
from vsekit.features.texts import TextStates
from vsekit.models.embed import embed_captions, embed_images
from vsekit.models.inputs import ImageInputs, image_inputs
from vsekit.models.model import VSE, load_model
from vsekit.models.querybank import Querybank, hubness
from vsekit.progress import QUIET, Progress

#: Items whose scores with the whole bank are held at a time.
HUBS_AT_ONCE = 1024


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


def model_scorer(model: VSE, images: Any, captions: Any) -> Scorer:
    """Scores by the model's similarity, the plain matrix product where that is the same; hubs corrected, if it has a bank."""
    scores = scorer(images, captions, model.similarity)
    bank = model.querybank
    if bank is None:
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


def score_runs(runs: Sequence[Path | str], pairs: Pairs, progress: Progress = QUIET, *, plain: bool = False) -> Scorer:
    """Scores of a run on a collection; of several, the mean of their scores: their ensemble. plain: without querybanks."""
    scorers = []
    for run in runs:
        model = load_model(run)
        if pairs.features is None and model.feature_source is not None:
            model.read_pictures()
        if plain:
            model.querybank = None
        scorers.append(model_scorer(model, *embedded(model, pairs, progress=progress)))
    return scorers[0] if len(scorers) == 1 else Average(scorers)
