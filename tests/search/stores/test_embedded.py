from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.search.stores.reference import DIM, Reference, caption, picture, vectors
from tests.search.stores.test_stores import whole

from vsekit.errors import UserError
from vsekit.search.filters import parse
from vsekit.search.items import Item
from vsekit.search.stores import approximate, exact, open_store
from vsekit.search.stores.embedded import INSIDE, EmbeddedStore, tables
from vsekit.search.stores.embedded import store as embedded
from vsekit.search.stores.embedded.builder import Builder

# Adds, replaces and deletes for ever, with files moved and indexes built on the way; says what is durable.
WRITER = """
import itertools, random, sys
sys.path.insert(0, ".")
from tests.search.stores.test_embedded import versioned
from vsekit.search.stores.embedded import store as embedded
embedded.FEW_DEAD = 40
store = embedded.EmbeddedStore(sys.argv[1], 8, approximate_above=100)
start = store.header.get("turn", 0)
for turn in itertools.count(start + 1):
    numbers = random.sample(range(300), random.randint(1, 40))
    items = [versioned(n, turn) for n in numbers]
    store.write([i for i, _ in items], [v for _, v in items], [f"p{random.randrange(300):04d}" for _ in range(10)])
    store.set_header({"turn": turn})
    print(turn, flush=True)
"""


def versioned(number: int, turn: int) -> tuple[Item, np.ndarray]:
    """An item that says which vector belongs to it."""
    return picture(number, which=number, turn=turn), vectors(1, seed=1000 * turn + number)[0]


def test_a_writer_killed_at_any_moment_leaves_a_whole_index_with_all_it_had_promised(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    for attempt in range(6):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True)
        assert writer.stdout
        promised = int(writer.stdout.readline())
        time.sleep(random.Random(attempt).uniform(0, 0.4))
        writer.kill()
        promised = max([promised, *map(int, writer.stdout.read().split())])
        writer.wait()
        writer.stdout.close()
        with EmbeddedStore(folder) as store:  # exact, since there are few
            assert store.header["turn"] >= promised
            items = list(store.all_items())
            reference = Reference({item.id: versioned(item.meta["which"], item.meta["turn"]) for item in items})  # type: ignore[arg-type]
            whole(store, reference)
        with EmbeddedStore(folder, approximate_above=100) as store:
            (found,) = store.search(vectors(1, seed=5), 10, kind="image")
            assert [id for id, _ in reference.search(vectors(1, seed=5)[0], 10, "image")][:1] == found.ids[:1]


def cones(images: int, texts: int, dim: int = 64) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors of pictures, and of texts about some of them, in two cones apart."""
    rng = np.random.default_rng(0)
    gaps = rng.standard_normal((2, dim))
    topics = rng.standard_normal((50, dim))[rng.integers(0, 50, images)] + 0.7 * rng.standard_normal((images, dim))
    about = topics[rng.integers(0, images, texts)] + 0.7 * rng.standard_normal((texts, dim))
    both = [0.6 * inside + gap + 0.4 * rng.standard_normal(inside.shape) for inside, gap in zip((topics, about), gaps)]
    return tuple((side / np.linalg.norm(side, axis=1, keepdims=True)).astype(np.float32) for side in both)  # type: ignore[return-value]


IMAGES, TEXTS = cones(8000, 600)


def filled(folder: Path, samples: str) -> EmbeddedStore:
    store = EmbeddedStore(folder, 64, approximate_above=5000)
    if samples == "header":
        store.set_header({"sample_queries": TEXTS[300:400].tolist()})
    if samples == "captions":
        store.write([caption(i) for i in range(300)], TEXTS[300:])
    store.write([picture(i, half=i % 2, tenth=i % 10) for i in range(8000)], IMAGES)
    return store


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedStore]:
    folder = tmp_path_factory.mktemp("large")
    filled(folder / "index", "captions").close()
    with EmbeddedStore(folder / "index", approximate_above=5000) as store:
        yield store


def is_approximate(store: EmbeddedStore) -> bool:
    with store._database.snapshot() as connection:
        view = store._views.get(connection, "image")
    return view.ann is not None and view.probes > 0


def recall(store: EmbeddedStore, allowed: np.ndarray, **options: object) -> float:
    found = store.search(TEXTS[:300], 10, kind="image", **options)  # type: ignore[arg-type]
    scores = np.where(allowed, TEXTS[:300] @ IMAGES.T, -np.inf)
    truth = [{f"p{i:04d}" for i in row} for row in np.argsort(-scores, axis=1)[:, :10]]
    return float(np.mean([len(true & set(answer.ids)) / 10 for true, answer in zip(truth, found)]))


ALL = np.ones(8000, dtype=bool)


@pytest.mark.parametrize("samples", ["captions", "header", "none"])
def test_text_queries_find_99_percent_of_the_true_best_pictures_when_search_is_approximate(
    samples: str, tmp_path: Path
) -> None:
    store = filled(tmp_path / "index", samples)
    store.close()  # waits for the index
    with EmbeddedStore(tmp_path / "index", approximate_above=5000) as store:
        assert is_approximate(store)
        assert recall(store, ALL) >= 0.99


def test_an_index_tuned_with_pictures_as_queries_would_find_less_than_99_percent_for_text(tmp_path: Path) -> None:
    ids = np.arange(len(IMAGES))
    index = approximate.build(IMAGES, ids, tmp_path / "index.ivf")
    truth = exact.true_best(IMAGES, IMAGES[:256], 10, ids)
    probes, depth, _ = approximate.effort(index, IMAGES, IMAGES[:256], truth)
    true = exact.true_best(IMAGES, TEXTS[:300], 10, ids)
    found = approximate.candidates(index, TEXTS[:300], probes, depth, None)
    assert np.mean([len(np.intersect1d(a, b)) / 10 for a, b in zip(true, found)]) < 0.99


def test_filters_are_right_when_search_is_approximate(large: EmbeddedStore) -> None:
    numbers = np.arange(8000)
    assert recall(large, numbers % 10 == 3, filter=parse("tenth = 3")) == 1  # few: exact
    assert recall(large, numbers % 2 == 1, filter=parse("half = 1")) == 1  # many, but few enough
    large.approximate_above = 3000
    assert recall(large, numbers % 2 == 1, filter=parse("half = 1")) >= 0.99
    large.approximate_above = 5000


def test_deleted_new_and_replaced_items_are_found_rightly_beside_an_approximate_index(tmp_path: Path) -> None:
    filled(tmp_path / "index", "captions").close()
    with EmbeddedStore(tmp_path / "index", approximate_above=5000) as store:
        (best,) = store.search(TEXTS[:1], 3, kind="image")
        new = [replace(picture(9000), id="new"), picture(int(best.ids[1][1:]))]
        store.write(new, np.stack([TEXTS[0], -TEXTS[0]]), [best.ids[0]])
        assert is_approximate(store)
        (found,) = store.search(TEXTS[:1], 2, kind="image")
        assert found.ids == ["new", best.ids[2]]
        filter = parse("not has half and not has tenth")  # the two that were written
        assert store.search(TEXTS[:1], 5, kind="image", filter=filter)[0].ids == ["new", best.ids[1]]
        store.approximate_above = 1
        assert store.search(TEXTS[:1], 2, kind="image", filter=parse("not tenth = 11"))[0].ids == ["new", best.ids[2]]


def test_search_is_exact_where_no_effort_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approximate, "TARGET", 1.1)
    filled(tmp_path / "index", "none").close()
    with EmbeddedStore(tmp_path / "index", approximate_above=5000) as store:
        assert not is_approximate(store)
        assert recall(store, ALL) == 1


def test_a_reader_builds_what_a_killed_writer_could_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Builder, "_build_kind", lambda self, kind: None)
        filled(tmp_path / "index", "none").close()
    with EmbeddedStore(tmp_path / "index", approximate_above=5000) as reader:
        assert reader._builder.thread is not None
        assert recall(reader, ALL) >= 0.99  # meanwhile too
        reader._builder.join()
        assert is_approximate(reader)
        assert recall(reader, ALL) >= 0.99


def test_dead_slots_are_given_up_and_readers_do_not_notice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "FEW_DEAD", 10)
    reference = Reference()
    with EmbeddedStore(tmp_path / "index", DIM) as store, EmbeddedStore(tmp_path / "index") as reader:
        for turn in range(12):
            items = [picture(i, turn=turn) for i in range(turn, turn + 20)]
            for target in (store, reference):
                target.write(items, vectors(20, seed=turn), [f"p{turn:04d}"] if turn else [])
            whole(reader, reference)
        (file,) = (tmp_path / "index").glob("image-*.f32")
        assert file.stat().st_size < 1.6 * 4 * DIM * len(reference)
        assert file.name != "image-0.f32"


def test_bytes_left_by_a_write_that_never_counted_are_written_over(tmp_path: Path) -> None:
    with EmbeddedStore(tmp_path / "index", DIM) as store:
        store.write([picture(1)], vectors(1))
        with (tmp_path / "index" / "image-0.f32").open("ab") as file:
            file.write(b"\x7f" * 100)
        store.write([picture(2)], vectors(1, seed=2))
        np.testing.assert_array_equal(store.vectors(["p0002"]), vectors(1, seed=2))


def test_files_left_by_a_killed_process_are_removed_by_the_next_writer(tmp_path: Path) -> None:
    EmbeddedStore(tmp_path / "index", DIM).close()
    for name in ("image-9.f32", "image-0a1b.ivf", ".image-1.f32.x.tmp"):
        (tmp_path / "index" / name).touch()
    with EmbeddedStore(tmp_path / "index") as store:
        assert (tmp_path / "index" / "image-9.f32").exists()  # a reader touches nothing
        store.write([picture(1)], vectors(1))
        assert [path.name for path in (tmp_path / "index").glob("*.f32")] == ["image-0.f32"]
        assert not list((tmp_path / "index").glob("*.ivf"))
        assert not list((tmp_path / "index").glob(".*.tmp"))
        np.testing.assert_array_equal(store.vectors(["p0001"]), vectors(1))


def test_an_error_inside_a_write_leaves_the_state_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reference = Reference()
    with EmbeddedStore(tmp_path / "index", DIM) as store:
        for target in (store, reference):
            target.write([picture(i, n=i) for i in range(9)], vectors(9))
        with monkeypatch.context() as patched:
            patched.setattr(tables, "add_up", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                store.write([picture(20), picture(1)], vectors(2), ["p0003"])
        whole(store, reference)
        for target in (store, reference):
            target.write([picture(20), picture(1)], vectors(2), ["p0003"])
        whole(store, reference)


def test_threads_search_at_once_while_another_writes(tmp_path: Path) -> None:
    problems: list[BaseException] = []
    with EmbeddedStore(tmp_path / "index", DIM) as store:
        store.write([picture(i, n=0) for i in range(100)], vectors(100))
        done = threading.Event()

        def search() -> None:
            try:
                while not done.is_set():
                    (found,) = store.search(vectors(1, seed=7), 100, kind="image", filter=parse("n >= 0"))
                    assert len(found.ids) == 100  # replaced all at once: never fewer, never more
                    assert len({item.meta["n"] for item in store.items(found.ids)}) == 1
            except BaseException as problem:
                problems.append(problem)

        threads = [threading.Thread(target=search) for _ in range(3)]
        for thread in threads:
            thread.start()
        for n in range(1, 15):
            store.write([picture(i, n=n) for i in range(100)], vectors(100, seed=n))
        done.set()
        for thread in threads:
            thread.join()
    assert not problems


def test_the_lock_is_free_when_its_process_has_been_killed(tmp_path: Path) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path / "index")], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout
    writer.stdout.readline()
    with EmbeddedStore(tmp_path / "index") as store:
        with pytest.raises(UserError, match=f"number {writer.pid}\\) is writing"):
            store.set_header({})
        writer.kill()
        writer.wait()
        writer.stdout.close()
        store.set_header({"mine": True})


@pytest.mark.parametrize("content", [b"", b"no database at all" * 100])
def test_a_folder_that_holds_something_else_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "index.db").write_bytes(content)
    with pytest.raises(UserError, match="no index"):
        EmbeddedStore(tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "photo.jpg").touch()
    with pytest.raises(UserError, match="not empty"):
        EmbeddedStore(tmp_path / "other", DIM)
    with pytest.raises(UserError, match="a file"):
        EmbeddedStore(tmp_path / "other" / "photo.jpg", DIM)


def test_fields_are_kept_up_without_reading_items(tmp_path: Path) -> None:
    with EmbeddedStore(tmp_path / "index", DIM) as store:
        store.write([picture(i, year=2000 + i % 3, name=f"{i}") for i in range(200)], vectors(200))
        store._database.connection().execute("update items set doc = 'unreadable'")
        fields = store.fields()
        assert fields["year"] == {"type": "number", "count": 200, "min": 2000, "max": 2002}
        assert fields["name"]["count"] == 200
        assert len(fields["name"]["values"]) == 50


def test_a_field_of_mixed_types_is_described_by_the_commonest(tmp_path: Path) -> None:
    with EmbeddedStore(tmp_path / "index", DIM) as store:
        store.write([picture(1, a=3), picture(2, a=0.5), picture(3, a="x"), picture(4, a=True)], vectors(4))
        assert store.fields() == {"a": {"type": "number", "count": 4, "min": 0.5, "max": 3}}


def test_a_closed_store_refuses(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path / "index", DIM)
    store.close()
    store.close()
    with pytest.raises((ValueError, sqlite3.ProgrammingError)):
        store.count()


def test_exact_search_agrees_with_the_plain_product_in_every_shape() -> None:
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((40000, 16)).astype(np.float32)
    rows, dead = np.sort(rng.choice(40000, 30000, replace=False)), rng.choice(40000, 5000, replace=False)
    for count in (1, 3, 9):
        queries = rng.standard_normal((count, 16)).astype(np.float32)
        for options in ({}, {"rows": rows}, {"dead": dead}, {"rows": rows[:3]}, {"rows": rows[:0]}):
            allowed = np.zeros(40000, dtype=bool)
            allowed[options.get("rows", slice(None))] = True
            allowed[options.get("dead", [])] = False
            for query, found in zip(queries, exact.best(matrix, queries, 20, **options)):
                scores = np.where(allowed, matrix.astype(float) @ query.astype(float), -np.inf)
                true = np.argsort(-scores)[: min(20, allowed.sum())]
                assert set(true) <= set(found.tolist())
                assert allowed[found].all()
                assert len(found) <= 25


def test_a_folder_of_pictures_stands_for_the_index_inside_it(tmp_path: Path) -> None:
    with open_store(tmp_path / INSIDE, create=4) as made:
        made.set_header({"model": "x"})
    with open_store(tmp_path) as found:
        assert found.header == {"model": "x"}


@pytest.mark.parametrize("size", [None, 0, 4 * DIM * 3 - 1])
def test_a_lost_or_truncated_file_of_vectors_is_named_on_open_and_never_filled_with_zeros(
    tmp_path: Path, size: int | None
) -> None:
    folder = tmp_path / "index"
    with EmbeddedStore(folder, DIM) as writer:
        writer.write([picture(i) for i in range(3)], vectors(3))
        file = folder / "image-0.f32"
        file.unlink() if size is None else os.truncate(file, size)
        with pytest.raises(UserError, match=r"image-0\.f32.*\n.*vse index again"):
            writer.write([picture(9)], vectors(1))
    with pytest.raises(UserError, match=r"image-0\.f32.*\n.*vse index again"):
        EmbeddedStore(folder)
    with EmbeddedStore(folder, DIM) as store, pytest.raises(UserError, match=r"image-0\.f32.*\n.*vse index again"):
        store.write([picture(9)], vectors(1))
    with EmbeddedStore(folder, DIM, rebuild=True) as store:
        store.write([picture(1)], vectors(1))
        np.testing.assert_array_equal(store.vectors(["p0001"]), vectors(1))


def test_every_changed_byte_of_a_vector_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "FEW_DEAD", 10)
    folder = tmp_path / "index"
    with EmbeddedStore(folder, DIM) as store:
        for turn in range(4):  # replaces enough for the living to move
            store.write([picture(i) for i in range(turn, turn + 20)], vectors(20, seed=turn))
        assert store.damaged() == []
        (file,) = folder.glob("image-*.f32")
        whole_file = file.read_bytes()
        with store._database.snapshot() as connection:
            (counts,) = connection.execute("select slots * 32 from kinds where kind = 'image'").fetchone()
        for place in range(0, counts, 7):
            changed = bytearray(whole_file)
            changed[place] ^= 16
            file.write_bytes(changed)
            (damage,) = store.damaged()
            assert damage.file == file
            assert damage.start <= place < damage.stop
        file.write_bytes(whole_file)
        store.write([picture(99)], vectors(1))
        assert store.damaged() == []


@pytest.mark.parametrize("damage", ["gone", "empty", "short", "flipped", "zeroed"])
def test_a_repair_puts_aside_what_is_damaged_keeps_the_rest_and_takes_it_back(tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "index"
    with EmbeddedStore(folder, DIM) as store:
        for turn in range(4):
            store.write([picture(i, n=i) for i in range(5 * turn, 5 * turn + 5)], vectors(5, seed=turn))
        store.write([caption(1)], vectors(1))
        store.write([], np.empty((0, DIM)), ["p0006"])
    file = folder / "image-0.f32"
    data = bytearray(file.read_bytes())
    size = 4 * DIM
    if damage == "gone":
        file.unlink()
    else:
        data[7 * size : 8 * size] = (
            bytes(size) if damage == "zeroed" else bytes(b ^ 64 for b in data[7 * size : 8 * size])
        )
        file.write_bytes({"empty": b"", "short": data[: 9 * size + 1]}.get(damage, data))
    hit = {"gone": range(20), "empty": range(20), "short": range(5, 20)}.get(damage, range(5, 10))
    lost = [f"p{i:04d}" for i in hit if i != 6]
    reference = Reference()
    for turn in range(4):
        numbers = [i for i in range(5 * turn, 5 * turn + 5) if i not in hit]
        reference.write([picture(i, n=i) for i in numbers], vectors(5, seed=turn)[: len(numbers)])
    reference.write([caption(1)], vectors(1))
    found = EmbeddedStore.check(str(folder))
    assert len(found.damage) == 1
    assert str(file) in found.damage[0]
    for _ in range(2):  # killed in between, the next asks again
        with EmbeddedStore(folder, DIM) as store:
            assert [item.id for item in store.repair()] == lost
            whole(store, reference)
            assert store.damaged() == []
        assert EmbeddedStore.check(str(folder)) == (20 - len(hit), 1, [], len(lost), [])
    with EmbeddedStore(folder, DIM) as store:
        items = store.repair()
        for target in (store, reference):
            target.write(items[:-1], vectors(len(items) - 1, seed=50), [items[-1].id])
        whole(store, reference)
        assert store.repair() == []
    with EmbeddedStore(folder) as store:
        whole(store, reference)
        assert store.damaged() == []


def test_an_index_made_without_checksums_opens_and_gets_them_at_the_next_write(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    with EmbeddedStore(folder, DIM) as store:
        store.write([picture(i) for i in range(5)], vectors(5))
        store._database.connection().execute("drop table checksums")  # as earlier versions left it
    reference = Reference()
    reference.write([picture(i) for i in range(5)], vectors(5))
    with EmbeddedStore(folder) as store:
        whole(store, reference)
        assert store.damaged() == []
        for target in (store, reference):
            target.write([picture(7)], vectors(1, seed=7))
        whole(store, reference)
    with (folder / "image-0.f32").open("r+b") as file:
        file.write(b"x")  # of what the earlier version wrote
    (found,) = EmbeddedStore.check(str(folder)).damage
    assert "image-0.f32 is not what was written: bytes 0…" in found


def test_a_damaged_approximate_index_is_named_and_made_anew_by_the_next_writer(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    filled(folder, "captions").close()
    (file,) = folder.glob("image-*.ivf")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with EmbeddedStore(folder, approximate_above=5000) as store:
        with pytest.raises(UserError, match=r"\.ivf.*damaged\n.*vse index again"):
            store.search(TEXTS[:1], 3, kind="image")
        store.set_header(store.header)
        assert recall(store, ALL) >= 0.99
    with EmbeddedStore(folder, approximate_above=5000) as store:
        assert is_approximate(store)
        assert store.damaged() == []


REBUILDER = """
import sys
from vsekit.errors import UserError
from vsekit.search.stores import open_store
try:
    open_store(sys.argv[1], create=4, rebuild=True)
except UserError as error:
    sys.exit(str(error))
"""


def test_a_rebuild_by_another_process_leaves_alone_what_is_being_written(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    reference = Reference()
    with EmbeddedStore(folder, DIM) as writer:
        for turn in range(3):
            for target in (writer, reference):
                target.write([picture(i) for i in range(turn, turn + 4)], vectors(4, seed=turn))
            done = subprocess.run([sys.executable, "-c", REBUILDER, str(folder)], capture_output=True, text=True)
            assert f"another process (number {os.getpid()}) is writing" in done.stderr
    with EmbeddedStore(folder) as store:
        whole(store, reference)


def test_a_writer_whose_folder_was_replaced_writes_nothing_into_the_new_one(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    with EmbeddedStore(folder, DIM) as old:
        old.write([picture(1)], vectors(1))
        folder.rename(tmp_path / "away")
        with EmbeddedStore(folder, DIM) as new:
            new.write([picture(2)], vectors(1, seed=2))
            with pytest.raises(UserError, match="removed"):
                old.write([picture(3)], vectors(1, seed=3))
            assert new.damaged() == []
            assert [item.id for item in new.all_items()] == ["p0002"]


def test_a_damaged_database_is_named_with_a_remedy(tmp_path: Path) -> None:
    with EmbeddedStore(tmp_path / "index", DIM) as store:
        store.write([picture(i, n=i) for i in range(500)], vectors(500))
    database = tmp_path / "index" / "index.db"
    content = database.read_bytes()
    told = []
    for start in range(0, len(content), len(content) // 20):
        database.write_bytes(content[:start] + b"\xff" * 4096 + content[start + 4096 :])
        try:
            with EmbeddedStore(tmp_path / "index") as store:
                list(store.all_items())
                store.search(vectors(1), 9, kind="image", filter=parse("n >= 0"))
                store.write([], np.empty((0, DIM)), [f"p{i:04d}" for i in range(500)])
        except UserError as error:
            told.append(error)
    assert len(told) >= 10
    assert all("index.db" in str(error) and error.remedy for error in told)


# Searches, then tries to write, and says what came of it; as somebody who may not write there, or on a full disk.
RESTRICTED = """
import mmap, resource, signal, sys, os  # all that a stranger may not read here
import faiss
import numpy as np
from vsekit.errors import UserError
from vsekit.search.stores import approximate, exact
from vsekit.search.stores.embedded import EmbeddedStore
place, how = sys.argv[1:]
if how == "full":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
else:
    os.setuid(65534)
try:
    with EmbeddedStore(place) as store:
        (found,) = store.search(np.frombuffer(sys.stdin.buffer.read(), "<f4").reshape(1, 8), 3, kind="image")
        print(" ".join(found.ids))
    with EmbeddedStore(place, 8) as store:
        store.lock()
        store.set_header({"a": 1})
except UserError as error:
    print(error)
"""


def restricted(place: Path, how: str) -> str:
    arguments = [sys.executable, "-c", RESTRICTED, str(place), how]
    done = subprocess.run(arguments, input=vectors(1).tobytes(), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that everybody may enter; pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="vsekit-index-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


NEEDS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="needs root, to become somebody else")


@pytest.mark.parametrize("how", ["full", pytest.param("foreign", marks=NEEDS_ROOT)])
def test_an_index_that_cant_be_written_can_be_searched_and_says_so_when_it_is_written_to(
    how: str, public: Path
) -> None:
    folder = public / "index %41?"  # nothing of its name is read as an address
    with EmbeddedStore(folder, DIM) as store:
        store.write([picture(i) for i in range(20)], vectors(20))
        (found,) = store.search(vectors(1), 3, kind="image")
    ids, told = restricted(folder, how).split("\n", 1)
    assert ids.split() == found.ids
    assert str(folder) in told
    assert "no index" not in told
    assert ("can't be written" in told) or ("disk is full" in told)
    assert len(told.splitlines()) >= 2  # a remedy


@NEEDS_ROOT
@pytest.mark.parametrize("closed", ["folder", "database"])
def test_an_index_that_may_not_be_read_is_not_called_none(closed: str, public: Path) -> None:
    folder = public / "index"
    with EmbeddedStore(folder, DIM) as store:
        store.write([picture(1)], vectors(1))
    (folder if closed == "folder" else folder / "index.db").chmod(0o700 if closed == "folder" else 0o600)
    told = restricted(folder, "foreign")
    assert "no index" not in told
    assert "can't be" in told
    assert "yours" in told


def test_what_a_killed_writer_left_in_the_log_is_not_passed_over_on_a_full_disk(public: Path) -> None:
    folder = public / "index"
    with EmbeddedStore(folder, DIM) as store:
        store.write([picture(i) for i in range(9)], vectors(9))
        copy = public / "copy"
        shutil.copytree(folder, copy)  # as a kill leaves it
        (copy / "index.db-shm").unlink()
    assert (copy / "index.db-wal").stat().st_size > 0
    told = restricted(copy, "full")
    assert "p000" in told or "index.db" in told
    assert "no index" not in told
