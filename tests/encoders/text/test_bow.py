from __future__ import annotations

import pytest
import torch

from vsekit.data.text import Vocabulary
from vsekit.encoders.base import Tokens
from vsekit.encoders.text.bow import BagOfWords, BagOfWordsSettings

# a = 4, b = 5; 1, 2, 3 are start, end, unk.
BATCH = Tokens(torch.tensor([[1, 4, 3, 5, 5, 2], [1, 5, 2, 4, 4, 0], [1, 3, 2, 5, 5, 5]]), torch.tensor([6, 3, 3]))


def build(reduce: str) -> BagOfWords:
    encoder = BagOfWordsSettings.model_validate({"word_dim": 2, "reduce": reduce}).build(Vocabulary(["a", "b"]))
    encoder.words.weight.data[4:] = torch.tensor([[1.0, 2.0], [4.0, -1.0]])
    return encoder


@pytest.mark.parametrize(("reduce", "first"), [("mean", [3.0, 0.0]), ("sum", [9.0, 0.0])])
def test_known_words_alone_are_reduced(reduce: str, first: list[float]) -> None:
    vectors, mask = build(reduce)(BATCH)
    assert vectors.tolist() == [[first], [[4.0, -1.0]], [[0.0, 0.0]]]
    assert mask.tolist() == [[True]] * 3


def test_gradients_reach_the_known_words_only_and_with_equal_bits() -> None:
    encoder = build("mean")
    first, second = (
        torch.autograd.grad(encoder(BATCH).vectors[:, 0, 0].sum(), encoder.words.weight)[0] for _ in range(2)
    )
    torch.testing.assert_close(first[:, 0], torch.tensor([0, 0, 0, 0, 1 / 3, 2 / 3 + 1]))
    assert torch.equal(first, second)


def test_a_sentence_alone_and_padded_further_is_the_same() -> None:
    encoder = build("mean")
    alone = encoder(Tokens(torch.tensor([[1, 4, 3, 5, 5, 2, 5, 5]]), torch.tensor([6]))).vectors
    assert torch.equal(alone[0], encoder(BATCH).vectors[0])
