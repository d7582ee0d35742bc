"""Models with adapters in their encoders (`encoders.lora`): what is saved of them, and how they are taken up again.

keep: merged     model.safetensors holds W + α/r·B·A under the plain names, config.json names no adapter: a model like any other
keep: adapter    model.safetensors holds A and B, and all that is no encoder; config.json has a fingerprint of the encoder's own
                 weights, which come from where the settings name them
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from vsekit.encoders.lora import (
    LoraSettings,
    adapter_weights,
    base_fingerprint,
    has_lora,
    learn_adapters_alone,
    merge_lora,
    merged_weights,
    plain_name,
)
from vsekit.errors import UserError
from vsekit.models.settings import ModelSettings

if TYPE_CHECKING:
    from vsekit.models.model import VSE

SIDES = ("image", "text")


def lora_of(settings: ModelSettings) -> dict[str, LoraSettings]:
    """The settings of the adapters, by side, where there are some."""
    found = {side: getattr(getattr(settings, side).encoder, "lora", None) for side in SIDES}
    return {side: lora for side, lora in found.items() if lora is not None}


def bases_of(model: VSE) -> dict[str, str]:
    """Fingerprints of the weights that adapters are kept apart from, by side."""
    apart = [side for side, lora in lora_of(model.settings).items() if lora.keep == "adapter"]
    return {side: base_fingerprint(getattr(model, side).encoder) for side in apart}


def check_bases(model: VSE) -> None:
    """UserError where an adapter is to be kept apart from weights that are not those of its source."""
    for side, weights in bases_of(model).items():
        if weights != model.bases[side]:
            raise UserError(
                f"the {side} encoder has learned weights besides its adapter, which an adapter alone can't hold",
                field=f"model.{side}.encoder.lora.keep",
                remedy="Choose keep: merged, or start from a run that kept its adapter.",
            )


def kept_of(model: VSE) -> dict[str, dict[str, Tensor]]:
    """What is saved of encoders with adapters, by side."""
    return {
        side: (adapter_weights if lora.keep == "adapter" else merged_weights)(getattr(model, side).encoder)
        for side, lora in lora_of(model.settings).items()
    }


def without_merged(settings: ModelSettings, *, also: bool = False) -> ModelSettings:
    """The settings of the saved model: adapters that are merged are none. also: nor are the others."""
    for side, lora in lora_of(settings).items():
        if lora.keep == "merged" or also:
            tower = getattr(settings, side)
            encoder = tower.encoder.model_copy(update={"lora": None})
            settings = settings.model_copy(update={side: tower.model_copy(update={"encoder": encoder})})
    return settings


def merge_adapters(model: VSE) -> None:
    """Makes a loaded model a plain one that computes the same."""
    for side in lora_of(model.settings):
        merge_lora(getattr(model, side).encoder)
    model.settings, model.bases = without_merged(model.settings, also=True), {}


def check_loaded(model: VSE, saved: dict[str, str], folder: Any) -> None:
    """UserError where an encoder is not the one that its adapter was trained on."""
    for side, weights in model.bases.items():
        if saved.get(side) != weights:
            named = getattr(getattr(model.settings, side).encoder, "model", side)
            raise UserError(
                f"the adapter was trained on other weights of '{named}' than are there now",
                file=folder,
                field=f"model.{side}.encoder",
                remedy="Put the encoder back that it was trained on, or train again with lora.keep: merged.",
            )


def weights_for(model: nn.Module, source: nn.Module) -> dict[str, Tensor]:
    """The weights of `source` under the names that `model` has, adapters merged where `model` has not the same ones."""
    mine, theirs = model.state_dict(), source.state_dict()
    if adapter_weights(model).keys() == adapter_weights(source).keys():
        return theirs
    merged = merged_weights(source)
    return merged | {name: merged[plain_name(name)] for name in mine if plain_name(name) in merged}


def thaw(model: nn.Module) -> None:
    """Lets everything learn; of an encoder with adapters, those alone."""
    model.requires_grad_(True)
    for name, module in model.named_modules():
        if name in {f"{side}.encoder" for side in SIDES} and has_lora(module):
            learn_adapters_alone(module)
