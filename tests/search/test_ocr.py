from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont
from tests.search.memory import MemoryStore

from vsekit.errors import UserError
from vsekit.search.indexing import index
from vsekit.search.models import VSEModel
from vsekit.search.ocr import LONGEST, Reader, _parts, read_pictures
from vsekit.search.stores import open_store
from vsekit.search.words import words_of

Write = Callable[..., Path]


class Counting(Reader):
    """Says of every picture how large it is, and counts. after: ends with Ctrl-C then."""

    def __init__(self, after: int | None = None) -> None:
        self.seen: list[tuple[int, int]] = []
        self.after = after

    def read(self, image: Image.Image) -> str:
        if len(self.seen) == self.after:
            raise KeyboardInterrupt
        self.seen.append(image.size)
        return f"{image.width} wide"


@pytest.fixture
def store(tiny: VSEModel, picture: Write, tmp_path: Path) -> MemoryStore:
    for number in range(4):
        picture(f"{number}.png", seed=number, size=(30 + number, 24))
    store = MemoryStore(tiny.dim)
    index(tiny, tmp_path / "photos", store)
    return store


def written(store: MemoryStore) -> dict[str, object]:
    return {str(item.meta["name"]): item.meta.get("written") for item in store.all_items("image")}


def test_every_picture_is_read_once(store: MemoryStore, tiny: VSEModel, picture: Write, tmp_path: Path) -> None:
    first, second = Counting(), Counting()
    vectors = dict(store.placed)
    assert read_pictures(store, reader=first) == 4
    assert written(store) == {f"{n}.png": f"{30 + n} wide" for n in range(4)}
    assert read_pictures(store, reader=second) == 0
    picture("4.png", seed=4, size=(50, 24))
    picture("0.png", seed=9, size=(60, 24))
    (tmp_path / "photos/1.png").rename(tmp_path / "photos/renamed.png")
    (tmp_path / "photos/copy.png").write_bytes((tmp_path / "photos/2.png").read_bytes())
    index(tiny, tmp_path / "photos", store)
    assert read_pictures(store, reader=second) == 2
    assert sorted(second.seen) == [(50, 24), (60, 24)]
    assert written(store)["renamed.png"] == "31 wide"
    assert written(store)["copy.png"] == "32 wide"
    kept = [id for id, item in store.known.items() if item.meta["name"] in ("2.png", "3.png", "renamed.png")]
    assert all(np.array_equal(store.placed[id], vectors[id]) for id in kept)


def test_reading_goes_on_where_it_was_stopped(store: MemoryStore) -> None:
    with pytest.raises(KeyboardInterrupt):
        read_pictures(store, reader=Counting(after=2))
    assert sum(text is not None for text in written(store).values()) == 2
    again = Counting()
    assert read_pictures(store, reader=again) == 2
    assert None not in written(store).values()


def test_a_picture_that_is_away_waits_for_the_next_time(store: MemoryStore, tmp_path: Path) -> None:
    path = tmp_path / "photos/1.png"
    data = path.read_bytes()
    path.write_bytes(b"no picture any more")
    (tmp_path / "photos/2.png").unlink()
    assert read_pictures(store, reader=Counting()) == 2
    path.write_bytes(data)
    assert read_pictures(store, reader=Counting()) == 1


def test_a_long_picture_is_read_in_parts_that_hold_all_of_it() -> None:
    for shape in ((1000, 100), (100, 1000), (301, 100), (5000, 40)):
        tall = np.arange(shape[0] * shape[1]).reshape(*shape, 1)
        parts = _parts(tall)
        assert len(parts) <= 20
        assert all(max(part.shape[:2]) <= 3 * min(part.shape[:2]) or min(part.shape[:2]) < min(shape) for part in parts)
        if shape != (5000, 40):
            assert set(np.concatenate([part.ravel() for part in parts])) == set(tall.ravel())
    assert len(_parts(np.zeros((90, 200, 3)))) == 1
    assert _parts(np.zeros((3, 2000, 3))) == []


def test_the_extra_is_named_when_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rapidocr_onnxruntime", None)
    with pytest.raises(UserError, match="rapidocr-onnxruntime") as caught:
        Reader()
    assert "vsekit[ocr]" in str(caught.value.remedy)


def page(*lines: str) -> Image.Image:
    image = Image.new("RGB", (700, 40 + 70 * len(lines)), "white")
    draw = ImageDraw.Draw(image)
    for i, line in enumerate(lines):
        draw.text((30, 30 + 70 * i), line, fill="black", font=ImageFont.load_default(28))
    return image


def test_the_text_of_a_page_is_read_and_found(tmp_path: Path, tiny: VSEModel) -> None:
    pytest.importorskip("rapidocr_onnxruntime", reason="needs vsekit[ocr]")
    (tmp_path / "photos").mkdir()
    page("Invoice No. 4711", "two coffee machines").save(tmp_path / "photos/scan.png")
    Image.effect_noise((200, 160), 40).convert("RGB").save(tmp_path / "photos/noise.png")
    place = str(tmp_path / "index")
    index(tiny, tmp_path / "photos", place)
    with open_store(place) as store:
        assert read_pictures(store) == 2
        (found,) = store.holders(("4711",), 10, kind="image")
        (item,) = store.items([found])
        assert item.meta["name"] == "scan.png"
        assert words_of(str(item.meta["written"])) == ("invoice", "no", "4711", "two", "coffee", "machines")
        assert store.holders(("coffee", "machines"), 10, kind="image") == [found]
        texts = {str(item.meta["name"]): item.meta["written"] for item in store.all_items("image")}
        assert texts["noise.png"] == ""


def test_no_more_is_kept_than_stores_have_room_for() -> None:
    class Wordy:
        def __call__(self, pixels: np.ndarray, **options: object) -> tuple[list[tuple[object, ...]], None]:
            box = [[0, 0], [1, 0], [1, 1], [0, 1]]
            texts = [(f"{i} " + "長" * 500, 0.99) for i in range(20)] + [("doubtful", 0.2)]
            return [(box, text, score, [box], [text]) for text, score in texts], None

    reader = Counting()
    reader._engine = Wordy()
    text = Reader.read(reader, page("x"))
    assert len(text) == LONGEST
    assert "doubtful" not in text


def test_marks_made_while_pictures_are_read_stay(store: MemoryStore) -> None:
    item = next(iter(store.known.values()))
    store.known[item.id] = replace(item, meta={**item.meta, "favourite": True})
    read_pictures(store, reader=Counting())
    assert store.known[item.id].meta["favourite"] is True
