"""Which pairs a step trains on, and which random numbers it draws: functions of seed, stage, epoch and step alone.

Nothing here has a state, so a run that was killed goes on exactly where it was by knowing the step's number.
"""

from __future__ import annotations

import numpy as np
import torch


def epoch_captions(caption_pictures: np.ndarray, mode: str, key: tuple[int, ...]) -> np.ndarray:
    """The captions of one epoch in the order of training.

    Args:
        caption_pictures: (n_captions,) the picture of each caption.
        mode: "all" captions, or "one_per_picture".
        key: seed, stage and epoch.

    Returns:
        (n_captions,) or (n_pictures with a caption,) int64.
    """
    rng = np.random.default_rng(key)
    order = rng.permutation(len(caption_pictures))
    if mode == "all":
        return order
    # The first caption of each picture in a random order is a uniform choice among its captions.
    _, first = np.unique(caption_pictures[order], return_index=True)
    return order[np.sort(first)]


def seed_torch(key: tuple[int, ...]) -> None:
    """Seeds what torch draws in one step (dropout, position shift).

    Args:
        key: seed, stage, epoch and step.
    """
    torch.manual_seed(int(np.random.SeedSequence(key).generate_state(1, dtype=np.uint64)[0] >> 1))
