from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from vsekit.data.text import Ragged, Vocabulary
from vsekit.data.views import ViewSettings
from vsekit.diagnostics.attention import Attention, attends, attention, draw_attention, grid_boxes, lit
from vsekit.models.model import VSE
from vsekit.models.settings import ModelSettings
from vsekit.parts import Sets

SETTINGS = ModelSettings.model_validate(
    {
        "dim": 5,
        "image": {"encoder": {"kind": "precomputed", "dim": 5}, "pooling": "none", "head": "identity"},
        "text": {"encoder": {"kind": "gru", "word_dim": 4, "dim": 5, "min_count": 1}, "pooling": "none"},
        "similarity": {"kind": "scan"},
    }
)


@pytest.fixture
def model() -> VSE:
    torch.manual_seed(0)
    return VSE(SETTINGS, Vocabulary(["red", "dog"]), ViewSettings.model_validate("1C")).eval()


def test_words_get_their_own_rows_and_start_end_and_padded_regions_are_left_out(model: VSE) -> None:
    image = Sets(torch.randn(1, 6, 5), torch.tensor([[True] * 4 + [False] * 2]))
    found = attention(model, image, "red dog")
    with torch.inference_mode():
        captions = model.text(Ragged.of(model.tokenizer(["red dog"])).batch([0]))
        expected = model.similarity.attention(image, captions)[0, 1:3, :4]
    assert found.words == ["red", "dog"]
    np.testing.assert_allclose(found.weights, expected, atol=1e-6)
    np.testing.assert_allclose(np.sum(found.weights, axis=1), 1, atol=1e-5)  # words ask: t2i
    assert attends(model)


def test_boxes_of_padded_regions_are_left_out_too(model: VSE) -> None:
    image = Sets(torch.randn(1, 3, 5), torch.tensor([[True, False, True]]))
    boxes = np.arange(12).reshape(3, 4) / 12
    assert attention(model, image, "dog", boxes).boxes == boxes[[0, 2]].tolist()


def test_a_square_number_of_vectors_is_a_grid_row_by_row() -> None:
    boxes = grid_boxes(4)
    assert boxes is not None
    assert boxes.tolist() == [[0, 0, 0.5, 0.5], [0.5, 0, 1, 0.5], [0, 0.5, 0.5, 1], [0.5, 0.5, 1, 1]]
    assert grid_boxes(36) is not None
    assert grid_boxes(35) is None
    assert grid_boxes(1) is None


def test_light_falls_where_the_weight_is() -> None:
    boxes = grid_boxes(4)
    assert boxes is not None
    picture = np.asarray(lit(Image.new("RGB", (8, 8), (200, 200, 200)), boxes, np.array([0.0, 0.5, 0.0, 0.25])))
    assert picture[1, 6, 0] == 200
    assert picture[6, 6, 0] == 120  # half the largest weight: 0.2 + 0.8 / 2
    assert picture[1, 1, 0] == picture[6, 1, 0] == 40


def test_it_draws_a_picture_a_word_or_else_says_which_regions() -> None:
    found = Attention(["<b>", "dog"], [[0.7, 0.1, 0.1, 0.1], [0.25] * 4], grid_boxes(4).tolist())  # type: ignore[union-attr]
    drawn = draw_attention(found, Image.new("RGB", (8, 8)))
    assert drawn.count("data:image/jpeg") == 2
    assert "<b>" not in drawn
    assert "1 (0.70)" in draw_attention(found, None)
