"""Text CNN: a ResNet over the words of a sentence, whose 3 × 3 kernels have become 1 × 2.

Zheng et al. 2020, "Dual-path convolutional image-text embeddings with instance loss", section 3.2 and figure 3. A
sentence takes `slots` places (32; 56 for CUHK-PEDES); a longer one loses its last words, a shorter one leaves zeros:

    left      words, then zeros
    shift     zeros, words, zeros; the start is drawn anew from 0 … slots − n each time the sentence is read (training)

Words (1 × 1 × d × 300, a lookup table) → batch norm → bottleneck blocks ReLU(x + F(x)) in four stages of dim/8, dim/4,
dim/2 and dim channels, all but the first of stride 2, as many blocks as ResNet-50 or -152 have → mean over the places
left. Start, end and unknown words take no slot, as in the paper, which discards what its dictionary lacks. Not part of
the encoder: the paper's two fully connected layers behind it (see `heads`). How the published text CNN differs from the
paper's is said in docs/papers/dual_path.md.

A shortcut of stride 2, as ResNet has it, passes on every other place; after three of them one word in eight is left, and
which one depends on where the sentence stands. And what random blocks add drowns what the shortcuts carry. Two settings that
are not in the paper let the network start as a mean of its words: `shortcuts: mean` (the mean of two neighbours, then 1×1;
He et al. 2019, "Bag of tricks", ResNet-D) and `blocks: identity` (F starts at 0; Goyal et al. 2017, section 5.1).
"""

from __future__ import annotations

from typing import Literal, Self, cast

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from vsekit.encoders.base import TextEncoder, Tokenizer, Tokens
from vsekit.encoders.text.words import VocabularySettings, known_words
from vsekit.parts import Sets

BLOCKS = {14: (1, 1, 1, 1), 50: (3, 4, 6, 3), 152: (3, 8, 36, 3)}


def to_slots(ids: Tensor, known: Tensor, starts: Tensor, slots: int) -> Tensor:
    """Puts the known words of each sentence into a row of slots, one beside the other.

    Args:
        ids: (B, T). known: (B, T) bool, which of them to take. starts: (B,) the slot of the first.

    Returns: (B, slots); 0 where a slot is empty. Words that would fall behind the last slot are cut off.
    """
    slot = starts[:, None] + known.cumsum(1) - 1
    row, column = (known & (slot < slots)).nonzero(as_tuple=True)
    placed = ids.new_zeros(len(ids), slots)
    placed[row, slot[row, column]] = ids[row, column]
    return placed


class Bottleneck(nn.Module):
    """ReLU(shortcut(x) + F(x)), F = 1×1 to a quarter of the channels, 1×2 padded by one on the left, 1×1 back.

    mean: a shortcut of stride 2 passes on the mean of two neighbours; else the first of them.
    """

    def __init__(self, channels_in: int, channels: int, stride: int, *, mean: bool = False) -> None:
        super().__init__()
        inner = channels // 4
        self.residual = nn.Sequential(
            nn.Conv1d(channels_in, inner, 1, bias=False),
            nn.BatchNorm1d(inner),
            nn.ReLU(inplace=True),
            nn.ConstantPad1d((1, 0), 0.0),
            nn.Conv1d(inner, inner, 2, stride, bias=False),
            nn.BatchNorm1d(inner),
            nn.ReLU(inplace=True),
            nn.Conv1d(inner, channels, 1, bias=False),
            nn.BatchNorm1d(channels),
        )
        self.shortcut: nn.Module = nn.Identity()
        if mean and stride > 1:
            pool, projection = nn.AvgPool1d(stride, ceil_mode=True), nn.Conv1d(channels_in, channels, 1, bias=False)
            self.shortcut = nn.Sequential(pool, projection, nn.BatchNorm1d(channels))
        elif channels_in != channels or stride > 1:
            projection = nn.Conv1d(channels_in, channels, 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, nn.BatchNorm1d(channels))

    def forward(self, x: Tensor) -> Tensor:
        """(B, channels_in, L) → (B, channels, ⌈L / stride⌉)"""
        return F.relu(self.shortcut(x) + self.residual(x))


class TextCNN(TextEncoder):
    """found_share: share of the vocabulary found in the word-vector file; None when there was none."""

    def __init__(self, settings: TextCNNSettings, words: nn.Embedding, found_share: float | None = None) -> None:
        super().__init__()
        self.settings, self.dim, self.found_share = settings, settings.dim, found_share
        self.words = words
        channels, blocks = settings.word_dim, []
        for stage, count in enumerate(BLOCKS[settings.depth]):
            for block in range(count):
                width = settings.dim >> (3 - stage)
                stride = 2 if stage and not block else 1
                blocks.append(Bottleneck(channels, width, stride, mean=settings.shortcuts == "mean"))
                channels = width
        self.layers = nn.Sequential(nn.BatchNorm1d(settings.word_dim), *blocks)
        for module in self.modules():
            if isinstance(module, nn.Conv1d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if isinstance(module, Bottleneck) and settings.blocks == "identity":
                nn.init.zeros_(cast(nn.BatchNorm1d, module.residual[-1]).weight)

    def forward(self, tokens: Tokens) -> Sets:
        """Tokens (B, T) → Sets of (B, 1, dim), or of (B, ⌈slots / 8⌉, dim) for the output "slots".

        With `average_positions`, in evaluation, Sets of (B, V, 1, dim): a view at each position, for the tower to average.
        """
        known = known_words(tokens)
        room = (self.settings.slots - known.sum(1)).clamp(min=0)
        if self.settings.average_positions and not self.training:
            return self._everywhere(tokens.ids, known, room)
        starts = torch.zeros_like(room)
        if self.settings.position == "shift" and self.training:
            starts = (torch.rand(len(room), device=room.device) * (room + 1)).long()
        vectors = self._grid(tokens.ids, known, starts)
        if self.settings.output == "pooled":
            vectors = vectors.mean(1, keepdim=True)
        return Sets(vectors, torch.ones(vectors.shape[:2], dtype=torch.bool, device=vectors.device))

    def _grid(self, ids: Tensor, known: Tensor, starts: Tensor) -> Tensor:
        placed = to_slots(ids, known, starts, self.settings.slots)
        embedded = self.words(placed) * (placed > 0)[..., None]
        return self.layers(embedded.transpose(1, 2)).transpose(1, 2)

    def _everywhere(self, ids: Tensor, known: Tensor, room: Tensor) -> Sets:
        """Sets of (B, V, 1, dim): one view for each start 0 … slots − n, as many as the shortest sentence has."""
        count = int(room.max()) + 1
        fits = torch.arange(count, device=room.device) <= room[:, None]
        vectors = self.words.weight.new_zeros(len(ids), count, self.dim)
        for start in range(count):
            here = fits[:, start]
            grid = self._grid(ids[here], known[here], room.new_full((int(here.sum()),), start))
            vectors[here, start] = grid.mean(1)
        return Sets(vectors[:, :, None], fits[:, :, None])


class TextCNNSettings(VocabularySettings):
    """depth: 50 or 152, after the ResNet; 14, with one block a stage, is not in the paper. dim: channels of the last stage.
    position: where a sentence stands in training; in evaluation it stands left, or with `average_positions` everywhere, at
    up to `slots` times the cost; the tower's `average_views` says where the mean is taken. output: the mean over the
    places, or all of them. shortcuts, blocks: how places pass where there are half as many, and what a block adds at
    first; see above."""

    kind: Literal["text_cnn"] = "text_cnn"
    min_count: int = Field(1, ge=1)
    slots: int = Field(32, ge=16)
    depth: Literal[14, 50, 152] = 50
    dim: int = Field(2048, ge=32, multiple_of=32)
    position: Literal["shift", "left"] = "shift"
    average_positions: bool = False
    output: Literal["pooled", "slots"] = "pooled"
    shortcuts: Literal["strided", "mean"] = "strided"
    blocks: Literal["random", "identity"] = "random"

    @model_validator(mode="after")
    def _one_vector_to_average(self) -> Self:
        if self.average_positions and self.output == "slots":
            raise ValueError("average_positions needs output: pooled; the slots of shifted sentences do not correspond")
        return self

    def build(self, tokenizer: Tokenizer, initialise: bool = True) -> TextCNN:
        words, found_share = self.embedding(tokenizer, initialise)
        return TextCNN(self, words, found_share)
