"""The checksum of an embedded index's database; whatever SQLite would take for a value."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.search.stores.reference import DIM, Reference, caption, picture, vectors
from tests.search.stores.test_stores import whole

from vsekit.errors import UserError
from vsekit.search.stores import check_index
from vsekit.search.stores.embedded import EmbeddedStore
from vsekit.search.stores.embedded.seal import SEAL


def filled(folder: Path) -> Reference:
    reference = Reference()
    with EmbeddedStore(folder, DIM) as store:
        for target in (store, reference):
            target.write([picture(i, n=i) for i in range(9)] + [caption(i) for i in range(4)], vectors(13))
        store.set_header({"model": "m"})
    return reference


def change(folder: Path, sql: str) -> None:
    """As a failing disk might: the database stays one."""
    with sqlite3.connect(folder / "index.db") as connection:
        connection.execute(sql)
    connection.close()


def test_a_flipped_bit_anywhere_in_the_database_is_noticed_on_open(tmp_path: Path) -> None:
    filled(tmp_path / "i")
    data = (tmp_path / "i" / "index.db").read_bytes()
    for place in np.random.default_rng(0).integers(0, len(data), 40).tolist():
        (tmp_path / "i" / "index.db").write_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
        with pytest.raises(UserError, match=r"index\.db[\s\S]*index the pictures again"):
            EmbeddedStore(tmp_path / "i")


@pytest.mark.parametrize(
    "sql",
    [
        "update items set doc = replace(doc, '\"', '') where row = 3",
        "update items set slot = 100 where row = 1",
        "update kinds set living = 3 where kind = 'image'",
        "update about set value = '{\"model\": \"n\"}' where key = 'header'",
        "delete from meta",
        "insert into dead values ('image', 1)",
    ],
)
def test_values_that_sqlite_takes_are_refused_by_who_reads_checks_or_writes(sql: str, tmp_path: Path) -> None:
    filled(tmp_path / "i")
    change(tmp_path / "i", sql)
    with pytest.raises(UserError, match=r"damaged.*not what was written"):
        EmbeddedStore(tmp_path / "i")
    with pytest.raises(UserError, match=r"damaged.*not what was written"):
        check_index(tmp_path / "i")
    with EmbeddedStore(tmp_path / "i", DIM) as store, pytest.raises(UserError, match="not what was written"):
        store.write([picture(1)], vectors(1))
    with EmbeddedStore(tmp_path / "i", DIM, rebuild=True) as store:  # forgets what was there
        store.write([picture(1)], vectors(1))
    assert EmbeddedStore(tmp_path / "i").count() == 1


@pytest.mark.parametrize("content", [b"", b"{}", b'{"generation": "1", "sha256": {"index.db": "0"}}x', None])
def test_without_its_seal_or_with_a_damaged_one_an_index_is_read_as_it_is(
    content: bytes | None, tmp_path: Path
) -> None:
    reference = filled(tmp_path / "i")
    (tmp_path / "i" / SEAL).unlink()
    if content is not None:
        (tmp_path / "i" / SEAL).write_bytes(content)
    with EmbeddedStore(tmp_path / "i") as store:
        whole(store, reference)
    assert "has no checksum" in check_index(tmp_path / "i").notes[0]
    with EmbeddedStore(tmp_path / "i", DIM) as store:
        store.lock()
    assert not check_index(tmp_path / "i").notes


def test_a_killed_writer_leaves_no_seal_and_the_next_one_seals(tmp_path: Path) -> None:
    reference = filled(tmp_path / "i")
    program = (
        "import os, sys; from tests.search.stores.reference import *; "
        "from vsekit.search.stores.embedded import EmbeddedStore\n"
        f"store = EmbeddedStore(sys.argv[1], {DIM}); store.write([picture(20)], vectors(1)); os._exit(3)"
    )
    paths = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    assert subprocess.run([sys.executable, "-c", program, tmp_path / "i"], env=paths).returncode == 3
    assert not (tmp_path / "i" / SEAL).exists()
    reference.write([picture(20)], vectors(1))
    with EmbeddedStore(tmp_path / "i") as store:
        whole(store, reference)
    with EmbeddedStore(tmp_path / "i", DIM) as store:
        store.lock()
    assert (tmp_path / "i" / SEAL).exists()
    with EmbeddedStore(tmp_path / "i") as store:
        whole(store, reference)


def test_who_opens_while_another_writes_is_not_told_of_damage(tmp_path: Path) -> None:
    reference = filled(tmp_path / "i")
    sealed = (tmp_path / "i" / SEAL).read_bytes()
    with EmbeddedStore(tmp_path / "i", DIM) as writer:
        for target in (writer, reference):
            target.write([picture(30)], vectors(1))
        with EmbeddedStore(tmp_path / "i") as reader:
            whole(reader, reference)
    # As an earlier version of vsekit would, which knows nothing of seals.
    (tmp_path / "i" / SEAL).write_bytes(sealed)
    with EmbeddedStore(tmp_path / "i") as reader:
        whole(reader, reference)


def test_an_index_is_sealed_where_a_reader_has_it_open(tmp_path: Path) -> None:
    reference = filled(tmp_path / "i")
    with EmbeddedStore(tmp_path / "i") as reader:
        whole(reader, reference)
        with EmbeddedStore(tmp_path / "i", DIM) as writer:
            for target in (writer, reference):
                target.write([picture(30)], vectors(1))
        assert not check_index(tmp_path / "i").notes
        whole(reader, reference)
    shutil.copytree(tmp_path / "i", tmp_path / "copy")
    assert not check_index(tmp_path / "copy").notes


@pytest.mark.parametrize("file", ["image-0.f32", "caption-0.f32"])
def test_a_changed_vector_is_noticed_on_open_and_when_another_process_has_written_it(file: str, tmp_path: Path) -> None:
    filled(tmp_path / "i")
    path = tmp_path / "i" / file
    with EmbeddedStore(tmp_path / "i") as reader:
        with EmbeddedStore(tmp_path / "i", DIM) as writer:
            writer.write([picture(30), caption(30)], vectors(2))
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
        kind = "image" if file.startswith("image") else "caption"
        with pytest.raises(UserError, match=rf"{file}.*damaged[\s\S]*vse index again"):
            reader.search(vectors(1), 3, kind=kind)  # type: ignore[arg-type]
        with pytest.raises(UserError, match="damaged"):
            reader.vectors([picture(1).id])
    with pytest.raises(UserError, match=rf"{file}.*damaged[\s\S]*vse index again"):
        EmbeddedStore(tmp_path / "i")


def test_marks_break_the_seal_and_who_marked_seals_again_unless_another_writes(tmp_path: Path) -> None:
    filled(tmp_path / "i")
    with EmbeddedStore(tmp_path / "i") as reader:
        reader.mark([picture(1).id], {"favourite": True})
        assert not (tmp_path / "i" / SEAL).exists()
        with EmbeddedStore(tmp_path / "i") as other:
            assert other.items([picture(1).id])[0].meta["favourite"]
        with EmbeddedStore(tmp_path / "i", DIM) as writer:
            writer.write([picture(30)], vectors(1))
            with EmbeddedStore(tmp_path / "i") as marking:
                marking.mark([picture(2).id], {"favourite": True})
            assert not (tmp_path / "i" / SEAL).exists()
        assert not check_index(tmp_path / "i").notes  # the writer's
        reader.mark([picture(3).id], {"favourite": True})
    assert not check_index(tmp_path / "i").notes
    with EmbeddedStore(tmp_path / "i") as store:
        assert store.count("image") == 10


def test_one_who_reads_goes_on_seeing_what_other_processes_write(tmp_path: Path) -> None:
    """Reading the file for its checksum must not end SQLite's locks on it, which are the whole process's."""
    filled(tmp_path / "i")
    write = (
        "from pathlib import Path; from vsekit.search.stores.embedded import EmbeddedStore\n"
        f"with EmbeddedStore(Path({str(tmp_path / 'i')!r})) as store: store.set_header({{'model': 'MODEL'}})"
    )
    with EmbeddedStore(tmp_path / "i") as store:
        for model in ("one", "two", "three"):
            EmbeddedStore(tmp_path / "i").close()  # another reader of this process, who leaves
            subprocess.run([sys.executable, "-c", write.replace("MODEL", model)], check=True)
            assert store.header == {"model": model}
