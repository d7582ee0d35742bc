"""A store of another package: the address names it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from vsekit.errors import UserError
from vsekit.search.stores import open_store
from vsekit.search.stores.base import Store

MODULE = """
from tests.search.memory import MemoryStore

class InMemory(MemoryStore):
    def __init__(self, location, create, *, rebuild):
        super().__init__(create or 4)
        self.location, self.asked = location, (create, rebuild)

class NoStore:
    pass
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "outside_stores.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "outside_stores", raising=False)


def test_an_address_may_name_a_store_of_another_package(package: None) -> None:
    store = open_store("outside_stores:InMemory://here", create=4, rebuild=True)
    assert isinstance(store, Store)
    assert (store.location, store.asked) == ("outside_stores:InMemory://here", (4, True))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("outside_stores:NoStore://x", "no store"),
        ("outside_stores:InMemry://x", "did you mean.*InMemory"),
        ("not_there:Store://x", "can't import not_there"),
        ("postgresq://x", "did you mean.*postgresql"),
    ],
)
def test_what_is_no_store_is_said(address: str, said: str, package: None) -> None:
    with pytest.raises(UserError, match=f"(?i){said}"):
        open_store(address)
