"""Distillation: a student follows the scores of a teacher, any run or the mean of several.

Hinton, Vinyals & Dean, "Distilling the Knowledge in a Neural Network", 2015, Eq. 1, with the rows and columns of the score
matrix for classes. With p(·/τ) the softmax over the captions of an image, and over the images of a caption,

    L = 1/I · Σ_i KL( p(Tᵢ:/τ_T) ‖ p(Sᵢ:/τ) ) + 1/C · Σ_c KL( p(T:c/τ_T) ‖ p(S:c/τ) )

        + λ · ( 1/I · Σ_i ‖f(i) − f_T(i)‖² + 1/C · Σ_c ‖g(c) − g_T(c)‖² )

    S student's scores, T teacher's scores: (I, C);  f, g student's vectors, f_T, g_T teacher's

It reads no groups: who belongs together is the teacher's to say. Pictures without captions are further rows (I > C), see
`Teaching`. 0 where the student scores as the teacher does and τ = τ_T. The last line, the embedding regression of
Romero et al., "FitNets", 2015, Eq. 3, needs a teacher whose vectors are as long as the student's. Best beside a loss that
reads the labels:

    loss:
      kind: weighted_sum
      terms:
        - {weight: 1, loss: {kind: info_nce, temperature: 0.05}}
        - {weight: 1, loss: {kind: distillation, temperature: 0.05}}
    teacher: [runs/one, runs/other]
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import kl_div

from vsekit.errors import UserError
from vsekit.losses.base import Loss, LossContext, LossInputs, LossPart


def distillation(scores: Tensor, teacher: Tensor, temperature: float, teacher_temperature: float) -> Tensor:
    """The two sums of KL. Args: scores, teacher (I, C), image × caption. Returns a scalar."""
    total = scores.new_zeros(())
    for s, t in ((scores, teacher), (scores.T, teacher.T)):
        log_p, log_q = (t / teacher_temperature).log_softmax(dim=1), (s / temperature).log_softmax(dim=1)
        total = total + kl_div(log_q, log_p, reduction="batchmean", log_target=True)
    return total


def regression(vectors: Tensor, teacher: Tensor) -> Tensor:
    """The mean squared distance of aligned vectors, (B, D) each; a scalar."""
    return (vectors - teacher).square().sum(dim=1).mean()


class Distillation(Loss):
    """Logs `kl`, and `regression` where there is one."""

    needs_teacher = True

    def __init__(self, settings: DistillationSettings) -> None:
        super().__init__()
        self.settings = settings
        self.needs_vectors = settings.regression > 0

    def forward(self, inputs: LossInputs) -> tuple[Tensor, dict[str, Any]]:
        taught, settings = inputs.teaching, self.settings
        assert taught is not None  # the stage has a teacher: training sees to it
        scores, images = inputs.scores, [(inputs.images, taught.images)]
        if taught.unlabelled is not None:
            scores = torch.cat([scores, inputs.similarity(taught.unlabelled, inputs.captions)])
            images.append((taught.unlabelled, taught.unlabelled_images))
        theirs = torch.cat([vectors for _, vectors in images])
        teacher_temperature = settings.teacher_temperature or settings.temperature
        kl = distillation(scores, theirs @ taught.captions.T, settings.temperature, teacher_temperature)
        if not settings.regression:
            return kl, {"kl": kl.detach()}
        own = torch.cat([vectors for vectors, _ in images])
        distance = regression(own, theirs) + regression(inputs.captions, taught.captions)
        return kl + settings.regression * distance, {"kl": kl.detach(), "regression": distance.detach()}


class DistillationSettings(LossPart):
    """temperature: τ, of the student's scores; teacher_temperature: τ_T, the same unless it is given: a teacher whose
    scores lie closer together, such as the mean of many models, wants a lower one.

    regression: λ.
    """

    kind: Literal["distillation"] = "distillation"
    temperature: float = Field(0.05, gt=0)
    teacher_temperature: float | None = Field(default=None, gt=0)
    regression: float = Field(0.0, ge=0)

    def build(self, context: LossContext) -> Distillation:
        if self.regression and context.teacher_dim not in (None, context.dim):
            raise UserError(
                f"the teacher's vectors have {context.teacher_dim} numbers, the student's {context.dim}: nothing to regress",
                field="loss.regression",
                remedy=f"Set model.dim to {context.teacher_dim}, or regression to 0: the teacher's scores fit any size.",
            )
        return Distillation(self)
