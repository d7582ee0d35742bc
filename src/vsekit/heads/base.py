"""The contract of a head: it maps the last dimension, of every vector of a set or of the pooled one."""

from __future__ import annotations

from typing import ClassVar

from torch import nn

from vsekit.parts import Part


class HeadPart(Part):
    """Settings of a head. keeps_size: what comes out has the size of what goes in."""

    keeps_size: ClassVar[bool] = False

    def build(self, dim_in: int, dim_out: int) -> nn.Module:
        """(…, dim_in) → (…, dim_out)."""
        raise NotImplementedError
