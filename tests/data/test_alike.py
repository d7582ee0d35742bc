from __future__ import annotations

import numpy as np

from vsekit.data.alike import alike, joined


def test_pairs_are_those_of_a_slow_loop_over_all():
    rng = np.random.default_rng(0)
    base = rng.normal(size=(40, 768))
    near = base[rng.integers(40, size=60)] + rng.normal(size=(60, 768)) * rng.uniform(0, 0.5, size=(60, 1))
    found = np.concatenate([base, near])
    found = (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float16)
    found[[3, 50]] = 0  # flat pictures are like nothing
    exact = found.astype(np.float32)
    slow = {(i, j) for i in range(100) for j in range(i + 1, 100) if exact[i] @ exact[j] >= 0.97}
    assert 20 < len(slow) < 200
    assert set(alike(found, 0.97, block=7)) == slow == set(alike(found, 0.97))


def test_what_is_tied_over_others_is_joined():
    assert joined(7, [(5, 6), (2, 5), (0, 1)]).tolist() == [0, 0, 2, 3, 4, 2, 2]
