from __future__ import annotations

import io
import os
import random
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from vsekit.data.pairs import Caption, Pairs, Picture
from vsekit.data.readers import read
from vsekit.errors import UserError
from vsekit.search.pictures import read_bytes
from vsekit.search.walk import Source, collected, place_of, relisted, source_of, walk


def names(root: Path) -> list[str]:
    return [os.path.relpath(seen.path, root) for seen in walk(root).pictures]


def files(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(b"x")


def test_pictures_are_found_at_any_depth_by_their_endings_and_hidden_ones_are_not(tmp_path: Path) -> None:
    files(tmp_path, "b.JPG", "a/1.png", "a/b/c/2.webp", "a/b/3.HEIC", "4.gif", "5.tiff", "6.bmp", "7.jpeg")
    files(tmp_path, "notes.txt", ".hidden.jpg", ".vsekit-index/x.jpg", "a/.thumbs/t.jpg", "movie.mp4", "jpg")
    assert names(tmp_path) == ["4.gif", "5.tiff", "6.bmp", "7.jpeg", "b.JPG", "a/1.png", "a/b/3.HEIC", "a/b/c/2.webp"]


def test_a_picture_is_known_by_path_size_time_and_a_folder_a_person_would_name(tmp_path: Path) -> None:
    files(tmp_path, "Photos/rome/1.jpg")
    os.utime(tmp_path / "Photos/rome/1.jpg", ns=(5, 7_000_000_001))
    (seen,) = walk(tmp_path / "Photos").pictures
    assert (seen.path, seen.size, seen.mtime_ns) == (f"{tmp_path}/Photos/rome/1.jpg", 1, 7_000_000_001)
    assert seen.folder == "Photos/rome"
    assert seen.captions is None


def test_links_in_a_circle_end_and_a_folder_reached_twice_is_visited_once_by_its_own_path(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    files(root, "z/1.jpg")
    files(elsewhere, "2.jpg")
    (root / "z/up").symlink_to(root)
    (root / "a").symlink_to(root / "z")
    (root / "b").symlink_to(elsewhere)
    (elsewhere / "back").symlink_to(elsewhere)
    assert names(root) == ["z/1.jpg", "b/2.jpg"]


def test_a_link_to_nowhere_is_missing_and_a_pipe_is_no_picture(tmp_path: Path) -> None:
    (tmp_path / "gone.jpg").symlink_to(tmp_path / "nothing")
    os.mkfifo(tmp_path / "pipe.jpg")
    source = walk(tmp_path)
    assert source.pictures == []
    assert list(source.missing) == [f"{tmp_path}/gone.jpg"]


def test_a_folder_that_cannot_be_listed_is_reported_and_keeps_what_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(tmp_path, "open/1.jpg", "closed/2.jpg")
    listed = os.scandir
    closed = str(tmp_path / "closed")

    def scandir(folder: str) -> object:  # permissions don't stop root, who may run this
        if folder == closed:
            raise PermissionError(13, "Permission denied")
        return listed(folder)

    monkeypatch.setattr(os, "scandir", scandir)
    source = walk(tmp_path)
    assert source.unreadable == {closed: "Permission denied"}
    assert [seen.path for seen in source.pictures] == [f"{tmp_path}/open/1.jpg"]
    assert source.holds(f"{tmp_path}/open/gone.jpg", None)
    assert not source.holds(f"{closed}/2.jpg", None)
    assert not source.holds(f"{tmp_path}more/2.jpg", None)


def test_a_name_that_is_not_utf8_is_reported(tmp_path: Path) -> None:
    with open(os.path.join(os.fsencode(tmp_path), b"caf\xe9.jpg"), "wb"):
        pass
    source = walk(tmp_path)
    assert source.pictures == []
    assert list(source.missing.values()) == ["its name is not UTF-8"]


def test_a_table_gives_captions_and_columns_with_numbers_where_a_column_holds_nothing_else(
    tmp_path: Path, picture: Callable[..., Path]
) -> None:
    picture("1.png", 1)
    picture("2.png", 2)
    table = tmp_path / "photos" / "table.csv"
    table.write_text(
        "image,caption,price,code,maker,empty\n"
        "1.png,a red dog,12.5,007,Leica,\n1.png,the dog,12.5,007,Leica,\n2.png,a wall,3,12,7,\n"
    )
    source = source_of(table)
    first, second = source.pictures
    assert [caption.text for caption in first.captions or ()] == ["a red dog", "the dog"]
    assert {k: first.meta[k] for k in ("price", "code", "maker")} == {"price": 12.5, "code": "007", "maker": "Leica"}
    assert (second.meta["price"], second.meta["code"], second.meta["maker"]) == (3, "12", "7")
    assert "empty" not in first.meta
    assert first.meta["collection"] == source.root == str(table)
    assert source.folders == [str(table.parent)]
    assert source.holds("/anywhere/else.jpg", str(table))
    assert not source.holds(str(table.parent / "x.jpg"), None)


def test_a_catalogue_may_lack_pictures_even_its_first_but_not_all(tmp_path: Path, picture: Callable[..., Path]) -> None:
    picture("1.png")
    table = tmp_path / "photos" / "table.csv"
    table.write_text("image,caption\ngone.png,a cat\n1.png,a dog\nlost.png,a cow\n")
    source = source_of(table)
    assert [Path(seen.path).name for seen in source.pictures] == ["1.png"]
    assert {Path(path).name for path in source.missing} == {"gone.png", "lost.png"}
    table.write_text("image,caption\ngone.png,a cat\nlost.png,a cow\n")
    with pytest.raises(UserError, match=r"none of the 2 pictures .*gone\.png"):
        source_of(table)


def test_dirt_of_a_catalogue_is_set_aside_and_its_pictures_stay(tmp_path: Path, picture: Callable[..., Path]) -> None:
    """As training does with the same file; but no picture goes for want of a caption, or for being in two splits."""
    for number in (1, 2, 3):
        picture(f"{number}.png", number)
    table = tmp_path / "photos" / "table.csv"
    rows = [
        "image,caption,split,group",
        "1.png,a café,train,a",
        "1.png,a café,train,a",
        "2.png,,train,b",
        "3.png,a cow,test,a",
    ]
    table.write_bytes("\n".join([*rows, "1.png,too,many,cells,here"]).encode("cp1252"))
    source = source_of(table)
    assert {Path(seen.path).name: [c.text for c in seen.captions or ()] for seen in source.pictures} == {
        "1.png": ["a café"], "2.png": [], "3.png": ["a cow"],
    }  # fmt: skip
    left_out, mended = source.notes
    assert left_out.startswith("3 left out: ")
    assert {"1 × empty-caption", "1 × duplicate-caption", "1 × bad-row"} == set(left_out.partition(": ")[2].split(", "))
    assert mended == "2 mended: 2 × encoding"


def test_a_table_of_which_most_captions_can_not_be_read_is_refused(
    tmp_path: Path, picture: Callable[..., Path]
) -> None:
    picture("1.png")
    table = tmp_path / "photos" / "table.csv"
    table.write_text("image,caption\n1.png,\n1.png,\n1.png,a dog\n")
    with pytest.raises(UserError, match="only 1 of 3 captions can be used"):
        source_of(table)


def test_a_folder_is_a_collection_where_annotations_say_so_and_a_photo_folder_otherwise(
    tmp_path: Path, picture: Callable[..., Path]
) -> None:
    picture("1.png")
    photos = tmp_path / "photos"
    (photos / "1.txt").write_text("a caption, or a note?\n")
    assert source_of(photos).collection is None
    assert source_of(photos, format="folder").pictures[0].captions
    (photos / "captions.csv").write_text("image,caption\n1.png,a dog\n")
    assert source_of(photos).pictures[0].captions
    assert source_of(photos, format="photos").pictures[0].captions is None
    with pytest.raises(UserError, match="no such folder"):
        source_of(tmp_path / "gone")


def test_a_picture_in_a_shard_has_a_path_of_its_own(tmp_path: Path, picture: Callable[..., Path]) -> None:
    data = picture("1.png").read_bytes()
    with tarfile.open(tmp_path / "shard-0.tar", "w") as shard:
        for name, content in (("one.png", data), ("one.txt", b"a dog")):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            shard.addfile(member, io.BytesIO(content))
    (seen,) = collected(read(tmp_path / "shard-0.tar")).pictures
    assert seen.path.startswith(f"{tmp_path}/shard-0.tar#")
    assert seen.size == len(data)
    assert read_bytes(seen.path) == data


def test_pictures_of_a_collection_that_are_gone_are_missing_and_features_alone_are_refused(tmp_path: Path) -> None:
    gone = Picture("1", tmp_path / "1.jpg", "train", "1")
    source = collected(Pairs([gone], [Caption("a dog", 0)], tmp_path))
    assert source.missing == {f"{tmp_path}/1.jpg": "No such file or directory"}
    with pytest.raises(UserError, match="features only"):
        collected(Pairs([Picture("1", None, "train", "1")], [], tmp_path))


def test_an_index_goes_into_its_single_folder_or_beside_its_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    assert place_of([tmp_path]) == place_of([tmp_path / "a.csv"]) == str(tmp_path / ".vsekit-index")
    assert place_of([walk(tmp_path)]) == str(tmp_path / ".vsekit-index")
    for several in ([], [tmp_path, tmp_path]):
        with pytest.raises(UserError, match="several folders"):
            place_of(several)


@pytest.mark.parametrize("seed", range(12))
def test_listing_the_folders_that_changed_gives_what_a_whole_walk_gives(tmp_path: Path, seed: int) -> None:
    """Or says that it can't: where a folder came or went. A whole walk is the truth."""
    rng = random.Random(seed)
    top = tmp_path / "photos"
    for folder in ("", "a", "a/b", "c"):
        (top / folder).mkdir(parents=True, exist_ok=True)
        for i in range(3):
            (top / folder / f"{i}.jpg").write_bytes(b"x" * (i + 1))
    (top / "c" / "nowhere.jpg").symlink_to(top / "gone")
    known = walk(top)
    for step in range(15):
        folders = [top, *sorted(path for path in top.rglob("*") if path.is_dir())]
        changed, kind = rng.choice(folders), rng.randrange(6)
        files = sorted(changed.glob("*.jpg"))
        if kind < 2:
            (changed / f"new {step}.jpg").write_bytes(b"n")
        elif kind < 4 and files:
            rng.choice(files).unlink()
        elif kind < 5 and files:
            (changed / "written.jpg").write_bytes(b"w" * (step + 5))
        elif changed != top:
            shutil.rmtree(changed)
            changed = changed.parent
        else:
            (changed / f"folder {step}").mkdir()
        there = walk(top)
        found = relisted(known, [str(changed)])
        same_folders = {str(path) for path in top.rglob("*") if path.is_dir()} | {str(top)} == set(known.listed)
        assert (found is not None) == same_folders
        if found is not None:
            assert {one.path: one for one in found.pictures} == {one.path: one for one in there.pictures}
            assert found.missing == there.missing
            assert len(found.pictures) == len(there.pictures)
        known = there


def test_links_and_collections_are_walked_whole(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "elsewhere").mkdir()
    assert relisted(walk(tmp_path / "photos"), [str(tmp_path / "unknown")]) is None
    (tmp_path / "photos" / "link").symlink_to(tmp_path / "elsewhere")
    assert relisted(walk(tmp_path / "photos"), [str(tmp_path / "photos")]) is None
    assert relisted(Source(str(tmp_path), collection="csv"), []) is None
