from __future__ import annotations

import numpy as np
import pytest
import torch

from vsekit.data.text import Vocabulary
from vsekit.data.views import ViewSettings
from vsekit.diagnostics.words import Words, discriminative_words, draw_words
from vsekit.models.model import VSE
from vsekit.models.settings import ModelSettings

SETTINGS = ModelSettings.model_validate(
    {
        "dim": 3,
        "image": {"encoder": {"kind": "precomputed", "dim": 3}, "pooling": "single", "head": "identity"},
        "text": {
            "encoder": {"kind": "bag_of_words", "word_dim": 3, "min_count": 1},
            "pooling": "single",
            "head": "identity",
        },
    }
)


def bag_of_words() -> VSE:
    """Words "red", "dog" and "the" are the axes of the space."""
    model = VSE(SETTINGS, Vocabulary(["red", "dog", "the"]), ViewSettings.model_validate("1C")).eval()
    with torch.no_grad():
        model.text.encoder.words.weight[4:] = torch.eye(3)
    return model


def test_drops_are_cosines_worked_out_by_hand() -> None:
    # The picture points at (1, 2, 0)/√5: more dog than red, nothing of "the".
    image = torch.tensor([[1.0, 2.0, 0.0]]) / 5**0.5
    found = discriminative_words(bag_of_words(), image, "the red dog")
    whole = 3 / 15**0.5
    assert found.score == pytest.approx(whole, abs=1e-6)
    without = [3 / 10**0.5, 2 / 10**0.5, 1 / 10**0.5]  # the, red, dog
    np.testing.assert_allclose(found.drops, [whole - score for score in without], atol=1e-6)
    assert found.top == {1, 2}  # leaving "the" out helps


def test_words_are_escaped_and_the_top_ones_bold() -> None:
    drawn = draw_words(Words(["<script>", "dog", "a", "b"], [0.5, 0.4, 0.3, -0.1], 0.9))
    assert "<script>" not in drawn
    assert drawn.count("<b ") == 3
    assert ">b</span>" in drawn


def test_a_caption_of_one_word_and_an_empty_one_are_explained() -> None:
    image = torch.tensor([[0.0, 1.0, 0.0]])
    assert discriminative_words(bag_of_words(), image, "dog").drops == pytest.approx([1.0])
    assert discriminative_words(bag_of_words(), image, "").words == []
