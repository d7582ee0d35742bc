from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.search.stores.reference import DIM, picture, vectors

from vsekit.errors import UserError
from vsekit.search.stores import copy_index, exact, open_store
from vsekit.search.stores.embedded import EmbeddedStore
from vsekit.search.stores.halves import HALF, SINGLE, narrowed, single


def test_every_finite_half_becomes_the_same_number() -> None:
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    every = every[np.isfinite(every)][None]
    expected = [float(number) for number in every[0]]
    assert single(every)[0].tolist() == expected
    np.testing.assert_array_equal(np.signbit(single(every)), np.signbit(every))
    buffer = np.full((3, every.shape[1]), 7, dtype=np.float32)
    assert single(every, buffer)[0].tolist() == expected
    assert (buffer[1:] == 7).all()


def test_singles_stay_as_they_are() -> None:
    block = vectors(3)
    assert single(block) is block
    assert narrowed(block, SINGLE) is block


def test_a_number_that_half_precision_cant_hold_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    np.testing.assert_array_equal(narrowed(np.array([[65504.0]], np.float32), HALF), [[65504]])
    with EmbeddedStore(tmp_path / "index", 2, dtype="float16") as store:
        store.write([picture(1)], np.ones((1, 2)))
        with pytest.raises(UserError, match=r"holds -?70000.*65504\n.*--dtype float32"):
            store.write([picture(2), picture(3)], np.array([[1, 2], [3, -70000]]))
        assert store.count() == 1
        store.write([picture(2)], np.ones((1, 2)))
        assert store.damaged() == []


def test_exact_search_of_halves_scores_what_the_halves_are() -> None:
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((9000, 16)).astype(np.float16)
    for count in (1, 9):
        queries = rng.standard_normal((count, 16)).astype(np.float32)
        products = queries.astype(float) @ matrix.astype(float).T
        best = np.argsort(-products, axis=1)[:, :5]
        found = exact.true_best(matrix, queries, 5, np.arange(9000))
        np.testing.assert_array_equal(np.stack(found), best)
        for one, true in zip(exact.best(matrix, queries, 5), best):
            assert set(true) <= set(one.tolist())


def test_the_best_are_the_same_however_few_rows_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix, queries = vectors(500), vectors(4, seed=3)  # with many ties
    rows = np.arange(1, 500, 2)
    slow = [sorted(rows, key=lambda row: (-float(matrix[row] @ query), row))[:7] for query in queries]
    for block in (5, 16384):
        monkeypatch.setattr(exact, "BLOCK", block)
        monkeypatch.setattr(exact, "SCORES", 4 * block)
        assert [found.tolist() for found in exact.true_best(matrix, queries, 7, rows)] == slow


def test_an_index_keeps_its_precision_until_it_is_made_anew(tmp_path: Path) -> None:
    place = tmp_path / "index"
    with open_store(place, create=DIM, dtype="float16") as store:
        store.write([picture(i) for i in range(9)], vectors(9))
    assert (place / "image-0.f16").stat().st_size == 9 * DIM * 2
    with pytest.raises(UserError, match=r"vectors in float16, not in float32\n.*vse index copy"):
        open_store(place, create=DIM, dtype="float32")
    with open_store(place, create=DIM) as store:
        store.write([picture(9)], vectors(1))
        assert isinstance(store, EmbeddedStore)
        assert store.dtype == "float16"
    with open_store(place, create=DIM, rebuild=True, dtype="float32") as store:
        store.write([picture(1)], vectors(1) / 3)
        np.testing.assert_array_equal(store.vectors(["p0001"]), vectors(1) / 3)
    assert [path.name for path in place.glob("*.f*")] == ["image-1.f32"]


def test_a_copy_in_half_precision_takes_half_the_disk_and_is_rounded_to_the_nearest(tmp_path: Path) -> None:
    given = np.random.default_rng(0).standard_normal((40, DIM)).astype(np.float32)
    with open_store(tmp_path / "index", create=DIM) as source:
        source.write([picture(i) for i in range(40)], given)
        source.set_header({"model": "m"})
        assert copy_index(source, tmp_path / "copy", dtype="float16") == 40
    sizes = [(tmp_path / place).stat().st_size for place in ("index/image-0.f32", "copy/image-0.f16")]
    assert sizes == [40 * DIM * 4, 40 * DIM * 2]
    with open_store(tmp_path / "copy") as copy:
        found = copy.vectors([f"p{i:04d}" for i in range(40)])
    assert (np.abs(found - given) <= np.abs(given) / 2**11).all()


@pytest.mark.parametrize("place", ["index", "postgresql://localhost/x?table=y"])
def test_a_precision_that_a_store_does_not_have_is_refused(place: str, tmp_path: Path) -> None:
    wrong = "float64" if place == "index" else "float16"
    with pytest.raises(UserError, match=f"can't keep vectors in {wrong}"):
        open_store(place if ":" in place else tmp_path / place, create=DIM, dtype=wrong)
    assert not (tmp_path / "index").exists()
