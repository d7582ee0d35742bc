"""Operations on padded sets that never read the padding, so that even NaN there cannot reach a value or a gradient."""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vsekit.parts import Sets
from vsekit.pooling.last import last_pool


def zero_padding(vectors: Tensor, mask: Tensor) -> Tensor:
    """(B, N, d), (B, N) → (B, N, d) with zeros at the padded places."""
    return vectors.masked_fill(~mask.unsqueeze(-1), 0)


def softmax(logits: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the set, of (B, N) or of every dimension of (B, N, d); padded places weigh nothing."""
    padding = ~mask if logits.dim() == 2 else ~mask.unsqueeze(-1)
    return logits.masked_fill(padding, -torch.inf).softmax(1)


def front(mask: Tensor) -> Tensor:
    """(B, N) → (B, N): as many True in every row as before, all at its beginning."""
    return torch.arange(mask.shape[1], device=mask.device) < mask.sum(1, keepdim=True)


def sort_descending(vectors: Tensor, mask: Tensor) -> Sets:
    """Sorts every dimension on its own, largest value first; zeros follow the last valid one."""
    filled = vectors.masked_fill(~mask.unsqueeze(-1), -torch.inf)
    # Sorting contiguous memory takes half the time of sorting along dim 1.
    ordered = filled.transpose(1, 2).contiguous().sort(-1, descending=True).values.transpose(1, 2)
    return Sets(zero_padding(ordered, front(mask)), front(mask))


def pick(vectors: Tensor, places: Tensor) -> Tensor:
    """(B, N, d), (B, N) int64 → (B, N, d): at n of set b, what stood at places[b, n]."""
    return vectors.gather(1, places.unsqueeze(-1).expand(-1, -1, vectors.shape[2]))


def compact(vectors: Tensor, mask: Tensor) -> Sets:
    """Moves the valid vectors to the beginning of each set, in their order."""
    if torch.equal(mask, front(mask)):
        return Sets(vectors, mask)
    return Sets(pick(vectors, (~mask).byte().argsort(dim=1, stable=True)), front(mask))


def read_sequence(
    rnn: nn.RNNBase, vectors: Tensor, mask: Tensor, back: nn.RNNBase | None = None
) -> tuple[Sets, Tensor]:
    """Reads the valid vectors one after the other; where `back` reads them from the end, the two are averaged.

    Packed sequences would skip the padded steps, but torch's backward pass through them is quadratic in their length.

    Args:
        rnn, back: a GRU or LSTM of one layer and direction, `batch_first`, with states of size h.

    Returns:
        the states after each vector, (B, N, h), at the beginning of each set; the last state, (B, h).
    """
    vectors, mask = compact(zero_padding(vectors, mask), mask)
    states = rnn(vectors)[0]
    last = last_pool(states, mask)
    if back is not None:
        reverse = (mask.sum(1, keepdim=True) - 1 - torch.arange(mask.shape[1], device=mask.device)).clamp(min=0)
        others = back(pick(vectors, reverse))[0]
        states, last = (states + pick(others, reverse)) / 2, (last + last_pool(others, mask)) / 2
    return Sets(states, mask), last


def batch_norm(norm: nn.BatchNorm1d, rows: Tensor) -> Tensor:
    """`norm` of (M, d). A single row has no variance: it is normalised by the running statistics and leaves them be.

    A norm of another class may know of more rows than these (`training.global_batch`), and sees to it itself.
    """
    if norm.training and len(rows) == 1 and isinstance(norm, nn.BatchNorm1d):
        return F.batch_norm(rows, norm.running_mean, norm.running_var, norm.weight, norm.bias, eps=norm.eps)
    return cast(Tensor, norm(rows))


def masked_batch_norm(norm: nn.BatchNorm1d, vectors: Tensor, mask: Tensor) -> Tensor:
    """Batch normalisation of (B, N, d) with statistics over the valid places alone; zeros at the padded ones."""
    normed = batch_norm(norm, vectors[mask])
    return normed.new_zeros(vectors.shape).index_put((mask,), normed)
