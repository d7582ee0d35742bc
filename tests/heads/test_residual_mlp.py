from __future__ import annotations

import torch

from vsekit.heads.residual_mlp import ResidualMLPSettings


def test_it_is_a_linear_map_plus_a_two_layer_network_half_as_wide() -> None:
    head = ResidualMLPSettings().build(5, 4)
    vectors = torch.randn(3, 2, 5)
    first, _, second = head.mlp
    assert first.weight.shape == (2, 5)
    hidden = (vectors @ first.weight.T + first.bias).clamp(min=0)
    expected = vectors @ head.fc.weight.T + head.fc.bias + hidden @ second.weight.T + second.bias
    torch.testing.assert_close(head(vectors), expected)
