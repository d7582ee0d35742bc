"""Scores of trained models on whole collections: what evaluation, mining and ensembles read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vsekit.data.pairs import Pairs
from vsekit.data.text import Ragged
from vsekit.evaluation.scorers import Average, Scorer, scorer
from vsekit.models.embed import embed_captions, embed_images
from vsekit.models.inputs import ImageInputs, image_inputs
from vsekit.models.model import VSE, load_model
from vsekit.models.texts import TextStates
from vsekit.progress import QUIET, Progress


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
    """Scores by the model's similarity; the plain matrix product where that is the same."""
    if model.similarity.inner_product:
        return scorer(model.similarity.prepare_images(images), model.similarity.prepare_captions(captions))
    return scorer(images, captions, model.similarity)


def score_runs(runs: Sequence[Path | str], pairs: Pairs, progress: Progress = QUIET) -> Scorer:
    """Scores of a run on a collection; of several, the mean of their scores: their ensemble."""
    scorers = []
    for run in runs:
        model = load_model(run)
        if pairs.features is None and model.feature_source is not None:
            model.read_pictures()
        scorers.append(model_scorer(model, *embedded(model, pairs, progress=progress)))
    return scorers[0] if len(scorers) == 1 else Average(scorers)
