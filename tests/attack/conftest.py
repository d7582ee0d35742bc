"""What all attacks share: a seed that can be given again, how much is tried, and counts of what came of it.

VSEKIT_ATTACK_SEED   another seed, another attack; 0 unless given. Printed with every failure.
VSEKIT_ATTACK_TIMES  so many times as much as in `make test-all`.
VSEKIT_ATTACK_COUNT  instead: so many in all, shared by the tests of a file.
VSEKIT_ATTACK_OUT    the folder of the counts, one JSON file a test; .attack unless given.
VSEKIT_ATTACK_COMMIT what is attacked, for the counts.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.attack.nursery import ROOT, Nursery
from tests.attack.world import World


class Attack:
    """One test's share. tried: what was done, counted by what came of it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.seed = int(os.environ.get("VSEKIT_ATTACK_SEED", "0"))
        self.times = float(os.environ.get("VSEKIT_ATTACK_TIMES", "1"))
        self.rng = np.random.default_rng([self.seed, *name.encode()])
        self.tried: Counter[str] = Counter()
        self.failures: list[str] = []

    def some(self, count: int, of: int = 1) -> int:
        """How many to try. count: in `make test-all`. of: so many tests share VSEKIT_ATTACK_COUNT."""
        whole = os.environ.get("VSEKIT_ATTACK_COUNT")
        return -(-int(whole) // of) if whole else max(1, round(count * self.times))

    def failed(self, what: str) -> None:
        self.failures.append(what)

    def close(self) -> None:
        """Writes the counts, and fails with every failure at once."""
        folder = Path(os.environ.get("VSEKIT_ATTACK_OUT", ROOT / ".attack"))
        folder.mkdir(parents=True, exist_ok=True)
        counts = {"name": self.name, "seed": self.seed, "tried": dict(self.tried), "failed": len(self.failures)}
        counts["commit"] = os.environ.get("VSEKIT_ATTACK_COMMIT", "")
        (folder / f"{self.name.replace('/', '-')}.json").write_text(json.dumps(counts, indent=2) + "\n")
        print(f"VSEKIT_ATTACK_SEED={self.seed} VSEKIT_ATTACK_TIMES={self.times:g}: {dict(self.tried)}")
        listed = "\n\n".join(self.failures[:40])
        assert not self.failures, f"{len(self.failures)} of {self.tried.total()} failed:\n{listed}"


@pytest.fixture
def attack(request: pytest.FixtureRequest) -> Attack:
    return Attack(request.node.name.removeprefix("test_"))


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    with Nursery() as nursery:
        yield nursery


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory, nursery: Nursery) -> World:
    return World(tmp_path_factory.mktemp("world"), nursery)
