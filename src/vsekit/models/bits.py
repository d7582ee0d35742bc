"""Weights in fewer bits, for models that are passed on: 16-bit floats, or 8-bit numbers with a scale for each row.

    q = round(w / s),   s = max |w| / 127 over the row,   w ≈ q · s

A row is what belongs to the first axis: an output of a layer, a channel of a convolution, a word. Small tensors, such as the
biases, stay 16-bit floats. The scale of NAME is kept beside it as NAME.scale. A model computes in 32 bits whatever it was kept in.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Bits = Literal[8, 16, 32]
SCALE = ".scale"
#: Fewer numbers than this are not worth a scale.
FEWEST = 1024


def packed(weights: dict[str, Tensor], bits: Bits) -> dict[str, Tensor]:
    """The same weights to write to a file; integers stay as they are."""
    if bits == 32:
        return weights
    found: dict[str, Tensor] = {}
    for name, weight in weights.items():
        if not weight.is_floating_point():
            found[name] = weight
        elif bits == 16 or weight.dim() < 2 or weight.numel() < FEWEST:
            found[name] = weight.half()
        else:
            rows = weight.flatten(1)
            scale = (rows.float().abs().amax(1) / 127).clamp(min=torch.finfo(torch.float32).tiny)
            found[name] = (rows / scale[:, None]).round().clamp(-127, 127).to(torch.int8).view_as(weight)
            found[name + SCALE] = scale
    return found


def unpacked(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """What `packed` made, as floats again; other weights pass."""
    scales = {name for name in weights if name.endswith(SCALE) and name.removesuffix(SCALE) in weights}
    found = {name: weight for name, weight in weights.items() if name not in scales}
    for name in (scale.removesuffix(SCALE) for scale in scales):
        scale = weights[name + SCALE]
        found[name] = found[name] * scale.view(-1, *[1] * (found[name].dim() - 1))
    return found
