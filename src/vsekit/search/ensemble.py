"""Several models as one, for an index: the mean of their scores by one inner product.

With the members' vectors xₘ and qₘ side by side, each times 1/√M,

    ⟨[x₁, …, x_M]/√M, [q₁, …, q_M]/√M⟩ = 1/M Σₘ ⟨xₘ, qₘ⟩

(`export.ensemble.joined`), which is what `evaluation.scorers.Average` ranks by: exactly, at M times the size of an index and the
work of all members. What an item owes for being a hub (`hubs`) is the mean of what it owes by each member's bank.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vsekit.export.ensemble import ensemble_fingerprint, joined
from vsekit.search.base import SearchModel
from vsekit.search.hubs import Owing
from vsekit.search.items import Kind

if TYPE_CHECKING:
    from PIL import Image


class _Banks(Owing):
    def __init__(self, members: Sequence[SearchModel]) -> None:
        self.members = members

    def owed(self, vectors: np.ndarray, kind: Kind) -> np.ndarray:
        """Members without a bank owe nothing."""
        found, at, scale = np.zeros(len(vectors), np.float32), 0, math.sqrt(len(self.members))
        for member in self.members:
            if member.bank is not None:
                found += member.bank.owed(vectors[:, at : at + member.dim] * scale, kind)
            at += member.dim
        return found / len(self.members)


class EnsembleModel(SearchModel):
    """name: of the ensemble.json that lists the members, or the folder they were exported to. members: in torch or exported."""

    def __init__(self, members: Sequence[SearchModel], name: Path | str) -> None:
        self.members, self.name = list(members), str(name)
        self.fingerprint = ensemble_fingerprint(member.fingerprint for member in members)
        self.dim = sum(member.dim for member in members)
        self.batch_size = min(member.batch_size for member in members)
        self.has_bank = any(member.has_bank for member in members)

    @cached_property
    def bank(self) -> Owing | None:
        return _Banks(self.members) if self.has_bank else None

    @property
    def side(self) -> int:  # type: ignore[override]  # asked for only with pictures
        return max(member.side for member in self.members)

    def get_ready(self, pictures: int) -> None:
        for member in self.members:
            member.get_ready(pictures)
        self.at_once = min(member.at_once for member in self.members)

    def prepare(self, image: Image.Image) -> np.ndarray:
        """The members' views one after another, flat."""
        return np.concatenate([member.prepare(image).reshape(-1) for member in self.members])

    def embed(self, prepared: Sequence[np.ndarray]) -> np.ndarray:
        rows, at, parts = np.stack(prepared), 0, []
        for member in self.members:
            view = member.view
            assert view is not None, "members are vsekit models"
            shape = (view.count, view.pixels, view.pixels, 3)
            parts.append(member.embed([*rows[:, at : at + math.prod(shape)].reshape(len(rows), *shape)]))
            at += math.prod(shape)
        return joined(parts)

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        return joined([member.encode_texts(texts) for member in self.members])

    def words(self, text: str) -> list[str]:
        return self.members[0].words(text)
