from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.models.conftest import VIEW, WORDS, settings

from vsekit.models.model import VSE
from vsekit.search.models import VSEModel


@pytest.fixture
def tiny() -> VSEModel:
    """A model with random weights that embeds pictures and sentences in 12 dimensions."""
    torch.manual_seed(0)
    return VSEModel(VSE(settings(), WORDS, VIEW), "tiny")


@pytest.fixture
def picture(tmp_path: Path) -> Callable[..., Path]:
    """Writes a picture of noise, another one for every seed."""

    def write(name: str, seed: int = 0, size: tuple[int, int] = (30, 24), **options: object) -> Path:
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        noise = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
        Image.fromarray(noise).save(path, **options)
        return path

    return write
