from __future__ import annotations

import pytest
import torch

from vsekit.errors import UserError
from vsekit.pooling.transformer import TransformerSettings

from .sets import build, pad, ragged


def test_it_is_scaled_dot_product_attention_one_pair_at_a_time() -> None:
    sets = ragged([5, 1, 3], 4)
    pooling = build("transformer", 4)
    layer = pooling.encoder.layers[0]
    weight, bias = layer.self_attn.in_proj_weight, layer.self_attn.in_proj_bias
    out = pooling(*pad(sets, length=8))
    for b, one in enumerate(sets):
        q, k, v = ((one @ weight[i : i + 4].T + bias[i : i + 4]).view(len(one), 2, 2) for i in (0, 4, 8))
        attended = torch.zeros_like(one)
        for head in range(2):
            for i in range(len(one)):
                logits = torch.stack([q[i, head] @ k[j, head] / 2**0.5 for j in range(len(one))])
                attended[i, 2 * head : 2 * head + 2] = torch.softmax(logits, 0) @ v[:, head]
        x = layer.norm1(one + layer.self_attn.out_proj(attended))
        x = layer.norm2(x + layer.linear2(layer.linear1(x).relu()))
        torch.testing.assert_close(out[b], x.mean(0))


def test_heads_that_do_not_divide_the_size_are_an_error_that_says_so() -> None:
    with pytest.raises(UserError, match="8 heads do not divide vectors of size 12"):
        TransformerSettings().build(12)
