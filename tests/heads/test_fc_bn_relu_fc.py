from __future__ import annotations

import pytest
import torch

from vsekit.errors import UserError
from vsekit.heads.fc_bn_relu_fc import FcBnReluFcSettings


def test_it_is_fc_batch_norm_relu_fc() -> None:
    head = FcBnReluFcSettings(hidden=3, dropout=0.0).build(5, 4)
    vectors = torch.randn(6, 5)
    h = vectors @ head.fc1.weight.T + head.fc1.bias
    h = (h - h.mean(0)) / (h.var(0, unbiased=False) + 1e-5).sqrt()
    expected = h.clamp(min=0) @ head.fc2.weight.T + head.fc2.bias
    torch.testing.assert_close(head(vectors), expected)


def test_dropout_stands_between_relu_and_the_last_layer_in_training_only() -> None:
    torch.manual_seed(0)
    head = FcBnReluFcSettings(hidden=400, dropout=0.75).build(5, 400)
    torch.nn.init.eye_(head.fc2.weight)
    vectors = torch.randn(64, 5)
    off = ((head.train()(vectors) == 0).double().mean() - 0.5) / 0.5  # half is off by the ReLU
    assert off == pytest.approx(0.75, abs=0.02)
    assert torch.equal(head.eval()(vectors), head(vectors))


def test_a_set_is_an_error_that_says_where_the_head_belongs() -> None:
    with pytest.raises(UserError, match="after the pooling"):
        FcBnReluFcSettings().build(5, 4)(torch.randn(2, 3, 5))
