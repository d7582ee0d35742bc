from __future__ import annotations

import numpy as np
import pytest
import torch

from vsekit.errors import UserError
from vsekit.evaluation.scorers import Average, InnerProduct, Pairwise, Taken, scorer
from vsekit.parts import Sets
from vsekit.similarity.cosine import Cosine
from vsekit.similarity.order import Order

RNG = np.random.default_rng(0)
IMAGES, CAPTIONS = (RNG.standard_normal((n, 6)).astype(np.float32) for n in (7, 11))
ALL = slice(None)


def test_any_block_of_a_product_is_that_part_of_the_matrix() -> None:
    rows, columns = np.array([5, 0, 3]), slice(2, 9)
    block = InnerProduct(IMAGES, CAPTIONS).block(rows, columns)
    assert torch.allclose(block, torch.from_numpy(IMAGES[rows] @ CAPTIONS[columns].T), atol=1e-6)


def test_a_similarity_that_is_a_product_is_prepared_once_and_others_are_called_in_pieces() -> None:
    cosine = scorer(torch.from_numpy(IMAGES), torch.from_numpy(CAPTIONS), Cosine())
    assert isinstance(cosine, InnerProduct)
    assert torch.allclose(
        cosine.block(ALL, ALL), Cosine()(torch.from_numpy(IMAGES), torch.from_numpy(CAPTIONS)), atol=1e-6
    )
    whole = Order()(torch.from_numpy(IMAGES), torch.from_numpy(CAPTIONS))
    for pairs in (1, 3, 20, 1000):
        assert torch.allclose(Pairwise(Order(), IMAGES, CAPTIONS, pairs=pairs).block(ALL, ALL), whole)


def test_sets_are_trimmed_to_the_longest_of_a_call_and_padding_never_reaches_the_similarity() -> None:
    lengths = torch.tensor([1, 2, 4])
    mask = torch.arange(9) < lengths[:, None]
    vectors = torch.randn(3, 9, 5).masked_fill(~mask[..., None], torch.nan)
    widths = []

    def best_pair(images: Sets, captions: Sets) -> torch.Tensor:
        widths.append(captions.vectors.shape[1])
        products = torch.einsum("ind,cmd->icnm", images.vectors, captions.vectors)
        seen = images.mask[:, None, :, None] & captions.mask[None, :, None, :]
        return products.masked_fill(~seen, -torch.inf).amax((2, 3))

    found = Pairwise(best_pair, Sets(vectors, mask), Sets(vectors, mask), pairs=3).block(ALL, ALL)
    assert widths == [1, 2, 4]
    for i in range(3):
        for c in range(3):
            expected = (vectors[i, : lengths[i]] @ vectors[c, : lengths[c]].T).max()
            assert found[i, c] == pytest.approx(expected.item(), abs=1e-5)


def test_an_ensemble_averages_scores() -> None:
    a, b = InnerProduct(IMAGES, CAPTIONS), InnerProduct(IMAGES[::-1].copy(), CAPTIONS)
    expected = (a.block(ALL, ALL) + b.block(ALL, ALL)) / 2
    assert torch.allclose(Average([a, b]).block(ALL, ALL), expected)
    weighted = (3 * a.block(ALL, ALL) + b.block(ALL, ALL)) / 4
    assert torch.allclose(Average([a, b], [3, 1]).block(ALL, ALL), weighted)


def test_an_ensemble_of_different_collections_is_refused() -> None:
    with pytest.raises(UserError, match="same collection"):
        Average([InnerProduct(IMAGES, CAPTIONS), InnerProduct(IMAGES[1:], CAPTIONS)])


def test_a_part_of_a_collection_keeps_its_own_numbering() -> None:
    whole = InnerProduct(IMAGES, CAPTIONS)
    part = Taken(whole, np.array([6, 2]), np.array([1, 2, 10]))
    expected = whole.block(np.array([2]), np.array([2, 10])).clone()
    assert torch.equal(part.block(slice(1, 2), np.array([1, 2])), expected)


def test_embeddings_of_different_sizes_are_refused() -> None:
    with pytest.raises(UserError, match="cannot be compared"):
        InnerProduct(IMAGES, CAPTIONS[:, :5])
