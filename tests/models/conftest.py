from __future__ import annotations

from typing import Any

import pytest
import torch

from vsekit.data.text import Vocabulary
from vsekit.data.views import ViewSettings
from vsekit.models.model import VSE
from vsekit.models.settings import ModelSettings

VIEW = ViewSettings.model_validate({"kind": "1C", "resize": 20, "pixels": 16})
WORDS = Vocabulary(["a", "red", "blue", "wall", "dog"])
CNN = {"kind": "small_cnn", "widths": [4, 8], "pixels": 16}
GRU = {"kind": "gru", "word_dim": 6, "dim": 12, "min_count": 1}


def settings(**change: Any) -> ModelSettings:
    image = {"encoder": CNN, "pooling": "single"} | change.pop("image", {})
    text = {"encoder": GRU, "pooling": "last"} | change.pop("text", {})
    return ModelSettings.model_validate({"dim": 12, "image": image, "text": text, **change})


def sets(similarity: str) -> ModelSettings:
    image = {"encoder": CNN | {"output": "grid"}, "projection": "linear", "pooling": "none", "head": "identity"}
    return settings(
        similarity=similarity, image=image, text={"projection": "linear", "pooling": "none", "head": "identity"}
    )


@pytest.fixture
def model() -> VSE:
    torch.manual_seed(0)
    return VSE(settings(), WORDS, VIEW).eval()
