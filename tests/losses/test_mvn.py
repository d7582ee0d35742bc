from __future__ import annotations

import pytest
import torch
from torch import Tensor

from vsekit.errors import UserError
from vsekit.losses import LossContext, LossInputs
from vsekit.losses.mvn import MVNSettings
from vsekit.parts import Sets

CONTEXT = LossContext(n_groups=10, dim=4)


def loop(inputs: LossInputs, tau: float) -> Tensor:
    """SimCLR on 2·B vectors, each anchor with the negatives of both modalities."""
    vectors = [*inputs.images, *inputs.captions]
    groups = [*inputs.groups.tolist()] * 2
    batch = len(inputs.groups)
    total = inputs.images.sum() * 0
    for anchor in range(2 * batch):
        positive = (anchor + batch) % (2 * batch)
        kept = [positive] + [o for o in range(2 * batch) if groups[o] != groups[anchor]]
        s = [torch.cosine_similarity(vectors[anchor], vectors[o], dim=0) / tau for o in kept]
        total = total - (s[0].exp() / sum(x.exp() for x in s)).log()
    return total / batch


def test_it_is_simclr_with_negatives_of_both_modalities(groups, make, agree):
    inputs = make(groups)
    scores = inputs.similarity(inputs.images, inputs.captions)
    whole = LossInputs(scores, groups, inputs.images, inputs.captions, inputs.similarity)
    value, _ = MVNSettings(temperature=0.2).build(CONTEXT)(whole)
    agree(value, loop(inputs, 0.2), inputs.images, inputs.captions)


def test_it_refuses_sets_and_says_why(make):
    inputs = make(torch.arange(2))
    sets = Sets(torch.zeros(2, 3, 4), torch.ones(2, 3, dtype=torch.bool))
    loss = MVNSettings().build(CONTEXT)
    assert loss.needs_symmetric
    with pytest.raises(UserError, match="images with images"):
        loss(LossInputs(inputs.scores, inputs.groups, sets, sets, inputs.similarity))


def test_a_collapsed_model_sits_at_the_plateau():
    loss, same = MVNSettings().build(CONTEXT), torch.ones(8, 4)
    value, _ = loss(LossInputs(torch.ones(8, 8), torch.arange(8), same, same, lambda a, b: a @ b.T / 4))
    assert value.item() == pytest.approx(loss.plateau(8), abs=1e-5)
