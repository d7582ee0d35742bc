from __future__ import annotations

import re
from pathlib import Path

import pytest
from PIL import Image

from vsekit.errors import UserError
from vsekit.search.items import Hit, Item
from vsekit.search.searcher import Answer
from vsekit.search.sheet import figures_of, montage, one_line, pictures_of, standing_of, write_sheet
from vsekit.search.why import Why, Word


@pytest.fixture
def answer(tmp_path: Path) -> Answer:
    Image.new("RGB", (60, 30), (200, 0, 0)).save(tmp_path / "a <b>.png")
    there = Item("a", "image", str(tmp_path / "a <b>.png"), picture="a")
    caption = Item("a#0", "caption", there.path, text='<i>"red"</i>', picture="a")
    gone = Item("g", "image", str(tmp_path / "gone.png"), picture="g")
    return Answer(
        [Hit(there, 0.5, 0.9998, "strong"), Hit(caption, 0.4), Hit(gone, 0.3, 0.5, "none")], "Nothing <here>."
    )


@pytest.mark.parametrize(
    ("standing", "shown"),
    [
        (0.5, "50 %"),
        (0.98, "98 %"),
        (0.996, "99.6 %"),
        (0.99981, "99.98 %"),
        (0.99999, "99.999 %"),
        (1.0, ">99.9999 %"),
    ],
)
def test_a_standing_has_as_many_digits_as_it_has_nines(standing: float, shown: str) -> None:
    assert standing_of(Hit(Item("a", "image"), 0.5, standing, "likely")) == shown


def test_without_calibration_the_score_stands_alone() -> None:
    assert figures_of(Hit(Item("a", "image"), 0.5)) == ["0.500"]


def test_a_page_needs_nothing_else_and_escapes_what_comes_from_data(answer: Answer, tmp_path: Path) -> None:
    whys = [Why(0.5, [Word("<red>", 0.3)], {})] * 3
    write_sheet(tmp_path / "sheet.html", "<query>", answer, whys)
    text = (tmp_path / "sheet.html").read_text()
    assert not re.search(r"""(src|href)=["'](?!data:)|url\(|<script|@import""", text)
    for raw in ("<query>", "<b>.png", '<i>"red"', "Nothing <here>", "<red>"):
        assert raw not in text
    assert text.count("data:image/jpeg") == 2
    assert "gone.png" in text
    assert "99.98 %" in text


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".webp"])
def test_a_sheet_may_be_a_picture(answer: Answer, tmp_path: Path, suffix: str) -> None:
    write_sheet(tmp_path / f"sheet{suffix}", "query", answer)
    with Image.open(tmp_path / f"sheet{suffix}") as sheet:
        red, green, _ = sheet.convert("RGB").getpixel((8 + 120, 8 + 120))  # type: ignore[misc]
    assert red > 150
    assert green < 60


def test_other_files_are_refused(answer: Answer, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"can't write a sheet as '\.pdf'"):
        write_sheet(tmp_path / "sheet.pdf", "query", answer)


def test_rows_are_as_long_as_asked_and_an_empty_answer_is_an_empty_sheet(answer: Answer) -> None:
    images = pictures_of(answer.hits)
    assert [image is None for image in images] == [False, False, True]
    assert montage(answer.hits, images, columns=2, side=50).size == (2 * 58 + 8, 2 * 94 + 8)
    assert montage([], []).width > 0


def test_regions_are_drawn_on_the_pictures_that_have_some(answer: Answer) -> None:
    plain, lit = Why(0.5, [Word("red", 0.3)], {}), Why(0.5, [Word("red", 0.3)], {"red": [(0, 0, 1, 1, 1.0)]})
    first, second, _ = pictures_of(answer.hits, [plain, lit, lit])
    assert first is not None
    assert second is not None
    assert first.size == (60, 30)
    assert second.height > 160


def test_a_name_of_several_lines_is_written_in_one(tmp_path: Path) -> None:
    assert one_line("new\nline\t\x1b[31m.jpg") == "new line [31m.jpg"
