"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from vsekit.system import locked

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


@pytest.fixture
def tiny_bert(tmp_path: Path) -> Path:
    """A BERT of two layers with random weights, in a folder."""
    transformers = pytest.importorskip("transformers")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "dog", "run", "##s", "men", "two"]
    folder = tmp_path / "bert"
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.BertConfig(vocab_size=len(words), max_position_embeddings=32, **sizes)
    transformers.BertModel(config).save_pretrained(folder)
    transformers.BertTokenizer.from_pretrained(folder).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built wheel; once for all processes of a test session, as is `programs`."""
    from tools.walks.environment import build_wheel

    return _once(tmp_path_factory, "wheel", build_wheel)


@pytest.fixture(scope="session")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that holds the wheel with what photographs need, and nothing of this checkout."""
    from tools.walks.environment import make_environment

    return _once(tmp_path_factory, "environment", lambda folder: make_environment(wheel, folder))


def _once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], Path]) -> Path:
    """What `make` makes in a folder that the processes of pytest-xdist share."""
    base = factory.getbasetemp().parent if "PYTEST_XDIST_WORKER" in os.environ else factory.getbasetemp()
    made = base / f"{name}.made"
    with locked(base / f"{name}.lock", wait=True):
        if not made.exists():
            (base / name).mkdir()
            made.write_text(str(make(base / name)))
    return Path(made.read_text())
