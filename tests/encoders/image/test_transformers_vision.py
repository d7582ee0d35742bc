from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from vsekit.encoders.image.transformers_vision import TransformersVision, TransformersVisionSettings
from vsekit.errors import UserError

transformers = pytest.importorskip("transformers", reason="needs the extra 'transformers'")

VIT = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
# kind → configuration class, its settings, side of the input, patches or cells, size, parts with weights
TINY: dict[str, tuple[str, dict[str, Any], int, int, int, int]] = {
    "resnet": ("ResNetConfig", {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]}, 64, 64, 16, 3),
    "vit": ("ViTConfig", {**VIT, "image_size": 32, "patch_size": 8}, 32, 16, 16, 4),
    "dinov2": ("Dinov2Config", {**VIT, "image_size": 28, "patch_size": 14}, 28, 4, 16, 4),
    "registers": ("Dinov2WithRegistersConfig", {**VIT, "image_size": 28, "patch_size": 14}, 28, 4, 16, 4),
    "swin": (
        "SwinConfig",
        {"image_size": 32, "patch_size": 4, "embed_dim": 8, "depths": [1, 1], "num_heads": [1, 2], "window_size": 4},
        32,
        16,
        16,
        4,
    ),
}


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


def saved(folder: Path, kind: str) -> Any:
    """A tiny random model of this kind, saved to `folder` as the hub would hold it."""
    name, settings, *_ = TINY[kind]
    torch.manual_seed(0)
    model = transformers.AutoModel.from_config(getattr(transformers, name)(**settings)).eval()
    model.save_pretrained(folder)
    return model


def built(folder: Path, **settings: object) -> TransformersVision:
    return TransformersVisionSettings.model_validate({"model": str(folder), **settings}).build().eval()


@pytest.mark.parametrize("kind", TINY)
def test_grid_and_pooled_are_the_models_own(tmp_path: Path, kind: str) -> None:
    *_, side, places, dim, _ = TINY[kind]
    model, pixels = saved(tmp_path, kind), torch.randn(2, 3, side, side)
    with torch.no_grad():
        result = model(pixels)
        grid = built(tmp_path, output="grid", pixels=side)(pixels).vectors
        pooled = built(tmp_path, output="pooled", pixels=side)(pixels).vectors
    last = result.last_hidden_state
    assert grid.shape == (2, places, dim)
    assert pooled.shape == (2, 1, dim)
    if kind == "resnet":
        torch.testing.assert_close(grid[:, 3], last[:, :, 0, 3])
        torch.testing.assert_close(pooled[:, 0], last.mean((2, 3)))
    elif kind == "swin":
        torch.testing.assert_close(grid, last)
        torch.testing.assert_close(pooled[:, 0], last.mean(1))
    else:
        torch.testing.assert_close(grid, last[:, -places:])
        torch.testing.assert_close(pooled[:, 0], last[:, 0])


@pytest.mark.parametrize("kind", TINY)
def test_the_parts_run_from_input_to_output(tmp_path: Path, kind: str) -> None:
    saved(tmp_path, kind)
    encoder = built(tmp_path, pixels=TINY[kind][2])
    parts = encoder.parts()
    assert len(parts) == TINY[kind][-1]
    in_parts = [id(p) for part in parts for p in part.parameters()]
    assert sorted(in_parts) == sorted(id(p) for p in encoder.parameters())


@pytest.mark.parametrize("kind", ["resnet", "vit"])
def test_a_saved_model_is_rebuilt_from_its_description_alone(tmp_path: Path, kind: str) -> None:
    saved(tmp_path / "model", kind)
    (tmp_path / "model" / "preprocessor_config.json").write_text(
        '{"image_mean": [0.1, 0.2, 0.3], "image_std": [1, 1, 1]}'
    )
    first = built(tmp_path / "model", output="grid", pixels=32)
    described = json.loads(json.dumps(first.describe()))
    (tmp_path / "model").rename(tmp_path / "gone")
    again = TransformersVisionSettings.model_validate(described).build().eval()
    again.load_state_dict(first.state_dict())
    pixels = torch.randn(1, 3, 32, 32)
    torch.testing.assert_close(again(pixels).vectors, first(pixels).vectors)
    assert again.mean == first.mean == (0.1, 0.2, 0.3)
    assert again.describe() == described


def test_two_builds_have_the_same_weights_so_that_features_can_be_stamped(tmp_path: Path) -> None:
    """ViT checkpoints often lack the pooler, which would be drawn anew at every load."""
    saved(tmp_path, "vit")
    first, second = built(tmp_path).state_dict(), built(tmp_path).state_dict()
    assert not any("pooler" in name for name in first)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_vit_reads_larger_inputs_than_it_was_made_for(tmp_path: Path) -> None:
    saved(tmp_path, "vit")
    assert built(tmp_path).pixels == 32
    encoder = built(tmp_path, output="grid", pixels=64)
    assert encoder(torch.randn(1, 3, 64, 64)).vectors.shape == (1, 64, 16)


def test_without_pretrained_only_the_architecture_is_taken(tmp_path: Path) -> None:
    model = saved(tmp_path, "resnet")
    encoder = built(tmp_path, pretrained=False, pixels=64)
    name = "embedder.embedder.convolution.weight"
    assert not torch.equal(encoder.model.state_dict()[name], model.state_dict()[name])


def test_the_image_half_of_clip_is_a_backbone(tmp_path: Path) -> None:
    vision = {**VIT, "image_size": 32, "patch_size": 8, "projection_dim": 8}
    text = {**VIT, "vocab_size": 99, "bos_token_id": 1, "eos_token_id": 2}
    config = transformers.CLIPConfig(vision_config=vision, text_config=text, projection_dim=8)
    clip = transformers.CLIPModel(config).eval()
    clip.save_pretrained(tmp_path)
    pixels = torch.randn(1, 3, 32, 32)
    expected = clip.vision_model(pixels)
    torch.testing.assert_close(built(tmp_path)(pixels).vectors[:, 0], expected.pooler_output)
    torch.testing.assert_close(built(tmp_path, output="grid")(pixels).vectors, expected.last_hidden_state[:, 1:])


@pytest.mark.parametrize("name", ["google/vit-base-patch16-224", "/no/such/folder"])
def test_a_model_that_is_nowhere_is_a_clear_error(name: str) -> None:
    with pytest.raises(UserError, match="cannot load") as raised:
        TransformersVisionSettings(model=name).build()
    assert "config.json" in str(raised.value)


def test_pickled_weights_are_refused(tmp_path: Path) -> None:
    model = saved(tmp_path, "resnet")
    (tmp_path / "model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(UserError, match="safetensors"):
        built(tmp_path, pixels=64)
