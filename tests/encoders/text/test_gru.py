from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from vsekit.data.text import Vocabulary
from vsekit.encoders.base import Tokens
from vsekit.encoders.text.gru import GRU, GRUSettings, beginnings, gru_states

VOCABULARY = Vocabulary(list("abcdefgh"))


def build(bidirectional: bool = False, dim: int = 7) -> GRU:
    torch.manual_seed(0)
    return GRUSettings(word_dim=5, dim=dim, bidirectional=bidirectional).build(VOCABULARY)


def tokens(*lengths: int, width: int | None = None) -> Tokens:
    """Random words of three, so that beginnings repeat; what stands behind a sentence is random too."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(1, 4, (len(lengths), width or max(lengths)), generator=generator)
    return Tokens(ids, torch.tensor(lengths))


def gradients(encoder: GRU, states: Tensor, mask: Tensor) -> list[Tensor]:
    weights = torch.linspace(-1, 1, states.numel()).view_as(states) * mask[..., None]
    return list(torch.autograd.grad((states * weights).sum(), list(encoder.parameters())))


@pytest.mark.parametrize("dim", [7, 8])  # 8 is computed in pieces
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("lengths", [(3, 6, 1, 6, 4), (1,), (5,), (2, 2), (1, 1, 1)])
def test_states_and_gradients_equal_those_of_torch_gru(dim: int, bidirectional: bool, lengths: tuple[int, ...]) -> None:
    encoder, batch = build(bidirectional, dim), tokens(*lengths)
    states, mask = encoder(batch)
    expected = encoder.library_states(batch)
    assert states.shape == (len(lengths), max(lengths), dim)
    torch.testing.assert_close(states[mask], expected[mask], atol=1e-6, rtol=1e-5)
    for ours, theirs in zip(gradients(encoder, states, mask), gradients(encoder, expected, mask)):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


def test_states_follow_the_equations_word_by_word() -> None:
    encoder, batch = build(), tokens(4)
    w_i, w_h, b_i, b_h = (p.detach().double() for p in encoder.gru.all_weights[0])
    h = torch.zeros(7, dtype=torch.float64)
    for t in range(4):
        i = (w_i @ encoder.words.weight[batch.ids[0, t]].detach().double() + b_i).chunk(3)
        g = (w_h @ h + b_h).chunk(3)
        r, z = torch.sigmoid(i[0] + g[0]), torch.sigmoid(i[1] + g[1])
        h = (1 - z) * torch.tanh(i[2] + r * g[2]) + z * h
        torch.testing.assert_close(encoder(batch).vectors[0, t].double(), h, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_with_mixed_precision_only_what_is_multiplied_has_16_bits(bidirectional: bool) -> None:
    encoder, batch = build(bidirectional, 8), tokens(3, 6, 1, 6, 4)
    states, mask = encoder(batch)
    with torch.autocast("cpu", torch.bfloat16):
        mixed, _ = encoder(batch)
    assert mixed.dtype == torch.float32
    assert not torch.equal(mixed, states)
    torch.testing.assert_close(mixed, states, atol=0.01, rtol=0)
    for ours, exact in zip(gradients(encoder, mixed, mask), gradients(encoder, states, mask)):
        assert ours.dtype == torch.float32
        assert (ours - exact).norm() < 0.02 * exact.norm()


def test_states_of_mixed_precision_follow_the_equations_with_rounded_factors() -> None:
    encoder, batch = build(), tokens(4)
    w_i, w_h, b_i, b_h = (p.detach() for p in encoder.gru.all_weights[0])
    short = [value.bfloat16().float() for value in (w_i, w_h, encoder.words.weight.detach())]
    h = torch.zeros(7)
    for t in range(4):
        i = (short[0] @ short[2][batch.ids[0, t]] + b_i).bfloat16().float().chunk(3)
        g = ((short[1] @ h.bfloat16().float()).bfloat16().float() + b_h).chunk(3)
        r, z = torch.sigmoid(i[0] + g[0]), torch.sigmoid(i[1] + g[1])
        h = (1 - z) * torch.tanh(i[2] + r * g[2]) + z * h
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(encoder(batch).vectors[0, 3], h, atol=2e-3, rtol=0)


@pytest.mark.parametrize("size", [3, 4])
def test_gradients_equal_finite_differences(size: int) -> None:
    torch.manual_seed(0)
    sentences = [[0, 1, 2, 1], [0, 1, 1, 0], [1, 1, 0, 0], [0, 1, 0, 0], [0, 1, 2, 1], [0, 2, 2, 0]]
    tree = beginnings(np.array(sentences), np.array([4, 3, 2, 1, 4, 3]))
    shapes = [(3, 3 * size), (3 * size, size), (3 * size,)]
    inputs = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    assert torch.autograd.gradcheck(lambda *args: gru_states(*args, tree), inputs)


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=5), min_size=1, max_size=8), st.booleans())
@settings(max_examples=100, deadline=None)
def test_beginnings_are_the_different_prefixes_of_the_sentences(sentences: list[list[int]], reverse: bool) -> None:
    lengths = np.array([len(s) for s in sentences])
    rows = np.full((len(sentences), 6), 9)
    for row, sentence in zip(rows, sentences):
        row[: len(sentence)] = sentence
    tree = beginnings(rows, lengths, reverse)
    spelled: list[list[int]] = []  # each beginning, spelled by following parents
    for step, count in enumerate(tree.counts):
        above = len(spelled) - (tree.counts[step - 1] if step else 0)
        for node in range(len(spelled), len(spelled) + count):
            spelled.append([*(spelled[above + tree.parents[node]] if step else []), int(tree.words[node])])
    read = [s[::-1] if reverse else s for s in sentences]
    assert sorted(spelled) == sorted(map(list, {tuple(s[: i + 1]) for s in read for i in range(len(s))}))
    for node, place in zip(tree.nodes.tolist(), tree.places.tolist()):
        sentence, column = divmod(place, 6)
        words = len(sentences[sentence]) - column if reverse else column + 1
        assert spelled[node] == read[sentence][:words]
    assert sorted(tree.places.tolist()) == [6 * i + t for i, s in enumerate(sentences) for t in range(len(s))]
    expected = dict(zip(tree.places.tolist(), tree.nodes.tolist()))
    assert tree.slots.tolist() == [expected.get(place, len(spelled)) for place in range(rows.size)]
    assert tree.running == [sum(lengths > step) for step in range(max(lengths))]
    start = 0
    for step, (count, going_on) in enumerate(zip(tree.counts, tree.going_on)):
        children = tree.parents[start + count :][: tree.counts[step + 1]] if step + 1 < len(tree.counts) else []
        assert sorted(set(map(int, children))) == list(range(going_on))
        assert len(children) != going_on or list(map(int, children)) == list(range(going_on))
        start += count


@pytest.mark.parametrize("bidirectional", [False, True])
def test_padding_and_company_do_not_matter(bidirectional: bool) -> None:
    encoder, batch = build(bidirectional), tokens(3, 6, 1, width=9)
    states, mask = encoder(batch)
    assert mask.sum(1).tolist() == [3, 6, 1]
    for i, length in enumerate((3, 6, 1)):
        alone = encoder(Tokens(batch.ids[i : i + 1, :length], batch.lengths[i : i + 1])).vectors
        torch.testing.assert_close(states[i, :length], alone[0], atol=1e-6, rtol=1e-5)


def test_without_gradients_the_states_are_the_same_bits() -> None:
    encoder, batch = build(), tokens(3, 6, 1)
    with torch.no_grad():
        assert torch.equal(encoder(batch).vectors, encoder(batch).vectors)
        without = encoder(batch).vectors
    assert torch.equal(without, encoder(batch).vectors)


def test_equal_input_gives_gradients_of_equal_bits() -> None:
    encoder, batch = build(True), tokens(*range(1, 30))
    first, second = (gradients(encoder, *encoder(batch)) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second))


def test_the_backward_direction_reads_from_the_end() -> None:
    encoder, batch = build(True), tokens(5)
    _, reverse = encoder.gru.all_weights
    for name, value in zip(("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"), reverse):
        getattr(encoder.gru, name).data.copy_(value.data)
    forward = encoder(batch).vectors
    backward = encoder(Tokens(batch.ids.flip(1), batch.lengths)).vectors
    torch.testing.assert_close(forward, backward.flip(1))


def test_initial_values_are_those_of_the_published_models() -> None:
    encoder = GRUSettings(word_dim=50, dim=25).build(Vocabulary(map(str, range(500))))
    assert 0.099 < encoder.words.weight.abs().max() <= 0.1
    assert 0.19 < encoder.gru.weight_hh_l0.abs().max() <= 0.2  # 1 / √25
    assert encoder.found_share is None
