"""What is done with the blocks of long work, whoever does it.

One process and the workers of a cluster run the same code on the same blocks, so that their results are the same. Only the
process that asked for the work writes files: a block that is lost is done again, and nothing else is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class Work(ABC):
    """Work on blocks 0, 1, …; made once where it is asked for, and sent to every worker.

    gpus: that a worker needs.
    """

    gpus: int = 0

    @abstractmethod
    def __call__(self, block: int) -> Any:
        """What is made of a block. It depends on nothing but the block."""

    def paths(self, block: int) -> Sequence[Path]:
        """The files a block reads."""
        return ()
