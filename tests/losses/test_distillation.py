from __future__ import annotations

import dataclasses
from math import exp, log

import pytest
import torch
from torch import Tensor

from vsekit.errors import UserError
from vsekit.losses import LossContext, Teaching
from vsekit.losses.distillation import DistillationSettings, distillation

CONTEXT = LossContext(n_groups=10, dim=4)


def loop(scores: Tensor, teacher: Tensor, tau: float, teacher_tau: float) -> Tensor:
    total = scores.sum() * 0
    for s, t in ((scores, teacher), (scores.T, teacher.T)):
        for row, taught in zip(s, t):
            q = [(x / tau).exp() for x in row]
            p = [(x / teacher_tau).exp() for x in taught]
            for a, b in zip(p, q):
                total = total + a / sum(p) * ((a / sum(p)) / (b / sum(q))).log() / len(s)
    return total


def with_teacher(inputs, seed: int = 1, dim: int = 6, unlabelled: int = 0):
    """The inputs with a random teacher of another size."""
    torch.manual_seed(seed)
    size = len(inputs.groups)
    images, captions = torch.randn(2, size, dim, dtype=torch.float64).unbind()
    further = torch.randn(unlabelled, inputs.images.shape[1], dtype=torch.float64, requires_grad=True)
    theirs = torch.randn(unlabelled, dim, dtype=torch.float64)
    teaching = Teaching(images, captions, *((further, theirs) if unlabelled else ()))
    return dataclasses.replace(inputs, teaching=teaching)


def test_by_hand_for_two_pairs():
    # Rows and columns of the teacher are all (1/2, 1/2); the student's are all (1/(1+e), e/(1+e)) in some order.
    scores, teacher = torch.tensor([[0.1, 0.0], [0.0, 0.1]]), torch.zeros(2, 2)
    one_line = 0.5 * log(0.5 * (1 + exp(1))) + 0.5 * log(0.5 * (1 + exp(-1)))
    assert distillation(scores, teacher, 0.1, 0.1).item() == pytest.approx(2 * one_line, rel=1e-5)


def test_it_is_the_kl_of_every_row_and_column(groups, make, agree):
    inputs = with_teacher(make(groups))
    value, logs = DistillationSettings(temperature=0.5, teacher_temperature=2.0).build(CONTEXT)(inputs)
    teacher = inputs.teaching.images @ inputs.teaching.captions.T
    agree(value, loop(inputs.scores, teacher, 0.5, 2.0), inputs.scores)
    assert logs["kl"] == value


def test_a_student_that_scores_as_its_teacher_has_nothing_to_learn(make):
    inputs = make(torch.arange(5))
    images, captions = (torch.nn.functional.normalize(x, dim=1) for x in (inputs.images, inputs.captions))
    own = dataclasses.replace(
        inputs,
        scores=images @ captions.T,
        images=images,
        captions=captions,
        teaching=Teaching(images.detach(), captions.detach()),
    )
    value, _ = DistillationSettings(temperature=0.1, regression=1.0).build(CONTEXT)(own)
    assert value.item() == pytest.approx(0, abs=1e-12)
    for gradient in torch.autograd.grad(value, (inputs.images, inputs.captions)):
        torch.testing.assert_close(gradient, torch.zeros_like(gradient))


def test_groups_are_not_read(make):
    inputs = with_teacher(make(torch.arange(4)))
    loss = DistillationSettings().build(CONTEXT)
    assert loss(inputs)[0] == loss(dataclasses.replace(inputs, groups=torch.zeros(4, dtype=torch.int64)))[0]


def test_pictures_without_captions_are_further_rows(make, agree):
    inputs = with_teacher(make(torch.arange(3)), unlabelled=2)
    value, _ = DistillationSettings(temperature=0.5).build(CONTEXT)(inputs)
    further = inputs.teaching.unlabelled
    scores = torch.cat([inputs.scores, inputs.similarity(further, inputs.captions)])
    teacher = torch.cat([inputs.teaching.images, inputs.teaching.unlabelled_images]) @ inputs.teaching.captions.T
    assert scores.shape == (5, 3)
    agree(value, loop(scores, teacher, 0.5, 0.5), inputs.scores, further)


def test_regression_is_the_mean_squared_distance_of_both_sides(make):
    inputs = with_teacher(make(torch.arange(3)), dim=4)
    without, _ = DistillationSettings().build(CONTEXT)(inputs)
    value, logs = DistillationSettings(regression=0.5).build(CONTEXT)(inputs)
    pairs = [(inputs.images, inputs.teaching.images), (inputs.captions, inputs.teaching.captions)]
    by_loop = sum(((a - b) ** 2).sum().item() / 3 for own, theirs in pairs for a, b in zip(own, theirs))
    assert logs["regression"].item() == pytest.approx(by_loop)
    assert value.item() == pytest.approx(without.item() + 0.5 * by_loop)


def test_regression_on_a_teacher_of_another_size_is_refused():
    with pytest.raises(UserError, match="6 numbers, the student's 4"):
        DistillationSettings(regression=1.0).build(LossContext(n_groups=10, dim=4, teacher_dim=6))
    DistillationSettings().build(LossContext(n_groups=10, dim=4, teacher_dim=6))
