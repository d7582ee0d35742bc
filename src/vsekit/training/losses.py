"""Building a stage's loss: what it needs of the collection, and whether the model can give it."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from vsekit.errors import UserError
from vsekit.losses.base import Loss, LossContext, Shards
from vsekit.losses.pseudo_categories import kmeans
from vsekit.models.inputs import FeatureInputs, ImageInputs
from vsekit.models.tower import mean_of_views
from vsekit.pooling.mean import mean_pool
from vsekit.training.collection import Collection
from vsekit.training.settings import StageSettings
from vsekit.training.teacher import Teacher


def build_loss(
    stage: StageSettings,
    data: Collection,
    inputs: ImageInputs,
    dim: int,
    teacher: Teacher | None = None,
    shards: Shards | None = None,
) -> Loss:
    """The stage's loss for this collection; `inputs` give the features that pseudo-categories cluster."""
    k = stage.loss.categories
    classes = _pseudo_classes(k, data, inputs) if k else None
    loss = stage.loss.build(LossContext(data.n_groups, dim, classes, teacher.dim if teacher else None, shards))
    if loss.needs_offline and stage.mine is None:
        raise UserError(
            f"the loss '{stage.loss.kind}' draws offline negatives, and the stage mines none",
            remedy="Give the stage a mine: section, for example mine: {captions: 300, images: 60}.",
        )
    if loss.needs_teacher and teacher is None:
        raise UserError(
            f"the loss '{stage.loss.kind}' follows a teacher, and the stage has none",
            remedy="Name one or several runs, for example teacher: [runs/one, runs/other].",
        )
    return loss


def carry_over(before: Loss | None, now: Loss) -> None:
    """Takes what a loss has learned into the next stage's: dual-path's classifier goes on from Stage I to II.

    Losses with parameters of their own are matched in order by type and shape, alone or within a sum.
    """
    if before is None:
        return
    learned = [part for part in before.modules() if any(True for _ in part.parameters(recurse=False))]
    for part in now.modules():
        shapes = {name: parameter.shape for name, parameter in part.named_parameters(recurse=False)}
        match = next(
            (
                old
                for old in learned
                if type(old) is type(part) and shapes == {n: p.shape for n, p in old.named_parameters(recurse=False)}
            ),
            None,
        )
        if shapes and match is not None:
            learned.remove(match)
            part.load_state_dict(match.state_dict())


def _pseudo_classes(k: int, data: Collection, inputs: ImageInputs) -> Tensor | None:
    """(n_groups,) the k-means cluster of each group's mean image feature; None where there are only pixels."""
    if not isinstance(inputs, FeatureInputs):
        return None
    blocks = np.array_split(np.arange(len(data.train.pictures)), max(1, len(data.train.pictures) // 1024))
    sets = (mean_of_views(inputs.load(block, np.random.default_rng(0))[0]) for block in blocks)
    pictures = torch.cat([mean_pool(*features) for features in sets])
    groups = torch.from_numpy(data.train.picture_groups)
    sums = torch.zeros(data.n_groups, pictures.shape[1]).index_add_(0, groups, pictures)
    return kmeans(sums / groups.bincount(minlength=data.n_groups)[:, None], k)
