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


def test_batch_norm_follows_the_first_layer_and_counts_real_vectors_only() -> None:
    head = ResidualMLPSettings(batch_norm=True).build(5, 4).double()
    vectors = torch.randn(3, 2, 5, dtype=torch.float64)
    mask = torch.tensor([[True, True], [True, False], [True, True]])
    first, _, second = head.mlp
    real = torch.stack([first(vectors[b, n]) for b in range(3) for n in range(2) if mask[b, n]])
    mean, deviation = real.mean(0), (real.var(0, unbiased=False) + 1e-5).sqrt()
    out = head(vectors, mask)
    for b in range(3):
        for n in range(2):
            if mask[b, n]:
                hidden = ((first(vectors[b, n]) - mean) / deviation).clamp(min=0)
                torch.testing.assert_close(out[b, n], head.fc(vectors[b, n]) + second(hidden))


def test_without_a_mask_every_vector_is_real() -> None:
    head = ResidualMLPSettings(batch_norm=True).build(5, 4).double()
    vectors = torch.randn(3, 2, 5, dtype=torch.float64)
    everything = torch.ones(3, 2, dtype=torch.bool)
    torch.testing.assert_close(head(vectors), head(vectors, everything))
    torch.testing.assert_close(head(vectors.flatten(0, 1)), head(vectors).flatten(0, 1))
