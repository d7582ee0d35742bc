from __future__ import annotations

from vsekit.pooling.none import NoPoolingSettings


def test_it_builds_nothing_so_that_the_tower_keeps_the_set() -> None:
    assert NoPoolingSettings().build(4) is None
