from __future__ import annotations

from tests.training.conftest import recipe

__all__ = ["recipe"]
