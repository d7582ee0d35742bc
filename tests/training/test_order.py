from __future__ import annotations

import numpy as np
import torch

from vsekit.training.order import epoch_captions, seed_torch

PICTURES = np.array([0, 0, 0, 1, 1, 2])


def test_an_epoch_over_all_captions_is_a_permutation_and_epochs_differ() -> None:
    pictures = np.repeat(np.arange(40), 5)
    first, second = (epoch_captions(pictures, "all", (0, 0, epoch)) for epoch in (0, 1))
    assert sorted(first) == list(range(200))
    assert (first != second).any()
    assert (first == epoch_captions(pictures, "all", (0, 0, 0))).all()


def test_one_per_picture_draws_each_picture_once_and_each_of_its_captions_equally_often() -> None:
    counts = np.zeros(6)
    for epoch in range(3000):
        chosen = epoch_captions(PICTURES, "one_per_picture", (7, 0, epoch))
        assert sorted(PICTURES[chosen]) == [0, 1, 2]
        counts[chosen] += 1
    expected = np.array([1000, 1000, 1000, 1500, 1500, 3000])
    # Five standard deviations of a binomial count.
    assert (np.abs(counts - expected) <= 5 * np.sqrt(3000 * 0.25)).all()


def test_torch_draws_depend_on_every_part_of_the_key() -> None:
    def draw(*key: int) -> float:
        seed_torch(key)
        return torch.rand(()).item()

    keys = [(0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)]
    assert len({draw(*key) for key in keys}) == len(keys)
    assert draw(0, 0, 0, 0) == draw(0, 0, 0, 0)
