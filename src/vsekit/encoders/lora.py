"""Low-rank adapters (LoRA) on encoders of transformers, Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021.

    W x  becomes  W x + α/r · B A x,     A (r, d_in) random, B (d_out, r) zero at first,     Eq. 3

W, of every linear layer that is named, stays as it is; only A and B learn. The package peft puts them there. A trained model
is saved `merged`, W + α/r · B A in place of W, a plain model that needs nothing else; or as the `adapter`, A and B alone: a
small file that needs the encoder it was trained on.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from vsekit.errors import UserError, missing_extra, nearest
from vsekit.files import fingerprint
from vsekit.parts import Settings

_BASE = ".base_layer."
_ADAPTER = ".lora_"


class LoraSettings(Settings):
    """rank: r. alpha: α. dropout: of what A reads.

    targets: the linear layers, by the ends of their names (`[query, value]`); None takes all there are.
    keep: what the model folder holds: `merged` weights, or the `adapter` alone.
    """

    rank: int = Field(default=8, ge=1)
    alpha: float = Field(default=16.0, gt=0)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    targets: tuple[str, ...] | None = Field(default=None, min_length=1)
    keep: Literal["merged", "adapter"] = "merged"


def without_lora(settings: Any, handler: Any) -> dict[str, Any]:
    """An encoder's settings as JSON. Those without adapters stay what they were before there were any: features, models and
    indexes are named by them."""
    content: dict[str, Any] = handler(settings)
    if content.get("lora") is None:
        content.pop("lora", None)
    return content


def add_lora(model: nn.Module, settings: LoraSettings) -> None:
    """Puts adapters beside the linear layers of a model of transformers, in place."""
    try:
        import peft
    except ImportError:
        raise missing_extra("peft", "lora") from None
    linear = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    wanted = settings.targets or ("",)
    chosen = [name for name in linear if name.endswith(wanted)]
    if not chosen:
        names = sorted({name.rpartition(".")[2] for name in linear})
        raise UserError(
            f"no linear layer is named '{wanted[0]}'{nearest(wanted[0], names)}",
            field="lora.targets",
            remedy=f"There are: {', '.join(names)}.",
        )
    sizes: dict[str, Any] = {"r": settings.rank, "lora_alpha": settings.alpha, "lora_dropout": settings.dropout}
    peft.inject_adapter_in_model(peft.LoraConfig(target_modules=chosen, **sizes), model)


def has_lora(module: nn.Module) -> bool:
    return any(_ADAPTER in name for name, _ in module.named_parameters())


def learn_adapters_alone(module: nn.Module) -> None:
    """Freezes all that is no adapter."""
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(_ADAPTER in name)


def adapter_weights(module: nn.Module) -> dict[str, Tensor]:
    return {name: value for name, value in module.state_dict().items() if _ADAPTER in name}


@torch.no_grad()
def merged_weights(module: nn.Module) -> dict[str, Tensor]:
    """The weights of the plain module that computes the same, by its names; of one without adapters, its own."""
    layers = dict(module.named_modules())
    weights = {}
    for name, value in module.state_dict().items():
        if _ADAPTER in name:
            continue
        layer, base, which = name.rpartition(_BASE)
        if base and which == "weight":
            value = value + layers[layer].get_delta_weight("default")
        weights[plain_name(name)] = value
    return weights


def plain_name(name: str) -> str:
    """What a weight is called in the module without adapters."""
    return name.replace(_BASE, ".")


def base_fingerprint(module: nn.Module) -> str:
    """Changes with any weight that is no adapter's."""
    state = ((plain_name(n), value.cpu().numpy()) for n, value in module.state_dict().items() if _ADAPTER not in n)
    return fingerprint(*(part for pair in state for part in pair))


def merge_lora(module: nn.Module) -> None:
    """Makes it the plain module that computes the same, in place."""
    weights = merged_weights(module)
    for name, layer in list(module.named_modules()):
        if hasattr(layer, "get_delta_weight"):
            parent, _, child = name.rpartition(".")
            setattr(module.get_submodule(parent), child, layer.get_base_layer())
    module.load_state_dict(weights)
