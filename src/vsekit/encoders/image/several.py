"""Several image encoders side by side, each looking at the same picture at its own size.

    pooled:  (B, 3, P, P) → (B, 1, d_1 + … + d_n): features end to end
    sets:    all members' vectors in one set, (B, N_1 + … + N_n, d), where the members have one d

The picture comes at the largest member's size and is shrunk for the others (bilinear, with antialiasing). Encoders that
were trained apart err apart.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from vsekit.encoders.base import ImageEncoder, ImageEncoderPart
from vsekit.encoders.image import PictureEncoderSettings
from vsekit.encoders.image.tails import Tails
from vsekit.errors import UserError
from vsekit.parts import Sets


class Several(ImageEncoder):
    """Pixels are normalised as the first member expects; the others' own mean and std are made up for."""

    def __init__(self, members: list[ImageEncoder], join: Literal["features", "sets"]) -> None:
        super().__init__()
        self.members, self.join = nn.ModuleList(members), join
        self.pixels = max(member.pixels for member in members)
        self.mean, self.std = members[0].mean, members[0].std
        sizes = [member.dim for member in members]
        if join == "sets" and len(set(sizes)) > 1:
            raise UserError(
                f"members with vectors of {sizes} can't share a set", field="join", remedy="Join features instead."
            )
        self.dim = sum(sizes) if join == "features" else sizes[0]
        packages = [member.weights_from for member in members]
        self.weights_from = ", ".join(filter(None, packages)) if all(packages) else None

    def forward(self, pixels: Tensor) -> Sets:
        sets = [member(self._for(member, pixels)) for member in self.members]
        if self.join == "sets":
            return Sets(torch.cat([s.vectors for s in sets], 1), torch.cat([s.mask for s in sets], 1))
        if any(s.vectors.shape[1] != 1 for s in sets):
            raise UserError(
                "members that give more than one vector have no features to put end to end",
                field="image.encoder.join",
                remedy="Set output: pooled for every member, or join: sets.",
            )
        return Sets(torch.cat([s.vectors for s in sets], 2), sets[0].mask)

    def parts(self) -> list[nn.Module]:
        """The members: a part is a whole encoder."""
        return list(self.members)

    def tail(self) -> Tails | None:
        members = [m for m in self.members if isinstance(m, ImageEncoder)]
        tails = [(member.tail(), member.dim) for member in members]
        return Tails(tails) if any(tail is not None for tail, _ in tails) else None

    def _for(self, member: nn.Module, pixels: Tensor) -> Tensor:
        assert isinstance(member, ImageEncoder)
        if member.pixels != self.pixels:
            size = (member.pixels, member.pixels)
            pixels = nn.functional.interpolate(pixels, size, mode="bilinear", align_corners=False, antialias=True)
        if (member.mean, member.std) == (self.mean, self.std):
            return pixels
        mean, std, own_mean, own_std = (
            pixels.new_tensor(values)[:, None, None] for values in (self.mean, self.std, member.mean, member.std)
        )
        return (pixels * std + mean - own_mean) / own_std


class SeveralSettings(ImageEncoderPart):
    """members: encoders that read pixels. join: their `features` end to end, or all their vectors in one set."""

    kind: Literal["several"] = "several"
    members: list[PictureEncoderSettings] = Field(min_length=1)
    join: Literal["features", "sets"] = "features"

    def build(self) -> Several:
        return Several([member.build() for member in self.members], self.join)
