"""Folders that are watched: real files, the system's real notices, the embedded store; only the waiting is shorter."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import watchfiles

import vsekit.search.watching as watching
from vsekit.errors import UserError
from vsekit.progress import Progress
from vsekit.search.book import Report
from vsekit.search.items import Item
from vsekit.search.models import VSEModel
from vsekit.search.notices import Notices
from vsekit.search.stores import open_store
from vsekit.search.stores.embedded import EmbeddedStore
from vsekit.search.walk import Source, source_of
from vsekit.search.watching import Followed, watch

Write = Callable[..., Path]
LIMIT = 60.0


class Said(Progress):
    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


class Watched:
    """An index of tmp_path/photos that is being watched. `next` waits for the next report."""

    def __init__(self, model: VSEModel, tmp_path: Path) -> None:
        self.model, self.photos, self.place = model, tmp_path / "photos", tmp_path / "index"
        self.photos.mkdir(exist_ok=True)
        self.said, self.stop = Said(), threading.Event()
        self._timer = threading.Timer(LIMIT, self.stop.set)
        self._timer.start()
        self._reports: Iterator[Report] | None = None

    def start(self, *sources: Path, **options: Any) -> Report:
        given = [source_of(path) for path in sources or [self.photos]]
        self._reports = watch(self.model, given, self.place, stop=self.stop, progress=self.said, **options)
        return self.next()

    def next(self) -> Report:
        assert self._reports is not None
        report = next(self._reports, None)
        assert report is not None, f"nothing was taken in within {LIMIT} seconds; it said {self.said.lines}"
        return report

    def until(self, true: Callable[[dict[str, Item]], bool]) -> list[Report]:
        """The reports until the index is as wanted: a burst may be taken in at once or in parts."""
        reports = []
        while not true(self.items()):
            reports.append(self.next())
        return reports

    def items(self) -> dict[str, Item]:
        with open_store(self.place) as store:
            return {os.path.relpath(item.path, self.photos): item for item in store.all_items("image")}

    def close(self) -> None:
        self._timer.cancel()
        if self._reports is not None:
            self._reports.close()  # type: ignore[attr-defined]


@pytest.fixture
def watched(tiny: VSEModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    monkeypatch.setattr(watching, "STILL_SECONDS", 0.2)
    monkeypatch.setattr(watching, "RETRY_SECONDS", 0.2)
    found = Watched(tiny, tmp_path)
    yield found
    found.close()


def test_new_changed_moved_and_deleted_pictures_are_taken_in(watched: Watched, picture: Write) -> None:
    picture("a/1.png", 1), picture("a/2.png", 2)
    first = watched.start()
    assert (first.added, first.pictures) == (2, 2)
    before = watched.items()

    picture("b/deep/3.jpg", 3, format="JPEG")
    reports = watched.until(lambda items: "b/deep/3.jpg" in items)
    assert sum(report.encoded for report in reports) == 1

    picture("a/1.png", 4)
    watched.until(lambda items: items["a/1.png"].content != before["a/1.png"].content)
    assert watched.items()["a/1.png"].id == before["a/1.png"].id

    (watched.photos / "a/2.png").rename(watched.photos / "b/moved.png")
    (watched.photos / "b").rename(watched.photos / "c")
    reports = watched.until(lambda items: set(items) == {"a/1.png", "c/moved.png", "c/deep/3.jpg"})
    assert [sum(getattr(report, name) for report in reports) for name in ("encoded", "added", "removed")] == [0, 0, 0]
    assert watched.items()["c/moved.png"].id == before["a/2.png"].id

    (watched.photos / "a/1.png").unlink()
    picture("a/5.png", 5)
    watched.until(lambda items: set(items) == {"a/5.png", "c/moved.png", "c/deep/3.jpg"})
    assert watched.said.lines == []


def test_a_change_in_one_folder_asks_for_no_walk_through_all(
    watched: Watched, picture: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture("a/1.png", 1), picture("b/2.png", 2)
    watched.start()
    monkeypatch.setattr(watching, "SELDOM", (LIMIT, 1))
    watched.until(lambda items: set(items) == {"a/1.png", "b/2.png"})
    walks: list[object] = []
    whole = watching.again
    monkeypatch.setattr(watching, "again", lambda source: walks.append(source) or whole(source))
    picture("a/3.png", 3)
    watched.until(lambda items: "a/3.png" in items)
    picture("a/1.png", 4)
    (watched.photos / "b/2.png").rename(watched.photos / "a/moved.png")
    watched.until(lambda items: set(items) == {"a/1.png", "a/3.png", "a/moved.png"})
    assert not walks
    picture("c/new/5.png", 5)
    watched.until(lambda items: "c/new/5.png" in items)
    assert walks, "a new folder may hold anything"


def test_a_folder_that_was_seen_to_be_deleted_leaves_the_index(watched: Watched, picture: Write) -> None:
    picture("a/1.png", 1), picture("a/b/2.png", 2), picture("3.png", 3)
    watched.start()
    shutil.rmtree(watched.photos / "a")
    report = watched.until(lambda items: set(items) == {"3.png"})[-1]
    assert report.unreadable == {}


def test_a_whole_folder_that_left_the_root_leaves_the_index(watched: Watched, picture: Write, tmp_path: Path) -> None:
    picture("a/b/1.png", 1), picture("2.png", 2)
    watched.start()
    (watched.photos / "a").rename(tmp_path / "elsewhere")
    watched.until(lambda items: set(items) == {"2.png"})


def test_a_root_that_is_gone_keeps_its_pictures_and_comes_back(
    watched: Watched, picture: Write, tmp_path: Path
) -> None:
    picture("1.png", 1)
    others = tmp_path / "others"
    others.mkdir()
    watched.start(watched.photos, others)
    watched.photos.rename(tmp_path / "away")
    shutil.copy(tmp_path / "away/1.png", others / "copy.png")
    watched.until(lambda items: set(items) == {"1.png", "../others/copy.png"})
    assert len(watched.said.lines) == 1
    assert "no such folder" in watched.said.lines[0]
    assert "is kept" in watched.said.lines[0]
    (tmp_path / "away").rename(watched.photos)
    picture("2.png", 2)
    watched.until(lambda items: set(items) == {"1.png", "2.png", "../others/copy.png"})


def test_a_picture_that_is_being_written_waits_until_it_is_whole(watched: Watched, picture: Write) -> None:
    """Whatever the machine does in between, no report may call it broken, since it grows until it is whole."""
    whole = picture("slow.png", 1, (300, 300)).read_bytes()
    target = watched.photos / "slow.png"
    target.unlink()
    picture("1.png", 2)
    watched.start()

    def copy() -> None:
        with target.open("wb", buffering=0) as file:
            for at in range(0, len(whole), len(whole) // 20):
                file.write(whole[at : at + len(whole) // 20])
                time.sleep(0.05)

    writer = threading.Thread(target=copy)
    writer.start()
    reports = watched.until(lambda items: items.get("slow.png") is not None and items["slow.png"].size == len(whole))
    writer.join()
    assert [report.broken for report in reports] == [{}] * len(reports)
    assert sum(report.encoded for report in reports) == 1


def test_what_differs_between_two_looks_is_left_alone(tmp_path: Path, picture: Write) -> None:
    still, grows = picture("still.png", 1), picture("grows.png", 2)
    gone, moved = picture("gone.png", 3), picture("moved.png", 4)
    followed = Followed(source_of(tmp_path / "photos"), print)
    followed.look(set())
    assert followed.now is None
    assert (followed.moves, followed.news) == (True, False)
    gone.unlink()
    grows.write_bytes(grows.read_bytes() + b"more")
    moved.rename(tmp_path / "photos" / "here.png")
    followed.look(set())
    assert followed.now is not None
    assert [seen.path for seen in followed.now.pictures] == [str(still)]
    unsettled = {str(tmp_path / "photos" / name) for name in ("grows.png", "gone.png", "moved.png", "here.png")}
    assert followed.now.moving == unsettled
    assert not any(followed.now.holds(path, None) for path in unsettled)
    followed.take()
    followed.look(set())
    assert followed.now.moving == frozenset()
    assert sorted(os.path.basename(seen.path) for seen in followed.now.pictures) == [
        "grows.png",
        "here.png",
        "still.png",
    ]
    assert followed.news
    followed.take()
    followed.look(set())
    assert not followed.news


def test_a_picture_known_to_the_index_stays_while_it_is_written(tiny: VSEModel, tmp_path: Path, picture: Write) -> None:
    """A file that is edited when watching starts must not lose its id, nor what people said of it."""
    from vsekit.search.indexing import index

    path = picture("1.png", 1)
    place = tmp_path / "index"
    index(tiny, tmp_path / "photos", place)
    source = source_of(tmp_path / "photos")
    path.write_bytes(b"half")
    source.pictures, source.moving = [], frozenset({str(path)})
    assert index(tiny, source, place).removed == 0


def test_another_writer_is_waited_for(watched: Watched, picture: Write) -> None:
    picture("1.png", 1)
    watched.start()
    other = EmbeddedStore(watched.place)
    other.lock()
    picture("2.png", 2)

    def let_go() -> None:
        while not watched.said.lines and not watched.stop.is_set():
            time.sleep(0.01)
        other.close()

    thread = threading.Thread(target=let_go)
    thread.start()
    watched.until(lambda items: "2.png" in items)
    thread.join()
    assert len(watched.said.lines) == 1
    assert "another process" in watched.said.lines[0]


def test_another_model_ends_it(watched: Watched, picture: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    picture("1.png", 1)
    watched.start()
    monkeypatch.setattr(watched.model, "fingerprint", "another")
    picture("2.png", 2)
    with pytest.raises(UserError, match="another model"):
        watched.until(lambda items: "2.png" in items)


def test_where_the_system_watches_no_more_folders_they_are_looked_through_and_that_is_said(
    watched: Watched, picture: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*paths: str, **options: object) -> Iterator[set[Any]]:
        raise OSError("OS file watch limit reached.")
        yield

    monkeypatch.setattr(watchfiles, "watch", full)
    monkeypatch.setattr(watching, "OFTEN", (0.2, 1))
    picture("a/1.png", 1), picture("2.png", 2)
    watched.start()
    assert len(watched.said.lines) == 1
    assert "OS file watch limit reached" in watched.said.lines[0]
    assert "max_user_watches" in watched.said.lines[0]
    picture("3.png", 3)
    watched.until(lambda items: "3.png" in items)
    # Nobody saw whether this was a deletion or a drive that went, so it counts as the latter.
    shutil.rmtree(watched.photos / "a")
    picture("4.png", 4)
    reports = watched.until(lambda items: "4.png" in items)
    if not any(report.unreadable for report in reports):
        reports.append(watched.next())
    assert "a/1.png" in watched.items()


def test_hidden_files_and_the_index_itself_ask_for_no_look(tmp_path: Path, picture: Write) -> None:
    photos, place = tmp_path / "photos", tmp_path / "photos" / "my.index"
    for folder in (place, photos / ".hidden"):
        folder.mkdir(parents=True)
    notices = Notices([str(photos)], [], str(place), print)
    try:
        while notices.any():  # what the folders' making left
            pass
        (photos / ".hidden" / "1.png").write_text("")
        (place / "items.db").write_text("")
        (photos / ".2.png.tmp").write_text("")
        assert not any(notices.any() for _ in range(3))
        (photos / "3.png").write_text("")
        assert any(notices.any() for _ in range(20))
        assert notices.deleted == set()
        (photos / "3.png").unlink()
        assert any(notices.any() for _ in range(20))
        assert notices.deleted == {f"{photos}/3.png"}
    finally:
        notices.close()


def test_a_collection_is_read_again_when_its_file_changes(watched: Watched, picture: Write, tmp_path: Path) -> None:
    picture("1.png", 1), picture("2.png", 2)
    table = tmp_path / "catalogue.csv"
    table.write_text("image,caption\nphotos/1.png,a red ball\n")
    first = watched.start(table)
    assert (first.pictures, first.captions) == (1, 1)
    table.write_text("image,caption\nphotos/1.png,a red ball\nphotos/2.png,a dog\n")
    watched.until(lambda items: set(items) == {"1.png", "2.png"})
    with open_store(watched.place) as store:
        assert sorted(item.text for item in store.all_items("caption")) == ["a dog", "a red ball"]


def test_further_folders_may_come_while_it_watches(watched: Watched, picture: Write, tmp_path: Path) -> None:
    picture("1.png", 1)
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(picture("2.png", 2), other / "3.png")
    asked: list[list[Source]] = [[], [source_of(other)]]
    watched.start(more=lambda: asked.pop(0) if asked else [])
    watched.until(lambda items: "../other/3.png" in items)
    shutil.copy(picture("2.png", 2), other / "4.png")
    watched.until(lambda items: "../other/4.png" in items)


def test_the_index_remembers_what_to_look_at_again(watched: Watched, picture: Write) -> None:
    picture("1.png", 1)
    watched.start()
    with open_store(watched.place) as store:
        how = store.header["sources"][str(watched.photos)]
    assert source_of(**how).pictures == source_of(watched.photos).pictures


UNMOUNTED = """
import os, subprocess, sys, threading
from pathlib import Path
from PIL import Image
import vsekit.search.watching as watching
from vsekit.search.models import load_search_model
from vsekit.search.stores import open_store
from vsekit.search.walk import source_of

photos, run, place = map(Path, sys.argv[1:])
watching.STILL_SECONDS, watching.SELDOM = 0.2, (0.5, 1)
drive = photos / "drive"
subprocess.run(["mount", "-t", "tmpfs", "none", drive], check=True)
Image.new("RGB", (30, 30), "red").save(drive / "1.png")
Image.new("RGB", (30, 30), "blue").save(photos / "2.png")
stop = threading.Event()
threading.Timer(60, stop.set).start()
reports = watching.watch(load_search_model(run), [source_of(photos)], place, stop=stop)
assert next(reports).pictures == 2
subprocess.run(["umount", "-l", drive], check=True)
report = next(reports)
print(report.removed, report.pictures, list(report.unreadable) == [str(drive)], flush=True)
os._exit(0)
"""


@pytest.mark.slow
def test_a_drive_that_is_unmounted_is_no_deletion(tmp_path: Path) -> None:
    import torch
    from tests.models.conftest import VIEW, WORDS, settings

    from vsekit.models.model import VSE

    if subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "none", tmp_path], capture_output=True).returncode:
        pytest.skip("needs a system that lets this user mount")
    torch.manual_seed(0)
    VSE(settings(), WORDS, VIEW).save(tmp_path / "run" / "model")
    (tmp_path / "photos" / "drive").mkdir(parents=True)
    paths = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = ["unshare", "-rm", sys.executable, "-c", textwrap.dedent(UNMOUNTED)]
    command += [str(tmp_path / name) for name in ("photos", "run", "index")]
    done = subprocess.run(command, env=paths, capture_output=True, text=True)
    assert done.stdout == "0 2 True\n", done.stderr
