"""Where the words of a caption look in a picture: the attention of SCAN (Lee et al. 2018) and BFAN (Liu et al. 2019).

The picture's vectors are cells of a grid, or regions with boxes; each word's weights are drawn as light on what the
encoder saw of the picture.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import Any

import numpy as np
import torch
from PIL import Image

from vsekit.data.text import Ragged
from vsekit.drawing.page import picture, row, table
from vsekit.models.model import VSE
from vsekit.parts import Sets
from vsekit.similarity.cross_attention import CrossAttention


@dataclass(frozen=True)
class Attention:
    """weights: (words, regions), of `CrossAttention.attention`. boxes: (regions, 4) x0, y0, x1, y1 in 0…1, if known."""

    words: list[str]
    weights: list[list[float]]
    boxes: list[list[float]] | None


def attends(model: VSE) -> bool:
    return isinstance(model.similarity, CrossAttention)


def grid_boxes(n: int) -> np.ndarray | None:
    """The cells of a square grid, row by row: (n, 4); None when n is no square, or one cell is all there is."""
    side = isqrt(n)
    if side * side != n or n == 1:
        return None
    y, x = np.divmod(np.arange(n), side)
    return np.stack([x, y, x + 1, y + 1], axis=1) / side


@torch.inference_mode()
def attention(model: VSE, image: Sets, text: str, boxes: np.ndarray | None = None) -> Attention:
    """The attention of one caption in one picture; start, end and the like are left out.

    Args:
        image: the picture's embedding, `Sets` of (1, N, D).
        boxes: (N, 4) where the regions are; by default a grid, when N is a square.
    """
    ids = model.tokenizer([text])
    captions: Any = model.text(Ragged.of(ids).batch([0]))
    weights = model.similarity.attention(image, captions)[0]  # type: ignore[operator]
    weights = weights[captions.mask[0]][:, image.mask[0]].numpy()
    words = model.tokenizer.words(text)
    if len(words) == len(weights):
        real = [i for i, id_ in enumerate(ids[0].tolist()) if id_ not in model.tokenizer.special_ids]
        words, weights = [words[i] for i in real], weights[real]
    else:  # convolutions that merge words
        words = [f"part {i + 1}" for i in range(len(weights))]
    boxes = grid_boxes(weights.shape[1]) if boxes is None else boxes[image.mask[0].numpy()]
    return Attention(words, weights.tolist(), None if boxes is None else np.asarray(boxes, float).tolist())


def lit(view: Image.Image, boxes: np.ndarray, weights: np.ndarray) -> Image.Image:
    """The view, dark but for the regions, each as bright as its weight; where two overlap, the larger weight counts."""
    pixels = np.asarray(view.convert("RGB"), dtype=np.float64)
    light = np.zeros(pixels.shape[:2])
    scale = np.array([view.width, view.height] * 2)
    for (x0, y0, x1, y1), weight in zip((boxes * scale).round().astype(int), weights / max(weights.max(), 1e-9)):
        light[y0:y1, x0:x1] = np.maximum(light[y0:y1, x0:x1], weight)
    return Image.fromarray((pixels * (0.2 + 0.8 * light[..., None])).astype(np.uint8))


def draw_attention(found: Attention, view: Image.Image | None) -> str:
    """A picture a word, lit where the word looks; without boxes or a picture, the regions each word looks at most."""
    if view is None or found.boxes is None:
        rows = []
        for word, weights in zip(found.words, np.array(found.weights)):
            best = np.argsort(-weights, kind="stable")[:3]
            rows.append((word, ", ".join(f"{i + 1} ({weights[i]:.2f})" for i in best)))
        return table(("word", "regions it looks at"), rows)
    small = view.convert("RGB")
    small.thumbnail((144, 144))
    boxes = np.array(found.boxes)
    return row(*(picture(lit(small, boxes, np.array(w)), word) for word, w in zip(found.words, found.weights)))
