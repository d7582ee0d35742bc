from __future__ import annotations

from math import log

import pytest
import torch
from torch import Tensor

from vsekit.errors import UserError
from vsekit.losses import LossContext, LossInputs
from vsekit.losses.instance import Instance, InstanceSettings, draw_classes
from vsekit.parts import Sets


def build(context: LossContext, **settings: object) -> Instance:
    torch.manual_seed(0)
    return InstanceSettings(**settings).build(context).double()


def loop(loss: Instance, inputs: LossInputs, labels: list[int], image_weight: float, text_weight: float) -> Tensor:
    total = loss.weight.sum() * 0
    for weight, features in ((image_weight, inputs.images), (text_weight, inputs.captions)):
        for f, label in zip(features, labels):
            exps = [(w * f).sum().exp() for w in loss.weight]
            total = total - weight * (exps[label] / sum(exps)).log()
    return total / len(labels)


def test_it_is_equations_5_to_8_with_one_classifier_for_both(groups, make, agree):
    inputs = make(groups)
    loss = build(LossContext(n_groups=9, dim=4), image_weight=2.0, text_weight=0.5)
    value, logs = loss(inputs)
    assert [p.shape for p in loss.parameters()] == [(9, 4)]
    agree(value, loop(loss, inputs, groups.tolist(), 2.0, 0.5), loss.weight, inputs.images, inputs.captions)
    torch.testing.assert_close(value, 2 * logs["visual"] + 0.5 * logs["textual"])


def test_dropout_before_the_classifier_scales_what_it_keeps_in_training_only(groups, make):
    inputs = make(groups)
    loss = build(LossContext(n_groups=9, dim=4), dropout=0.5)
    torch.manual_seed(7)
    dropped, _ = loss.train()(inputs)
    torch.manual_seed(7)
    features = torch.cat([inputs.images, inputs.captions])
    kept = torch.nn.functional.dropout(torch.ones_like(features), 0.5)
    assert sorted(set(kept.flatten().tolist())) == [0.0, 2.0]
    images, captions = (features * kept).chunk(2)
    masked = LossInputs(inputs.scores, groups, images, captions, inputs.similarity)
    torch.testing.assert_close(dropped, loop(loss, masked, groups.tolist(), 1.0, 1.0))
    torch.testing.assert_close(loss.eval()(inputs)[0], loop(loss, inputs, groups.tolist(), 1.0, 1.0))


def test_sampling_every_class_is_the_full_softmax(groups, make, agree):
    inputs = make(groups)
    full, sampled = (build(LossContext(9, 4), classes=c, samples=9) for c in ("full", "sampled"))
    assert torch.equal(full.weight, sampled.weight)
    agree(sampled(inputs)[0], full(inputs)[0], inputs.images, inputs.captions)
    full(inputs)[0].backward()
    sampled(inputs)[0].backward()
    torch.testing.assert_close(sampled.weight.grad.to_dense(), full.weight.grad)


def test_the_sampled_sum_is_unbiased(make):
    inputs = make(torch.tensor([3, 11, 3]))
    loss = build(LossContext(40, 4))
    logits = (inputs.images @ loss.weight.T).detach()
    sums = []
    for _ in range(2000):
        ids, correction, _ = draw_classes(inputs.groups, 40, 4)
        sums.append((logits[:, ids] + correction).exp().sum(dim=1))
    torch.testing.assert_close(torch.stack(sums).mean(dim=0), logits.exp().sum(dim=1), rtol=0.02, atol=0.0)


def test_drawn_classes_are_the_batchs_and_then_evenly_any_others():
    labels, counts = torch.tensor([4, 0, 4, 7]), torch.zeros(10)
    torch.manual_seed(0)
    for _ in range(500):
        ids, correction, targets = draw_classes(labels, 10, 3)
        assert ids[:3].tolist() == [0, 4, 7]
        assert torch.equal(ids[targets], labels)
        torch.testing.assert_close(correction, torch.tensor([0.0] * 3 + [log(7 / 3)] * 3))
        counts += ids[3:].bincount(minlength=10)
    assert counts[[0, 4, 7]].sum() == 0
    assert ((counts[[1, 2, 3, 5, 6, 8, 9]] - 1500 / 7).abs() < 60).all()


@pytest.mark.parametrize("optimiser", [torch.optim.SparseAdam, torch.optim.SGD])
def test_a_sampled_step_touches_only_the_classes_it_looked_at(make, optimiser):
    inputs = make(torch.tensor([5, 900, 5]))
    loss = build(LossContext(1000, 4), classes="sampled", samples=6)
    before = loss.weight.detach().clone()
    step = optimiser(loss.sparse_parameters(), lr=0.1)
    loss(inputs)[0].backward()
    assert loss.weight.grad.is_sparse
    assert len(loss.weight.grad.coalesce().indices()[0]) <= 8
    step.step()
    moved = (loss.weight != before).any(dim=1)
    assert moved[[5, 900]].all()
    assert moved.sum() <= 8


def test_a_full_softmax_has_no_sparse_parameters():
    assert build(LossContext(10, 4)).sparse_parameters() == []


def test_sampled_training_learns_to_tell_the_groups_apart():
    torch.manual_seed(0)
    loss = InstanceSettings(classes="sampled", samples=4).build(LossContext(30, 16))
    images = torch.randn(30, 16)
    captions = images + 0.1 * torch.randn(30, 16)
    optimiser = torch.optim.SparseAdam(loss.sparse_parameters(), lr=0.05)
    for _ in range(200):
        rows = torch.randint(30, (8,))
        optimiser.zero_grad()
        loss(LossInputs(torch.zeros(8, 8), rows, images[rows], captions[rows], torch.matmul))[0].backward()
        optimiser.step()
    assert ((captions @ loss.weight.T).argmax(dim=1) == torch.arange(30)).float().mean() > 0.9


def test_pseudo_categories_are_the_classes_when_asked_for(make, agree):
    inputs = make(torch.tensor([0, 3, 2]))
    context = LossContext(n_groups=4, dim=4, group_classes=torch.tensor([1, 0, 1, 0]))
    loss = build(context, pseudo_classes=2)
    assert loss.weight.shape == (2, 4)
    agree(loss(inputs)[0], loop(loss, inputs, [1, 0, 1], 1.0, 1.0), loss.weight, inputs.images, inputs.captions)


def test_pseudo_categories_without_features_are_an_error_that_names_the_field():
    with pytest.raises(UserError, match="pseudo_classes"):
        InstanceSettings(pseudo_classes=2).build(LossContext(4, 4))


def test_it_refuses_sets_and_says_why(make):
    inputs = make(torch.arange(2))
    loss = build(LossContext(4, 4))
    assert loss.needs_vectors
    sets = Sets(torch.zeros(2, 3, 4), torch.ones(2, 3, dtype=torch.bool))
    with pytest.raises(UserError, match="one vector"):
        loss(LossInputs(inputs.scores, inputs.groups, sets, sets, inputs.similarity))


@pytest.mark.parametrize("classes", ["full", "sampled"])
def test_a_classifier_that_knows_nothing_sits_at_the_plateau(make, classes):
    loss = build(LossContext(50, 4), classes=classes, samples=5, text_weight=0.1)
    torch.nn.init.zeros_(loss.weight)
    assert (
        loss(make(torch.tensor([1, 2, 2])))[0].item() == pytest.approx(loss.plateau(3)) == pytest.approx(1.1 * log(50))
    )
