"""What holds for every pooling, whatever it computes."""

from __future__ import annotations

import pytest
import torch
from pydantic import TypeAdapter, ValidationError

from vsekit.parts import kinds
from vsekit.pooling import PoolingSettings

from .sets import ALL, UNORDERED, build, pad, ragged

DIM = 6
SETS = ragged([4, 1, 7, 3], DIM)
every = pytest.mark.parametrize("name", ALL)


def gradients(pooling: torch.nn.Module, sets: list[torch.Tensor], **padding: object) -> list[torch.Tensor]:
    """Of a fixed random projection of the output: by every valid vector, then by every parameter."""
    vectors, mask = pad(sets, **padding)
    vectors.requires_grad_()
    out = pooling(vectors, mask)
    weight = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
    inputs = [vectors, *pooling.parameters()]
    found = torch.autograd.grad((out * weight).sum(), inputs, allow_unused=True)
    assert torch.equal(found[0][~mask], torch.zeros_like(found[0][~mask]))
    return [found[0][mask], *(g for g in found[1:] if g is not None)]


@every
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("padding", [{"length": 12}, {"length": 12, "with_": 1e9}, {"length": 12, "holes": True}])
def test_neither_value_nor_gradient_depends_on_padding(name: str, training: bool, padding: dict) -> None:
    pooling = build(name, DIM).train(training)
    torch.testing.assert_close(pooling(*pad(SETS, **padding)), pooling(*pad(SETS)), rtol=0, atol=1e-10)
    for padded, tight in zip(gradients(pooling, SETS, **padding), gradients(pooling, SETS), strict=True):
        torch.testing.assert_close(padded, tight, rtol=0, atol=1e-9)


@every
def test_padding_changes_nothing_beyond_1e_5_in_float32(name: str) -> None:
    pooling = build(name, DIM).float().eval()
    sets = [one.float() for one in SETS]
    torch.testing.assert_close(pooling(*pad(sets, length=40)), pooling(*pad(sets)), rtol=1e-5, atol=1e-5)


@every
def test_a_set_is_pooled_alike_alone_and_in_a_batch(name: str) -> None:
    pooling = build(name, DIM).eval()
    together = pooling(*pad(SETS))
    for b, one in enumerate(SETS):
        torch.testing.assert_close(pooling(*pad([one]))[0], together[b], rtol=0, atol=1e-10)


@every
@pytest.mark.parametrize("training", [True, False])
def test_a_batch_of_one_set_of_one_vector_has_finite_value_and_gradient(name: str, training: bool) -> None:
    pooling = build(name, DIM).train(training)
    out = pooling(*pad(SETS[1:2]))
    assert out.shape == (1, pooling.dim_out)
    assert out.isfinite().all()
    assert all(g.isfinite().all() for g in gradients(pooling, SETS[1:2]))


@every
@pytest.mark.parametrize("value", [0.0, 5.0])
def test_equal_vectors_give_finite_gradients(name: str, value: float) -> None:
    pooling = build(name, DIM)
    assert all(g.isfinite().all() for g in gradients(pooling, [torch.full_like(one, value) for one in SETS]))


@pytest.mark.parametrize("name", sorted(UNORDERED.keys() - {"transformer", "gcn"}))
def test_weighted_averages_return_the_vector_of_a_set_of_one(name: str) -> None:
    torch.testing.assert_close(build(name, DIM)(*pad(SETS[1:2])), SETS[1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", UNORDERED)
def test_the_order_of_the_set_does_not_matter(name: str) -> None:
    pooling = build(name, DIM).eval()
    torch.testing.assert_close(pooling(*pad([one.flip(0) for one in SETS])), pooling(*pad(SETS)), rtol=0, atol=1e-10)


@every
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    pooling = build(name, 4).eval()
    vectors, mask = pad(ragged([3, 2], 4), with_=0.5)
    parameters = dict(pooling.named_parameters())

    def call(vectors: torch.Tensor, *values: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(pooling, dict(zip(parameters, values, strict=True)), (vectors, mask))

    inputs = [vectors, *(p.detach() for p in parameters.values())]
    assert torch.autograd.gradcheck(call, [x.requires_grad_() for x in inputs], fast_mode=True)


@pytest.mark.parametrize("kind", kinds(PoolingSettings))
def test_the_bare_name_picks_the_pooling(kind: str) -> None:
    settings = TypeAdapter(PoolingSettings).validate_python(kind)
    assert settings.kind == kind
    pooling = settings.build(16)
    assert kind == "none" if pooling is None else pooling.dim_out == 16


@pytest.mark.parametrize(
    "wrong", ["meen", {"kind": "mean", "k": 3}, {"kind": "k_max", "k": 0}, {"kind": "ad_pool", "balance": 1.5}]
)
def test_wrong_settings_are_refused(wrong: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(PoolingSettings).validate_python(wrong)
