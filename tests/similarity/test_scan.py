from __future__ import annotations

import math

import pytest
import torch
from pydantic import TypeAdapter, ValidationError

from vsekit.parts import Sets
from vsekit.similarity import SimilaritySettings
from vsekit.similarity.scan import ScanSettings


def test_t2i_of_a_hand_worked_pair() -> None:
    """Regions along x and y, words x and (x+y)/√2: worked out from the equations with λ = 9 and λ' = 6."""
    regions, words = torch.eye(2), torch.tensor([[1.0, 0.0], [math.sqrt(0.5), math.sqrt(0.5)]])
    # Region x: products 1, 0.7071 over the words, length √1.5; region y: products 0, 0.7071, length 0.7071.
    normalised = [[1 / math.sqrt(1.5), math.sqrt(0.5 / 1.5)], [0.0, 1.0]]
    ax, ay = (math.exp(9 * x) for x in (normalised[0][0], normalised[1][0]))
    first = ax / math.hypot(ax, ay)
    bx, by = (math.exp(9 * x) for x in (normalised[0][1], normalised[1][1]))
    second = (bx + by) * math.sqrt(0.5) / math.hypot(bx, by)
    pair = Sets(regions[None], torch.ones(1, 2, dtype=bool)), Sets(words[None], torch.ones(1, 2, dtype=bool))
    lse = math.log(math.exp(6 * first) + math.exp(6 * second)) / 6
    assert ScanSettings().build()(*pair).item() == pytest.approx(lse)
    assert ScanSettings(aggregate="mean").build()(*pair).item() == pytest.approx((first + second) / 2)


def test_lambdas_default_to_those_of_the_direction() -> None:
    t2i, i2t = ScanSettings().build(), ScanSettings(direction="i2t").build()
    assert (t2i.lambda_softmax, t2i.lambda_lse, i2t.lambda_softmax, i2t.lambda_lse) == (9, 6, 4, 5)


@pytest.mark.parametrize("name", ["cosine", "inner_product", "order", "scan", "bfan"])
def test_a_bare_name_picks_a_similarity(name: str) -> None:
    similarity = TypeAdapter(SimilaritySettings).validate_python(name).build()
    assert similarity.on_sets == (name in ("scan", "bfan"))


@pytest.mark.parametrize("wrong", [{"kind": "scan", "lambda_softmax": 0}, {"kind": "scan", "margin": 1}, "scam"])
def test_wrong_settings_are_refused(wrong: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(SimilaritySettings).validate_python(wrong)
