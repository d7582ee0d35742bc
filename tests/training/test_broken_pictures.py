from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from tests.training.test_loop import PIXELS, colour_folder, settings

from vsekit.data.readers import read
from vsekit.models.model import load_model
from vsekit.training.loop import train


@pytest.mark.parametrize("freeze", [[], ["image.encoder"]], ids=["pixels", "features"])
def test_the_caption_of_a_broken_picture_is_not_learned(
    freeze: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VSEKIT_CACHE", str(tmp_path / "cache"))
    data = colour_folder(tmp_path / "walls")
    (data / "train" / "3.jpg").write_bytes(b"no picture")
    (data / "train" / "3.txt").write_text("zebras everywhere\n")
    change = copy.deepcopy(PIXELS)
    change["data"]["view"]["kind"] = "1C"
    change["stages"]["first"]["freeze"] = freeze
    train(settings(**change), read(data), tmp_path / "run")

    trained = load_model(tmp_path / "run")
    torch.manual_seed(0)  # as the run began
    fresh = type(trained)(trained.settings, trained.tokenizer, trained.view)
    moved = (trained.text.encoder.words.weight != fresh.text.encoder.words.weight).any(1)
    words = trained.tokenizer.all_words
    assert {word for word, changed in zip(words, moved.tolist()) if changed} >= {"red", "blue", "wall", "a"}
    assert not moved[words.index("zebras")]
    assert not moved[words.index("everywhere")]
