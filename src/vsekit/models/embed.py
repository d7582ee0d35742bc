"""Whole collections through a model: embeddings of every picture and every caption, in the collection's order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vsekit.data.text import Ragged
from vsekit.features.texts import TextStates
from vsekit.models.inputs import ImageInputs
from vsekit.models.model import VSE
from vsekit.parts import Sets
from vsekit.progress import Update


@torch.inference_mode()
def embed_images(
    model: VSE, inputs: ImageInputs, chosen: int | np.ndarray, batch_size: int = 64, progress: Update | None = None
) -> Tensor | Sets:
    """Embeddings of the chosen pictures, or of the first n, in memory: (n, D), or `Sets` of (n, N, D)."""
    chosen = np.arange(chosen) if isinstance(chosen, int) else chosen
    device = next(model.parameters()).device
    pieces: list[Tensor | Sets] = []
    for start in range(0, len(chosen), batch_size):
        pictures = chosen[start : start + batch_size]
        loaded, _ = inputs.load(pictures, np.random.default_rng(0))
        pieces.append(_on(model.embed_images(_on(loaded, device)), "cpu"))
        if progress:
            progress(start + len(pictures), len(chosen))
    return joined(pieces)


@torch.inference_mode()
def embed_captions(
    model: VSE,
    tokens: Ragged | TextStates,
    batch_size: int = 256,
    progress: Update | None = None,
    chosen: np.ndarray | None = None,
) -> Tensor | Sets:
    """Embeddings of all captions, or of the chosen ones. Short and long are kept apart, to save padding."""
    device = next(model.parameters()).device
    chosen = np.arange(len(tokens)) if chosen is None else chosen
    order = np.argsort(-tokens.lengths[chosen], kind="stable")
    pieces: list[Tensor | Sets] = []
    for start in range(0, len(order), batch_size):
        pieces.append(_on(model.text(_on(tokens.batch(chosen[order[start : start + batch_size]]), device)), "cpu"))
        if progress:
            progress(min(start + batch_size, len(order)), len(order))
    back = torch.from_numpy(np.argsort(order, kind="stable"))
    whole = joined(pieces)
    return Sets(whole.vectors[back], whole.mask[back]) if isinstance(whole, Sets) else whole[back]


def _on(value: Any, device: Any) -> Any:
    """A tensor, `Sets` or `Tokens` on a device."""
    return type(value)(*(part.to(device) for part in value)) if isinstance(value, tuple) else value.to(device)


def joined(pieces: Sequence[Tensor | Sets]) -> Tensor | Sets:
    """Batches one after the other; sets are padded to the largest."""
    tensors = [piece for piece in pieces if not isinstance(piece, Sets)]
    if tensors:
        return torch.cat(tensors)
    sets = [piece for piece in pieces if isinstance(piece, Sets)]
    longest = max(piece.mask.shape[1] for piece in sets)
    vectors = [torch.nn.functional.pad(p.vectors, (0, 0, 0, longest - p.mask.shape[1])) for p in sets]
    masks = [torch.nn.functional.pad(p.mask, (0, longest - p.mask.shape[1])) for p in sets]
    return Sets(torch.cat(vectors), torch.cat(masks))
