"""The contract of a loss: it reads a score matrix and who belongs together, and knows nothing of the model behind.

A batch holds B pairs; pair b is image b with caption b, so `scores` is square and its diagonal holds the positives
of record. Images may repeat (two captions of one image in a batch): `groups` tells, and a negative is a pair of
different groups. Published code masks only the diagonal; losses with negatives offer that as `mask: diagonal`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from vsekit.parts import Part

MaskKind = Literal["group", "diagonal"]


@dataclass(frozen=True)
class OfflineScores:
    """Scores of one offline hard negative of each kind for every pair (i, t) of the batch, each (B,).

    t̂ is a mined caption for image i, î a mined image for caption t (AOQ, Sec. 3.2).

    caption: S(i, t̂);  image: S(î, t);  both: S(î, t̂);  partners: S(image of t̂, caption of î).
    """

    caption: Tensor
    image: Tensor
    both: Tensor
    partners: Tensor


@dataclass(frozen=True)
class Teaching:
    """What a teacher makes of the batch: vectors whose inner products are its scores (`distillation`).

    images, captions: (B, E), the teacher's, E as it happens to be (end to end for several teachers).
    unlabelled: the student's embeddings of U further pictures that have no captions; unlabelled_images: (U, E), the
        teacher's. Both None where there are none.
    """

    images: Tensor
    captions: Tensor
    unlabelled: Any = None
    unlabelled_images: Any = None


@dataclass(frozen=True)
class LossInputs:
    """What a training step hands to a loss.

    scores: (B, B), image b × caption c.
    groups: (B,) int64, the group of pair b *within the training collection* (class labels of the instance loss).
    images, captions: embeddings that gave the scores: (B, D) tensors, or `Sets` for set similarities.
    similarity: scores two batches of embeddings, (A, …) × (B, …) → (A, B); for image–image or caption–caption scores.
    epoch: epochs since the stage began, as a fraction that grows every step (curricula).
    offline: only when the loss says it `needs_offline`.
    teaching: only when the stage has a teacher.
    """

    scores: Tensor
    groups: Tensor
    images: Any
    captions: Any
    similarity: Callable[[Any, Any], Tensor]
    epoch: float = 0.0
    offline: OfflineScores | None = None
    teaching: Teaching | None = None


@dataclass(frozen=True)
class Shards:
    """Of a loss that several processes compute together: which rows of its parameters are this process's.

    Every process computes the loss of the whole batch, so a loss need not know of this. One with a parameter that grows
    with the collection may keep only some rows of it (`Loss.sharded_parameters`).

    gather: (b, …) → (B, …), the rows of all processes in the order of ranks; gradients flow back to their process.
    """

    rank: int
    size: int
    gather: Callable[[Tensor], Tensor]

    def rows(self, total: int) -> slice:
        return slice(total * self.rank // self.size, total * (self.rank + 1) // self.size)


@dataclass(frozen=True)
class LossContext:
    """What a loss may need to build itself.

    n_groups: groups in the training set (the classes of the instance loss); dim: embedding size D.
    group_classes: (n_groups,) int64, the pseudo-category of each group, when the loss asks for `categories`.
    teacher_dim: E, the size of the teacher's vectors, where the stage has one.
    shards: where several processes compute the loss together.
    """

    n_groups: int
    dim: int
    group_classes: Tensor | None = None
    teacher_dim: int | None = None
    shards: Shards | None = None


class Loss(nn.Module):
    """Maps `LossInputs` to a scalar and a dict of numbers worth logging (plain floats or 0-d tensors).

    needs_offline: the training loop must sample offline negatives and fill `LossInputs.offline`.
    needs_vectors: `images` and `captions` must be (B, D) vectors, so set similarities (SCAN, BFAN) won't do.
    needs_teacher: the stage must name a teacher, and `LossInputs.teaching` holds what it makes of the batch.
    needs_symmetric: scores pictures with pictures and captions with captions, so the similarity must treat both
        sides alike (cosine does; order and set similarities don't).
    sparse_parameters: those whose gradients are sparse, so that a step costs only the rows in use. They need an
        optimiser of their own that takes such gradients (`torch.optim.SparseAdam`, or SGD without momentum and weight
        decay), and must be left out of gradient clipping.
    sharded: names of its own parameters of which this process has only its `Shards.rows`.
    plateau: the value the loss sits at when the model has collapsed (all embeddings equal), given the batch size;
        None where there is no such value. The loop watches for it.
    """

    needs_offline: bool = False
    needs_vectors: bool = False
    needs_teacher: bool = False
    needs_symmetric: bool = False
    sharded: tuple[str, ...] = ()

    def forward(self, inputs: LossInputs) -> tuple[Tensor, dict[str, Any]]:
        raise NotImplementedError

    def sparse_parameters(self) -> list[nn.Parameter]:
        return []

    def sharded_parameters(self) -> list[nn.Parameter]:
        """Those that it names, and those that losses within it name."""
        return [getattr(part, name) for part in self.modules() if isinstance(part, Loss) for name in part.sharded]

    def plateau(self, batch: int) -> float | None:
        return None


class LossPart(Part):
    """Settings of a loss."""

    @property
    def inner(self) -> Sequence[LossPart]:
        """The losses it is made of, where it is made of others."""
        return ()

    @property
    def categories(self) -> int | None:
        """k, where it wants groups clustered into so many pseudo-categories (`LossContext.group_classes`)."""
        return next((loss.categories for loss in self.inner if loss.categories), None)

    @property
    def counts_groups(self) -> bool:
        """Whether it must know how many groups there are (`LossContext.n_groups`), which of a stream nobody does."""
        return any(loss.counts_groups for loss in self.inner)

    def build(self, context: LossContext) -> Loss:
        raise NotImplementedError


def negatives(groups: Tensor, mask: MaskKind = "group") -> Tensor:
    """(B, B) bool: True where image b and caption c are a negative pair.

    "group": they belong to different groups. "diagonal": all but the pair itself, as published code has it.
    """
    if mask == "diagonal":
        return ~torch.eye(len(groups), dtype=torch.bool, device=groups.device)
    return groups[:, None] != groups[None, :]


def hardest_negatives(scores: Tensor, negative: Tensor) -> tuple[Tensor, Tensor]:
    """Scores of each image's hardest negative caption and of each caption's hardest negative image, both (B,).

    −inf where there is none (a batch of one, or of one group): a hinge over it is 0 and passes no gradient.
    """
    candidates = scores.masked_fill(~negative, -torch.inf)
    return candidates.max(dim=1).values, candidates.max(dim=0).values
