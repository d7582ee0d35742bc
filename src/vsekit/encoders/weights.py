"""A name for the weights of an encoder, or of any module: what was made with them is kept under it."""

from __future__ import annotations

from torch import nn

from vsekit.files import fingerprint


def weights_fingerprint(module: nn.Module) -> str:
    """Changes with any weight or statistic."""
    state = module.state_dict().items()
    return fingerprint(*(part for name, tensor in state for part in (name, tensor.cpu().numpy())))
