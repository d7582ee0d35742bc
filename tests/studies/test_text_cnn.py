from __future__ import annotations

import pytest
import torch
from studies.text_cnn import explained, found_again, shares


def test_the_variance_is_shared_between_sentences_and_readings() -> None:
    # Two readings of two sentences: 0 and 2, then 4 and 10. Means 1 and 7, so 9 between; 1 and 9 within, so 5.
    between, within = shares(torch.tensor([[[0.0], [4.0]], [[2.0], [10.0]]]))
    assert (between, within) == pytest.approx((9 / 14, 5 / 14))


def test_what_groups_explain_is_all_or_nothing_or_what_their_means_do() -> None:
    vectors = torch.tensor([[0.0], [2.0], [4.0], [10.0]])
    assert explained(vectors, torch.tensor([0, 1, 2, 3])) == pytest.approx(1)
    assert explained(vectors, torch.tensor([0, 0, 0, 0])) == pytest.approx(0)
    # From the mean 4: −4, −2, 0, 6, whose squares sum to 56; the groups' means −3 and 3 give 4 · 9.
    assert explained(vectors, torch.tensor([0, 0, 1, 1])) == pytest.approx(36 / 56)


def test_a_sentence_is_found_again_where_its_reading_is_the_nearest() -> None:
    once = torch.eye(3)
    assert found_again(once, 5 * torch.eye(3)) == 1
    assert found_again(once, torch.eye(3)[[1, 0, 2]]) == pytest.approx(1 / 3)
