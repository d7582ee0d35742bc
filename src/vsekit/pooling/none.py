"""No pooling: the tower keeps the set, for similarities that compare sets (SCAN, BFAN)."""

from __future__ import annotations

from typing import Literal

from vsekit.parts import Part


class NoPoolingSettings(Part):
    """`build` gives None, which tells the tower to keep the set."""

    kind: Literal["none"] = "none"

    def build(self, dim: int) -> None:
        return None
