"""Indexing as the page shows it, in a real browser with the real server; the process that indexes is played by the test."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("playwright")
pytest.importorskip("fastapi")

from playwright.sync_api import Browser, Page, expect
from tests.serve.album import album
from tests.serve.conftest import serving

from vsekit.search.searcher import Searcher
from vsekit.serve.indexer import Indexer
from vsekit.serve.limits import Limits

SHOTS = os.environ.get("VSEKIT_SHOTS")  # a folder for pictures of the page, to look at


class Played(Indexer):
    """asked: what clients asked for. `says` is a line of the process."""

    def __init__(self, **options: Any) -> None:
        super().__init__("index", **options)
        self.asked: list[int | None] = []

    def start(self) -> None:
        self._known = {"state": "current" if self.watch else "idle"}

    def ask(self, number: int | None) -> None:
        if number is not None:
            self.allowed[number]
        self.asked.append(number)
        self._known = {"state": "starting"}

    def says(self, **line: Any) -> None:
        with self._lock:
            self._known |= line


class Scene:
    def __init__(self, searcher: Searcher, indexer: Played, page: Page) -> None:
        self.searcher, self.indexer, self.page = searcher, indexer, page
        self.pill = page.locator("#indexing")

    def add(self, count: int) -> None:
        """So many pictures, newer than all others."""
        store = self.searcher.store
        (like,) = store.latest(1)
        items = []
        for i in range(count):
            day = f"2030-01-{i + 1:02d} 12:00:00"
            changed = {"dated": day, "taken": day, "name": f"new {i}.jpg", "camera": f"c{i}"}
            items.append(
                replace(like, id=f"new{store.count('image')}{i}", content=f"c{i}", meta={**like.meta, **changed})
            )
        writer = type(store)(store.location, create=store.dim)
        with writer:
            writer.write([replace(item, picture=item.id) for item in items], _spread(count, store.dim))


def _spread(count: int, dim: int) -> Any:
    import numpy as np

    found = np.zeros((count, dim), np.float32)
    found[np.arange(count), np.arange(count) % dim] = 1
    return found


def shot(page: Page, name: str) -> None:
    if SHOTS:
        page.screenshot(path=str(Path(SHOTS) / f"{name}.png"))


@pytest.fixture
def scene(request: pytest.FixtureRequest, browser: Browser, tmp_path: Path) -> Iterator[Scene]:
    options = getattr(request, "param", {"watch": True})
    context_options = options.pop("context", {"viewport": {"width": 1200, "height": 800}})
    allowed = [tmp_path / name for name in options.pop("folders", [])]
    searcher = album(tmp_path, 120)
    indexer = Played(allowed=allowed, **options)
    with serving(searcher, limits=Limits(rate=0), indexer=indexer) as client:
        yield from _opened(browser, client, searcher, indexer, context_options)


def _opened(
    browser: Browser, client: httpx.Client, searcher: Searcher, indexer: Played, options: dict[str, Any]
) -> Iterator[Scene]:
    context = browser.new_context(**options)
    page, failures = context.new_page(), list[str]()
    page.on("pageerror", lambda error: failures.append(str(error)))
    with page.expect_response("**/api/indexing"):
        page.goto(f"{client.base_url}/")
    yield Scene(searcher, indexer, page)
    context.close()
    assert failures == []


def test_progress_is_shown_quietly_and_new_pictures_appear_without_reload(scene: Scene) -> None:
    page = scene.page
    expect(page.locator("#home-title")).to_have_text("Search 120 pictures in your own words")
    expect(scene.pill).to_be_hidden()
    scene.indexer.says(state="indexing", done=120, total=3000)
    expect(scene.pill).to_contain_text("Indexing 120 of 3,000")
    expect(page.locator("#indexing-text")).to_have_attribute("role", "status")
    shot(page, "laptop-indexing")
    scene.add(3)
    expect(page.locator("#grid .open").first).to_have_attribute("href", re.compile(r"item=new1202$"))
    expect(page.locator("#home-title")).to_have_text("Search 123 pictures in your own words", timeout=15_000)
    scene.indexer.says(state="current", done=0, total=0, changes=1)
    expect(scene.pill).to_be_hidden()


def test_who_looks_at_answers_is_told_and_nothing_moves_until_asked(scene: Scene) -> None:
    page = scene.page
    page.locator("#box").fill("red")
    expect(page.locator("#status")).to_contain_text("best first")
    before = page.locator("#grid .open").first.get_attribute("href")
    scene.add(2)
    expect(scene.pill).to_contain_text("2 new pictures")
    assert page.locator("#grid .open").first.get_attribute("href") == before
    shot(page, "laptop-news")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(scene.pill).to_be_hidden()


@pytest.mark.parametrize("scene", [{"watch": True}], indirect=True)
def test_a_failure_is_told_in_plain_words_and_tried_again_by_keyboard(scene: Scene) -> None:
    scene.indexer.says(state="failed", error="the disk is full", remedy="Make room and try again.")
    expect(scene.pill).to_contain_text("The disk is full. Make room and try again.")
    shot(scene.page, "laptop-failed")
    again = scene.page.get_by_role("button", name="Try again")
    again.focus()
    scene.page.keyboard.press("Enter")
    expect(scene.pill).to_contain_text("Getting ready to index")
    assert scene.indexer.asked == [None]


@pytest.mark.parametrize("scene", [{"folders": ["Pictures", "Scans"]}], indirect=True)
def test_an_allowed_folder_is_indexed_by_a_click_and_no_path_is_shown(scene: Scene) -> None:
    page = scene.page
    folder = page.get_by_role("button", name="Index Scans")
    expect(folder).to_be_visible()
    shot(page, "laptop-folders")
    folder.click()
    expect(folder).to_be_disabled()
    assert scene.indexer.asked == [1]
    assert str(scene.indexer.allowed[1].parent) not in page.content()
    page.locator("#box").fill("red")
    expect(folder).to_be_hidden()


PHONE = {"viewport": {"width": 390, "height": 780}, "has_touch": True, "is_mobile": True, "device_scale_factor": 2}


@pytest.mark.parametrize(
    "scene",
    [
        {"folders": ["Pictures", "Scans"], "context": PHONE},
        {"folders": ["Pictures", "Scans"], "context": {**PHONE, "color_scheme": "dark"}},
    ],
    indirect=True,
    ids=["light", "dark"],
)
def test_on_a_phone_it_is_inside_the_screen_and_can_be_read(scene: Scene, request: pytest.FixtureRequest) -> None:
    scene.indexer.says(
        state="failed", error="another process is writing to this index", remedy="Wait until it has finished."
    )
    expect(scene.pill).to_be_visible()
    box = scene.pill.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    assert box["y"] + box["height"] <= 780
    shot(scene.page, f"phone-{request.node.callspec.id}-failed")
    scene.indexer.says(state="indexing", done=1200, total=30000, error=None, remedy=None)
    expect(scene.pill).to_contain_text("Indexing 1,200 of 30,000")
    shot(scene.page, f"phone-{request.node.callspec.id}-indexing")
    assert scene.page.evaluate("document.documentElement.scrollWidth") <= 390
