"""CLIP, SigLIP and whatever else in transformers has a common space for pictures and sentences, on its way to ONNX.

The graphs take what those of vsekit models take: crops as uint8, ids with lengths. The processor's steps become
`preparation.Steps`; a processor that does anything else is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vsekit.data.decoding import decode
from vsekit.errors import UserError
from vsekit.export.preparation import Steps
from vsekit.export.sentences import TOKENIZER
from vsekit.export.sources import Source, save_pieces
from vsekit.models.hub import load_from_hub, unit


class _Image(nn.Module):
    def __init__(self, model: Any, mean: Sequence[float], std: Sequence[float], rescale: float) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("scale", torch.tensor([rescale / s for s in std]).view(3, 1, 1))
        self.register_buffer("shift", torch.tensor([m / s for m, s in zip(mean, std)]).view(3, 1, 1))

    def forward(self, pixels: Tensor) -> Tensor:
        values = pixels[:, 0].permute(0, 3, 1, 2).float() * self.get_buffer("scale") - self.get_buffer("shift")
        return unit(self.model.get_image_features(pixel_values=values))


class _Text(nn.Module):
    """masked: tell the model where the padding is, as its tokenizer does.

    pad_to: the one length a model was trained on (SigLIP); None fills up to the longest sentence of the batch.
    """

    def __init__(self, model: Any, masked: bool, pad_id: int, pad_to: int | None) -> None:
        super().__init__()
        self.model, self.masked, self.pad_id, self.pad_to = model, masked, pad_id, pad_to

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        ids = torch.where(torch.arange(ids.shape[1], device=ids.device) < lengths[:, None], ids, self.pad_id)
        if self.pad_to is not None:
            more = ids.new_full((1, self.pad_to), self.pad_id).expand(ids.shape[0], -1)
            ids = torch.cat([ids, more], 1)[:, : self.pad_to]
        inside = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
        options = {"attention_mask": inside.long()} if self.masked else {}
        return unit(self.model.get_text_features(input_ids=ids, **options))


class CLIPSource(Source):
    similarity = "cosine"

    def __init__(self, name: str) -> None:
        self.hub = load_from_hub(name, attn_implementation="eager")
        self.model, self._images, self._tokens = self.hub.model.float(), self.hub.images, self.hub.tokens
        self.name, self.beside = name, {}
        self.dim = self.encode_texts(["a"]).shape[1]
        # The way attention is computed is no part of it.
        self.fingerprint = self.hub.fingerprint(load_from_hub(name).model.config.to_dict())

    def image(self) -> tuple[nn.Module, dict[str, Tensor], dict[str, Any]]:
        steps = steps_of(self._images, self.name)
        side = steps.get("crop") or steps["size"]
        rescale = float(self._images.rescale_factor) if self._images.do_rescale else 1.0
        mean, std = (
            (self._images.image_mean, self._images.image_std) if self._images.do_normalize else ([0] * 3, [1] * 3)
        )
        graph = _Image(self.model, mean, std, rescale)
        example = torch.zeros(2, 1, *side, 3, dtype=torch.uint8)
        return graph, {"pixels": example}, {"reads": "pixels", "steps": steps}

    def text(self) -> tuple[nn.Module, dict[str, Tensor], dict[str, Any]]:
        most = min(self._tokens.model_max_length, self.model.config.text_config.max_position_embeddings)
        masked = "attention_mask" in self._tokens("a")
        graph = _Text(self.model, masked, self._tokens.pad_token_id or 0, most if self.hub.siglip else None)
        example = {"ids": torch.ones(3, 5).long(), "lengths": torch.tensor([5, 3, 2])}
        return graph, example, {"tokenizer": "pieces", "files": [TOKENIZER], "max_length": most}

    def save_tokenizer(self, folder: Path) -> None:
        save_pieces(self._tokens, folder)

    @torch.inference_mode()
    def encode_images(self, images: Sequence[Any]) -> np.ndarray:
        pixels = self._images(images=[decode(image) for image in images], return_tensors="pt")["pixel_values"]
        return unit(self.model.get_image_features(pixel_values=pixels)).numpy()

    @torch.inference_mode()
    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        tokens = self._tokens(list(texts), padding=self.hub.padding, truncation=True, return_tensors="pt")
        return unit(self.model.get_text_features(**tokens)).numpy()


def steps_of(processor: Any, name: str) -> dict[str, Any]:
    """The arguments of `preparation.Steps` that do what an image processor does."""
    size = dict(processor.size) if processor.do_resize else {}
    steps: dict[str, Any] = {"resample": int(processor.resample)}
    if size.get("shortest_edge"):
        steps["shortest"] = size["shortest_edge"]
    elif size.get("height"):
        steps["size"] = [size["height"], size["width"]]
    if getattr(processor, "do_center_crop", False):
        steps["crop"] = [processor.crop_size["height"], processor.crop_size["width"]]
    if getattr(processor, "do_pad", False) or not (steps.get("crop") or steps.get("size")):
        raise UserError(
            f"the image processor {type(processor).__name__} of this model gives pictures of no fixed size",
            file=name,
            remedy="Resize to a height and width, or cut out the middle: size or crop_size in preprocessor_config.json.",
        )
    Steps(**steps)
    return steps
