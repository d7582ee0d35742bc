"""Size augmentation of VSE∞ (Chen et al., CVPR 2021): regions are dropped and words disturbed, in training only.

A region is dropped with p = 0.2. A word is touched with p = 0.2; of the touched, 50 % are masked, 10 % replaced by a
random word, 40 % deleted. Two rules of our own: a set never becomes empty, and specials are neither touched nor drawn.
Each token is touched on its own; the published code lets the pieces of one word share their fate.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from vsekit.parts import Tokens


def drop_regions(mask: Tensor, p: float = 0.2, generator: torch.Generator | None = None) -> Tensor:
    """(B, N) bool → (B, N) bool with each True turned False with probability `p`, but one left in every row."""
    draw = _uniform(mask, generator).masked_fill(~mask, -1)
    # The highest draw of a row survives whenever any does, so keeping it matters only when none would be left.
    return (draw >= p).scatter(1, draw.argmax(1, keepdim=True), True) & mask


def disturb_words(
    tokens: Tokens,
    p: float,
    vocabulary_size: int,
    mask_id: int,
    specials: Collection[int],
    generator: torch.Generator | None = None,
) -> Tokens:
    """Tokens (B, T) → Tokens (B, T'), T' the length of the longest sentence after deletion.

    Args:
        p: probability that a token is touched.
        vocabulary_size: replacements are drawn from 0 … vocabulary_size − 1 without `specials`.
        mask_id: what a masked token becomes.
        specials: ids that stay (<start>, <end>, padding, …).
    """
    ids, lengths = tokens
    fixed = torch.tensor(sorted(specials), dtype=torch.int64, device=ids.device)
    words = torch.arange(vocabulary_size, device=ids.device)
    words = words[~torch.isin(words, fixed)]
    valid = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]

    touched = (_uniform(ids, generator) < p) & valid & ~torch.isin(ids, fixed)
    way = _uniform(ids, generator)
    others = words[torch.randint(len(words), ids.shape, generator=generator, device=ids.device)]
    ids = ids.where(~(touched & (way < 0.5)), mask_id)
    ids = ids.where(~(touched & (way >= 0.5) & (way < 0.6)), others)

    deleted = touched & (way >= 0.6)
    kept = valid & ~deleted
    kept[:, 0] |= ~kept.any(1)  # a sentence of words alone keeps at least its first
    lengths = kept.sum(1)
    order = (~kept).byte().argsort(dim=1, stable=True)[:, : int(lengths.max())]
    return tokens._replace(ids=ids.gather(1, order), lengths=lengths)


def _uniform(like: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch.rand(like.shape, generator=generator, device=like.device)
