"""Models like CLIP from transformers, which have a common space for pictures and sentences: from a folder or a hub."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vsekit.encoders.weights import weights_fingerprint
from vsekit.errors import UserError, missing_extra
from vsekit.files import fingerprint

#: owner/model
HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")


class FromHub(NamedTuple):
    """A model, and the parts of its processor.

    padding: what its tokenizer is told: SigLIP was trained on sentences padded to one length.
    """

    model: Any
    images: Any
    tokens: Any

    @property
    def siglip(self) -> bool:
        return bool(self.model.config.model_type.startswith("siglip"))

    @property
    def padding(self) -> str | bool:
        return "max_length" if self.siglip else True

    def fingerprint(self, config: dict[str, Any] | None = None) -> str:
        """Changes with anything that changes its vectors. config: in place of the model's own."""
        parts = (config or self.model.config.to_dict(), self.images.to_dict(), self.tokens.get_vocab())
        return fingerprint(*parts, weights_fingerprint(self.model))


def load_from_hub(name: str, **options: Any) -> FromHub:
    """UserError where there is none, or where it has no common space. options: of `from_pretrained`."""
    try:
        from safetensors import SafetensorError
        from transformers import AutoModel, AutoProcessor
    except ImportError:
        raise missing_extra("transformers", "transformers") from None
    try:
        model = AutoModel.from_pretrained(name, **options).eval()
        processor = AutoProcessor.from_pretrained(name)
    except (OSError, ValueError, ImportError, SafetensorError) as error:
        raise UserError(
            f"no model '{name}': {str(error).splitlines()[0]}",
            remedy="Give starter, a run or model folder, or the folder or hub name of a model like CLIP.",
        ) from None
    if not (hasattr(model, "get_image_features") and hasattr(model, "get_text_features")):
        raise UserError(
            f"{type(model).__name__} has no common space for pictures and sentences",
            file=name,
            remedy="Models like CLIP have: CLIP, SigLIP, ALIGN, Chinese-CLIP …",
        )
    return FromHub(model, processor.image_processor, processor.tokenizer)


def unit(output: Any) -> Tensor:
    """(n, D), each of length 1, of what `get_image_features` or `get_text_features` gave."""
    # Newer versions wrap the features.
    features = output if isinstance(output, Tensor) else output.pooler_output
    return torch.nn.functional.normalize(features.float(), dim=-1)


def config_of(folder: Path) -> dict[str, Any]:
    """The config.json of a model folder, or nothing. Those of transformers have a "model_type", vsekit's have "vsekit"."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return config if isinstance(config, dict) else {}
