"""What holds for every loss: settings by name, any similarity, padding, order of the batch, finite gradients."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from tests.losses.conftest import taught
from torch import Tensor

from vsekit.errors import UserError
from vsekit.losses import Loss, LossContext, LossInputs, LossSettings, OfflineScores
from vsekit.parts import Sets, kinds

SETTINGS = TypeAdapter(LossSettings)
CONTEXT = LossContext(n_groups=8, dim=4)
#: Settings to test besides the defaults, or in place of them where a loss has none.
VARIANTS: list[dict[str, Any]] = [
    {"kind": "info_nce", "denominator": "negatives"},
    {"kind": "max_of_negatives", "hinge": False},
    {"kind": "instance", "classes": "sampled", "samples": 20},
    {"kind": "quadruple_ranking", "pool": 99},
    {"kind": "weighted_sum", "terms": [{"weight": 2, "loss": "info_nce"}, {"loss": "instance"}]},
    {"kind": "switch", "epochs": 1, "first": "info_nce", "then": "max_of_negatives"},
    {"kind": "offline_quintuplet", "online_quintuplet": True},
    {"kind": "offline_quintuplet", "squared": True},
    {"kind": "adaptive_offline_quintuplet", "offline_adaptive": False},
    {"kind": "adaptive_objective", "variant": "published"},
]
#: Those that can't be built from their name alone, or whose defaults draw at random.
NOT_BARE = {"weighted_sum", "switch", "quadruple_ranking"}
KINDS: list[Any] = [kind for kind in kinds(LossSettings) if kind not in NOT_BARE] + VARIANTS
every_loss = pytest.mark.parametrize("kind", KINDS, ids=str)


def build(kind: Any) -> Loss:
    torch.manual_seed(0)
    return SETTINGS.validate_python(kind).build(CONTEXT).double()


def late_interaction(images: Sets, captions: Sets) -> Tensor:
    """A set similarity: each word's best region, averaged over the words."""
    products = torch.einsum("ird,cwd->icrw", images.vectors, captions.vectors)
    best = products.masked_fill(~images.mask[:, None, :, None], -torch.inf).max(dim=2).values
    return (best * captions.mask).sum(dim=2) / captions.mask.sum(dim=1)


def on(images: Any, captions: Any, groups: Tensor, similarity: Any, offline: OfflineScores | None) -> LossInputs:
    return LossInputs(similarity(images, captions), groups, images, captions, similarity, 2.0, offline, taught(groups))


def test_every_loss_of_the_folder_is_among_them():
    assert {SETTINGS.validate_python(kind).kind for kind in KINDS} == set(kinds(LossSettings))


@every_loss
def test_gradients_are_finite_and_a_batch_without_negatives_moves_no_score(kind, groups, make):
    inputs = make(groups)
    loss = build(kind)
    value, logs = loss(inputs)
    assert value.shape == ()
    assert value.isfinite()
    assert all(torch.as_tensor(number).isfinite() for number in logs.values())
    if loss.needs_offline:
        inputs = dataclasses.replace(inputs, offline=OfflineScores(*(torch.full((len(groups),), -9.0),) * 4))
        value, _ = loss(inputs)
    (gradient,) = torch.autograd.grad(value, inputs.scores, allow_unused=True, materialize_grads=True)
    assert gradient.isfinite().all()
    # The published objective masks the diagonal only, so other captions of one image are negatives to it.
    # To a teacher, groups say nothing.
    if len(groups.unique()) == 1 and not (len(groups) > 1 and ("published" in str(kind) or loss.needs_teacher)):
        torch.testing.assert_close(gradient, torch.zeros_like(gradient))


@every_loss
def test_the_order_of_the_pairs_does_not_matter(kind, make):
    inputs = make(torch.tensor([0, 1, 1, 2, 0, 5]))
    inputs = on(inputs.images, inputs.captions, inputs.groups, inputs.similarity, inputs.offline)
    order = torch.tensor([3, 5, 0, 2, 4, 1])
    offline = OfflineScores(*(scores[order] for scores in dataclasses.astuple(inputs.offline)))
    shuffled = on(inputs.images[order], inputs.captions[order], inputs.groups[order], inputs.similarity, offline)
    loss = build(kind)
    torch.testing.assert_close(loss(shuffled)[0], loss(inputs)[0])


@every_loss
def test_any_similarity_will_do_or_the_loss_says_why_not_and_padding_never_matters(kind, make):
    inputs = make(torch.tensor([0, 1, 1, 2]))
    torch.manual_seed(1)
    images = Sets(torch.randn(4, 3, 4, dtype=torch.float64), torch.ones(4, 3, dtype=torch.bool))
    mask = torch.arange(5) < torch.tensor([[5], [2], [1], [3]])
    captions = Sets(torch.randn(4, 5, 4, dtype=torch.float64), mask)
    loss = build(kind)
    if loss.needs_vectors or loss.needs_symmetric:
        with pytest.raises(UserError):
            loss(on(images, captions, inputs.groups, late_interaction, inputs.offline))
        return
    value, _ = loss(on(images, captions, inputs.groups, late_interaction, inputs.offline))
    garbage = Sets(torch.where(mask[..., None], captions.vectors, 1e6), mask)
    torch.testing.assert_close(loss(on(images, garbage, inputs.groups, late_interaction, inputs.offline))[0], value)
    assert value.isfinite()


@every_loss
def test_pushing_scores_down_the_gradient_lowers_the_loss(kind, make):
    inputs = make(torch.tensor([0, 1, 1, 2, 4, 5]))
    images, captions = inputs.images, inputs.captions
    loss = build(kind)
    values = []
    for _ in range(20):
        value, _ = loss(on(images, captions, inputs.groups, inputs.similarity, inputs.offline))
        values.append(value.item())
        gradients = torch.autograd.grad(value, (images, captions))
        size = torch.cat(gradients).norm()
        images, captions = (
            (x - 0.05 * g / size).detach().requires_grad_() for x, g in zip((images, captions), gradients)
        )
    assert values[-1] < values[0]


@every_loss
@settings(max_examples=10, deadline=None)
@given(groups=st.lists(st.integers(0, 7), min_size=1, max_size=6), scale=st.sampled_from([0.0, 1.0, 30.0]))
def test_no_grouping_and_no_scale_of_scores_gives_nan(kind, groups, scale):
    torch.manual_seed(0)
    size = len(groups)
    images, captions = torch.randn(2, size, 4, dtype=torch.float64, requires_grad=True).unbind()
    offline = OfflineScores(*torch.randn(4, size, dtype=torch.float64).mul(scale).unbind())
    inputs = on(images, captions, torch.tensor(groups), lambda a, b: scale * a @ b.T, offline)
    value, _ = build(kind)(inputs)
    gradients = torch.autograd.grad(value, (images, captions), allow_unused=True, materialize_grads=True)
    assert all(x.isfinite().all() for x in (value, *gradients))
