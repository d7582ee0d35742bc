from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from studies.centernet import CenterNet, Graph, regions, twice_as_large
from studies.matrix_features import features, needs_detector
from tests.export.conftest import CNN
from torch import nn

from vsekit.data.pairs import Pairs
from vsekit.encoders.image import encoder_settings
from vsekit.errors import UserError
from vsekit.progress import QUIET

SCORES, REACH = "tower_0/CenternetHead/centernet_cls_output/BiasAdd", "tower_0/wh"


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def convolution(
    name: str, op: str, inputs: list[str], stride: int = 1, relu: bool = False, padding: str = "SAME"
) -> Any:
    fused = [encoded("BiasAdd"), encoded("Relu")][: 1 + relu]
    attr = {
        "strides": {"list": {"i": ["1", str(stride), str(stride), "1"]}},
        "padding": {"s": encoded(padding)},
        "fused_ops": {"list": {"s": fused}},
    }
    return {"name": name, "op": op, "input": inputs, "attr": attr}


def write(folder: Path, nodes: list[Any], weights: dict[str, np.ndarray]) -> Path:
    """A graph as TensorFlow.js keeps it: 16-bit weights in one file, named in another."""
    names = [
        {"name": name, "shape": list(w.shape), "dtype": "int32"}
        if w.dtype == np.int32
        else {"name": name, "shape": list(w.shape), "dtype": "float32", "quantization": {"dtype": "float16"}}
        for name, w in weights.items()
    ]
    constants = [{"name": name, "op": "Const"} for name in weights]
    (folder / "g.bin").write_bytes(
        b"".join((w if w.dtype == np.int32 else w.astype(np.float16)).tobytes() for w in weights.values())
    )
    graph = {
        "modelTopology": {"node": [{"name": "x", "op": "Placeholder"}, *constants, *nodes]},
        "weightsManifest": [{"paths": ["g.bin"], "weights": names}],
    }
    (folder / "g.json").write_text(json.dumps(graph))
    return folder / "g.json"


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Eighths, which 16 bits hold exactly."""
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(np.float32) / 8


def slow(x: np.ndarray, w: np.ndarray, b: np.ndarray, stride: int, by_channel: bool) -> np.ndarray:
    """(H, W, C) and TensorFlow's (k, k, in, out) or (k, k, in, times), with SAME: loop by loop."""
    k, (height, width) = w.shape[0], x.shape[:2]
    rows, columns = -(-height // stride), -(-width // stride)
    above, left = (max((n - 1) * stride + k - size, 0) // 2 for n, size in ((rows, height), (columns, width)))
    out = np.zeros((rows, columns, len(b)), np.float32)
    for r in range(rows):
        for c in range(columns):
            for i in range(k):
                for j in range(k):
                    y, z = r * stride + i - above, c * stride + j - left
                    if 0 <= y < height and 0 <= z < width:
                        out[r, c] += (x[y, z, :, None] * w[i, j]).reshape(-1) if by_channel else x[y, z] @ w[i, j]
    return out + b


@pytest.mark.parametrize("size", [(6, 8), (7, 5)])  # odd ones are padded on one side more
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("by_channel", [False, True])
def test_convolutions_are_tensorflows(size: tuple[int, int], stride: int, by_channel: bool, tmp_path: Path) -> None:
    op, shape = ("FusedDepthwiseConv2dNative", (3, 3, 4, 1)) if by_channel else ("_FusedConv2D", (3, 3, 4, 5))
    w, b, x = numbers(*shape), numbers(shape[2] * shape[3] if by_channel else 5, seed=1), numbers(*size, 4, seed=2)
    file = write(tmp_path, [convolution("y", op, ["x", "w", "b"], stride, relu=True)], {"w": w, "b": b})
    (found,) = Graph(file, ["y"])(torch.from_numpy(x).permute(2, 0, 1)[None])
    wanted = np.maximum(slow(x, w, b, stride, by_channel), 0)
    np.testing.assert_allclose(found[0].permute(1, 2, 0).numpy(), wanted, atol=1e-5)


def test_the_other_operations_by_hand(tmp_path: Path) -> None:
    nodes = [
        {"name": "m", "op": "Mul", "input": ["x", "two"], "attr": {}},
        {"name": "a", "op": "Add", "input": ["by", "m"], "attr": {}},
        {"name": "c", "op": "ConcatV2", "input": ["a", "m:0", "axis"], "attr": {}},
        {"name": "s", "op": "Mean", "input": ["c", "places"], "attr": {}},
    ]
    weights = {
        "two": np.float32([2]).reshape(()),
        "by": np.float32([1, -1]),
        "axis": np.int32([3]).reshape(()),
        "places": np.int32([1, 2]),
    }
    graph = Graph(write(tmp_path, nodes, weights), ["c", "s"])
    x = torch.tensor([[[[1.0, 3.0]], [[5.0, 7.0]]]])  # two channels of one row
    joined, mean = graph(x)
    assert joined[0, :, 0].tolist() == [[3, 7], [9, 13], [2, 6], [10, 14]]
    assert mean.flatten().tolist() == [5, 11, 4, 12]
    assert twice_as_large(torch.tensor([[[[0.0, 4.0], [8.0, 8.0]]]]))[0, 0].tolist() == [
        [0, 2, 4, 4],
        [4, 5, 6, 6],
        [8, 8, 8, 8],
        [8, 8, 8, 8],
    ]


def test_an_operation_that_is_not_known_is_named(tmp_path: Path) -> None:
    file = write(tmp_path, [{"name": "y", "op": "TopKV2", "input": ["x"], "attr": {}}], {})
    with pytest.raises(NotImplementedError, match="y: TopKV2"):
        Graph(file, ["y"])


class Maps(nn.Module):
    """Two objects: class 3 at column 2, row 1, and class 7 at column 5, row 6; a weaker neighbour of the first."""

    def forward(self, pixels: torch.Tensor) -> list[torch.Tensor]:
        scores, reach = torch.full((1, 80, 8, 8), -9.0), torch.zeros(1, 4, 8, 8)
        scores[0, 3, 1, 2], scores[0, 3, 1, 3], scores[0, 7, 6, 5] = 2.0, 1.0, 3.0
        reach[0, :, 1, 2], reach[0, :, 6, 5] = torch.tensor([4.0, 2, 8, 6]), torch.tensor([10.0, 8, 6, 4])
        return [scores, reach]


def test_a_box_stands_at_each_peak_and_reaches_as_far_as_is_said() -> None:
    found = CenterNet(Maps())(torch.zeros(1, 3, 32, 32))
    scores, classes = found.logits[0].max(-1)
    assert scores[:2].tolist() == [3, 2]
    assert classes[:2].tolist() == [7, 3]
    assert scores[2] < -8  # the neighbour is no peak
    # x 5 · 4 − 10 … 5 · 4 + 6, y 6 · 4 − 8 … 6 · 4 + 4; and 4 … 16, 2 … 10
    centres = torch.tensor([[18.0, 22, 16, 12], [10, 6, 12, 8]]) / 32
    torch.testing.assert_close(found.pred_boxes[0, :2], centres)


def test_regions_read_the_backbone_within_the_boxes(tmp_path: Path) -> None:
    """A detector of one convolution a map: pixels reach it as 0 … 255."""
    weights = {
        "w": np.zeros((1, 1, 3, 80), np.float32),
        "b": numbers(80),
        "v": np.zeros((1, 1, 3, 4), np.float32),
        "r": np.float32([2, 2, 2, 2]),
    }
    weights["w"][0, 0, 0, 5] = 1.0
    nodes = [
        convolution(SCORES, "_FusedConv2D", ["x", "w", "b"], 4),
        convolution(REACH, "_FusedConv2D", ["x", "v", "r"], 4),
    ]
    settings = encoder_settings({"kind": "detector_regions", "detector": "d", "backbone": CNN, "regions": 3})
    encoder = regions(write(tmp_path, nodes, weights), settings).eval()
    pixels = torch.full((2, 3, 32, 32), -1.0)
    pixels[0, :, 16, 8] = 1.0  # column 2, row 4 of the map
    sets, boxes = encoder.regions(pixels)
    assert sets.vectors.shape == (2, 3, encoder.dim)
    torch.testing.assert_close(boxes[0, 0] * 32, torch.tensor([6.0, 14, 10, 18]))


def test_features_made_of_regions_need_a_detector_and_others_do_not() -> None:
    content = yaml.safe_load((Path(__file__).parents[2] / "studies" / "converged.yaml").read_text())
    assert {name for name in content["features"] if needs_detector(content, name)} == {"lite0-regions", "lite0-objects"}


def test_without_a_detector_it_is_said_where_to_get_one(tmp_path: Path) -> None:
    content = {"features": {"objects": {"encoder": {"kind": "detector_regions", "detector": "centernet"}}}}
    with pytest.raises(UserError, match="need a detector") as error:
        features(content, tmp_path, "objects", Pairs([], [], tmp_path), QUIET)
    assert "npm" in str(error.value)
