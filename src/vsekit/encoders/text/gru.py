"""GRU and bi-GRU over words: one state a word.

Kiros et al. 2014, "Unifying visual-semantic embeddings with multimodal neural language models" (the GRU of VSE++);
Lee et al. 2018, "Stacked cross attention" (the bi-GRU, whose two directions are averaged). With σ the logistic function
and ∘ the product by elements:

    r_t = σ(W_ir x_t + b_ir + W_hr h_{t−1} + b_hr)
    z_t = σ(W_iz x_t + b_iz + W_hz h_{t−1} + b_hz)
    n_t = tanh(W_in x_t + b_in + r_t ∘ (W_hn h_{t−1} + b_hn))
    h_t = (1 − z_t) ∘ n_t + z_t ∘ h_{t−1}

These are `torch.nn.GRU`'s equations, and the parameters have its names, shapes and initial values. They are written out
here because the time can then go into matrix products alone, and into fewer of them: W_i x is computed once for each
different word of the batch, h_t once for each different beginning of a sentence ("<start> a man"), and W_h h_t once for
each that goes on: 418, 1,448 and 1,320 times for the 1,761 words in 128 captions of Flickr8k. The gradient of W_h is
one product over all steps. With mixed precision the products with W_i and W_h are of 16-bit numbers, which processors that know
them multiply twice as fast; states and gates stay at 32.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from vsekit.encoders.base import TextEncoder, Tokenizer, Tokens
from vsekit.encoders.text.words import VocabularySettings
from vsekit.parts import Sets

#: Products of 16-bit numbers have a multiple of so many rows: for each number of rows the library keeps a program of its own,
#: with its memory, and batches have hundreds of different ones (5 GiB in place of 1).
EVEN = 128


class Beginnings(NamedTuple):
    """The different beginnings of a batch of sentences, as a tree: the shortest first, and of those equally long the
    ones first that belong to the longest sentence. So those that go on stand before those that end.

    words: (n,) the last word of each beginning. parents: (n,) what it prolongs, counted among the one word shorter.
    counts: how many beginnings have 1, 2, … words. going_on: how many of them are prolonged.
    running: how many sentences have at least 1, 2, … words.
    nodes: (Σ lengths,) the beginning that ends at each word of the batch, all first words before all second ones.
    places: (Σ lengths,) where in the flattened (B · T) batch that word stands.
    slots: (B · T,) the beginning that ends at each place; n behind the end of a sentence.
    """

    words: Tensor
    parents: Tensor
    counts: list[int]
    going_on: list[int]
    running: list[int]
    nodes: Tensor
    places: Tensor
    slots: Tensor


def beginnings(rows: np.ndarray, lengths: np.ndarray, reverse: bool = False) -> Beginnings:
    """Finds the beginnings in `rows` (B, T) of sentences with `lengths` (B,), each read from its end if `reverse`."""
    order = np.argsort(-lengths, kind="stable")
    lengths = lengths[order]
    at = np.zeros(len(rows), np.int64)
    words, parents, nodes, places = [], [], [], []
    counts: list[int] = []
    going_on: list[int] = []
    still_running: list[int] = []
    for step in range(lengths[0]):
        running = np.searchsorted(-lengths, -step)  # sentences with more than `step` words
        place = order[:running] * rows.shape[1] + (lengths[:running] - 1 - step if reverse else step)
        word = rows.reshape(-1)[place]
        _, first, which = np.unique(at[:running] * (rows.max() + 1) + word, return_index=True, return_inverse=True)
        first_come = np.argsort(first)
        first = first[first_come]
        words.append(word[first])
        parents.append(at[first])
        at = np.argsort(first_come)[which]
        nodes.append(at + sum(counts))
        places.append(place)
        still_running.append(int(running))
        counts.append(len(first))
        going_on.append(int(np.searchsorted(-lengths[first], -step - 1)))
    word, parent, node, place = (torch.from_numpy(np.concatenate(arrays)) for arrays in (words, parents, nodes, places))
    slots = torch.full((rows.size,), len(word)).index_copy_(0, place, node)
    return Beginnings(word, parent, counts, going_on, still_running, node, place, slots)


class _States(torch.autograd.Function):
    """(U, 3H) input projections, W_h (3H, H), b_h (3H) → (B · T, H), the state after each word of the batch.

    dtype: of the numbers that are multiplied with W_h.
    """

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor, tree: Beginnings, dtype: torch.dtype) -> Tensor:
        size, pieces, weight = weight.shape[1], pieces_of(weight), weight.to(dtype)
        # Columns r, z, W_hn h + b_hn, n. A step gathers their constant parts, and adds W_h h to the first 3H.
        to_r_z, to_n = inputs.split([2 * size, size], 1)
        table = torch.cat([to_r_z + bias[: 2 * size], bias[2 * size :].expand_as(to_n), to_n], 1)
        columns = weight.unflatten(0, (3 * pieces, -1)).mT
        states = inputs.new_empty(len(tree.words) + 1, size)
        states[-1] = 0  # of what stands behind a sentence
        keep = any(ctx.needs_input_grad)
        gates = inputs.new_empty(len(tree.words) if keep else max(tree.counts), 4 * size)
        before = inputs.new_zeros(tree.counts[0], size)
        start = 0
        for step, count in enumerate(tree.counts):
            end = start + count
            gate = gates[start:end] if keep else gates[:count]
            torch.index_select(table, 0, tree.words[start:end], out=gate)
            if step:
                product = torch.bmm(before.to(dtype).expand(3 * pieces, -1, -1), columns)
                if count != len(before):  # else each is prolonged by one word only, and in the same order
                    parents = tree.parents[start:end]
                    product, before = product.index_select(1, parents), before.index_select(0, parents)
                gate[:, : 3 * size].unflatten(1, (3 * pieces, -1)).add_(product.transpose(0, 1))
            gate[:, : 2 * size].sigmoid_()
            r, z, hidden, n = gate.split(size, 1)
            n.addcmul_(r, hidden).tanh_()
            torch.lerp(n, before, z, out=states[start:end])
            before = states[start : start + tree.going_on[step]]
            start = end
        ctx.save_for_backward(weight, states, gates)
        ctx.tree, ctx.different_words = tree, len(inputs)
        return states.index_select(0, tree.slots)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad_words,) = grads
        weight, states, gates = ctx.saved_tensors
        tree: Beginnings = ctx.tree
        size, pieces = weight.shape[1], pieces_of(weight)
        columns = weight.unflatten(1, (pieces, -1)).transpose(0, 1)
        grad_table = states.new_zeros(ctx.different_words, 4 * size)
        # What W_h is multiplied with, and the gradients of these products (the fourth columns come along unused).
        rows = sum(tree.going_on)
        more = 0 if weight.dtype == states.dtype else -rows % EVEN
        prolonged = F.pad(states.new_empty(rows, size), (0, 0, 0, more))
        grad_products = F.pad(states.new_empty(rows, 4 * size), (0, 0, 0, more))
        scratch = states.new_empty(max(tree.counts), 4 * size)
        from_children = states.new_empty(0, size)
        start, row, word = len(gates), rows, len(tree.places)
        for step in range(len(tree.counts) - 1, -1, -1):
            count, running = tree.counts[step], tree.running[step]
            end, start, word = start, start - count, word - running
            before, parents, delta = states.new_zeros(()), None, scratch[:count]
            if step:
                above, going_on = start - tree.counts[step - 1], tree.going_on[step - 1]
                row -= going_on
                grad_product = grad_products[row : row + going_on]
                before = prolonged[row : row + going_on].copy_(states[above : above + going_on])
                if count == going_on:
                    delta = grad_product
                else:
                    parents = tree.parents[start:end]
                    before = before.index_select(0, parents)
            grad = grad_words.index_select(0, tree.places[word : word + running])
            if count != running:  # some beginnings are those of several sentences
                grad = grad.new_zeros(count, size).index_add_(0, tree.nodes[word : word + running] - start, grad)
            grad[: len(from_children)] += from_children
            r, z, hidden, n = gates[start:end].split(size, 1)
            d_r, d_z, d_hidden, d_n = delta.split(size, 1)
            torch.sub(before, n, out=d_z).mul_(grad)
            kept = grad * z
            torch.ops.aten.tanh_backward.grad_input(grad.sub_(kept), n, grad_input=d_n)
            torch.mul(d_n, r, out=d_hidden)
            torch.mul(d_n, hidden, out=d_r)
            d_r_z, r_z = delta[:, : 2 * size], gates[start:end, : 2 * size]
            torch.ops.aten.sigmoid_backward.grad_input(d_r_z, r_z, grad_input=d_r_z)
            grad_table.index_add_(0, tree.words[start:end], delta)
            if parents is not None:
                grad_product.zero_().index_add_(0, parents, delta)
                kept = kept.new_zeros(going_on, size).index_add_(0, parents, kept)
            if step:
                product = torch.bmm(grad_product[:, : 3 * size].to(weight.dtype).expand(pieces, -1, -1), columns)
                kept.unflatten(1, (pieces, -1)).add_(product.transpose(0, 1))
                from_children = kept
        grad_inputs = torch.cat([grad_table[:, : 2 * size], grad_table[:, 3 * size :]], 1)
        grad_weight = grad_products[:, : 3 * size].to(weight.dtype).t() @ prolonged.to(weight.dtype)
        return grad_inputs, grad_weight.to(states.dtype), grad_table[:, : 3 * size].sum(0), None, None


def pieces_of(weight: Tensor) -> int:
    """Into how many products, each of some columns, a step's product is cut for each H columns of its result.

    Libraries share one product of about 100 rows badly among threads, and a batch of products well: on two threads the
    batch takes a quarter less time (45 rows: 100 → 132 GFLOP/s), on one thread the same.
    """
    return 4 if weight.shape[1] % 4 == 0 else 1


def gru_states(
    inputs: Tensor, weight: Tensor, bias: Tensor, tree: Beginnings, dtype: torch.dtype | None = None
) -> Tensor:
    """The states of a GRU that starts from zero, after each word of the batch: (B · T, H), zero behind a sentence's end.

    Args:
        inputs: (U, 3H) W_i x + b_i of the different words, in the order r, z, n.
        weight, bias: (3H, H) and (3H,), W_h and b_h in the same order.
        tree: its `words` are rows of `inputs`.
        dtype: of the numbers that are multiplied with W_h; that of `inputs` unless said.
    """
    return _States.apply(inputs, weight, bias, tree, dtype or inputs.dtype)


class GRU(TextEncoder):
    """Word embeddings and one GRU layer, or two that read in opposite directions and are averaged.

    found_share: share of the vocabulary found in the word-vector file; None when there was none.
    """

    def __init__(self, words: nn.Embedding, dim: int, bidirectional: bool, found_share: float | None = None) -> None:
        super().__init__()
        self.dim, self.found_share = dim, found_share
        self.words = words
        self.gru = nn.GRU(words.embedding_dim, dim, batch_first=True, bidirectional=bidirectional)

    def forward(self, tokens: Tokens) -> Sets:
        """Tokens (B, T) → Sets of (B, T, dim): the state after each word, start and end included."""
        ids, lengths = tokens
        mask = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
        if ids.device.type != "cpu":
            return Sets(self.library_states(tokens), mask)
        dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
        with torch.autocast("cpu", enabled=False):  # the states are written in place, in one precision
            return Sets(self._states(ids, lengths, dtype), mask)

    def _states(self, ids: Tensor, lengths: Tensor, dtype: torch.dtype | None) -> Tensor:
        different, rows = ids.unique(return_inverse=True)
        words = self.words(different if dtype is None else F.pad(different, (0, -len(different) % EVEN)))
        directions = []
        for reverse, (weight_ih, weight_hh, bias_ih, bias_hh) in enumerate(self.gru.all_weights):
            tree = beginnings(rows.numpy(), lengths.numpy(), reverse=bool(reverse))
            with torch.autocast("cpu", dtype, enabled=dtype is not None):
                inputs = F.linear(words, weight_ih, bias_ih).to(words.dtype)
            states = gru_states(inputs, weight_hh, bias_hh, tree, dtype)
            directions.append(states.view(*ids.shape, self.dim))
        return torch.stack(directions).mean(0) if self.gru.bidirectional else directions[0]

    def library_states(self, tokens: Tokens) -> Tensor:
        """The same states (B, T, dim) from `torch.nn.GRU`, which is fast where cuDNN or its like does the work."""
        packed = pack_padded_sequence(self.words(tokens.ids), tokens.lengths.cpu(), True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.gru(packed)[0], batch_first=True, total_length=tokens.ids.shape[1])
        return states.unflatten(2, (-1, self.dim)).mean(2)


class GRUSettings(VocabularySettings):
    """dim: size of a state. bidirectional: average a GRU from the left and one from the right."""

    kind: Literal["gru"] = "gru"
    dim: int = Field(1024, ge=1)
    bidirectional: bool = False

    def build(self, tokenizer: Tokenizer, initialise: bool = True) -> GRU:
        words, found_share = self.embedding(tokenizer, initialise)
        return GRU(words, self.dim, self.bidirectional, found_share)
