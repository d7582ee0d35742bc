from __future__ import annotations

import pytest
import torch

from vsekit.similarity.bfan import focal

WEIGHTS = torch.tensor([0.50, 0.26, 0.14, 0.10])


def keep(weights: torch.Tensor, confidence: str) -> torch.Tensor:
    """What of one context's attention is kept, made to sum to 1."""
    kept = focal(weights[:, None, None], torch.ones(len(weights), 1, dtype=bool), confidence)[:, 0, 0]
    return kept / kept.sum()


def test_equal_keeps_what_exceeds_the_mean() -> None:
    torch.testing.assert_close(keep(WEIGHTS, "equal"), torch.tensor([0.50, 0.26, 0, 0]) / 0.76)


def test_prob_keeps_what_exceeds_the_mean_weighted_by_roots() -> None:
    """Σ√a·a/Σ√a = (0.3536 + 0.1326 + 0.0524 + 0.0316)/(0.7071 + 0.5099 + 0.3742 + 0.3162) = 0.299."""
    torch.testing.assert_close(keep(WEIGHTS, "prob"), torch.tensor([1.0, 0, 0, 0]))


def test_equal_attention_is_left_as_it_is() -> None:
    for n in range(1, 50):
        uniform = torch.zeros(n).softmax(0)
        for confidence in ("equal", "prob"):
            torch.testing.assert_close(keep(uniform, confidence), uniform)


def test_padding_does_not_lower_the_mean() -> None:
    padded = torch.cat([WEIGHTS, torch.zeros(4)])[:, None, None]
    mask = torch.arange(8)[:, None] < 4
    kept = focal(padded, mask, "equal")[:4, 0, 0]
    torch.testing.assert_close(kept / kept.sum(), keep(WEIGHTS, "equal"))


@pytest.mark.parametrize("confidence", ["equal", "prob"])
def test_what_stays_does_not_depend_on_the_sum_of_the_weights(confidence: str) -> None:
    for factor in (1e-8, 3.0, 5e8):
        torch.testing.assert_close(keep(factor * WEIGHTS, confidence), keep(WEIGHTS, confidence))
