"""What holds for every head."""

from __future__ import annotations

import pytest
import torch
from pydantic import TypeAdapter, ValidationError

from vsekit.heads import HeadSettings
from vsekit.parts import kinds

KINDS = kinds(HeadSettings)


def build(kind: str, dim: int = 4) -> torch.nn.Module:
    torch.manual_seed(0)
    return TypeAdapter(HeadSettings).validate_python(kind).build(dim, dim).double()


# Batch normalisation looks at the whole batch.
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "fc_bn_relu_fc"])
def test_it_maps_every_vector_of_a_set_on_its_own(kind: str) -> None:
    head, vectors = build(kind), torch.randn(3, 2, 4, dtype=torch.float64)
    out = head(vectors)
    for b in range(3):
        for n in range(2):
            torch.testing.assert_close(out[b, n], head(vectors[b, n]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("training", [True, False])
def test_a_batch_of_one_works(kind: str, training: bool) -> None:
    assert build(kind).train(training)(torch.randn(1, 4, dtype=torch.float64)).isfinite().all()


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_finite_differences(kind: str) -> None:
    head = build(kind).eval()
    vectors = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(head, vectors)


@pytest.mark.parametrize("wrong", ["lineer", {"kind": "mlp", "hidden": 0}, {"kind": "linear", "hidden": 3}])
def test_wrong_settings_are_refused(wrong: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(HeadSettings).validate_python(wrong)
