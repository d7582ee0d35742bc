"""SCAN and BFAN against loops over images, captions and words that do form the context vectors."""

from __future__ import annotations

import pytest
import torch
from pydantic import TypeAdapter
from torch import Tensor

from vsekit.parts import Sets
from vsekit.similarity import SimilaritySettings, cross_attention
from vsekit.similarity.cross_attention import CrossAttention

KINDS: list[dict] = [
    {"kind": "scan"},
    {"kind": "scan", "direction": "i2t"},
    {"kind": "scan", "direction": "t2i", "aggregate": "mean", "slope": 0.0},
    {"kind": "scan", "direction": "i2t", "aggregate": "mean", "lambda_softmax": 7.0},
    {"kind": "scan", "direction": "i2t", "lambda_lse": 20.0},
    {"kind": "bfan"},
    {"kind": "bfan", "focal": "prob"},
]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(str(v) for v in kind.values()))


def build(kind: dict, block: int = 512) -> CrossAttention:
    return TypeAdapter(SimilaritySettings).validate_python(kind | {"block": block}).build()


def sets(sizes: list[int], dim: int = 4, seed: int = 0, room: int = 0, dtype: torch.dtype = torch.float64) -> Sets:
    """Random sets of the given sizes; what stands at padded places is not even a number."""
    n = max(sizes) + room
    vectors = torch.randn(len(sizes), n, dim, dtype=dtype, generator=torch.Generator().manual_seed(seed))
    mask = torch.arange(n)[None] < torch.tensor(sizes)[:, None]
    return Sets(vectors.masked_fill(~mask[..., None], torch.nan), mask)


def directed_by_loops(queries: Tensor, context: Tensor, softmax: float, lse: float | None, slope: float, focal: str):
    """The score of one pair, (M, D) queries and (N, D) context, one query at a time."""
    products = context @ queries.T
    rectified = torch.where(products > 0, products, slope * products)
    normalised = torch.stack([row / row.square().sum().sqrt() if row.any() else row for row in rectified])
    cosines = []
    for m, query in enumerate(queries):
        a = torch.exp(softmax * normalised[:, m])
        a = a / a.sum()
        if focal:
            g = [1.0 if focal == "equal" else weight.sqrt().item() for weight in a]
            relevance = [sum((a[j] - a[t]).item() * g[t] for t in range(len(a))) for j in range(len(a))]
            focused = [f > 1e-12 for f in relevance]
            if any(focused):  # none is when all get the same attention
                a = torch.stack([weight * keep for weight, keep in zip(a, focused)])
            a = a / a.sum()
        attended = sum(weight * vector for weight, vector in zip(a, context))
        cosines.append((query @ attended) / (query.norm() * attended.norm()))
    if lse is None:
        return sum(cosines) / len(cosines)
    return torch.log(sum(torch.exp(lse * r) for r in cosines)) / lse


def by_loops(kind: dict, images: Sets, captions: Sets) -> Tensor:
    rows = []
    slope, focal = kind.get("slope", 0.1), kind.get("focal", "equal") if kind["kind"] == "bfan" else ""
    for regions in (v[m] for v, m in zip(*images)):
        row = []
        for words in (v[m] for v, m in zip(*captions)):
            if focal:
                t2i = directed_by_loops(words, regions, 20.0, None, slope, focal)
                row.append(t2i + directed_by_loops(regions, words, 20.0, None, slope, focal))
            elif kind.get("direction", "t2i") == "t2i":
                lse = None if "aggregate" in kind else kind.get("lambda_lse", 6.0)
                row.append(directed_by_loops(words, regions, kind.get("lambda_softmax", 9.0), lse, slope, ""))
            else:
                lse = None if "aggregate" in kind else kind.get("lambda_lse", 5.0)
                row.append(directed_by_loops(regions, words, kind.get("lambda_softmax", 4.0), lse, slope, ""))
        rows.append(torch.stack(row))
    return torch.stack(rows)


@every_kind
@pytest.mark.parametrize("block", [1, 12, 512])
def test_scores_equal_the_loops_whatever_the_padding_and_the_block(kind: dict, block: int) -> None:
    images, captions = sets([3, 5, 1, 4]), sets([2, 6, 1, 3, 6], seed=1, room=3)
    scores = build(kind, block)(images, captions)
    torch.testing.assert_close(scores, by_loops(kind, images, captions))


@every_kind
def test_pairs_are_the_diagonal(kind: dict) -> None:
    images, captions = sets([3, 5, 1, 4]), sets([2, 6, 1, 3], seed=1, room=2)
    similarity = build(kind)
    torch.testing.assert_close(similarity.paired(images, captions), similarity(images, captions).diagonal())


@every_kind
@pytest.mark.parametrize("block", [4, 512])
def test_gradients_equal_those_of_the_loops(kind: dict, block: int) -> None:
    images, captions = sets([3, 4, 1]), sets([2, 5, 1, 3], seed=1)
    weights = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    grads = []
    for score in (build(kind, block), lambda i, c: by_loops(kind, i, c)):
        regions, words = images.vectors.clone().requires_grad_(), captions.vectors.clone().requires_grad_()
        scores = score(Sets(regions, images.mask), Sets(words, captions.mask))
        grads.append(torch.autograd.grad((scores * weights).sum(), (regions, words)))
    for ours, theirs, mask in zip(*grads, (images.mask, captions.mask)):
        torch.testing.assert_close(ours, theirs)
        assert (ours[~mask] == 0).all()


@every_kind
@pytest.mark.parametrize("room", [1, 2**22], ids=["a pair at a time", "all at once"])
def test_gradients_of_few_pairs_equal_those_of_the_loops(
    kind: dict, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loss that looks at a few pairs, at some images never and at one caption twice."""
    monkeypatch.setattr(cross_attention, "_GATHERED", room)
    images, captions = sets([3, 4, 1, 2]), sets([2, 5, 1, 3], seed=1, room=1)
    weights = torch.zeros(4, 4, dtype=torch.float64)
    weights[0, 1], weights[2, 1], weights[2, 3] = 0.7, -1.2, 0.4
    grads = []
    for score in (build(kind), lambda i, c: by_loops(kind, i, c)):
        regions, words = images.vectors.clone().requires_grad_(), captions.vectors.clone().requires_grad_()
        scores = score(Sets(regions, images.mask), Sets(words, captions.mask))
        grads.append(torch.autograd.grad((scores * weights).sum(), (regions, words)))
    for ours, theirs, mask in zip(*grads, (images.mask, captions.mask)):
        torch.testing.assert_close(ours, theirs)
        assert (ours[~mask] == 0).all()


@pytest.mark.parametrize("few", [True, False])
def test_a_side_without_gradient_costs_the_other_nothing(few: bool) -> None:
    images, captions = sets([3, 4]), sets([2, 5], seed=1)
    weights = torch.tensor([[0.0, 1.0], [0.0, 0.0]] if few else [[0.5, 1.0], [2.0, 1.0]], dtype=torch.float64)
    both = [s.vectors.clone().requires_grad_() for s in (images, captions)]
    scores = build(KINDS[0])(Sets(both[0], images.mask), Sets(both[1], captions.mask))
    expected = torch.autograd.grad((scores * weights).sum(), both)
    alone = build(KINDS[0])(Sets(both[0], images.mask), captions)
    torch.testing.assert_close(torch.autograd.grad((alone * weights).sum(), both[0])[0], expected[0])
    alone = build(KINDS[0])(images, Sets(both[1], captions.mask))
    torch.testing.assert_close(torch.autograd.grad((alone * weights).sum(), both[1])[0], expected[1])


def test_a_sharp_attention_overflows_nowhere() -> None:
    kind = {"kind": "scan", "direction": "i2t", "lambda_softmax": 200.0, "aggregate": "mean"}
    images, captions = sets([3, 2]), sets([4, 2], seed=1)
    narrow = [Sets(s.vectors.float(), s.mask) for s in (images, captions)]
    expected = by_loops(kind, images, captions)
    torch.testing.assert_close(build(kind)(*narrow).double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS[:2], ids=["t2i", "i2t"])
def test_gradients_are_the_derivatives(kind: dict) -> None:
    images, captions = sets([3, 2]), sets([2, 3], seed=1)
    regions, words = images.vectors.nan_to_num().requires_grad_(), captions.vectors.nan_to_num().requires_grad_()
    similarity = build(kind, block=3)
    for score in (similarity, similarity.paired):
        assert torch.autograd.gradcheck(
            lambda r, w, score=score: score(Sets(r, images.mask), Sets(w, captions.mask)), (regions, words)
        )


@every_kind
def test_the_order_of_regions_and_words_does_not_matter(kind: dict) -> None:
    images, captions = sets([5, 5]), sets([4, 4], seed=1)
    shuffled = Sets(images.vectors.flip(1), images.mask), Sets(captions.vectors.roll(1, 1), captions.mask)
    torch.testing.assert_close(build(kind)(*shuffled), build(kind)(images, captions))


@every_kind
def test_a_mask_may_have_holes(kind: dict) -> None:
    images, captions = sets([4, 4]), sets([5], seed=1)
    holes = Sets(images.vectors, torch.tensor([[True, False, True, True], [False, True, False, True]]))
    torch.testing.assert_close(build(kind)(holes, captions), by_loops(kind, holes, captions))


@every_kind
def test_one_image_one_region_one_word(kind: dict) -> None:
    """Then there is nothing to attend to but the one, and every cosine is that of the region and the word."""
    region, word = torch.tensor([3.0, 4.0]), torch.tensor([0.0, 2.0])
    pair = Sets(region[None, None], torch.ones(1, 1, dtype=bool)), Sets(word[None, None], torch.ones(1, 1, dtype=bool))
    directions = 2 if kind["kind"] == "bfan" else 1
    torch.testing.assert_close(build(kind)(*pair), torch.tensor([[0.8 * directions]]))


@every_kind
def test_vectors_of_zeros_score_0_where_nothing_else_is_and_gradients_stay_small(kind: dict) -> None:
    regions, words = torch.zeros(2, 3, 4), torch.zeros(2, 2, 4)
    regions[1], words[1] = torch.randn(3, 4), torch.randn(2, 4)
    regions.requires_grad_()
    words.requires_grad_()
    scores = build(kind)(Sets(regions, torch.ones(2, 3, dtype=bool)), Sets(words, torch.ones(2, 2, dtype=bool)))
    scores.sum().backward()
    if "aggregate" in kind or kind["kind"] == "bfan":  # LogSumExp of n zeros is log(n)/λ'
        assert (scores.flatten()[:3] == 0).all()
    assert regions.grad is not None
    assert words.grad is not None
    assert max(regions.grad.abs().max(), words.grad.abs().max()) < 100


@every_kind
def test_attention_is_what_the_context_is_made_of(kind: dict) -> None:
    images, captions = sets([3, 2]), sets([4, 2], seed=1)
    weights = build(kind).attention(images, captions)
    assert weights.shape == (2, 4, 3)
    assert (weights[1, 2:] == 0).all()
    assert (weights[1, :, 2] == 0).all()
    over_words = kind.get("direction") == "i2t"
    sums = weights.sum(1)[images.mask] if over_words else weights.sum(2)[captions.mask]
    torch.testing.assert_close(sums, torch.ones_like(sums))
    if kind == {"kind": "scan"}:
        cosines = torch.cosine_similarity(weights[0] @ images.vectors[0], captions.vectors[0])
        torch.testing.assert_close(torch.logsumexp(6 * cosines, 0) / 6, build(kind).paired(images, captions)[0])


@pytest.mark.parametrize("kind", KINDS[:1] + KINDS[-1:], ids=["scan", "bfan"])
def test_half_precision_inputs_are_scored_in_float32(kind: dict) -> None:
    images, captions = sets([5, 4], dim=16, dtype=torch.bfloat16), sets([4, 3], dim=16, seed=1, dtype=torch.bfloat16)
    expected = build(kind)(Sets(images.vectors.float(), images.mask), Sets(captions.vectors.float(), captions.mask))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(build(kind)(images, captions), expected)


@every_kind
def test_float32_agrees_with_float64(kind: dict) -> None:
    images, captions = sets([36] * 4, dim=256), sets([14, 9, 20], dim=256, seed=1)
    narrow = [Sets(s.vectors.float(), s.mask) for s in (images, captions)]
    torch.testing.assert_close(build(kind)(*narrow).double(), build(kind)(images, captions), rtol=1e-4, atol=1e-5)


def test_training_keeps_less_than_the_products_of_the_batch() -> None:
    kept = 0

    def count(tensor: Tensor) -> Tensor:
        nonlocal kept
        kept += tensor.numel()
        return tensor

    images, captions = sets([9] * 20, dim=2), sets([7] * 20, dim=2, seed=1)
    regions = images.vectors.requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        build(KINDS[0], block=20)(Sets(regions, images.mask), captions)
    assert 0 < kept < 20 * 9 * 20 * 7 / 2
