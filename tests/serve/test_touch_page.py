"""The page under fingers and on small screens: what can be hit, read and seen at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from vsekit.serve.limits import Limits

Open = Callable[..., Page]
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
LEAST = 40  # pixels

#: What can be pressed and is smaller. Links inside a text may be as high as its lines; labels count for what they label.
SMALL = """(least) => {
  const modal = document.querySelector("dialog[open]");
  return [...document.querySelectorAll("a, button, summary, input, select, textarea")].filter((one) => {
    const shown = one.checkVisibility({ opacityProperty: true, visibilityProperty: true });
    const within = one.closest("#detail-meta dd, #detail-why, #like li");
    return shown && !within && !one.closest(".skip, .visually-hidden") && (!modal || modal.contains(one));
  }).map((one) => one.closest("label") ?? one).filter((one) => {
    const { width, height } = one.getBoundingClientRect();
    return Math.min(width, height) < least;
  }).map((one) => `${one.tagName} ${one.id || one.className} ${one.textContent.trim().slice(0, 30)}`);
}"""


@pytest.fixture
def searcher(tmp_path: Path) -> Searcher:
    return album(tmp_path, 120, captions=True)


@pytest.fixture
def client(searcher: Searcher) -> Iterator[httpx.Client]:
    with serving(searcher, limits=Limits(rate=0)) as client:
        yield client


@pytest.fixture
def open_page(browser: Browser, client: httpx.Client) -> Iterator[Open]:
    contexts = []

    def opened(path: str = "", **options: Any) -> Page:
        contexts.append(browser.new_context(**(PHONE | options)))
        page = contexts[-1].new_page()
        page.goto(f"{client.base_url}/{path}")
        expect(page.locator("#grid .open").first).to_be_visible()
        return page

    yield opened
    for context in contexts:
        context.close()


def test_a_finger_hits_everything_that_can_be_pressed(open_page: Open) -> None:
    page = open_page()
    expect(page.locator("#home-examples a").first).to_be_visible()
    small = page.evaluate(SMALL, LEAST)
    page.locator("#filters-toggle").click()
    for fold in page.locator("#filters summary").all():
        fold.click()
    for twist in page.locator("#filters .twist").all()[:2]:
        twist.click()
    expect(page.locator("#filters .places button").first).to_be_visible()
    small += page.evaluate(SMALL, LEAST)
    page.locator("#filters-toggle").click()
    page.locator("#grid .open").nth(1).click()
    expect(page.locator("#detail")).to_be_visible()
    small += page.evaluate(SMALL, LEAST)
    page.locator("#detail-like").click()
    expect(page.locator("#chip")).to_be_visible()
    expect(page.locator("#status")).to_contain_text("best first")  # the grid was there before, to browse
    small += page.evaluate(SMALL, LEAST)
    page.locator("#grid .open").first.focus()
    page.keyboard.press("x")
    expect(page.locator("#chosen")).to_be_visible()
    small += page.evaluate(SMALL, LEAST)
    assert not small


def test_closing_the_filters_leaves_no_hole_where_pictures_were(open_page: Open) -> None:
    page = open_page("?q=red+circle")
    page.locator("#filters-toggle").click()
    page.locator("#filters summary").last.click()
    page.evaluate("scrollTo(0, document.getElementById('grid').getBoundingClientRect().top - 100)")
    page.wait_for_timeout(200)
    y = page.evaluate("scrollY")
    page.locator("#filters-toggle").click()
    page.wait_for_timeout(200)
    assert page.evaluate("scrollY") == y, "else the scrolling alone would show them"
    seen = """() => [...document.querySelectorAll("#grid .open")].filter((one) => {
      const { top, bottom } = one.getBoundingClientRect(); return bottom > 0 && top < innerHeight; }).length"""
    assert page.evaluate(seen) > 2


def test_on_a_phone_the_first_picture_leaves_no_hole_before_the_next_button(open_page: Open) -> None:
    page = open_page()
    page.locator("#grid .open").first.click()
    expect(page.locator("#detail-back")).to_be_visible()
    expect(page.locator("#detail-back")).to_be_disabled()


def test_a_month_over_a_narrow_picture_is_written_out_whole(open_page: Open) -> None:
    page = open_page("?f.orientation=portrait")
    for y in range(0, 3000, 600):
        page.evaluate(f"scrollTo(0, {y})")
        page.wait_for_timeout(50)
        cut = page.locator("#grid .head h2").evaluate_all(
            "heads => heads.filter((h) => h.scrollWidth > h.clientWidth || h.scrollHeight > h.clientHeight + 1)"
            ".map((h) => h.textContent)"
        )
        assert not cut


def test_the_count_of_a_stack_stands_clear_of_the_words_it_was_found_by(open_page: Open) -> None:
    page = open_page("?q=IMG_0000")
    cell = page.locator("#grid li:has(.said:not([hidden])):has(.stack:not([hidden]))")
    expect(cell.first).to_be_visible()
    page.locator("#box").focus()
    over = cell.first.evaluate(
        """cell => { const [a, b] = [".said", ".stack"].map((one) => cell.querySelector(one).getBoundingClientRect());
          return Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top); }"""
    )
    assert over <= 0


def test_that_nothing_was_found_is_written_once(open_page: Open) -> None:
    page = open_page()
    page.locator("#box").fill('"zebrafish xylophone"')
    page.keyboard.press("Enter")
    expect(page.locator("#message h1")).to_have_text("No pictures")
    expect(page.get_by_role("status").first).to_have_text("No pictures.")
    assert page.locator("#status").evaluate("status => status.offsetWidth") == 1


def test_without_a_likely_match_the_page_says_so_above_the_nearest(open_page: Open) -> None:
    page = open_page()

    def unlikely(route: Any) -> None:
        answer = route.fetch()
        found = answer.json()
        for hit in found["hits"]:
            hit |= {"match": "none", "standing": 0.97}
        route.fulfill(response=answer, json={**found, "verdict": None})

    page.route("**/api/search", unlikely)
    page.locator("#box").fill("red circle")
    expect(page.locator("#status")).to_have_text("No likely match; the nearest first")
    width = page.locator("#grid .bar i").first.evaluate("bar => parseFloat(bar.style.width)")
    assert width == 30, "1 of 33 unrelated scores as high: -log10(0.03) / 5"


def test_hidden_pictures_and_favourites_are_called_so(open_page: Open) -> None:
    page = open_page()
    for key, filtered, words in (("f", "favourite", "Favourites"), ("h", "hidden", "Hidden pictures")):
        page.locator("#box").focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press(key)
        expect(page.locator("#toast")).to_be_visible()
        page.goto(f"{page.url.split('?')[0]}?{filtered}=1")
        expect(page.locator("#status")).to_have_text(f"{words}, newest first")
        page.goto(page.url.split("?")[0])
        expect(page.locator("#grid .open").first).to_be_visible()
