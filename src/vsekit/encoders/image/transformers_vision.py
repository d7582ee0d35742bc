"""Any vision backbone of transformers: ResNet-50/152, ViT, DINOv2, Swin, ConvNeXt, the image half of CLIP …

    CNN   maps (B, d, H, W)      grid: the H·W cells           pooled: the model's own pooling, mostly their mean
    ViT   tokens (B, 1 + N, d)   grid: the N patches           pooled: the class token
    Swin  tokens (B, N, d)       grid: the N windows' cells    pooled: their mean

A name that is not a folder is fetched from the hub once; weights must be safetensors. The settings of a built encoder,
`encoder.settings`, hold the architecture, so that a saved model is rebuilt without the hub.
"""

from __future__ import annotations

import inspect
import json
from typing import Any, Literal

import torch
from pydantic import model_serializer
from torch import Tensor, nn

from vsekit.encoders.base import ImageEncoder, ImageEncoderPart
from vsekit.encoders.image.grids import cells, complete, single
from vsekit.encoders.lora import LoraSettings, add_lora, without_lora
from vsekit.errors import UserError, missing_extra
from vsekit.parts import Sets


class TransformersVision(ImageEncoder):
    """`model` is what `AutoModel` gives for `settings.config`."""

    def __init__(self, model: nn.Module, settings: TransformersVisionSettings) -> None:
        super().__init__()
        self.model, self.settings, self.pixels = model, settings, settings.pixels or 224
        self.mean, self.std = settings.mean or self.mean, settings.std or self.std
        # ViT's pooler is a leftover of pretraining that most checkpoints lack, so it would be random.
        self._class_token = any(True for _ in getattr(model, "pooler", nn.Identity()).parameters())
        if self._class_token:
            self.model.pooler = nn.Identity()
        interpolates = "interpolate_pos_encoding" in inspect.signature(model.forward).parameters
        resized = interpolates and self.pixels != getattr(model.config, "image_size", self.pixels)
        self._options = {"interpolate_pos_encoding": True} if resized else {}
        self.dim = _width(self)
        if settings.lora:
            add_lora(self.model, settings.lora)

    def forward(self, pixels: Tensor) -> Sets:
        result = self.model(pixel_values=pixels, **self._options)
        last = result.last_hidden_state
        if self.settings.output == "pooled":
            return single(last[:, 0] if self._class_token else result.pooler_output.flatten(1))
        return cells(last) if last.dim() == 4 else complete(last[:, self._specials(last.shape[1]) :])

    def _specials(self, tokens: int) -> int:
        """Class, distillation and register tokens stand before the patches; a pyramid (Swin) has none."""
        patch = getattr(self.model.config, "patch_size", None)
        patches = (self.pixels // patch) ** 2 if isinstance(patch, int) else tokens
        return tokens - patches if patches <= tokens else 0

    def parts(self) -> list[nn.Module]:
        return _layers(self.model)

    def describe(self) -> dict[str, Any]:
        """The settings as JSON, with all that `build` needs to make the same architecture without the hub."""
        return self.settings.model_dump(mode="json")


def _width(encoder: ImageEncoder) -> int:
    """The size of the vectors, by trying: configurations name it in too many ways."""
    training = encoder.training
    with torch.no_grad():
        size = encoder.eval()(torch.zeros(1, 3, encoder.pixels, encoder.pixels)).vectors.shape[-1]
    encoder.train(training)
    return size


def _layers(module: nn.Module) -> list[nn.Module]:
    """The children in order, with the list of layers or stages taken apart."""
    parts: list[nn.Module] = []
    for child in module.children():
        if isinstance(child, nn.ModuleList):
            parts += child
        elif any(isinstance(grandchild, nn.ModuleList) for grandchild in child.children()):
            parts += _layers(child)
        elif any(True for _ in child.parameters()):
            parts.append(child)
    return parts


class TransformersVisionSettings(ImageEncoderPart):
    """model: a name on the hub, or a folder.

    pretrained: load its weights; otherwise only its architecture, at random.
    output: pooled, one vector; grid, the cells of a CNN or the patches of a ViT.
    pixels, mean, std: None takes the model's own.
    lora: learn low-rank adapters instead of the model's weights.
    config: the architecture as transformers writes it, filled when the encoder is built. Settings that have it build
        that architecture at random, without the hub: the weights follow with the saved model.
    """

    kind: Literal["transformers_vision"] = "transformers_vision"
    model: str
    pretrained: bool = True
    output: Literal["pooled", "grid"] = "pooled"
    pixels: int | None = None
    mean: tuple[float, float, float] | None = None
    std: tuple[float, float, float] | None = None
    lora: LoraSettings | None = None
    config: dict[str, Any] | None = None

    @model_serializer(mode="wrap")
    def _as_before(self, handler: Any) -> dict[str, Any]:
        return without_lora(self, handler)

    def build(self) -> TransformersVision:
        adapts = self.lora is not None and self.lora.keep == "adapter"  # saved without the weights it adapts
        if self.config is not None and not adapts:
            return TransformersVision(rebuilt("AutoModel", self.config), self)
        model, found = loaded("AutoModel", self.model, pretrained=self.pretrained)
        size = getattr(model.config, "image_size", None)
        own = {"pixels": size if isinstance(size, int) else 224, **found}
        return TransformersVision(model, self.model_copy(update={k: getattr(self, k) or v for k, v in own.items()}))


def rebuilt(auto: str, config: dict[str, Any]) -> nn.Module:
    """The model of a saved configuration, with random weights. `auto`: a class of transformers, such as AutoModel."""
    transformers = _transformers()
    return getattr(transformers, auto).from_config(transformers.AutoConfig.for_model(**config))


def loaded(auto: str, name: str, *, pretrained: bool) -> tuple[nn.Module, dict[str, Any]]:
    """The model of a folder or of the hub, and what a saved model must know to do without: config, mean and std."""
    transformers = _transformers()
    try:
        config = transformers.AutoConfig.from_pretrained(name)
        config = getattr(config, "vision_config", config)
        if pretrained:
            model = getattr(transformers, auto).from_pretrained(name, config=config, use_safetensors=True)
        else:
            model = getattr(transformers, auto).from_config(config)
    except (OSError, ValueError) as error:
        raise UserError(
            f"cannot load '{name}': {str(error).splitlines()[0]}",
            remedy="Give a folder with config.json and model.safetensors, or a hub name and a connection to it.",
        ) from error
    try:
        own, _ = transformers.image_processing_base.ImageProcessingMixin.get_image_processor_dict(name)
    except OSError:  # It comes without one.
        own = {}
    return model.float(), {
        "config": json.loads(config.to_json_string(use_diff=False)),
        "mean": tuple(own.get("image_mean") or ImageEncoder.mean),
        "std": tuple(own.get("image_std") or ImageEncoder.std),
    }


def _transformers() -> Any:
    try:
        import transformers
        import transformers.image_processing_base
    except ImportError as error:
        raise missing_extra("transformers", "transformers") from error
    return transformers
