from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.training.conftest import recipe

__all__ = ["recipe"]


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One for a module, so that its model is exported once and nothing is left behind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VSEKIT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
