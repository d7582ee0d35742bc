"""Instance loss, Zheng et al., "Dual-Path Convolutional Image-Text Embeddings with Instance Loss", Eq. 5–8.

    P_visual  = softmax(W_shareᵀ f_img),   L_visual  = −log P_visual(c)
    P_textual = softmax(W_shareᵀ f_text),  L_textual = −log P_textual(c)

Every image/text group c of the training set is a class, and one classifier W_share (classes, D), without a bias,
serves both modalities. The loss is λ₂·L_visual + λ₃·L_textual (Eq. 9), each averaged over the batch. With
`pseudo_classes` the classes are k-means clusters of image features instead (Table 4; see `pseudo_categories`). The
scores play no part; the paper's features are not normalised. Published code drops features just before the classifier
(`dropout`), so that the ranking loss reads them whole; the head's dropout, before its last layer, touches both.

`classes: full` is the equations; its cost grows with the number of groups. `classes: sampled` keeps the classes of the
batch exact and estimates the rest of the softmax's sum from `samples` other classes drawn uniformly, each weighted by
(other classes) / samples: the sum is unbiased, and exact when `samples` covers them all. The gradient of W_share is
then sparse, and neither the step nor the update grows with the number of groups: give `sparse_parameters` to
`torch.optim.SparseAdam`.

Of several processes each has the rows of W_share of some classes, and the softmax's sum is put together from theirs:

    log Σ_c exp(w_c·f) = log Σ_r exp( log Σ_{c of process r} exp(w_c·f) )
"""

from __future__ import annotations

from math import log
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from vsekit.errors import UserError
from vsekit.losses.base import Loss, LossContext, LossInputs, LossPart, Shards
from vsekit.parts import Sets


def draw_classes(labels: Tensor, classes: int, samples: int) -> tuple[Tensor, Tensor, Tensor]:
    """The classes a sampled softmax looks at, in time independent of `classes`.

    Args: labels (B,) int64. Returns: ids (U + S,), the batch's U classes in order, then S others; what to add to their
    logits (U + S,), the logarithm of how many classes each stands for; and where in `ids` each label is (B,).
    """
    seen, targets = labels.unique(return_inverse=True)
    rest = classes - len(seen)
    drawn = (
        torch.arange(rest, device=labels.device)
        if samples >= rest
        else torch.randint(rest, (samples,), device=labels.device)
    )
    # The r-th class that is not in the batch: r, plus the seen classes at or below it.
    places = torch.arange(len(seen), device=labels.device)
    others = drawn + torch.searchsorted(seen - places, drawn, right=True)
    stands_for = torch.ones(len(seen) + len(drawn), device=labels.device)
    stands_for[len(seen) :] = rest / max(len(drawn), 1)
    return torch.cat([seen, others]), stands_for.log(), targets


def sharded_cross_entropy(logits: Tensor, labels: Tensor, own: Tensor, shards: Shards) -> Tensor:
    """−log softmax(·)[label] of each row, where every process has the logits of its classes alone.

    Args: logits (B, K of this process); labels (B,) among all K; own (K,) bool, which of them are this process's.
    Returns (B,), in every process.
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))  # as torch's cross entropy does under autocast
    place = own.cumsum(0)[labels] - 1
    mine = own[labels]
    # A process may have none of the classes that were drawn: its sum is 0.
    found = logits.gather(1, place.clamp(min=0)[:, None])[:, 0] if logits.shape[1] else logits.sum(dim=1)
    label_logits = shards.gather(found.masked_fill(~mine, 0.0)[None]).sum(dim=0)
    return shards.gather(logits.logsumexp(dim=1)[None]).logsumexp(dim=0) - label_logits


class Instance(Loss):
    needs_vectors = True

    def __init__(
        self,
        settings: InstanceSettings,
        classes: int,
        dim: int,
        group_classes: Tensor | None = None,
        shards: Shards | None = None,
    ) -> None:
        super().__init__()
        self.settings, self.classes = settings, classes
        self.shards = shards if shards is not None and classes >= shards.size else None
        self.rows = self.shards.rows(classes) if self.shards else slice(0, classes)
        self.sharded = ("weight",) if self.shards else ()
        # All rows are drawn, so that those of a process are those that one process would have.
        weight = torch.empty(classes, dim).uniform_(-(dim**-0.5), dim**-0.5)
        self.weight = nn.Parameter(weight[self.rows].clone() if self.shards else weight)
        self.group_classes: Tensor | None
        self.register_buffer("group_classes", group_classes)

    def forward(self, inputs: LossInputs) -> tuple[Tensor, dict[str, Any]]:
        if isinstance(inputs.images, Sets) or isinstance(inputs.captions, Sets):
            raise UserError(
                "the loss 'instance' classifies one vector an image and one a caption, and a set similarity keeps sets",
                remedy="Use a pooled similarity (cosine, order), or a loss on scores, such as 'max_of_hinges'.",
            )
        labels = inputs.groups if self.group_classes is None else self.group_classes[inputs.groups]
        features = F.dropout(torch.cat([inputs.images, inputs.captions]), self.settings.dropout, self.training)
        if self.settings.classes == "full":
            logits, own = features @ self.weight.T, self._own(torch.arange(self.classes, device=labels.device))
        else:
            ids, correction, labels = draw_classes(labels, self.classes, self.settings.samples)
            own = self._own(ids)
            rows = F.embedding(ids[own] - self.rows.start, self.weight, sparse=True)
            logits = features @ rows.T + correction[own]
        visual, textual = (self._cross_entropy(half, labels, own) for half in logits.chunk(2))
        loss = self.settings.image_weight * visual + self.settings.text_weight * textual
        return loss, {"visual": visual.detach(), "textual": textual.detach()}

    def _own(self, ids: Tensor) -> Tensor:
        """Which classes are this process's, bool."""
        return (ids >= self.rows.start) & (ids < self.rows.stop)

    def _cross_entropy(self, logits: Tensor, labels: Tensor, own: Tensor) -> Tensor:
        if self.shards is None:
            return F.cross_entropy(logits, labels)
        return sharded_cross_entropy(logits, labels, own, self.shards).mean()

    def sparse_parameters(self) -> list[nn.Parameter]:
        return [self.weight] if self.settings.classes == "sampled" else []

    def plateau(self, batch: int) -> float:
        return (self.settings.image_weight + self.settings.text_weight) * log(self.classes)


class InstanceSettings(LossPart):
    """image_weight, text_weight: λ₂, λ₃ of Eq. 9; the published code has 1 and 0.1 in stage II, with λ₁ = 2.

    classes: "full" softmax, or "sampled", see above. samples: classes drawn besides those of the batch.
    dropout: of the features before the classifier, in training; the place published code has it at.
    pseudo_classes: k of the k-means pseudo-categories; None makes each group a class.
    """

    kind: Literal["instance"] = "instance"
    image_weight: float = Field(1.0, ge=0)
    text_weight: float = Field(1.0, ge=0)
    classes: Literal["full", "sampled"] = "full"
    samples: int = Field(128, ge=1)
    dropout: float = Field(0.0, ge=0, lt=1)
    pseudo_classes: int | None = Field(None, ge=1)

    @property
    def categories(self) -> int | None:
        return self.pseudo_classes

    @property
    def counts_groups(self) -> bool:
        return True

    def build(self, context: LossContext) -> Instance:
        if self.pseudo_classes is None:
            return Instance(self, context.n_groups, context.dim, shards=context.shards)
        if context.group_classes is None:
            raise UserError(
                "pseudo-categories need image features to cluster, and there are none",
                field="pseudo_classes",
                remedy="Train on precomputed or extracted features, or leave pseudo_classes out.",
            )
        return Instance(self, self.pseudo_classes, context.dim, context.group_classes, context.shards)
