from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from vsekit.data.text import Vocabulary
from vsekit.data.views import ViewSettings
from vsekit.models.model import VSE
from vsekit.models.settings import ModelSettings

pytest.importorskip("onnxruntime", reason="needs the extra 'onnx'")
pytest.importorskip("onnxscript", reason="needs the extra 'onnx'")

WORDS = Vocabulary(["a", "red", "blue", "wall", "dog", "cannot", ",", "."])
VIEW = ViewSettings.model_validate({"kind": "1C", "resize": 40, "pixels": 32})
CNN = {"kind": "small_cnn", "widths": [4, 8], "pixels": 32}
GRU = {"kind": "gru", "word_dim": 6, "dim": 12}


def shaken(module: nn.Module, seed: int = 0) -> Any:
    """The module with every weight and statistic drawn anew: nothing that starts as zero or as the identity stays so."""
    generator = torch.Generator().manual_seed(seed)
    for weight in module.parameters():
        weight.data += 0.15 * torch.randn(weight.shape, generator=generator)
    for norm in module.modules():
        if isinstance(norm, nn.BatchNorm1d | nn.BatchNorm2d):
            assert norm.running_mean is not None
            assert norm.running_var is not None
            norm.running_mean += 0.1 * torch.randn(norm.running_mean.shape, generator=generator)
            norm.running_var += torch.rand(norm.running_var.shape, generator=generator)
    return module.eval()


def build(view: ViewSettings = VIEW, tokenizer: Any = WORDS, **change: Any) -> VSE:
    image = {"encoder": CNN, "pooling": "single"} | change.pop("image", {})
    text = {"encoder": GRU, "pooling": "last"} | change.pop("text", {})
    settings = ModelSettings.model_validate({"dim": 10, "image": image, "text": text, **change})
    torch.manual_seed(0)
    return shaken(VSE(settings, tokenizer, view))


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a * b).sum(1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))


@pytest.fixture
def pictures(tmp_path: Path) -> list[Path]:
    """Five pictures of different shapes: PNG and JPEG, one turned by its EXIF, one large enough for draft decoding."""
    from PIL import Image

    rng, paths = np.random.default_rng(0), []
    for number, (height, width) in enumerate([(40, 60), (90, 30), (32, 32), (400, 300), (50, 70)]):
        slope = np.linspace(0, 160, width)[None, :, None] * rng.random(3)
        image = Image.fromarray((slope + rng.integers(0, 90, (height, width, 3))).astype(np.uint8))
        exif = image.getexif()
        exif[0x0112] = 6 if number == 4 else 1
        path = tmp_path / f"{number}.{'jpg' if number > 2 else 'png'}"
        image.save(path, exif=exif)
        paths.append(path)
    return paths
