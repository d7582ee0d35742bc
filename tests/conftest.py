"""Fixtures shared by all tests."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def flickr8k() -> Path:
    """The folder with Flickr8k's Karpathy JSON and `images/`; the test skips where it is absent."""
    folder = SHARED_DATA / "flickr8k"
    if not (folder / "dataset_flickr8k.json").is_file():
        pytest.skip("needs the photographs of Flickr8k beside the checkout (research use only, not part of it)")
    return folder


@pytest.fixture(scope="session")
def glove() -> Path:
    """A GloVe text file; the test skips where it is absent."""
    path = SHARED_DATA / "glove.100d.txt"
    if not path.is_file():
        pytest.skip("needs the GloVe vectors beside the checkout")
    return path
