"""A step of the last half of an EfficientNet-lite while it learns, forward and backward, on maps kept before; one thread.

Milliseconds of CPU time a picture, in 32 and in 16 bits, with maps whole and cropped. The yardstick is the whole network in
32 bits with all its weights learning, as it runs where nothing is cut.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor, nn

from vsekit.encoders.image.efficientnet_lite import EfficientNetLite
from vsekit.encoders.image.tails import MapViews
from vsekit.parts import Sets

PICTURES = 64
#: Version, pixels and cut, as in the starter.
ENCODERS = ((0, 224, 9), (2, 256, 11))


def run(scale: float = 1.0) -> list[dict[str, Any]]:
    """Args: scale: of the number of pictures, 1 for 64."""
    threads, pictures = torch.get_num_threads(), max(2, round(PICTURES * scale))
    torch.set_num_threads(1)
    rows = []
    try:
        for version, pixels, cut in ENCODERS:
            whole = EfficientNetLite(version, pixels, "pooled")
            read = torch.rand(pictures, 3, pixels, pixels)
            yardstick = _milliseconds(whole, read)
            front = EfficientNetLite(version, pixels, "pooled", cut=cut)
            tail, maps = front.tail(), torch.rand(pictures, 1, front.dim)
            assert tail is not None
            for bits, crop in ((32, 1.0), (16, 1.0), (16, 0.6)):
                tail.views = MapViews(crop < 1, crop)
                cost = _milliseconds(tail, maps, mixed=bits == 16)
                name = f"lite{version} at {pixels} px, cut {cut}, {bits} bits" + (", cropped" if crop < 1 else "")
                rows.append({"name": name, "ms": cost, "yardstick": yardstick, "ratio": cost / yardstick})
    finally:
        torch.set_num_threads(threads)
    return rows


def _milliseconds(module: nn.Module, inputs: Tensor, *, mixed: bool = False) -> float:
    def step() -> None:
        torch.manual_seed(0)  # the same crops
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            given = module(inputs)
        vectors = given.vectors if isinstance(given, Sets) else given
        vectors.float().square().mean().backward()

    step()
    began = time.process_time()
    step()
    return 1000 * (time.process_time() - began) / len(inputs)
