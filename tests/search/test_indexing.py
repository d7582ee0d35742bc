from __future__ import annotations

import itertools
import multiprocessing
import os
import random
import shutil
import signal
import struct
import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.models.conftest import VIEW, WORDS, settings
from tests.search.memory import MemoryStore

import vsekit.data.decoding as decoding
import vsekit.search.book as book
import vsekit.search.indexing as indexing
import vsekit.search.looking as looking
import vsekit.search.pictures as pictures
from vsekit.errors import UserError
from vsekit.models.model import VSE
from vsekit.search.book import Book, Report
from vsekit.search.indexing import index
from vsekit.search.items import Item
from vsekit.search.models import VSEModel
from vsekit.search.stores import check_index, open_store
from vsekit.search.stores.base import Store
from vsekit.search.stores.embedded import EmbeddedStore
from vsekit.search.walk import walk

Write = Callable[..., Path]


@pytest.fixture
def store(tiny: VSEModel) -> MemoryStore:
    return MemoryStore(tiny.dim)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    (tmp_path / "photos").mkdir()
    return tmp_path / "photos"


def done(report: Report) -> dict[str, int]:
    counts = ("added", "changed", "renamed", "removed", "unchanged", "encoded")
    return {name: getattr(report, name) for name in counts if getattr(report, name)}


def by_path(store: Store) -> dict[str, Item]:
    items = list(store.all_items("image"))
    found = {item.path: item for item in items}
    assert len(found) == len(items)
    return found


def assert_holds(store: Store, model: VSEModel, root: Path) -> None:
    """The index holds what is on disk: every picture with its own vector, and nothing else."""
    found = by_path(store)
    assert sorted(found) == sorted(seen.path for seen in walk(root).pictures)
    if found:
        vectors = store.vectors([item.id for item in found.values()])
        np.testing.assert_allclose(vectors, model.encode_images(list(found)), atol=1e-5)
    for path, item in found.items():
        status = os.stat(path)
        assert (item.size, item.mtime_ns) == (status.st_size, status.st_mtime_ns)
        assert item.meta["name"] == os.path.basename(path)
        assert item.picture == item.id


def test_a_folder_is_indexed_with_what_its_files_say(
    tiny: VSEModel, store: MemoryStore, photos: Path, picture: Write
) -> None:
    exif = Image.Exif()
    exif.update({0x0112: 6, 0x0110: "X100", 0x0132: "2020:05:17 10:00:00"})
    picture("rome/1.JPG", 1, (40, 20), exif=exif, format="JPEG")
    picture("2.png", 2)
    report = index(tiny, photos, store)
    assert done(report) == {"added": 2, "encoded": 2}
    assert (report.pictures, report.broken) == (2, {})
    assert_holds(store, tiny, photos)
    item = by_path(store)[str(photos / "rome/1.JPG")]
    assert (item.width, item.height) == (20, 40)
    assert item.meta == {
        "width": 20,
        "height": 40,
        "year": 2020,
        "month": 5,
        "taken": "2020-05-17 10:00:00",
        "camera": "X100",
        "folder": "photos/rome",
        "name": "1.JPG",
        "extension": "jpg",
        "dated": "2020-05-17 10:00:00",
        "orientation": "portrait",
        "type": "photo",
    }


def test_the_header_tells_of_model_roots_and_counts(
    tiny: VSEModel, store: MemoryStore, photos: Path, picture: Write
) -> None:
    picture("1.png")
    index(tiny, photos, store)
    header = store.header
    assert (header["model"], header["fingerprint"], header["roots"]) == ("tiny", tiny.fingerprint, [str(photos)])
    assert (header["counts"], header["complete"]) == ({"image": 1, "caption": 0}, True)
    assert header["indexed"].startswith("20")
    assert header["calibration"]


def test_a_large_index_brings_sentences_to_tune_approximate_search_with(
    tiny: VSEModel, store: MemoryStore, photos: Path, picture: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture("a.png", 1)
    index(tiny, photos, store)
    assert "sample_queries" not in store.header
    monkeypatch.setattr(indexing, "SAMPLE_QUERIES_ABOVE", 1)
    picture("b.png", 2)
    index(tiny, photos, store)
    assert np.shape(store.header["sample_queries"]) == (64, tiny.dim)


def test_an_index_whose_making_was_stopped_is_calibrated_when_it_is_finished(
    tiny: VSEModel, store: MemoryStore, photos: Path, picture: Write
) -> None:
    picture("1.png")
    index(tiny, photos, store)
    whole = store.header
    store.set_header(whole | {"complete": False, "calibration": {"tables": "of fewer pictures"}})
    index(tiny, photos, store)
    assert store.header["calibration"] == whole["calibration"]


def test_what_is_broken_elsewhere_is_remembered_while_another_folder_is_indexed(
    tiny: VSEModel, store: MemoryStore, photos: Path, picture: Write
) -> None:
    picture("a/1.png")
    (photos / "b").mkdir()
    (photos / "b/broken.png").write_text("no picture")
    index(tiny, [photos / "a", photos / "b"], store)
    index(tiny, photos / "a", store)
    assert list(store.header["broken"]) == [str(photos / "b/broken.png")]


def test_unchanged_files_are_not_even_opened(
    tiny: VSEModel, store: MemoryStore, photos: Path, picture: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(20):
        picture(f"{i % 3}/{i}.png", i)
    index(tiny, photos, store)
    before, writes = by_path(store), store.writes
    monkeypatch.setattr(looking, "read_bytes", None)
    assert done(index(tiny, photos, store)) == {"unchanged": 20}
    assert by_path(store) == before
    assert store.writes == writes


def test_new_changed_and_removed_files_are_told_apart_and_ids_stay(
    tiny: VSEModel, store: MemoryStore, photos: Path, picture: Write
) -> None:
    for i in range(4):
        picture(f"{i}.png", i)
    index(tiny, photos, store)
    before = by_path(store)
    picture("1.png", 11)
    picture("9.png", 9)
    (photos / "2.png").unlink()
    assert done(index(tiny, photos, store)) == {"added": 1, "changed": 1, "removed": 1, "unchanged": 2, "encoded": 2}
    assert_holds(store, tiny, photos)
    assert by_path(store)[str(photos / "1.png")].id == before[str(photos / "1.png")].id


def test_a_renamed_file_keeps_its_id_and_is_not_encoded(
    tiny: VSEModel, store: MemoryStore, photos: Path, picture: Write
) -> None:
    picture("1.png", 1)
    picture("2.png", 2)
    index(tiny, photos, store)
    old = by_path(store)[str(photos / "1.png")]
    (photos / "rome").mkdir()
    (photos / "1.png").rename(photos / "rome" / "first.png")
    assert done(index(tiny, photos, store)) == {"renamed": 1, "unchanged": 1}
    item = by_path(store)[str(photos / "rome/first.png")]
    assert item.id == old.id
    assert (item.meta["folder"], item.meta["name"], item.meta["width"]) == ("photos/rome", "first.png", 30)
    assert_holds(store, tiny, photos)
    # A new picture at the old path must not take the id that the renamed one kept.
    picture("1.png", 5)
    assert done(index(tiny, photos, store)) == {"added": 1, "unchanged": 2, "encoded": 1}
    assert_holds(store, tiny, photos)


def test_copies_are_encoded_once(tiny: VSEModel, store: MemoryStore, photos: Path, picture: Write) -> None:
    for name in ("a.png", "b.png", "c/a.png"):
        picture(name, 1)
    assert done(index(tiny, photos, store)) == {"added": 3, "encoded": 1}
    assert_holds(store, tiny, photos)
    picture("later.png", 1)
    (photos / "a.png").unlink()
    assert done(index(tiny, photos, store)) == {"renamed": 1, "unchanged": 2}
    picture("more.png", 1)
    assert done(index(tiny, photos, store)) == {"added": 1, "unchanged": 3}
    assert_holds(store, tiny, photos)


def test_files_that_changed_places_and_a_file_that_was_touched(
    tiny: VSEModel, store: MemoryStore, photos: Path, picture: Write
) -> None:
    a, b = picture("a.png", 1), picture("b.png", 2)
    touched = picture("touched.png", 3)
    index(tiny, photos, store)
    os.utime(a, ns=(1, 1))
    a.rename(photos / "x")
    b.rename(a)
    (photos / "x").rename(b)
    os.utime(touched, ns=(1, 1))
    report = index(tiny, photos, store)
    assert (report.changed, report.unchanged, report.removed) == (2, 1, 0)
    assert_holds(store, tiny, photos)
    assert done(index(tiny, photos, store)) == {"unchanged": 3}


@pytest.mark.parametrize("seed", range(6))
def test_after_any_history_the_index_is_what_is_on_disk(
    tiny: VSEModel, store: MemoryStore, photos: Path, picture: Write, seed: int
) -> None:
    rng = random.Random(seed)
    tiny.batch_size = 3
    for _ in range(6):
        for _ in range(rng.randrange(1, 8)):
            files = [path for path in photos.rglob("*") if path.is_file()]
            name = f"{rng.choice(('', 'x/', 'y/'))}{rng.randrange(8)}.png"
            action = rng.choice(("write", "write", "delete", "move", "copy")) if files else "write"
            if action == "write":
                picture(name, rng.randrange(6))
            elif action == "delete":
                rng.choice(files).unlink()
            else:
                (photos / name).parent.mkdir(exist_ok=True)
                source = rng.choice(files)
                if source != photos / name:
                    (shutil.move if action == "move" else shutil.copy)(source, photos / name)
        n = len(store.known)
        report = index(tiny, photos, store, forget=True)
        assert_holds(store, tiny, photos)
        assert report.pictures == n + report.added - report.removed


def test_broken_files_are_listed_and_tried_again_when_they_change(
    tiny: VSEModel, store: MemoryStore, photos: Path, picture: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = picture("whole.png", 1).read_bytes()
    (photos / "cut.png").write_bytes(whole[: len(whole) // 2])
    (photos / "copy-of-cut.png").write_bytes(whole[: len(whole) // 2])
    (photos / "text.jpg").write_text("no picture")
    (photos / "empty.gif").touch()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 255
    (photos / "flipped.png").write_bytes(flipped)
    report = index(tiny, photos, store)
    assert done(report) == {"added": 1, "encoded": 1}
    reasons = {os.path.basename(path): reason for path, reason in report.broken.items()}
    assert set(reasons) == {"cut.png", "copy-of-cut.png", "text.jpg", "empty.gif", "flipped.png"}
    assert reasons["empty.gif"] == "the file is empty"
    assert reasons["text.jpg"] == "not a picture, or damaged at its beginning"
    assert "truncated" in reasons["cut.png"]
    read: list[str] = []
    monkeypatch.setattr(looking, "read_bytes", lambda path: read.append(path) or pictures.read_bytes(path))
    assert index(tiny, photos, store).broken == report.broken
    assert read == []
    (photos / "cut.png").write_bytes(whole)
    assert done(index(tiny, photos, store)) == {"added": 1, "unchanged": 1}
    assert read == [str(photos / "cut.png")]
    # A picture that breaks leaves the index: what it showed is gone.
    (photos / "whole.png").write_bytes(whole[:100])
    (photos / "text.jpg").unlink()
    report = index(tiny, photos, store)
    assert done(report) == {"removed": 1, "unchanged": 1}
    assert str(photos / "text.jpg") not in report.broken
    assert list(by_path(store)) == [str(photos / "cut.png")]


def test_a_file_that_cannot_be_opened_is_tried_again_every_time(
    tiny: VSEModel, store: MemoryStore, photos: Path, picture: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture("1.png")

    def refuse(path: str) -> bytes:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(looking, "read_bytes", refuse)
        assert index(tiny, photos, store).broken == {str(photos / "1.png"): "Permission denied"}
    assert done(index(tiny, photos, store)) == {"added": 1, "encoded": 1}


def png_header(width: int, height: int) -> bytes:
    """The beginning of a PNG of that size: all that is read before it is decoded."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    return data + struct.pack(">I", 0) + b"IDAT" + struct.pack(">I", zlib.crc32(b"IDAT"))


def test_a_picture_of_too_many_pixels_is_refused_before_it_is_decoded(
    tiny: VSEModel, store: MemoryStore, photos: Path
) -> None:
    (photos / "large.png").write_bytes(png_header(20_000, 8_000))
    (photos / "huge.png").write_bytes(png_header(30_000, 20_000))
    (photos / "fine.png").write_bytes(png_header(30, 20))
    report = index(tiny, photos, store)
    assert report.broken.pop(str(photos / "fine.png")).count("megapixels") == 0
    assert report.broken == {
        str(photos / "large.png"): "20000 × 8000 are more than 150 megapixels, the limit",
        str(photos / "huge.png"): "more than 150 megapixels, the limit",
    }


def test_every_format_and_mode_is_read(tiny: VSEModel, store: MemoryStore, photos: Path) -> None:
    pytest.importorskip("pillow_heif").register_heif_opener()
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (24, 30, 3), dtype=np.uint8))
    for ending in ("jpg", "png", "webp", "tiff", "bmp", "heic"):
        image.save(photos / f"a.{ending}")
    image.convert("CMYK").save(photos / "cmyk.jpg")
    image.convert("RGBA").save(photos / "rgba.png")
    image.convert("P").save(photos / "palette.png", transparency=b"\x00\x80")
    image.convert("L").save(photos / "grey.jpg")
    image.save(photos / "moving.gif", save_all=True, append_images=[Image.new("RGB", (30, 24))])
    image.convert("P").convert("RGB").save(photos / "first frame.png")
    report = index(tiny, photos, store)
    assert report.broken == {}
    assert report.added == 12
    found = by_path(store)
    first, still = store.vectors([found[str(photos / name)].id for name in ("moving.gif", "a.png")])
    assert first @ still > 0.98  # and not the black second frame


def test_heic_without_its_library_is_named_and_not_held_against_the_file(
    tiny: VSEModel, store: MemoryStore, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pillow_heif").register_heif_opener()
    Image.new("RGB", (30, 24)).save(photos / "a.heic")
    with monkeypatch.context() as patch:
        patch.setattr(decoding, "reads_heic", lambda: False)
        assert "pip install 'vsekit[search]'" in index(tiny, photos, store).broken[str(photos / "a.heic")]
    assert done(index(tiny, photos, store)) == {"added": 1, "encoded": 1}


def test_only_the_folders_given_lose_what_is_gone(
    tiny: VSEModel, store: MemoryStore, photos: Path, picture: Write
) -> None:
    picture("a/1.png", 1)
    picture("b/2.png", 2)
    picture("ab/3.png", 3)
    index(tiny, [photos / "a", photos / "b", photos / "ab"], store)
    shutil.rmtree(photos / "b")
    (photos / "a/1.png").rename(photos / "a/1.txt")  # a folder with nothing in it would lose nothing
    assert done(index(tiny, photos / "a", store)) == {"removed": 1}
    assert sorted(by_path(store)) == [str(photos / "ab/3.png"), str(photos / "b/2.png")]
    assert store.header["roots"] == [str(photos / name) for name in ("a", "ab", "b")]
    with pytest.raises(UserError, match="no such folder"):
        index(tiny, photos / "b", store)


def test_a_folder_that_cannot_be_listed_loses_nothing(
    tiny: VSEModel, store: MemoryStore, photos: Path, picture: Write
) -> None:
    picture("a/1.png", 1)
    index(tiny, photos, store)
    source = replace(walk(photos), pictures=[], unreadable={str(photos / "a"): "Permission denied"})
    report = index(tiny, source, store)
    assert report.unreadable == {str(photos / "a"): "Permission denied"}
    assert report.pictures == 1


def test_another_model_is_refused_and_rebuilding_takes_it(
    tiny: VSEModel, store: MemoryStore, photos: Path, picture: Write
) -> None:
    picture("1.png", 1)
    index(tiny, photos, store)
    torch.manual_seed(1)
    other = VSEModel(VSE(settings(), WORDS, VIEW), "other")
    with pytest.raises(UserError, match=r"(?s)made with another model: tiny.*not other.*--rebuild"):
        index(other, photos, store)
    assert done(index(other, photos, store, rebuild=True)) == {"added": 1, "encoded": 1}
    assert store.header["model"] == "other"
    assert_holds(store, other, photos)


def test_a_rebuilt_index_may_have_vectors_of_another_size(
    tiny: VSEModel, tmp_path: Path, photos: Path, picture: Write
) -> None:
    picture("1.png", 1)
    index(tiny, photos, tmp_path / "index")
    larger = VSEModel(VSE(settings(dim=20), WORDS, VIEW), "larger")
    with pytest.raises(UserError, match="12"):
        index(larger, photos, tmp_path / "index")
    assert index(larger, photos, tmp_path / "index", rebuild=True).added == 1


@pytest.fixture
def table(photos: Path, picture: Write) -> Callable[..., Path]:
    """Writes a collection: rows of file name, caption and price."""
    for i in range(3):
        picture(f"{i}.png", i)

    def write(*rows: tuple[str, str, Any]) -> Path:
        path = photos / "table.csv"
        lines = [f"{name},{caption},{price}" for name, caption, price in rows]
        path.write_text("image,caption,price\n" + "\n".join(lines) + "\n")
        return path

    return write


def captions(store: Store) -> list[tuple[str, str]]:
    return sorted((os.path.basename(item.path), item.text) for item in store.all_items("caption"))


def test_a_column_named_like_the_size_in_pixels_leaves_that_alone(
    tiny: VSEModel, store: MemoryStore, photos: Path, picture: Write
) -> None:
    first = picture("0.png", 0, (30, 24))
    table = photos / "table.csv"
    table.write_text("image,caption,width\n0.png,red,30 cm\n")
    index(tiny, table, store)
    shutil.copyfile(first, photos / "copy.png")
    table.write_text("image,caption,width\n0.png,red,30 cm\ncopy.png,the same,4 m\n")
    index(tiny, table, store)
    for item in store.all_items("image"):
        assert (item.width, item.meta["width"], item.meta["height"]) == (30, 30, 24)
    assert sorted(str(item.meta["column_width"]) for item in store.all_items("image")) == ["30 cm", "4 m"]


def test_a_folder_with_nothing_in_it_any_more_loses_nothing(
    tiny: VSEModel, store: MemoryStore, photos: Path, picture: Write
) -> None:
    picture("0.png")
    index(tiny, photos, store)
    (photos / "0.png").unlink()
    report = index(tiny, photos, store)
    assert (report.removed, store.count("image")) == (0, 1)
    assert "empty now" in report.unreadable[str(photos)]
    picture("1.png", 1)
    assert index(tiny, photos, store).removed == 1


def test_captions_are_items_of_their_own_and_follow_the_collection(
    tiny: VSEModel, store: MemoryStore, table: Callable[..., Path]
) -> None:
    path = table(("0.png", "a red dog", 1), ("0.png", "a wall", 1), ("1.png", "blue", 2), ("2.png", "a dog", 3))
    report = index(tiny, path, store)
    assert (report.added, report.new_captions, report.captions) == (3, 4, 4)
    assert captions(store) == [("0.png", "a red dog"), ("0.png", "a wall"), ("1.png", "blue"), ("2.png", "a dog")]
    for item in store.all_items("caption"):
        (owner,) = store.items([item.picture])
        assert (owner.path, item.id.rpartition("#")[0], item.meta["price"]) == (
            item.path,
            owner.id,
            owner.meta["price"],
        )
        np.testing.assert_allclose(store.vectors([item.id]), tiny.encode_texts([item.text]), atol=1e-6)
    writes = store.writes
    assert index(tiny, path, store).new_captions == 0
    assert store.writes == writes
    # One caption changed, one is gone, a picture is gone, a price is another.
    table(("0.png", "a red wall", 1), ("1.png", "blue", 5))
    report = index(tiny, path, store)
    assert (report.new_captions, report.removed, report.encoded) == (1, 1, 0)
    assert captions(store) == [("0.png", "a red wall"), ("1.png", "blue")]
    for item in store.all_items():
        assert item.meta["price"] == (1 if item.path.endswith("0.png") else 5)
    changed = next(item for item in store.all_items("caption") if "red" in item.text)
    np.testing.assert_allclose(store.vectors([changed.id]), tiny.encode_texts(["a red wall"]), atol=1e-6)


def test_captions_go_with_a_renamed_picture_and_stay_when_its_folder_is_walked(
    tiny: VSEModel, store: MemoryStore, table: Callable[..., Path], photos: Path
) -> None:
    index(tiny, table(("0.png", "a red dog", 1), ("1.png", "blue", 2), ("2.png", "a dog", 3)), store)
    (photos / "0.png").rename(photos / "new.png")
    (photos / "1.png").unlink()
    (photos / "table.csv").unlink()
    assert done(index(tiny, photos, store)) == {"renamed": 1, "removed": 1, "unchanged": 1}
    assert captions(store) == [("2.png", "a dog"), ("new.png", "a red dog")]


def _killed_in_write(number: int, model: VSEModel, folder: Path, place: Path) -> None:
    """Indexes, and is killed when the store has been asked to write for the n-th time: before it, or just after it."""
    write, calls = EmbeddedStore.write, itertools.count(1)

    def deadly(*arguments: Any, **named: Any) -> None:
        call = next(calls)
        if call == number and number % 2:
            os.kill(os.getpid(), signal.SIGKILL)
        write(*arguments, **named)
        if call == number:
            os.kill(os.getpid(), signal.SIGKILL)

    EmbeddedStore.write = deadly  # type: ignore[method-assign]
    book.FLUSH_SECONDS = 0.0
    index(model, folder, place)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_killed_at_any_moment_it_goes_on_and_ends_as_if_never_stopped(
    tmp_path: Path, photos: Path, picture: Write
) -> None:
    from vsekit.search.stores import open_store

    torch.manual_seed(0)
    model = VSEModel(VSE(settings(), WORDS, VIEW), "tiny")
    model.batch_size = 2
    for i in range(60):
        picture(f"{i % 4}/{i}.png", i % 50)
    (photos / "broken.png").write_bytes(b"no picture")
    index(model, photos, tmp_path / "whole")
    forked = multiprocessing.get_context("fork")
    place, sizes = tmp_path / "killed", []
    for number in (1, 2, 3, 4, 6):
        child = forked.Process(target=_killed_in_write, args=(number, model, photos, place))
        child.start()
        child.join()
        assert child.exitcode == -signal.SIGKILL
        with open_store(place, create=model.dim) as store:
            found = by_path(store)
            sizes.append(len(found))
            if found:
                vectors = store.vectors([item.id for item in found.values()])
                np.testing.assert_allclose(vectors, model.encode_images(list(found)), atol=1e-5)
    assert sizes[0] == 0
    assert sizes == sorted(set(sizes))  # each went on from the last
    assert sizes[-1] < 60
    index(model, photos, place)
    with open_store(tmp_path / "whole") as whole, open_store(place) as killed:
        assert by_path(whole) == by_path(killed)
        ids = sorted(item.id for item in whole.all_items())
        np.testing.assert_allclose(killed.vectors(ids), whole.vectors(ids), atol=1e-5)
        ignored = {"indexed", "calibration"}
        headers = [{k: v for k, v in store.header.items() if k not in ignored} for store in (whole, killed)]
        assert headers[0] == headers[1]


def test_what_was_encoded_is_kept_when_a_person_stops_it(
    tiny: VSEModel, store: MemoryStore, photos: Path, picture: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(40):
        picture(f"{i:02d}.png", i)
    tiny.batch_size = 2
    put, count = Book.put, iter(range(100))

    def interrupted(*arguments: Any) -> None:
        if next(count) == 20:
            raise KeyboardInterrupt
        put(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Book, "put", interrupted)
        with pytest.raises(KeyboardInterrupt):
            index(tiny, photos, store)
    assert store.count() == 20
    assert store.header["complete"] is False
    assert done(index(tiny, photos, store)) == {"added": 20, "unchanged": 20, "encoded": 20}
    assert_holds(store, tiny, photos)


def test_batches_are_encoded_while_the_store_writes(
    tiny: VSEModel, store: MemoryStore, photos: Path, picture: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(64):
        picture(f"{i}.png", i)
    tiny.batch_size = 4
    monkeypatch.setattr(book, "FLUSH_SECONDS", 0.0)
    encoded: list[int] = []
    during: list[int] = []
    embed, write = tiny.embed, store.write

    def slow_embed(prepared: Any) -> np.ndarray:
        time.sleep(0.02)  # so that batches pile up, as they do before a real encoder
        encoded.append(len(prepared))
        return embed(prepared)

    def slow_write(*arguments: Any) -> None:
        before, deadline = len(encoded), time.monotonic() + 10
        while not during and len(encoded) < before + 2 and time.monotonic() < deadline:
            time.sleep(0.005)
        during.append(len(encoded) - before)
        write(*arguments)

    tiny.embed, store.write = slow_embed, slow_write  # type: ignore[method-assign]
    index(tiny, photos, store)
    assert during[0] >= 2
    assert set(encoded) == {4}


@pytest.mark.parametrize("damage", ["gone", "zeroed", "flipped"])
def test_damaged_vectors_are_made_again_from_pictures_and_texts_and_nothing_else_changes(
    damage: str, tmp_path: Path, tiny: VSEModel, picture: Callable[..., Path]
) -> None:
    for number in range(6):
        picture(f"p{number}.png", number)
    (tmp_path / "other").mkdir()
    for name in ("here.png", "away.png"):
        picture(f"../other/{name}", 50 + len(name) % 7)
    (tmp_path / "photos.csv").write_text("image,caption\nphotos/p0.png,two dogs\nphotos/p1.png,a dog\n")
    place = tmp_path / "index"
    sources = [tmp_path / "photos.csv", tmp_path / "photos", tmp_path / "other"]
    index(tiny, sources, place)
    with open_store(place) as store:
        before = {item.id: (item, store.vectors([item.id])[0]) for item in store.all_items()}
    (tmp_path / "other" / "away.png").rename(tmp_path / "away.png")
    for file in place.glob("*.f32"):
        data = file.read_bytes()
        file.unlink()
        if damage != "gone":
            file.write_bytes(bytes(len(data)) if damage == "zeroed" else bytes([data[0] ^ 1]) + data[1:])
    assert len(check_index(place).damage) == 2
    report = index(tiny, [tmp_path / "photos"], place)  # which does not name the other folder, nor the collection
    assert (report.repaired, report.added, report.changed, report.removed) == (7 + 2, 0, 0, 0)
    assert report.waiting == [str(tmp_path / "other" / "away.png")]
    assert check_index(place).waiting == 1
    (tmp_path / "away.png").rename(tmp_path / "other" / "away.png")
    report = index(tiny, [tmp_path / "photos"], place)
    assert (report.repaired, report.waiting) == (1, [])
    assert check_index(place) == (8, 2, [], 0, [])
    with open_store(place) as store:
        after = {item.id: (item, store.vectors([item.id])[0]) for item in store.all_items()}
    assert {id: item for id, (item, _) in after.items()} == {id: item for id, (item, _) in before.items()}
    for id, (_, vector) in before.items():
        np.testing.assert_allclose(after[id][1], vector, atol=1e-6)


def test_a_damaged_item_whose_picture_was_deleted_goes_with_it(
    tmp_path: Path, tiny: VSEModel, picture: Callable[..., Path]
) -> None:
    for number in range(3):
        picture(f"p{number}.png", number)
    index(tiny, tmp_path / "photos", tmp_path / "index")
    (tmp_path / "index" / "image-0.f32").unlink()
    (tmp_path / "photos" / "p1.png").unlink()
    (tmp_path / "photos" / "p2.png").write_bytes(b"no picture")
    report = index(tiny, tmp_path / "photos", tmp_path / "index")
    assert (report.repaired, report.removed, report.waiting) == (1, 1, [])
    assert list(report.broken) == [str(tmp_path / "photos" / "p2.png")]
    assert check_index(tmp_path / "index") == (1, 0, [], 0, [])


@pytest.mark.parametrize("what", ["vanished", "empty", "dangling", "above", "empty above"])
def test_a_folder_that_is_gone_or_empty_as_a_whole_keeps_its_pictures_at_any_depth_until_forgotten(
    what: str, tiny: VSEModel, store: MemoryStore, photos: Path, picture: Write, tmp_path: Path
) -> None:
    picture("1.png", 1)
    picture("a/2.png", 2)
    drive = tmp_path / "drive" / "deep"
    picture("../drive/deep/3.png", 3)
    picture("../drive/deep/4.png", 4)
    picture("a/b/5.png", 5)
    if what == "dangling":
        (photos / "a" / "mount").symlink_to(tmp_path / "drive")
    else:
        shutil.copytree(tmp_path / "drive", photos / "a" / "mount")
    index(tiny, photos, store)
    before = by_path(store)
    assert len(before) == 5
    mount = photos / "a" / "mount"
    if what == "dangling":
        shutil.rmtree(tmp_path / "drive")
    else:
        shutil.rmtree(mount / "deep" if what in ("empty", "empty above") else mount)
    if what == "empty":
        (mount / "deep").mkdir()
    named = {"empty": mount / "deep", "empty above": mount}.get(what, mount)
    report = index(tiny, photos, store)
    assert done(report) == {"unchanged": 3}
    assert by_path(store) == before
    assert list(report.unreadable) == [str(named)]
    assert "--forget" in report.unreadable[str(named)]
    (photos / "1.png").unlink()  # its folder has others: it was deleted
    assert done(index(tiny, photos, store)) == {"removed": 1, "unchanged": 2}
    assert done(index(tiny, photos, store, forget=True)) == {"removed": 2, "unchanged": 2}
    assert len(by_path(store)) == 2
    assert drive.exists() == (what != "dangling")


def test_a_renamed_folder_is_recognised_and_leaves_nothing_behind(
    tiny: VSEModel, store: MemoryStore, photos: Path, picture: Write
) -> None:
    for number in range(4):
        picture(f"a/{number}.png", number)
    index(tiny, photos, store)
    ids = sorted(item.id for item in by_path(store).values())
    (photos / "a").rename(photos / "b")
    (photos / "b" / "3.png").unlink()
    report = index(tiny, photos, store)
    assert done(report) == {"renamed": 3}
    assert list(report.unreadable) == [str(photos / "a")]  # of the one that was deleted
    assert sorted(item.id for item in by_path(store).values()) == ids


def test_pictures_that_are_missing_are_told_of_every_collection(
    tiny: VSEModel, store: MemoryStore, picture: Write
) -> None:
    folder = picture("there.png", 1).parent
    for name in ("one", "two"):
        (folder / f"{name}.csv").write_text(f"image,caption\nthere.png,a dog\n{name}-gone.png,a cat\n")
    report = index(tiny, [folder / "one.csv", folder / "two.csv"], store)
    assert sorted(os.path.basename(path) for path in report.broken) == ["one-gone.png", "two-gone.png"]


def test_what_is_indexed_is_found_by_its_words_at_once_and_an_older_index_gains_them_when_it_is_indexed_again(
    tiny: VSEModel, picture: Write, tmp_path: Path
) -> None:
    import sqlite3

    picture("Paris/DSC_0042.png")
    place = tmp_path / "index"
    index(tiny, tmp_path / "photos", place)
    with open_store(place) as store:
        assert store.lacks_words is None
        (found,) = store.holders(("dsc", "0042"), 9, kind="image")
        assert store.holders(("paris",), 9, kind="image") == [found]
    with sqlite3.connect(place / "index.db") as connection:
        connection.execute("drop table words")
        connection.execute("delete from about where key = 'words'")
        connection.execute("update about set value = value + 1 where key = 'generation'")
    assert index(tiny, tmp_path / "photos", place).encoded == 0
    with open_store(place) as store:
        assert store.holders(("paris",), 9, kind="image") == [found]
