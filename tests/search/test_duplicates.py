"""Copies, near-copies and bursts in an index of real files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFilter

from vsekit.files import fingerprint
from vsekit.search.duplicates import Group, best_by, find_duplicates
from vsekit.search.duplicates_sheet import summary, write_sheet
from vsekit.search.items import Item
from vsekit.search.metadata import picture_meta
from vsekit.search.stores import open_store
from vsekit.search.stores.base import Store
from vsekit.search.trash import trash_copies

SIZE = (480, 360)


def photo(seed: int, shift: int = 0) -> Image.Image:
    """Blurred blobs of colour with sharp discs: as much to see as a photograph has. shift: as the next shot of a burst."""
    rng = np.random.default_rng(seed)
    rough = Image.fromarray(rng.integers(0, 256, (9, 12, 3), dtype=np.uint8))
    image = rough.resize(SIZE, Image.Resampling.BICUBIC).filter(ImageFilter.GaussianBlur(3))
    draw = ImageDraw.Draw(image)
    for x, y, r, *colour in rng.integers((0, 0, 10, 0, 0, 0), (480, 360, 50, 256, 256, 256), (12, 6)).tolist():
        draw.ellipse((x - r + shift, y - r, x + r + shift, y + r), fill=tuple(colour))
    return image


def exif(taken: str, camera: str = "X100") -> Image.Exif:
    found = Image.Exif()
    found[0x0110], found[0x0132] = camera, taken
    return found


class Album:
    """An index of files. Vectors: one direction for each seed, tilted a little by what was done to the picture."""

    def __init__(self, folder: Path, store: Store) -> None:
        self.folder, self.store = folder, store

    def put(self, name: str, image: Image.Image, direction: int, tilt: float = 0.0, **options: object) -> Item:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        marks = {mark: True for mark in ("favourite",) if options.pop(mark, False)}
        meta = dict(options.pop("meta", {}))  # type: ignore[call-overload]
        image.save(path, **options)
        return self.know(path, direction, tilt, {**meta, **marks})

    def know(self, path: Path, direction: int, tilt: float = 0.0, more: dict[str, object] | None = None) -> Item:
        with Image.open(path) as image:
            meta = picture_meta(image)
        status = path.stat()
        width, height = int(meta["width"]), int(meta["height"])
        id_ = fingerprint(str(path))
        content = fingerprint(path.read_bytes())
        meta |= {"name": path.name, "folder": "photos", "dated": "2020-01-01 00:00:00", **(more or {})}  # type: ignore[dict-item]
        item = Item(id_, "image", str(path), "", id_, width, height, content, status.st_size, status.st_mtime_ns, meta)
        vector = np.zeros((1, self.store.dim), np.float32)
        vector[0, direction], vector[0, -1 - direction] = np.cos(tilt), np.sin(tilt)
        self.store.write([item], vector)
        return item

    def groups(self) -> dict[str, list[tuple[str, dict[str, str]]]]:
        """By kind: the name of the best, and of the others with what they are."""
        found: dict[str, list[tuple[str, dict[str, str]]]] = {}
        for group in find_duplicates(self.store):
            others = {os.path.relpath(item.path, self.folder): why for item, why in group.others}
            found.setdefault(group.kind, []).append((os.path.relpath(group.keep.path, self.folder), others))
        return found


@pytest.fixture
def album(tmp_path: Path) -> Iterator[Album]:
    (tmp_path / "photos").mkdir()
    with open_store(tmp_path / "index", create=40) as store:
        yield Album(tmp_path / "photos", store)


def test_copies_are_told_at_any_size_quality_and_format(album: Album) -> None:
    image = photo(0)
    first = album.put("first.png", image, 0)
    shutil.copy(first.path, album.folder / "same bytes.png")
    album.know(album.folder / "same bytes.png", 0)
    album.put("poor.jpg", image, 0, 0.3, quality=35)
    album.put("small.jpg", image.resize((160, 120), Image.Resampling.LANCZOS), 0, 0.5, quality=85)
    album.put("other.webp", image, 0, 0.1, quality=70)
    album.put("alone.png", photo(1), 1)
    others = {"same bytes.png": "same bytes", "poor.jpg": "same picture", "small.jpg": "same picture"}
    assert album.groups() == {"copies": [("first.png", {**others, "other.webp": "same picture"})]}


def test_what_is_cropped_or_has_one_part_changed_is_a_near_copy(album: Album) -> None:
    image = photo(0)
    album.put("first.png", image, 0)
    album.put("cropped.png", image.crop((15, 12, 465, 348)), 0, 0.1)
    changed = image.copy()
    ImageDraw.Draw(changed).rectangle((200, 150, 240, 185), fill="white")
    album.put("retouched.png", changed, 0, 0.1)
    ((kind, ((best, others),)),) = album.groups().items()
    assert (kind, best) == ("near-copies", "first.png")
    assert others == {"cropped.png": "alike", "retouched.png": "alike"}


def test_pages_of_the_same_layout_with_other_words_are_no_copies(album: Album) -> None:
    for seed in range(2):
        page, rng = Image.new("RGB", (600, 840), "white"), np.random.default_rng(seed)
        draw = ImageDraw.Draw(page)
        for y in range(40, 800, 22):
            draw.text((40, y), "".join(rng.choice(list("abcdefgh ilmnopq"), 80)), fill="black", font_size=14)
        album.put(f"{seed}.png", page, 0, 0.01 * seed)
    assert set(album.groups()) == {"near-copies"}


def test_a_burst_is_told_from_copies_by_time_camera_and_pixels(album: Album) -> None:
    for i in range(3):
        album.put(f"{i}.jpg", photo(0, 6 * i), 0, 0.3 * i, exif=exif(f"2021:07:04 12:00:0{2 * i}"), quality=90)
    # A tripod: the same to the last pixel, but taken a second later.
    album.put("still 0.jpg", photo(1), 1, exif=exif("2021:07:05 12:00:00"), quality=90)
    album.put("still 1.jpg", photo(1), 1, exif=exif("2021:07:05 12:00:01"), quality=90)
    # A copy has the time of its original, or has lost it.
    album.put("sent.jpg", photo(0), 0, 0.05, quality=50)
    # Another camera at the same time: alike, no burst.
    album.put("other.jpg", photo(0, 30), 0, -0.2, exif=exif("2021:07:04 12:00:00", "Pixel"), quality=90)
    found = album.groups()
    assert found["copies"] == [("0.jpg", {"sent.jpg": "same picture"})]
    bursts = dict(found["burst"])
    assert bursts["still 0.jpg"] == {"still 1.jpg": "1 s later"}
    (burst,) = [{best, *others} for best, others in found["burst"] if best != "still 0.jpg"]
    assert burst == {"0.jpg", "1.jpg", "2.jpg"}
    assert [{best, *others} for best, others in found["near-copies"]] == [{"0.jpg", "other.jpg"}]


def test_what_cannot_be_opened_is_never_called_a_copy(album: Album) -> None:
    album.put("first.png", photo(0), 0)
    lost = album.put("lost.jpg", photo(0), 0, 0.1)
    os.unlink(lost.path)
    assert set(album.groups()) == {"near-copies"}


def item(name: str, width: int = 100, size: int = 10, favourite: bool = False, **meta: str) -> Item:
    marks = {"favourite": True} if favourite else {}
    return Item(name, "image", f"/p/{name}", width=width, height=50, size=size, meta={**meta, **marks})


@pytest.mark.parametrize(
    ("items", "best", "word"),
    [
        ([item("a", 200), item("b", favourite=True)], "b", "favourite"),
        ([item("a", 100, 90), item("b", 200, 10)], "b", "largest"),
        ([item("a", 100, 10), item("b", 100, 90)], "b", "most bytes"),
        ([item("a", taken="2021-01-02 00:00:00"), item("b", taken="2021-01-01 00:00:00")], "b", "oldest"),
        ([item("longer"), item("b")], "b", "first"),
    ],
)
def test_the_best_of_copies_is_the_favourite_then_the_largest_then_the_oldest(
    items: list[Item], best: str, word: str
) -> None:
    from vsekit.search.duplicates import rank

    assert min(items, key=rank).id == best
    assert best_by(items) == word


# The trash


def trashed(album: Album) -> tuple[list[str], dict[str, str]]:
    """What went, and what stayed with the reason; by a trash that is a folder."""
    bin_ = album.folder.parent / "bin"
    bin_.mkdir()
    done = trash_copies(album.store, find_duplicates(album.store), send=lambda path: shutil.move(path, bin_))
    names = sorted(os.path.relpath(item.path, album.folder) for item in done.moved)
    assert sorted(os.listdir(bin_)) == names
    return names, {os.path.relpath(path, album.folder): reason for path, reason in done.left.items()}


def names_in(store: Store) -> set[str]:
    return {str(item.meta["name"]) for item in store.all_items("image")}


def test_copies_go_to_the_trash_and_the_index_follows_with_captions(album: Album) -> None:
    best = album.put("best.png", photo(0), 0)
    poor = album.put("poor.jpg", photo(0), 0, 0.1, quality=40)
    captions = [Item(f"{one.id}#0", "caption", one.path, "a disc", one.id) for one in (best, poor)]
    album.store.write(captions, np.ones((2, 40), np.float32))
    album.put("near.png", photo(0).crop((20, 15, 460, 345)), 0, 0.05)
    assert trashed(album) == (["poor.jpg"], {})
    assert names_in(album.store) == {"best.png", "near.png"}
    assert [one.picture for one in album.store.all_items("caption")] == [best.id]


def test_a_favourite_a_link_a_changed_file_and_a_collections_picture_stay(album: Album) -> None:
    image = photo(0)
    best = album.put("best.png", image, 0, favourite=True)
    album.put("favourite.jpg", image, 0, quality=60, favourite=True)
    album.put("collected.jpg", image, 0, quality=65, meta={"collection": "/c.csv"})
    changed = album.put("changed.jpg", image, 0, quality=70)
    (album.folder / "link.png").symlink_to(best.path)
    album.know(album.folder / "link.png", 0)
    os.link(best.path, album.folder / "hard.png")
    album.know(album.folder / "hard.png", 0)
    groups = find_duplicates(album.store)
    assert [group.keep.path for group in groups] == [best.path]
    with open(changed.path, "ab") as file:
        file.write(b"more")
    gone, left = trashed(album)
    assert gone == []
    reasons = {name: reason.partition(":")[0].partition(" as ")[0] for name, reason in left.items()}
    assert reasons == {
        "favourite.jpg": "a favourite",
        "collected.jpg": "part of a collection",
        "changed.jpg": "changed since it was indexed",
        "link.png": "a link",
        "hard.png": "the same file",
    }
    assert len(names_in(album.store)) == 6


def test_nothing_goes_while_the_one_to_keep_is_not_as_it_was(album: Album) -> None:
    best = album.put("best.png", photo(0), 0)
    album.put("poor.jpg", photo(0), 0, 0.1, quality=40)
    groups = find_duplicates(album.store)
    os.unlink(best.path)
    done = trash_copies(album.store, groups, send=os.unlink)
    assert done.moved == []
    assert list(done.left.values()) == [f"the one to keep has changed since it was indexed: {best.path}"]


def test_what_the_trash_refuses_stays_in_the_index_and_what_it_took_leaves_when_stopped(album: Album) -> None:
    album.put("best.png", photo(0), 0)
    for quality in (40, 60, 80):
        album.put(f"{quality}.jpg", photo(0), 0, 0.1, quality=quality)

    def send(path: str) -> None:
        if path.endswith("80.jpg"):
            raise PermissionError(13, "Permission denied")
        if path.endswith("40.jpg"):
            raise KeyboardInterrupt
        os.unlink(path)

    with pytest.raises(KeyboardInterrupt):
        trash_copies(album.store, find_duplicates(album.store), send=send)
    assert names_in(album.store) == {"best.png", "80.jpg", "40.jpg"}


def test_a_sheet_shows_every_group_with_the_best_marked(album: Album, tmp_path: Path) -> None:
    album.put("a<b.png", photo(0), 0)
    album.put("poor.jpg", photo(0), 0, 0.1, quality=40)
    groups: list[Group] = find_duplicates(album.store)
    write_sheet(tmp_path / "sheet.html", groups)
    html = (tmp_path / "sheet.html").read_text()
    assert html.count("<img") == 2
    assert "a&lt;b.png" in html
    assert html.count('class="good"') == 1
    assert summary(groups).startswith("1 pictures have 1 copies (")
