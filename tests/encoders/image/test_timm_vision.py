from __future__ import annotations

import sys
import types

import pytest
import torch
from torch import Tensor, nn

from vsekit.encoders.image.timm_vision import TimmVision, TimmVisionSettings
from vsekit.errors import UserError

LIKE = {"mean": (0.1, 0.2, 0.3), "std": (0.4, 0.5, 0.6)}


class Vgg(nn.Module):
    """Speaks timm's protocol like VGG19: a map of 5 channels, an FC7 of 9."""

    num_features, head_hidden_size = 5, 9

    def __init__(self, last: bool = False) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 4, 2, 2), nn.Conv2d(4, 5, 2, 2))
        self.pre_logits = nn.Linear(5, 9)
        self.last = last

    def forward_features(self, x: Tensor) -> Tensor:
        maps = self.features(x)
        return maps.permute(0, 2, 3, 1) if self.last else maps

    def forward_head(self, maps: Tensor, pre_logits: bool) -> Tensor:
        assert pre_logits
        return self.pre_logits(maps.mean((2, 3)))


class Vit(nn.Module):
    num_features = head_hidden_size = 6
    num_prefix_tokens = 2

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(nn.Linear(3, 6), nn.Linear(6, 6))

    def forward_features(self, x: Tensor) -> Tensor:
        return self.blocks(x.flatten(2).transpose(1, 2))


def test_pooled_is_what_the_classifier_would_read() -> None:
    model, pixels = Vgg(), torch.randn(2, 3, 8, 8)
    encoder = TimmVision(model, 8, "pooled", LIKE)
    assert encoder.dim == 9
    assert torch.equal(encoder(pixels).vectors[:, 0], model.pre_logits(model.features(pixels).mean((2, 3))))


@pytest.mark.parametrize("channels_last", [False, True])
def test_grid_is_the_cells_row_by_row_wherever_the_channels_stand(channels_last: bool) -> None:
    model, pixels = Vgg(channels_last), torch.randn(2, 3, 8, 8)
    vectors = TimmVision(model, 8, "grid", LIKE)(pixels).vectors
    maps = model.features(pixels)
    assert vectors.shape == (2, 4, 5)
    assert torch.equal(vectors[:, 2], maps[:, :, 1, 0])


def test_class_and_register_tokens_are_no_patches() -> None:
    model, pixels = Vit(), torch.randn(2, 3, 3, 3)
    vectors = TimmVision(model, 3, "grid", LIKE)(pixels).vectors
    assert torch.equal(vectors, model.forward_features(pixels)[:, 2:])


def test_the_parts_take_sequences_apart() -> None:
    model = Vgg()
    parts = TimmVision(model, 8, "pooled", LIKE).parts()
    assert parts == [model.features[0], model.features[1], model.pre_logits]


def test_normalisation_is_the_models() -> None:
    encoder = TimmVision(Vgg(), 8, "pooled", LIKE)
    assert (encoder.mean, encoder.std) == (LIKE["mean"], LIKE["std"])


def test_without_timm_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(UserError, match=r"vsekit\[timm\]"):
        TimmVisionSettings(model="vgg19").build()


def test_a_torchvision_that_does_not_fit_torch_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "timm":
                raise RuntimeError("operator torchvision::nms does not exist")

    monkeypatch.delitem(sys.modules, "timm", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    with pytest.raises(UserError, match="torchvision::nms does not exist") as raised:
        TimmVisionSettings(model="vgg19").build()
    assert "build that fits your torch" in str(raised.value)


def test_a_misspelt_model_is_answered_with_near_names(monkeypatch: pytest.MonkeyPatch) -> None:
    timm = types.ModuleType("timm")
    timm.is_model = lambda name: False  # type: ignore[attr-defined]
    timm.list_models = lambda: ["vgg16", "vgg19", "swin_tiny"]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "timm", timm)
    with pytest.raises(UserError, match="Similar: vgg19, vgg16"):
        TimmVisionSettings(model="vg19").build()


@pytest.mark.parametrize(
    ("name", "output", "pixels", "shape"),
    [
        ("resnet18", "pooled", 64, (1, 512)),
        ("resnet18", "grid", 64, (4, 512)),
        ("vgg11", "pooled", 224, (1, 4096)),
        ("vit_tiny_patch16_224", "grid", 64, (16, 192)),
        ("swin_tiny_patch4_window7_224", "grid", None, (49, 768)),
    ],
)
def test_real_timm_models_fit(name: str, output: str, pixels: int | None, shape: tuple[int, int]) -> None:
    try:
        import timm  # noqa: F401
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"timm cannot be imported here: {error}")
    settings = {"model": name, "pretrained": False, "output": output, "pixels": pixels}
    encoder = TimmVisionSettings.model_validate(settings).build().eval()
    with torch.no_grad():
        vectors = encoder(torch.randn(1, 3, encoder.pixels, encoder.pixels)).vectors
    assert vectors.shape[1:] == shape
    assert encoder.dim == shape[1]
