from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.killing import killed_at
from tests.search.stores.test_approximate import units

from vsekit.search.stores import approximate, inverted
from vsekit.search.stores.embedded import EmbeddedStore

faiss: Any = pytest.importorskip("faiss")


def trained(vectors: np.ndarray, lists: int) -> Any:
    dim = vectors.shape[1]
    pieces = dim // 2 if dim % 2 == 0 else dim
    index = faiss.IndexIVFPQFastScan(faiss.IndexFlatIP(dim), dim, lists, pieces, 4, faiss.METRIC_INNER_PRODUCT)
    index.train(vectors)
    return index


@pytest.mark.parametrize(("dim", "block", "dtype"), [(16, 300, "f4"), (16, 65536, "f2"), (6, 7, "f4"), (7, 1000, "f2")])
def test_mapped_lists_answer_as_those_that_faiss_holds_in_memory(
    dim: int, block: int, dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists of any length, with rows left out."""
    monkeypatch.setattr(inverted, "BLOCK", block)
    vectors = units(2000, dim).astype(dtype)
    rows = np.flatnonzero(np.arange(2000) % 7)
    index = trained(vectors.astype(np.float32), 40)
    inverted.write(index, vectors, rows, tmp_path / "lists")
    mapped = inverted.load(tmp_path / "lists")
    faiss_own = faiss.clone_index(index)
    faiss_own.reset()
    faiss_own.add_with_ids(vectors[rows].astype(np.float32), rows)
    assert mapped.ntotal == len(rows)
    sizes = [mapped.invlists.list_size(i) for i in range(40)]
    assert sizes == [faiss_own.invlists.list_size(i) for i in range(40)]
    assert any(size % 32 for size in sizes)
    queries = units(50, dim, seed=3)
    for probes in (1, 5, 40):
        bits = np.packbits(np.arange(2000) % 3 > 0, bitorder="little")
        for among in (None, bits):
            for one, other in zip(
                *(approximate.candidates(i, queries, probes, 60, among) for i in (mapped, faiss_own))
            ):
                np.testing.assert_array_equal(np.sort(one), np.sort(other))


def test_a_list_that_nothing_falls_into_is_empty(tmp_path: Path) -> None:
    vectors = units(64, 4)
    inverted.write(trained(vectors, 8), vectors, np.array([5]), tmp_path / "lists")
    mapped = inverted.load(tmp_path / "lists")
    assert sorted(mapped.invlists.list_size(i) for i in range(8)) == [0] * 7 + [1]
    assert [one.tolist() for one in approximate.candidates(mapped, vectors[5:6], 8, 9, None)] == [[5]]


def test_the_lists_are_mapped_and_not_held(tmp_path: Path) -> None:
    vectors = units(3000)
    index = approximate.build(vectors, np.arange(3000), tmp_path / "lists")
    lists = faiss.downcast_InvertedLists(index.invlists)
    assert isinstance(lists, faiss.OnDiskInvertedLists)
    assert lists.read_only
    maps = Path("/proc/self/maps").read_text()
    assert str(tmp_path / "lists") in maps


def test_a_file_that_faiss_wrote_for_an_earlier_version_is_read(tmp_path: Path) -> None:
    vectors = units(500)
    index = trained(vectors, 5)
    index.add_with_ids(vectors, np.arange(500))
    faiss.write_index(index, str(tmp_path / "old"))
    old = inverted.load(tmp_path / "old")
    assert approximate.candidates(old, vectors[7:8], 5, 10, None)[0][0] == 7


def test_a_full_disk_is_an_error_and_no_death(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space"):
        approximate.build(units(300), np.arange(300), tmp_path / "lists")


BUILD = """
import sys
from vsekit.search.stores.embedded import EmbeddedStore
EmbeddedStore(sys.argv[1], approximate_above=1000)._builder.join()
"""


def test_a_builder_killed_at_any_file_leaves_an_index_that_the_next_one_builds(tmp_path: Path) -> None:
    from tests.search.stores.reference import picture

    vectors = units(3000)
    folder = tmp_path / "index"
    with EmbeddedStore(folder, 16, dtype="float16") as store:
        store.write([picture(i) for i in range(3000)], vectors)
    moments = 0
    for moment in range(1, 100):
        killed = killed_at(moment, folder, BUILD, str(folder))
        with EmbeddedStore(folder) as store:  # exact, and builds nothing
            (found,) = store.search(vectors[5:6], 1, kind="image")
            assert found.ids == ["p0005"]
            assert store.damaged() == []
        if not killed:
            break
        moments += 1
    assert moments >= 5
    with EmbeddedStore(folder, approximate_above=1000) as store:
        store.lock()  # the next writer clears up
        (ann,) = store._database.connection().execute("select ann from kinds where kind = 'image'").fetchone()
    assert [path.name for path in folder.glob("*.ivf")] == [ann]
    assert not list(folder.glob(".*.tmp"))
