"""No pooling: the tower keeps the set, for similarities that compare sets (SCAN, BFAN)."""

from __future__ import annotations

from typing import ClassVar, Literal

from vsekit.pooling.base import PoolingPart


class NoPoolingSettings(PoolingPart):
    """`build` gives None, which tells the tower to keep the set."""

    keeps_sets: ClassVar[bool] = True

    kind: Literal["none"] = "none"

    def build(self, dim: int) -> None:
        return None
