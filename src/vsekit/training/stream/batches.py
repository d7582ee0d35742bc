"""The parts of all processes put together to batches, of the same size up to the last.

Before each batch every process says how many pairs it has at hand. Each gives its share; where one has less, others give more,
in the order of ranks, and then pictures travel so that every process embeds its share. The last batch is what remains.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import numpy as np
import torch

from vsekit.data.text import Ragged
from vsekit.data.views import ViewSettings, chosen_crops, cut
from vsekit.encoders.base import Tokenizer
from vsekit.training.epoch import Made
from vsekit.training.global_batch import share
from vsekit.training.step import Batch
from vsekit.training.stream.exchange import Exchange
from vsekit.training.stream.left_out import LeftOut
from vsekit.training.stream.shuffled import Pair, Shuffled
from vsekit.training.world import World


def given(available: Sequence[int], batch: int) -> list[int]:
    """How many pairs each process gives to a batch, of those it has at hand.

    >>> given([9, 9, 9], 8), given([9, 1, 9], 8), given([0, 2, 1], 8)
    ([3, 3, 2], [5, 1, 2], [0, 2, 1])
    """
    gives = [min(have, want) for have, want in zip(available, shares(batch, len(available)))]
    for rank, have in enumerate(available):
        gives[rank] += min(have - gives[rank], batch - sum(gives))
    return gives


def shares(total: int, size: int) -> list[int]:
    """How many rows each process embeds."""
    return [total // size + (rank < total % size) for rank in range(size)]


class StreamBatches:
    """An `Epoch` of a stream.

    Args:
        key: seed, stage and epoch. pairs: given so far in this epoch, by all; known: how many it has, where one was seen.
    """

    def __init__(
        self,
        shuffled: Shuffled,
        view: ViewSettings,
        tokenizer: Tokenizer,
        left_out: LeftOut,
        *,
        batch_size: int,
        key: tuple[int, int, int],
        pairs: int,
        known: int | None,
        world: World,
        exchange: Exchange,
    ) -> None:
        self.shuffled, self.view, self.tokenizer, self.left_out = shuffled, view, tokenizer, left_out
        self.batch_size, self.key, self.pairs, self.known = batch_size, key, pairs, known
        self.world, self.exchange = world, exchange
        self._tell()

    @property
    def steps(self) -> int | None:
        total = self.read if not self.left else self.known
        return None if total is None else math.ceil(total / self.batch_size)

    def make(self, number: int) -> Made:
        rng = np.random.default_rng((*self.key, number, self.world.rank))
        gives, epoch = given(self.available, self.batch_size), self.key[2] + self._done()
        with self.world.naming():
            drawn = self.shuffled.draw(gives[self.world.rank], rng)
        self.pairs += sum(gives)
        self._tell()
        return Made(self._batch(drawn, gives, epoch, rng), any(self.available), self.shuffled.position(self.pairs))

    def close(self) -> None:
        self.shuffled.close()

    def _tell(self) -> None:
        """Tells the others what is at hand and what is still to be read, and hears it of them."""
        own = [len(self.shuffled.buffer), self.shuffled.read, self.shuffled.left]
        self.available, read, left = map(list, zip(*self.exchange.values(own)))
        self.read, self.left = sum(read), sum(left)
        self.left_out.check(self.read)
        if not self.read:
            others = "".join(
                f", and {n} samples of the split '{name}'" for name, n in self.shuffled.source.others.items()
            )
            raise self.left_out.error(f"there is no pair in all these shards{others}")

    def _done(self) -> float:
        """The share of the epoch that lies behind. Before one was seen to its end it is told from what was read of the shards."""
        of = len(self.shuffled.source.shards)
        total = self.known or self.read / max(1 - self.left / of, 0.5 / of)
        return min(self.pairs / total, 1.0)

    def _batch(self, drawn: Sequence[Pair], gives: list[int], epoch: float, rng: np.random.Generator) -> Batch:
        pixels = torch.from_numpy(self._pixels(drawn, rng))
        texts, groups = [pair.text for pair in drawn], [_number(pair.group) for pair in drawn]
        total, own = sum(gives), share(sum(gives), self.world)
        if gives != shares(total, self.world.size) or (own is None and not self.world.alone):
            rows = own or slice(None)
            said = self.exchange.values([texts, groups])
            pixels = self.exchange.rows(pixels)[rows]
            texts, groups = ([one for part in said for one in part[which]][rows] for which in (0, 1))
        tokens = Ragged.of(self.tokenizer(texts)).batch(np.arange(len(texts)))
        images = pixels.permute(0, 1, 4, 2, 3)
        return Batch(images, tokens, torch.tensor(groups), epoch, total=None if own is None else total)

    def _pixels(self, drawn: Sequence[Pair], rng: np.random.Generator) -> np.ndarray:
        """(b, V, pixels, pixels, 3) uint8"""
        view = self.view
        pixels = np.empty((len(drawn), view.count, view.pixels, view.pixels, 3), np.uint8)
        for pair, places in zip(drawn, pixels):
            for place, crop in zip(places, chosen_crops(view, rng)):
                place[:] = cut(pair.picture, crop, view.pixels)
        return pixels


def _number(group: str) -> int:
    """Equal for equal groups, and for no others: 63 bits of a hash."""
    return int.from_bytes(hashlib.sha256(group.encode(errors="surrogatepass")).digest()[:8], "big") >> 1
