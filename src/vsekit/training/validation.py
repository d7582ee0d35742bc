"""Validation over several processes: each embeds its batches of the split, and scores its rows of sets; the leader ranks.

Batches are those of one process, so the numbers are too: to the bit, for vectors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from vsekit.data.pairs import Pairs
from vsekit.data.text import Ragged
from vsekit.evaluation.meeting import model_scorer
from vsekit.evaluation.protocols import evaluate
from vsekit.evaluation.scorers import Index, Scorer
from vsekit.features.texts import TextStates
from vsekit.models.embed import embed_captions, embed_images
from vsekit.models.inputs import ImageInputs
from vsekit.models.model import VSE
from vsekit.parts import Sets
from vsekit.training.chunks import rows
from vsekit.training.global_batch import gathered, share
from vsekit.training.world import World

#: Items that one batch has, as `models.embed` makes them.
PICTURES, CAPTIONS = 64, 256


def validated(
    model: VSE, pairs: Pairs, inputs: ImageInputs, texts: Ragged | TextStates, world: World
) -> dict[str, Any]:
    """Metrics of a split, the same in every process."""
    model.eval()
    device = next(model.parameters()).device
    every = np.arange(len(pairs.pictures))
    images = _together(every, PICTURES, lambda own: embed_images(model, inputs, own, PICTURES), world, device)
    # As `embed_captions` sorts them: batches of the sorted sentences are batches of it.
    by_length = np.argsort(-texts.lengths, kind="stable")
    sorted_captions = _together(
        by_length, CAPTIONS, lambda own: embed_captions(model, texts, CAPTIONS, chosen=own), world, device
    )
    captions = rows(sorted_captions, torch.from_numpy(np.argsort(by_length, kind="stable")))
    scores = model_scorer(model, images, captions)
    if model.similarity.on_sets:
        scores = _Known(_row_blocks(scores, world, device))

    def ranked() -> dict[str, Any]:
        result = evaluate(scores, pairs.picture_groups, pairs.caption_groups)
        return {"i2t": result.i2t, "t2i": result.t2i, "rsum": result.rsum}

    return world.told(ranked)


def _together(items: np.ndarray, batch: int, embed: Any, world: World, device: torch.device) -> Any:
    """Embeddings of all items, in their order, whole batches by each process."""
    batches = share(-(-len(items) // batch), world)
    if batches is None:
        return embed(items)
    own = embed(items[batches.start * batch : batches.stop * batch])
    moved = Sets(*(part.to(device) for part in own)) if isinstance(own, Sets) else own.to(device)
    whole = gathered(moved, world)
    return Sets(*(part.cpu() for part in whole)) if isinstance(whole, Sets) else whole.cpu()


def _row_blocks(scores: Scorer, world: World, device: torch.device) -> Tensor:
    """The whole matrix, of which each process computes some rows."""
    own = share(scores.n_images, world)
    block = scores.block(own or slice(0, scores.n_images), slice(0, scores.n_captions))
    return block if own is None else gathered(block.to(device), world).cpu()


class _Known:
    """A `Scorer` of scores that are there."""

    def __init__(self, scores: Tensor) -> None:
        self.scores, (self.n_images, self.n_captions) = scores, scores.shape

    def block(self, images: Index, captions: Index) -> Tensor:
        return self.scores[images][:, captions].clone()
