"""Known pictures and sentences that tell hubs from matches.

In a common space some items are near to everything, and are found for every query: hubs. A bank of queries that are known
not to mean an item shows how near it is to just anything; a share w of that is subtracted from its scores (inverted
softmax, Smith et al. 2017; queries of the training set as the bank: QB-Norm, Bogolin et al. 2022):

    s'(i, c) = s(i, c) − w·h(i) − w·h(c)
    h(i) = τ log 1/M Σ_m exp(s(i, c_m) / τ)      h(c) = τ log 1/M Σ_m exp(s(i_m, c) / τ)

over M pictures i_m and M captions c_m of the training set. h(c) is the same for all pictures a caption is compared with,
h(i) for all captions, so one matrix of scores serves both directions. Neither the other queries nor the rest of what is
searched plays a part: an item's score stays what it is, whatever else is there.

A sample of thousands is needed to know h, but not to say it: h changes slowly over the space. `fitted` looks for few
vectors v_k, in place of the c_m (and as many in place of the i_m), whose soft maximum is h but for a constant, which
changes no ranking:

    min over v of Var_i [ h_v(i) − h(i) ],   i the bank's own pictures, further ones, and points near them

They are kept in 8 bits. Embeddings fill few of their dimensions: with `rank` r the vectors are V = A B, B the
first r principal directions of the whole bank, so that as many bytes hold several times as many vectors.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from pydantic import Field, model_validator
from safetensors import SafetensorError, safe_open
from torch import Tensor

from vsekit.errors import UserError
from vsekit.files import write_tensors
from vsekit.models import checksums
from vsekit.models.bits import packed, unpacked
from vsekit.parts import Settings

FILE = "querybank.safetensors"
#: The name of the directions in the file.
DIRECTIONS = "directions"
REPAIR = "Train again, or fetch the model whole."
#: Of Adam, when few vectors are fitted; the rate is a share of the size of their numbers, and falls to 0.
STEPS, RATE, BATCH = 600, 0.1, 2048
#: Points to fit to near each item, and how far from it they lie.
NEARBY, AWAY = 4, 0.3
#: Pictures and captions to fit to for each one in the bank: of few, what they owe would be learned by heart.
ITEMS = 3


class QuerybankSettings(Settings):
    """size: M, or all of a smaller training set. fitted: how many vectors a side are kept in their place; None: all M.
    rank: in how many directions these lie; None: all.
    temperature: τ, best the loss's own. weight: w; 0 takes nothing off."""

    size: int = Field(default=8192, ge=1)
    fitted: int | None = Field(default=None, ge=1)
    rank: int | None = Field(default=None, ge=1)
    temperature: float = Field(default=0.05, gt=0)
    weight: float = Field(default=0.7, ge=0)

    @model_validator(mode="after")
    def _of_fitted_ones(self) -> QuerybankSettings:
        if self.rank and not self.fitted:
            raise ValueError("rank is of fitted vectors; say how many: fitted: 512")
        return self

    def sample(self, n: int) -> np.ndarray:
        """Which of n are in the bank: the same for every model of a collection, sorted."""
        return np.sort(np.random.default_rng(0).permutation(n)[: self.size])

    def items(self, n: int) -> np.ndarray:
        """Those of `sample`, and behind them others of n to fit a bank to."""
        others = np.random.default_rng(0).permutation(n)[self.size : ITEMS * self.size]
        return np.append(self.sample(n), np.sort(others))


@dataclass(frozen=True)
class Querybank:
    """images, captions: embeddings, (M, D) each; in the file 16-bit floats. fitted: they stand for many others; 8 bits.
    directions: (r, D), at right angles and of length 1, in whose span all of them lie; the file then has coordinates."""

    images: Tensor
    captions: Tensor
    temperature: float
    weight: float
    fitted: bool = False
    directions: Tensor | None = None

    def save(self, folder: Path) -> None:
        sides = {"images": self.images.contiguous(), "captions": self.captions.contiguous()}
        if self.directions is not None:
            sides = {name: side @ self.directions.T for name, side in sides.items()}
            sides[DIRECTIONS] = self.directions.contiguous()
        tensors = packed(sides, bits=8 if self.fitted else 16)
        numbers = json.dumps({"temperature": self.temperature, "weight": self.weight, "fitted": self.fitted})
        checksums.forget(folder, FILE)
        write_tensors(folder / FILE, tensors, {"numbers": numbers})  # several keys would be written in any order
        checksums.remember(folder, FILE)

    @classmethod
    def load(cls, folder: Path) -> Querybank | None:
        """The bank of a model's folder, where there is one."""
        checksums.check(folder, FILE, remedy=REPAIR)
        if not (folder / FILE).is_file():
            return None
        try:
            with safe_open(folder / FILE, "pt") as file:
                numbers = json.loads(file.metadata()["numbers"])
                sides = unpacked({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118
            images, captions = sides["images"].float(), sides["captions"].float()
            directions = sides.get(DIRECTIONS)
            if directions is not None:
                images, captions = images @ directions.float(), captions @ directions.float()
                directions = torch.linalg.qr(directions.float().T).Q.T  # 8 bits are not quite at right angles
            fitted = bool(numbers.get("fitted", False))
            bank = cls(images, captions, float(numbers["temperature"]), float(numbers["weight"]), fitted, directions)
        except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
            raise UserError(f"not a querybank: {error}", file=folder / FILE, remedy=REPAIR) from None
        return bank


def remove_querybank(folder: Path) -> None:
    """Before other weights are written: a bank belongs to the weights it was made with."""
    (folder / FILE).unlink(missing_ok=True)


def hubness(scores: Tensor, temperature: float) -> Tensor:
    """h of every row: (n, M) scores with a bank → (n,)."""
    return temperature * (torch.logsumexp(scores / temperature, dim=1) - np.log(scores.shape[1]))


def fitted(
    bank: Querybank,
    count: int,
    similarity: Callable[[Tensor, Tensor], Tensor],
    rank: int | None = None,
    further: tuple[Tensor, Tensor] | None = None,
) -> Querybank:
    """A bank of at most `count` vectors a side that lowers scores nearly as `bank` does, by (images, captions) → scores.

    further: embeddings of pictures, and of captions, to fit to beside the bank's own.
    """
    generator = torch.Generator().manual_seed(0)
    directions = None if rank is None else _principal(torch.cat([bank.images, bank.captions]), rank)

    def fit(known: Tensor, items: Tensor, scores: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Vectors in place of `known`, by what both say of `items`; scores: (items, known) → (items, known)."""
        items = torch.cat([items, *(_nearby(items, generator) for _ in range(NEARBY))])
        said = torch.cat([hubness(scores(some, known), bank.temperature) for some in items.split(BATCH)])
        few = known[:: -(-len(known) // count)]
        few = (few if directions is None else few @ directions.T).clone().requires_grad_()
        optimiser = torch.optim.Adam([few], rate := RATE * float(few.detach().square().mean().sqrt()))

        def vectors() -> Tensor:
            return few if directions is None else few @ directions

        for step in range(STEPS):
            optimiser.param_groups[0]["lr"] = rate * (1 - step / STEPS)
            some = torch.randint(len(items), (BATCH,), generator=generator)
            loss = (hubness(scores(items[some], vectors()), bank.temperature) - said[some]).var()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        return vectors().detach()

    pictures, sentences = bank.images, bank.captions
    if further is not None:
        pictures, sentences = torch.cat([pictures, further[0]]), torch.cat([sentences, further[1]])
    captions = fit(bank.captions, pictures, similarity)
    images = fit(bank.images, sentences, lambda some, known: similarity(known, some).T)
    return Querybank(images, captions, bank.temperature, bank.weight, fitted=True, directions=directions)


def _principal(vectors: Tensor, rank: int) -> Tensor:
    """(n, D) → (r, D), the directions that hold most of their squares, at right angles; r at most D."""
    _, axes = torch.linalg.eigh(vectors.T.double() @ vectors.double())
    return axes.flip(1)[:, :rank].T.to(vectors.dtype).contiguous()


def _nearby(items: Tensor, generator: torch.Generator) -> Tensor:
    """Items moved by a share of the difference of two others, as long as before: h is known there too, and thousands of items
    alone would be learned by heart."""
    one, other = (items[torch.randperm(len(items), generator=generator)] for _ in range(2))
    moved = items + AWAY * (one - other)
    return moved * (items.norm(dim=1, keepdim=True) / moved.norm(dim=1, keepdim=True).clamp(min=1e-8))
