from __future__ import annotations

import torch

from vsekit.pooling.masked import batch_norm, compact, front, masked_batch_norm, read_sequence, softmax, sort_descending

from .sets import pad, ragged

SETS = ragged([3, 1, 4], 2)


def test_softmax_sums_to_one_over_the_valid_and_gives_padding_nothing() -> None:
    vectors, mask = pad(SETS, length=6, holes=True)
    for logits in (vectors, vectors[..., 0]):
        weights = softmax(logits, mask)
        torch.testing.assert_close(weights.sum(1), torch.ones_like(weights[:, 0]))
        assert (weights[~mask] == 0).all()


def test_sort_descending_sorts_each_dimension_of_the_valid_vectors() -> None:
    ordered, valid = sort_descending(*pad(SETS, length=6, holes=True))
    for b, one in enumerate(SETS):
        assert valid[b].tolist() == [i < len(one) for i in range(6)]
        for j in range(2):
            assert ordered[b, :, j].tolist() == sorted(one[:, j].tolist(), reverse=True) + [0.0] * (6 - len(one))


def test_compact_keeps_the_order() -> None:
    vectors, mask = compact(*pad(SETS, length=6, holes=True))
    assert torch.equal(mask, front(mask))
    for b, one in enumerate(SETS):
        assert torch.equal(vectors[b][mask[b]], one)


def test_read_sequence_gives_the_states_and_the_last_one() -> None:
    gru = torch.nn.GRU(2, 3, batch_first=True).double()
    (states, mask), last = read_sequence(gru, *pad(SETS, length=6, holes=True))
    for b, one in enumerate(SETS):
        torch.testing.assert_close(states[b][mask[b]], gru(one)[0])
        torch.testing.assert_close(last[b], gru(one)[0][-1])


def test_read_sequence_both_ways_is_the_average_of_torchs_bidirectional_gru() -> None:
    both = torch.nn.GRU(2, 3, batch_first=True, bidirectional=True).double()
    gru, back = (torch.nn.GRU(2, 3, batch_first=True).double() for _ in range(2))
    for name, value in both.state_dict().items():
        (back if name.endswith("_reverse") else gru).get_parameter(name.removesuffix("_reverse")).data = value
    (states, mask), last = read_sequence(gru, *pad(SETS, length=6, holes=True), back)
    for b, one in enumerate(SETS):
        expected, end = both(one)
        torch.testing.assert_close(states[b][mask[b]], (expected[:, :3] + expected[:, 3:]) / 2)
        torch.testing.assert_close(last[b], end.mean(0))


def test_masked_batch_norm_counts_valid_places_only() -> None:
    vectors, mask = pad(SETS, length=6)
    norm = torch.nn.BatchNorm1d(2, momentum=1.0).double()
    out = masked_batch_norm(norm, vectors, mask)
    rows = torch.cat(SETS)
    expected = (rows - rows.mean(0)) / (rows.var(0, unbiased=False) + norm.eps).sqrt()
    torch.testing.assert_close(out[mask], expected)
    torch.testing.assert_close(norm.running_mean, rows.mean(0))
    torch.testing.assert_close(norm.running_var, rows.var(0))
    assert (out[~mask] == 0).all()


def test_a_single_row_is_normalised_by_the_running_statistics_and_leaves_them() -> None:
    norm = torch.nn.BatchNorm1d(2)
    norm.running_mean.copy_(torch.tensor([1.0, 2.0]))
    norm.running_var.copy_(torch.tensor([4.0, 9.0]))
    out = batch_norm(norm.train(), torch.tensor([[3.0, 8.0]]))
    torch.testing.assert_close(out, torch.tensor([[1.0, 2.0]]), rtol=1e-5, atol=0)
    assert norm.running_mean.tolist() == [1.0, 2.0]
