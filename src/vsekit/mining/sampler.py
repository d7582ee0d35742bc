"""Sampling offline hard negatives from mined lists, Chen et al., "Adaptive Offline Quintuplet Loss …" (AOQ), Sec. 3.2.

For a pair (i, t) of the batch: t_off from the h captions that scored highest with image i over the whole training set,
i_off from the h_images images that scored highest with caption t, drawn again while the two belong together. From them
follow the image of t_off and a caption of i_off, whose pair is the second one of Eq. 4.

The paper draws ranks uniformly, h = 300 captions and 60 images, and says (Sec. 7.1) that a normal distribution, which
spares the top ranks where false negatives are, makes little difference; it doesn't give its parameters. Here it has its
mean in the middle of the list and three standard deviations to either end. The published sampler ties the ranks: one
draw n picks caption n and image ⌊n·h_images/h⌋, as `ranks: tied` does.

Pairs in `skip` leave their places in the lists to others, drawn at random from the whole collection. So a list stays as long as it
was: a weak teacher puts whole lists above the right pair, and then has not told which negatives are hard there.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from vsekit.errors import UserError

TRIES = 10


class Offline(NamedTuple):
    """Offline negatives of a batch of pairs (i, t), each (B,) int64.

    caption: t_off; image: i_off; partner_image: the image t_off was written for; partner_caption: a caption of i_off.
    """

    caption: np.ndarray
    image: np.ndarray
    partner_image: np.ndarray
    partner_caption: np.ndarray


class OfflineSampler:
    """Draws offline negatives for batches, in time that depends on the batch alone.

    Args:
        captions_list: (n_pictures, ≥ h) int, captions of other groups, hardest first, −1 after the last, memmap or not.
        images_list: (n_captions, ≥ h_images) int, pictures of other groups, likewise.
        caption_pictures: (n_captions,) the picture each caption was written for.
        picture_groups: (n_pictures,) equal numbers belong together.
        h, h_images: how much of each list to draw from; h_images is h // 5 by default, as in the paper.
        skip: (M, 2) picture and caption of pairs that must not come up as negatives (flagged false negatives).
    """

    def __init__(
        self,
        captions_list: np.ndarray,
        images_list: np.ndarray,
        caption_pictures: np.ndarray,
        picture_groups: np.ndarray,
        h: int = 300,
        h_images: int | None = None,
        distribution: Literal["uniform", "normal"] = "uniform",
        ranks: Literal["independent", "tied"] = "independent",
        skip: np.ndarray | None = None,
    ) -> None:
        self.caption_pictures, self.picture_groups = caption_pictures, picture_groups
        self.caption_groups = picture_groups[caption_pictures]
        self.h, self.h_images = h, h_images or max(h // 5, 1)
        self.distribution, self.ranks = distribution, ranks
        # Captions sorted by picture: those of picture p are order[start[p] : start[p + 1]].
        self.order = np.argsort(caption_pictures, kind="stable")
        self.start = np.searchsorted(caption_pictures[self.order], np.arange(len(picture_groups) + 1))
        self.skip = np.sort(self._key(*skip.T)) if skip is not None and len(skip) else None
        self.captions_list, self.images_list = captions_list, images_list
        if self.skip is not None:
            rows = np.arange(len(captions_list))[:, None], np.arange(len(images_list))[:, None]
            of_images, of_captions = self._skipped(rows[0], captions_list), self._skipped(images_list, rows[1])
            self.captions_list = _replaced(captions_list, of_images, len(caption_pictures))
            self.images_list = _replaced(images_list, of_captions, len(picture_groups))

    def sample(self, pictures: np.ndarray, captions: np.ndarray, rng: np.random.Generator) -> Offline:
        """Args: pictures, captions (B,), pair by pair."""
        drawn = np.empty((3, len(pictures)), dtype=np.int64)
        rows = np.arange(len(pictures))
        for _ in range(TRIES):
            drawn[:, rows] = self._draw(pictures[rows], captions[rows], rng)
            rows = rows[~self._allowed(pictures[rows], captions[rows], *drawn[:, rows])]
            if not len(rows):
                break
        for row in rows:
            drawn[:, row] = self._search(pictures[row], captions[row])
        t_off, i_off, partner = drawn
        return Offline(t_off, i_off, self.caption_pictures[t_off], partner)

    def _draw(
        self, pictures: np.ndarray, captions: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """t_off, i_off and a caption of i_off, allowed or not, each (B,)."""
        texts, images = self.captions_list[pictures, : self.h], self.images_list[captions, : self.h_images]
        # A list may be shorter than h, in a small collection.
        n_texts, n_images = (texts >= 0).sum(axis=1), (images >= 0).sum(axis=1)
        uniform, normal = rng.random((2, len(pictures))), rng.normal(0.5, 1 / 6, (2, len(pictures))) % 1
        fraction = uniform if self.distribution == "uniform" else normal
        rank = np.minimum(fraction[0] * n_texts, n_texts - 1).astype(np.int64)
        rank_image = np.minimum(fraction[1] * n_images, n_images - 1).astype(np.int64)
        if self.ranks == "tied":
            rank_image = rank * n_images // np.maximum(n_texts, 1)
        rows = np.arange(len(pictures))
        t_off, i_off = texts[rows, rank], images[rows, rank_image]
        return t_off, i_off, self._caption_of(i_off, rng.random(len(pictures)))

    def _caption_of(self, picture: np.ndarray, fraction: np.ndarray | float) -> np.ndarray:
        """The caption at a fraction in [0, 1) of the picture's captions; any caption where it has none."""
        place = self.start[picture] + fraction * (self.start[picture + 1] - self.start[picture])
        return self.order[np.minimum(place.astype(np.int64), len(self.order) - 1)]

    def _allowed(
        self, picture: np.ndarray, caption: np.ndarray, t_off: np.ndarray, i_off: np.ndarray, partner: np.ndarray
    ) -> np.ndarray:
        """Whether (i, t_off), (i_off, t), (i_off, t_off) and the partners are all negatives; broadcasts."""
        t_group, i_group = self.caption_groups[t_off], self.picture_groups[i_off]
        allowed = (t_off >= 0) & (i_off >= 0) & (t_group != i_group) & (self.caption_pictures[partner] == i_off)
        allowed &= (t_group != self.picture_groups[picture]) & (i_group != self.caption_groups[caption])
        if self.skip is not None:
            partners = (self.caption_pictures[t_off], partner)
            for pair in ((picture, t_off), (i_off, caption), (i_off, t_off), partners):
                allowed &= ~self._skipped(*pair)
        return allowed

    def _skipped(self, picture: np.ndarray, caption: np.ndarray) -> np.ndarray:
        assert self.skip is not None
        key = self._key(picture, caption)
        return self.skip[np.minimum(np.searchsorted(self.skip, key), len(self.skip) - 1)] == key

    def _key(self, picture: np.ndarray, caption: np.ndarray) -> np.ndarray:
        return np.asarray(picture, dtype=np.int64) * len(self.caption_pictures) + caption

    def _search(self, picture: np.ndarray, caption: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The first that will do, by the sum of ranks in the whole lists, when drawing had no luck."""
        t_off, i_off = np.meshgrid(self.captions_list[picture], self.images_list[caption], indexing="ij")
        partner = self._caption_of(i_off, 0.0)
        allowed = self._allowed(picture, caption, t_off, i_off, partner)
        if not allowed.any():
            raise UserError(
                f"picture {picture} and caption {caption} have no offline negatives that don't belong together",
                remedy="Mine longer lists, flag fewer false negatives, or train on more than two groups.",
            )
        ranks = np.argwhere(allowed)
        best = tuple(ranks[ranks.sum(axis=1).argmin()])
        return t_off[best], i_off[best], partner[best]


def _replaced(lists: np.ndarray, flagged: np.ndarray, count: int) -> np.ndarray:
    """Lists with any of `count` items in the place of those that are flagged."""
    return np.where(
        flagged & (lists >= 0), np.random.default_rng(0).integers(0, count, lists.shape, dtype=lists.dtype), lists
    )
