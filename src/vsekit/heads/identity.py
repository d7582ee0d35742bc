"""No head: vectors pass unchanged."""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import nn

from vsekit.errors import UserError
from vsekit.heads.base import HeadPart


class IdentitySettings(HeadPart):
    keeps_size: ClassVar[bool] = True

    kind: Literal["identity"] = "identity"

    def build(self, dim_in: int, dim_out: int) -> nn.Module:
        if dim_in != dim_out:
            raise UserError(
                f"the head 'identity' keeps the size {dim_in}, but {dim_out} is asked for",
                remedy="Choose 'linear', or make the sizes equal.",
            )
        return nn.Identity()
