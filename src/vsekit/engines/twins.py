"""The same parts in the words of a graph: no sorting of sentences by length, no trees, no question to the data.

Some parts are written for speed in training: the GRU reads each beginning of a sentence once, the bag of words picks the
known words out, a transformer reads short sentences apart. A graph has one path for every batch and every length, so
these parts have a plain twin here, which takes the original's weights and gives the same numbers. What is not listed in
`TWINS` is exported as it is.

GRUs and LSTMs become ONNX's own operators, which are told the length of each sentence and never read the padding:

    X (T, B, d), W (directions, 3H, d), R (directions, 3H, H), B (directions, 6H), lengths (B,) → Y (T, directions, B, H)

with the gates in the order z, r, n (torch: r, z, n), or i, o, f, c for the LSTM (torch: i, f, c, o).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from vsekit.encoders.base import Tokens
from vsekit.encoders.image.detector_regions import DetectorRegions, best_boxes, roi_align
from vsekit.encoders.text.bow import BagOfWords
from vsekit.encoders.text.cnn import TextCNN
from vsekit.encoders.text.gru import GRU
from vsekit.encoders.text.transformer import Transformer
from vsekit.encoders.text.words import known_words
from vsekit.parts import Sets
from vsekit.pooling.first import FirstPool
from vsekit.pooling.gcn import GraphReasoning
from vsekit.pooling.gpo import GPO, sinusoids
from vsekit.pooling.k_max import KMaxPool
from vsekit.pooling.last import LastPool
from vsekit.pooling.masked import front, pick, softmax, sort_descending, zero_padding
from vsekit.pooling.mean import mean_pool
from vsekit.pooling.seq2seq import Seq2Seq
from vsekit.pooling.single import SinglePool
from vsekit.pooling.vsrn import VSRN

#: Where torch's gates stand in ONNX's order.
_ORDER = {"GRU": (1, 0, 2), "LSTM": (0, 3, 1, 2)}
#: The version of ONNX's operators that graphs are written in.
OPSET = 18


class Recurrent(nn.Module):
    """One or two readers of a sequence as one ONNX operator; each a layer of `torch.nn.GRU` or `LSTM`, by its weights.

    Args:
        readers: W_i, W_h, b_i, b_h of the one that reads from the left, from the right, or of both in this order.
        direction: forward, reverse or bidirectional.
    """

    def __init__(self, kind: str, readers: Sequence[Sequence[Tensor]], direction: str) -> None:
        super().__init__()
        self.kind, self.direction, self.readers = kind, direction, len(readers)
        self.size = readers[0][1].shape[1]
        w, r, b_w, b_r = (torch.stack([self._reordered(reader[i]) for reader in readers]) for i in range(4))
        self.register_buffer("w", w)
        self.register_buffer("r", r)
        self.register_buffer("b", torch.cat([b_w, b_r], 1))

    def _reordered(self, weight: Tensor) -> Tensor:
        gates = weight.detach().chunk(len(_ORDER[self.kind]))
        return torch.cat([gates[gate] for gate in _ORDER[self.kind]])

    def forward(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        """(B, N, d), (B,) → states (B, N, directions, H), zero behind a sequence's end."""
        attributes: dict[str, Any] = {"hidden_size": self.size, "direction": self.direction}
        if self.kind == "GRU":
            attributes["linear_before_reset"] = 1
        inputs = (vectors.transpose(0, 1), *(self.get_buffer(name) for name in "wrb"), lengths.to(torch.int32))
        shape = (vectors.shape[1], self.readers, vectors.shape[0], self.size)
        states = torch.onnx.ops.symbolic(self.kind, inputs, attributes, dtype=vectors.dtype, shape=shape, version=OPSET)
        return states.permute(2, 0, 1, 3)


def _weights(rnn: nn.RNNBase, layer: int = 0) -> Sequence[Tensor]:
    return rnn.all_weights[layer]


def _compact(vectors: Tensor, mask: Tensor) -> Tensor:
    """The valid vectors first, in their order; no two keys are equal, so any sort is as good as a stable one."""
    places = torch.arange(mask.shape[1], device=mask.device)
    order = (places + mask.shape[1] * (~mask).long()).argsort(dim=1)
    return pick(zero_padding(vectors, mask), order)


def _at(vectors: Tensor, places: Tensor) -> Tensor:
    """(B, N, d), (B,) → (B, d)."""
    return pick(vectors, places[:, None])[:, 0]


class _Sequence(nn.Module):
    """`pooling.masked.read_sequence`."""

    def __init__(self, rnn: nn.RNNBase, back: nn.RNNBase | None = None) -> None:
        super().__init__()
        kind = "LSTM" if isinstance(rnn, nn.LSTM) else "GRU"
        self.rnn = Recurrent(kind, [_weights(rnn)], "forward")
        self.back = Recurrent(kind, [_weights(back)], "reverse") if back is not None else None

    def forward(self, vectors: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        vectors, lengths = _compact(vectors, mask), mask.sum(1)
        states = self.rnn(vectors, lengths)[:, :, 0]
        last = _at(states, lengths - 1)
        if self.back is not None:
            others = self.back(vectors, lengths)[:, :, 0]
            states, last = (states + others) / 2, (last + others[:, 0]) / 2
        return states, last


class GRUTwin(nn.Module):
    def __init__(self, original: GRU) -> None:
        super().__init__()
        self.words = original.words
        layers = [_weights(original.gru, layer) for layer in range(2 if original.gru.bidirectional else 1)]
        self.gru = Recurrent("GRU", layers, "bidirectional" if original.gru.bidirectional else "forward")

    def forward(self, tokens: Tokens) -> Sets:
        mask = torch.arange(tokens.ids.shape[1], device=tokens.ids.device) < tokens.lengths[:, None]
        return Sets(self.gru(self.words(tokens.ids), tokens.lengths).mean(2), mask)


class BagOfWordsTwin(nn.Module):
    def __init__(self, original: BagOfWords) -> None:
        super().__init__()
        self.words, self.reduce = original.words, original.reduce

    def forward(self, tokens: Tokens) -> Sets:
        known = known_words(tokens)
        counts = known.sum(1, keepdim=True)
        total = zero_padding(self.words(tokens.ids), known).sum(1)
        vectors = total / counts.clamp(min=1) if self.reduce == "mean" else total
        return Sets(vectors[:, None], torch.ones_like(counts, dtype=torch.bool))


class TextCNNTwin(nn.Module):
    """The starts of `average_positions` are read side by side; those with no room for the sentence weigh nothing."""

    def __init__(self, original: TextCNN) -> None:
        super().__init__()
        self.settings, self.words, self.layers = original.settings, original.words, original.layers

    def forward(self, tokens: Tokens) -> Sets:
        known = known_words(tokens)
        slots = self.settings.slots
        starts = torch.arange(slots + 1 if self.settings.average_positions else 1, device=known.device)
        slot = starts[:, None] + (known.cumsum(1) - 1)[:, None]  # (B, S, T)
        here = known[:, None, :, None] & (slot[..., None] == torch.arange(slots, device=known.device))
        placed = torch.where(here, tokens.ids[:, None, :, None], 0).sum(2)  # (B, S, slots)
        flat = placed.flatten(0, 1)
        embedded = self.words(flat) * (flat > 0)[..., None]
        grid = self.layers(embedded.transpose(1, 2)).transpose(1, 2)
        if self.settings.output == "pooled":
            means = grid.mean(1).unflatten(0, (-1, len(starts)))  # (B, S, dim)
            fits = starts <= (slots - known.sum(1, keepdim=True)).clamp(min=0)
            grid = mean_pool(means, fits)[:, None]
        return Sets(grid, torch.ones(grid.shape[:2], dtype=torch.bool, device=grid.device))


class TransformerTwin(nn.Module):
    def __init__(self, original: Transformer) -> None:
        super().__init__()
        self.model = original.model

    def forward(self, tokens: Tokens) -> Sets:
        mask = torch.arange(tokens.ids.shape[1], device=tokens.ids.device) < tokens.lengths[:, None]
        return Sets(self.model(input_ids=tokens.ids, attention_mask=mask.long()).last_hidden_state, mask)


class DetectorRegionsTwin(nn.Module):
    def __init__(self, original: DetectorRegions) -> None:
        super().__init__()
        self.original = original

    def forward(self, pixels: Tensor) -> Sets:
        return self.regions(pixels)[0]

    def regions(self, pixels: Tensor) -> tuple[Sets, Tensor]:
        own = self.original
        found = own.detector(pixel_values=own._for_detector(pixels))
        boxes, scores = best_boxes(found.logits, found.pred_boxes, own.detector.config.num_labels, own.settings.regions)
        best = torch.arange(scores.shape[1], device=scores.device) == 0
        cells = own.backbone(pixels).vectors
        side = int(cells.shape[1] ** 0.5)
        grid = cells.transpose(1, 2).unflatten(2, (side, side))
        return Sets(roi_align(grid, boxes).mean((-2, -1)), (scores >= own.settings.threshold) | best), boxes


class FirstTwin(nn.Module):
    """Also for `single`: that a set has one vector is known from the encoder."""

    def __init__(self, original: nn.Module) -> None:
        super().__init__()

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        return _at(vectors, mask.int().argmax(1))


class LastTwin(FirstTwin):
    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        places = torch.arange(mask.shape[1], device=mask.device)
        return _at(vectors, (mask * places).amax(1))


class KMaxTwin(nn.Module):
    """K empty places are added, so that there are always K."""

    def __init__(self, original: KMaxPool) -> None:
        super().__init__()
        self.k = original.k

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        filled = vectors.masked_fill(~mask.unsqueeze(-1), -torch.inf)
        more = vectors.new_full((1, self.k, 1), -torch.inf).expand(vectors.shape[0], -1, vectors.shape[2])
        top = torch.cat([filled, more], 1).topk(self.k, dim=1).values
        return mean_pool(top, torch.arange(self.k, device=mask.device) < mask.sum(1, keepdim=True))


class GPOTwin(nn.Module):
    """θ is computed for every set, not once for every size."""

    def __init__(self, original: GPO) -> None:
        super().__init__()
        self.hidden, self.temperature, self.score = original.hidden, original.temperature, original.score
        self.read = _Sequence(original.gru, original.back)

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        valid = front(mask)
        places = torch.arange(mask.shape[1], device=mask.device).to(vectors.dtype)
        encoded = sinusoids(places, self.hidden).expand(mask.shape[0], -1, -1)
        states, _ = self.read(encoded, valid)
        theta = softmax(self.score(states).squeeze(-1) / self.temperature, valid)
        return torch.einsum("bn,bnd->bd", theta, sort_descending(vectors, mask).vectors)


class Seq2SeqTwin(nn.Module):
    def __init__(self, original: Seq2Seq) -> None:
        super().__init__()
        self.read = _Sequence(original.rnn, original.back)

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        return self.read(vectors, mask)[1]


class GraphReasoningTwin(nn.Module):
    """Batch normalisation by the running statistics, written out; the products in the order for small sets."""

    def __init__(self, original: GraphReasoning) -> None:
        super().__init__()
        self.theta, self.phi, self.g, self.w = original.theta, original.phi, original.g, original.w
        norm = original.norm
        assert norm.running_mean is not None
        assert norm.running_var is not None
        gain = norm.weight.detach() / (norm.running_var + norm.eps).sqrt()
        self.register_buffer("gain", gain)
        self.register_buffer("shift", norm.bias.detach() - norm.running_mean * gain)

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        g = zero_padding(self.g(vectors), mask)
        related = (self.theta(vectors) @ self.phi(vectors).mT) @ g
        normed = self.w(related / mask.sum(1)[:, None, None]) * self.get_buffer("gain") + self.get_buffer("shift")
        return vectors + zero_padding(normed, mask)


class VSRNTwin(nn.Module):
    """Its layers of graph reasoning have become twins before."""

    def __init__(self, original: VSRN) -> None:
        super().__init__()
        self.original, self.read = original, _Sequence(original.gru)

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        return self.read(self.original.reason(vectors, mask), mask)[1]


TWINS: dict[type[nn.Module], Any] = {
    GRU: GRUTwin,
    BagOfWords: BagOfWordsTwin,
    TextCNN: TextCNNTwin,
    Transformer: TransformerTwin,
    DetectorRegions: DetectorRegionsTwin,
    SinglePool: FirstTwin,
    FirstPool: FirstTwin,
    LastPool: LastTwin,
    KMaxPool: KMaxTwin,
    GPO: GPOTwin,
    Seq2Seq: Seq2SeqTwin,
    GraphReasoning: GraphReasoningTwin,
    VSRN: VSRNTwin,
}


def exportable(module: nn.Module) -> nn.Module:
    """A copy of a tower, or of an encoder, in eval mode, with every part that has a twin replaced by it."""
    return _replaced(copy.deepcopy(module).eval().requires_grad_(False))


def _replaced(module: nn.Module) -> nn.Module:
    for name, child in module.named_children():
        setattr(module, name, _replaced(child))
    twin = TWINS.get(type(module))
    return twin(module).eval() if twin is not None else module
