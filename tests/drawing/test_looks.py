"""A report as a browser shows it: labels one can read, tables that fit a phone or say that more is there."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

pytest.importorskip("playwright")

from playwright.sync_api import Browser
from tests.serve.conftest import browser  # noqa: F401

from vsekit.drawing.charts import bars, lines
from vsekit.drawing.page import beside, charts, heading, listed, page, picture, section, table

#: Heights of the letters of all labels, in pixels of the screen.
LABELS = """() => [...document.querySelectorAll("svg text")].map((text) => {
  const svg = text.ownerSVGElement, shown = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  return parseFloat(getComputedStyle(text).fontSize) * shown; })"""


def written(folder: Path) -> str:
    epochs = [(float(i), 10.0 ** -(i / 3)) for i in range(1, 12)]
    drawn = [
        heading(name) + chart
        for name, chart in (
            ("Loss", lines({"loss": epochs}, "epoch", "loss", log=True)),
            ("Ranks", bars(["1", "2–5", "6–10", "11–50"], [5.0, 21.0, 30.0, 38.5], "rank", "% of pairs")),
            ("Both", bars(["1", "2"], [1.0, 2.0], "rank", "% of pairs")),
        )
    ]
    numbers = table(("", *(f"R@{k}" for k in (1, 5, 10, 20, 50, 100))), [("95 % interval", *["10.7–26.7"] * 6)])
    texts = beside(picture(Image.new("RGB", (64, 64))), listed([("a dog on a beach of sand", True)] * 5))
    path = folder / "report.html"
    path.write_text(page("Report", "drawn", [section("Results", numbers, charts(*drawn), texts)]), encoding="utf-8")
    return path.as_uri()


@pytest.mark.parametrize(("width", "height"), [(390, 844), (820, 1180), (1366, 768), (2560, 1440)])
def test_labels_are_as_large_as_text(browser: Browser, tmp_path: Path, width: int, height: int) -> None:  # noqa: F811
    sheet = browser.new_page(viewport={"width": width, "height": height})
    sheet.goto(written(tmp_path))
    found = sheet.evaluate(LABELS)
    assert len(found) > 10
    assert min(found) >= 10.5
    assert sheet.evaluate("document.documentElement.scrollWidth <= innerWidth")
    sheet.close()


def test_on_a_phone_texts_stand_beside_their_picture_and_a_wide_table_scrolls(browser: Browser, tmp_path: Path) -> None:  # noqa: F811
    sheet = browser.new_page(viewport={"width": 390, "height": 844})
    sheet.goto(written(tmp_path))
    image, texts = (sheet.locator(f".pair > div:nth-child({n})").bounding_box() for n in (1, 2))
    assert image
    assert texts
    assert texts["x"] >= image["x"] + image["width"]
    assert texts["y"] == image["y"]
    wide = sheet.locator(".wide")
    assert wide.evaluate("one => one.scrollWidth > one.clientWidth")
    assert "gradient" in wide.evaluate("one => getComputedStyle(one).backgroundImage")
    sheet.close()
