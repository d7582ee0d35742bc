"""Any image model of timm, where timm is installed: VGG19, ResNet, ViT, ConvNeXt …

`pooled` is what the model hands to its classifier: the pooled grid, the class token, or FC7 (4096-d) for VGG19, the
feature of VSE++. `grid` is the cells of the last map, or the patches of a ViT.
"""

from __future__ import annotations

import difflib
from typing import Any, Literal

from torch import Tensor, nn

from vsekit.encoders.base import ImageEncoder, ImageEncoderPart
from vsekit.encoders.image.grids import cells, complete, single
from vsekit.errors import UserError, missing_extra
from vsekit.parts import Sets


class TimmVision(ImageEncoder):
    """`model` is what `timm.create_model` gives."""

    def __init__(self, model: Any, pixels: int, output: Literal["pooled", "grid"], like: dict[str, Any]) -> None:
        super().__init__()
        self.model: Any = model
        self.pixels, self.output = pixels, output
        self.mean, self.std = like["mean"], like["std"]
        self.dim = model.num_features if output == "grid" else model.head_hidden_size

    def forward(self, pixels: Tensor) -> Sets:
        maps = self.model.forward_features(pixels)
        if self.output == "pooled":
            return single(self.model.forward_head(maps, pre_logits=True))
        if maps.dim() == 3:
            return complete(maps[:, getattr(self.model, "num_prefix_tokens", 0) :])
        # Swin and its kin keep the channels last.
        return cells(maps if maps.shape[1] == self.dim else maps.permute(0, 3, 1, 2))

    def parts(self) -> list[nn.Module]:
        parts: list[nn.Module] = []
        for child in self.model.children():
            several = isinstance(child, nn.Sequential | nn.ModuleList) and len(child) > 1
            parts += child.children() if several else [child]
        return [part for part in parts if any(True for _ in part.parameters())]


class TimmVisionSettings(ImageEncoderPart):
    """model: a name of `timm.list_models()`. pixels: side of the input; None takes the model's own."""

    kind: Literal["timm_vision"] = "timm_vision"
    model: str
    pretrained: bool = True
    output: Literal["pooled", "grid"] = "pooled"
    pixels: int | None = None

    def build(self) -> TimmVision:
        timm = _timm()
        if not timm.is_model(self.model):
            near = difflib.get_close_matches(self.model, timm.list_models(), n=5)
            remedy = f"Similar: {', '.join(near)}." if near else "See timm.list_models()."
            raise UserError(f"timm has no model '{self.model}'", field="model", remedy=remedy)
        like = timm.get_pretrained_cfg(self.model)
        sized = {} if self.pixels is None or like.fixed_input_size is False else {"img_size": self.pixels}
        try:
            model = timm.create_model(self.model, pretrained=self.pretrained, num_classes=0, **sized)
        except (OSError, RuntimeError) as error:
            raise UserError(
                f"cannot load '{self.model}': {str(error).splitlines()[0]}",
                field="model",
                remedy="Its weights are fetched once and need a connection; pretrained: false starts at random.",
            ) from error
        own = model.pretrained_cfg
        return TimmVision(model, self.pixels or own["input_size"][-1], self.output, own)

    def build_untrained(self) -> TimmVision:
        return self.model_copy(update={"pretrained": False}).build()


def _timm() -> Any:
    try:
        import timm
    except (ImportError, RuntimeError) as error:
        if isinstance(error, ImportError) and error.name == "timm":
            raise missing_extra("timm", "timm") from error
        # timm imports torchvision, whose compiled half must fit torch: a CUDA build beside a CPU torch fails here.
        raise UserError(
            f"timm is installed but cannot be imported: {error}",
            remedy="Install the torchvision build that fits your torch (CPU or CUDA), or use transformers_vision.",
        ) from error
    return timm
