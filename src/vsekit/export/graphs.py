"""The two towers of a model as ONNX graphs.

image   pixels (B, V, P, P, 3) uint8, the V crops of each picture as they are cut → embeddings (B, D) float32
        or, for a model of features: features (B, N, d) float32 and lengths (B,) int64
text    ids (B, T) int64, padded with anything, and lengths (B,) int64 → embeddings (B, D)

B, N and T are free. Scaling the pixels by the encoder's mean and std, the mean over crops, pooling, head and l2 norm are
inside the graph.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from vsekit.engines.graphs import PixelGraph
from vsekit.engines.twins import exportable
from vsekit.models.model import VSE
from vsekit.parts import Sets, Tokens


class ImageGraph(nn.Module):
    def __init__(self, model: VSE) -> None:
        super().__init__()
        tower: Any = exportable(model.image)
        self.tower, self.pixels = tower, PixelGraph(model.image.encoder, tower.with_tail())
        self.mean_after_head = model.image.average_views == "after_head"

    def forward(self, pixels: Tensor) -> Tensor:
        views = pixels.shape[1]
        if views == 1 or not self.mean_after_head:
            return self.tower.embed(self.pixels.sets(pixels))
        sets = self.pixels.sets(pixels.flatten(0, 1)[:, None])
        each = self.tower.head(self.tower.pooling(self.tower._projected(sets), sets.mask))
        return self.tower._finished(each.unflatten(0, (-1, views)).mean(1))


class FeatureGraph(nn.Module):
    def __init__(self, model: VSE) -> None:
        super().__init__()
        self.tower: Any = exportable(model.image)

    def forward(self, features: Tensor, lengths: Tensor) -> Tensor:
        mask = torch.arange(features.shape[1], device=features.device) < lengths[:, None]
        return self.tower.embed(Sets(features, mask))


class TextGraph(nn.Module):
    def __init__(self, model: VSE) -> None:
        super().__init__()
        self.tower: Any = exportable(model.text)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        # Whatever pads the ids must be a row of the embedding.
        inside = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
        return self.tower(Tokens(torch.where(inside, ids, 0), lengths))
