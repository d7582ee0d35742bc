"""Looking through a life of photographs in a real browser, with the real server behind the page."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

pytest.importorskip("playwright")
pytest.importorskip("fastapi")

from playwright.sync_api import Browser, Page, expect
from tests.serve.album import album
from tests.serve.conftest import serving
from tests.serve.test_page import CONTRASTS, until

from vsekit.search.calibration import FORMAT
from vsekit.search.searcher import Searcher
from vsekit.search.tables import Table
from vsekit.serve.limits import Limits

Open = Callable[..., Page]
FREE = Limits(rate=0)


@pytest.fixture
def searcher(tmp_path: Path) -> Searcher:
    return album(tmp_path, 120, captions=True)


@pytest.fixture
def client(searcher: Searcher) -> Iterator[httpx.Client]:
    with serving(searcher, limits=FREE) as client:
        yield client


@pytest.fixture
def open_page(browser: Browser, client: httpx.Client) -> Iterator[Open]:
    """Opens the page; in the end no script failed."""
    contexts, failures = [], []

    def opened(path: str = "", init: str = "", **options: object) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 800}, **options})  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.add_init_script(init)
        page.on("pageerror", lambda error: failures.append(str(error)))
        page.on("console", lambda message: failures.append(message.text) if "Security Policy" in message.text else None)
        page.goto(f"{client.base_url}/{path}")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not failures


def shown(page: Page) -> list[int]:
    """The numbers of the pictures in the document, in their order."""
    expect(page.locator("#grid .open").first).to_be_visible()
    links = page.locator("#grid .open").evaluate_all("links => links.map(link => link.getAttribute('href'))")
    return [int(parse_qs(urlsplit(link).query)["item"][0][8:]) for link in links]


def shows(page: Page, count: int) -> None:
    """Waits until so many are all there are, stacks counting one."""
    expect(page.locator("#grid li[aria-posinset='1']")).to_have_attribute("aria-setsize", str(count))


def cell(page: Page, number: int) -> str:
    return f"#grid li:has(.open[href$='{number:06d}'])"


def said(page: Page, text: str) -> None:
    expect(page.locator("#toast-text")).to_have_text(text)


def test_the_newest_stand_there_by_month_without_end(open_page: Open, client: httpx.Client) -> None:
    page = open_page()
    expect(page.get_by_role("heading", level=1)).to_have_text("Search 120 pictures in your own words")
    heads = page.locator("#grid .head h2")
    expect(heads.first).to_have_text("July 2023")
    months = [month for month, _ in client.get("/api/facets").json()["months"]]
    for _ in range(60):
        if page.locator("#end").is_visible():
            break
        page.mouse.wheel(0, 1500)
        page.wait_for_timeout(50)
    expect(page.locator("#end")).to_have_text("That is all: 120 pictures.")
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    last = 120 - 3 - 1  # three are in stacks; it is drawn in the frame after the scrolling
    page.wait_for_function("last => document.querySelector('#grid').lastElementChild.index === last", arg=last)
    expect(heads.last).to_have_text(page.evaluate("m => import('./groups.js').then(g => g.monthName(m))", months[-1]))


def test_every_picture_stands_under_its_month(open_page: Open) -> None:
    page = open_page()
    shown(page)
    groups = page.evaluate("""() => {
      let month = "";
      return [...document.querySelectorAll("#grid li")].map((li) => {
        if (li.classList.contains("head")) month = li.textContent;
        return li.hit && [month, li.hit.meta.dated.slice(0, 7)];
      }).filter(Boolean);
    }""")
    names = page.evaluate("() => import('./groups.js').then(g => g.monthName('2023-05'))")
    assert {dated for head, dated in groups if head == names} == {"2023-05"}
    assert len({head for head, _ in groups}) == len({dated for _, dated in groups}) > 3


def test_examples_come_from_this_index_and_can_be_asked(open_page: Open) -> None:
    page = open_page()
    examples = page.locator("#home-examples a")
    expect(examples.first).to_be_visible()
    words = examples.first.inner_text()
    assert words.startswith("a white")
    examples.first.click()
    expect(page.locator("#box")).to_have_value(words)
    expect(page.locator("#home")).to_be_hidden()
    expect(page.get_by_role("status").first).to_contain_text("best first")


def test_folders_lead_into_folders_and_back(open_page: Open) -> None:
    page = open_page()
    page.locator("#home-folders").get_by_text("2019 Rome").click()
    shows(page, 60)
    assert all(number % 4 in (1, 2) for number in shown(page))
    page.locator("#home-folders").get_by_text("day 2").click()
    expect(page.locator("#home-trail")).to_have_text("All pictures › 2019 Rome › day 2")
    shows(page, 30)  # the trail is there before the pictures are
    assert all(number % 4 == 2 for number in shown(page))
    assert page.title() == "day 2 · vsekit"
    page.locator("#home-trail").get_by_text("All pictures").click()
    expect(page.locator("#home-trail")).to_be_hidden()
    page.go_back()
    expect(page.locator("#home-trail strong")).to_have_text("day 2")


def test_a_year_a_month_and_days_can_be_chosen(open_page: Open, client: httpx.Client) -> None:
    page = open_page()
    page.get_by_role("button", name="Filters").click()
    panel = page.get_by_role("complementary", name="Filters")
    year = panel.get_by_role("button", name="2022 41")
    year.click()
    shows(page, 41)
    expect(panel.get_by_label("From this day")).to_have_value("2022-01-01")
    expect(panel.get_by_label("To this day")).to_have_value("2022-12-31")
    panel.get_by_role("button", name="February 3").click()
    shows(page, 3)
    panel.get_by_label("To this day").fill("2022-03-31")
    days = client.get("/api/items", params={"filter": 'dated >= "2022-02" and dated < "2022-04"', "top": 60}).json()[
        "items"
    ]
    shows(page, len(days))
    assert len(days) > 3
    page.reload()
    shows(page, len(days))
    page.get_by_role("button", name="Filters").click()
    panel.get_by_role("button", name="Clear filters").click()
    expect(page.locator("#grid .head h2").first).to_have_text("July 2023")


def test_the_last_second_of_a_day_is_of_that_day(open_page: Open) -> None:
    page = open_page("?from=2023-07-14&to=2023-07-14")
    shows(page, 1)


def test_camera_orientation_kind_and_folder_narrow_together(open_page: Open) -> None:
    page = open_page()
    page.get_by_role("button", name="Filters").click()
    panel = page.get_by_role("complementary", name="Filters")
    panel.get_by_role("button", name="Folders in 2019 Rome").click()
    panel.get_by_role("button", name=re.compile("^day 2")).click()
    expect(page.locator("#home-trail strong")).to_have_text("day 2")
    panel.get_by_label("X100").check()
    panel.get_by_label("square").check()
    expect(page.locator("#filters-count")).to_have_text("3")
    shows(page, 10)  # every twelfth
    metas = page.locator("#grid li").evaluate_all("cells => cells.filter(c => c.hit).map(c => c.hit.meta)")
    assert all(m["camera"] == "X100" and m["orientation"] == "square" for m in metas)
    assert {m["folder"] for m in metas} <= {"album/2019 Rome/day 2"}
    page.fill("#box", "red circle")
    until(page, "location.search.includes('q=')")
    page.wait_for_timeout(500)
    hits = page.locator("#grid li").evaluate_all("cells => cells.filter(c => c.hit).map(c => c.hit.meta.camera)")
    assert set(hits) <= {"X100"}


def test_pictures_near_a_place_are_found(open_page: Open) -> None:
    page = open_page()
    page.get_by_role("button", name="Filters").click()
    page.get_by_text("Near a place").click()
    page.get_by_role("button", name=re.compile("41.90° N, 12.50° E")).click()
    expect(page.locator("#filters-count")).to_have_text("1")
    until(page, "location.search.includes('near=')")
    shows(page, 40)  # a third of them, and the copy of the first is elsewhere
    assert all(number % 3 == 0 for number in shown(page))
    page.get_by_label("Latitude, longitude").fill("48.2, 16.37")
    until(page, "location.search.includes('48.2')")
    page.wait_for_timeout(300)
    assert all(number % 3 == 1 for number in shown(page))


def test_a_box_around_a_place_goes_over_the_date_line(open_page: Open) -> None:
    page = open_page()
    write = "near => import('./query.js').then(q => q.filter({...q.UNFILTERED, near}, {}))"
    assert page.evaluate(write, "0,179.95,11.132") == "lat >= -0.1 and lat <= 0.1 and (lon >= 179.85 or lon <= -179.95)"
    assert page.evaluate(write, "60,10,11.132") == "lat >= 59.9 and lat <= 60.1 and lon >= 9.8 and lon <= 10.2"
    assert page.evaluate(write, "91,0,1") == ""
    assert page.evaluate(write, "north,0") == ""


def test_copies_and_bursts_are_one_with_a_count(open_page: Open) -> None:
    page = open_page()
    numbers = shown(page)
    assert numbers[:3] == [0, 2, 5]
    expect(page.locator(f"{cell(page, 0)} .stack")).to_have_text("2")
    expect(page.locator(f"{cell(page, 5)} .stack")).to_be_hidden()
    page.locator(f"{cell(page, 2)} .open").click()
    strip = page.get_by_role("group", name="Copies and shots of the same moment")
    expect(strip.get_by_role("button")).to_have_count(3)
    page.keyboard.press("ArrowDown")
    expect(page.locator("#detail-name")).to_have_text("000003.jpg")
    strip.get_by_role("button").nth(2).click()
    expect(page.locator("#detail-name")).to_have_text("000004.jpg")
    page.reload()
    expect(page.locator("#detail-name")).to_have_text("000004.jpg")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#detail-name")).to_have_text("000005.jpg")


def test_a_quiet_line_stands_where_likely_ends(open_page: Open, searcher: Searcher) -> None:
    table = Table(0.0, 0.2, [i / 40 for i in range(131)], -4.0, 0.0, 1000)
    with searcher.store.__class__(searcher.store.location) as writer:
        writer.set_header({**writer.header, "calibration": {"format": FORMAT, "tables": {"text-image": vars(table)}}})
    page = open_page("?q=red+circle")
    for _ in range(40):  # the server looks after the index every few seconds
        page.reload()
        shown(page)
        if page.locator("#grid li[data-match='strong']").count():
            break
        page.wait_for_timeout(300)
    line = page.locator("#grid .line")
    expect(line).to_have_text("Less likely from here")
    matches = page.evaluate("""() => {
      const all = [...document.querySelectorAll("#grid li")], at = all.findIndex((li) => li.classList.contains("line"));
      return [all.slice(0, at), all.slice(at + 1)].map((part) => part.map((li) => li.dataset.match));
    }""")
    assert set(matches[0]) <= {"strong", "likely"}
    assert not set(matches[1]) & {"strong", "likely"}
    expect(page.locator("#grid li[data-match='none'] img").first).to_have_css("opacity", "1")


def test_a_favourite_is_kept_in_the_index_and_taken_back(open_page: Open, client: httpx.Client) -> None:
    page = open_page()
    page.locator(f"{cell(page, 5)} .open").click()
    button = page.get_by_role("dialog").get_by_role("button", name="Favourite")
    expect(button).to_have_attribute("aria-pressed", "false")
    page.keyboard.press("f")
    expect(button).to_have_attribute("aria-pressed", "true")
    said(page, "Picture added to favourites.")
    kept = client.get("/api/items", params={"filter": "favourite = true"}).json()["items"]
    assert [int(item["id"][8:]) for item in kept] == [5]
    page.get_by_role("button", name="Undo").click()
    expect(button).to_have_attribute("aria-pressed", "false")
    said(page, "As it was before.")
    assert not client.get("/api/items", params={"filter": "favourite = true"}).json()["items"]
    page.keyboard.press("f")
    page.keyboard.press("Escape")
    expect(page.locator(f"{cell(page, 5)}.favourite")).to_be_visible()
    page.get_by_role("button", name="Filters").click()
    page.get_by_label("Favourites").check()
    shows(page, 1)


def test_hiding_goes_on_to_the_next_and_can_be_undone(open_page: Open, client: httpx.Client) -> None:
    page = open_page()
    tenth = page.locator("#grid .open").nth(9)  # below the window: it comes a frame after those within
    expect(tenth).to_be_attached()
    before = shown(page)
    page.locator(f"{cell(page, 5)} .open").click()
    page.keyboard.press("h")
    said(page, "Picture hidden.")
    expect(page.locator("#detail-name")).to_have_text("000006.jpg")
    page.keyboard.press("Escape")
    expect(page.locator(cell(page, 5))).to_have_count(0)
    page.keyboard.press("Control+z")
    expect(page.locator(cell(page, 5))).to_have_count(1)
    expect(tenth).to_be_attached()
    assert shown(page)[:10] == before[:10]
    assert not client.get("/api/items", params={"filter": "hidden = true"}).json()["items"]


def test_hidden_pictures_can_be_looked_at_and_shown_again(open_page: Open, client: httpx.Client) -> None:
    chosen = [item["id"] for item in client.get("/api/items?top=7").json()["items"]][5:]
    client.post("/api/marks", json={"ids": chosen, "hidden": True})
    page = open_page("?hidden=1")
    shows(page, 2)
    page.locator("#grid .open").first.focus()
    page.keyboard.press("h")
    shows(page, 1)
    said(page, "Picture shown again.")


def test_many_are_chosen_by_mouse_and_keyboard(open_page: Open) -> None:
    page = open_page()
    shown(page)
    page.locator("#grid .open").nth(1).focus()
    page.keyboard.press("x")
    count = page.locator("#chosen-count")
    expect(count).to_have_text("3 chosen")  # a burst is chosen as a whole
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+X")
    expect(count).to_have_text("5 chosen")
    page.locator("#grid .open").nth(4).click()
    expect(count).to_have_text("6 chosen")
    assert not page.locator("#detail").is_visible()
    page.locator("#grid .pick").nth(4).click()
    expect(count).to_have_text("5 chosen")
    expect(page.locator("#grid .pick[aria-checked='true']")).to_have_count(3)
    page.keyboard.press("Escape")
    expect(page.get_by_role("toolbar")).to_be_hidden()
    page.locator("#grid .open").first.focus()
    page.keyboard.press("Control+a")
    expect(count).to_contain_text("chosen")
    assert int(count.inner_text().split()[0]) >= 60


def test_chosen_pictures_are_saved_copied_and_marked(open_page: Open, client: httpx.Client) -> None:
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    shown(page)
    for i in (2, 3):
        page.locator("#grid .open").nth(i).focus()
        page.keyboard.press("x")
    bar = page.get_by_role("toolbar")
    with page.expect_download() as saved:
        bar.get_by_role("button", name="Download").click()
    with zipfile.ZipFile(io.BytesIO(Path(saved.value.path()).read_bytes())) as archive:
        assert sorted(archive.namelist()) == ["album/2019 Rome/000005.jpg", "album/2019 Rome/day 2/000006.jpg"]
    bar.get_by_role("button", name="Copy paths").click()
    said(page, "2 paths copied.")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.splitlines() == ["album/2019 Rome/000005.jpg", "album/2019 Rome/day 2/000006.jpg"]
    bar.get_by_role("button", name="Favourite").click()
    said(page, "2 pictures added to favourites.")
    expect(page.locator("#grid .favourite")).to_have_count(2)
    expect(bar.get_by_role("button", name="Favourite")).to_have_attribute("aria-pressed", "true")
    bar.get_by_role("button", name="Hide").click()
    said(page, "2 pictures hidden.")
    expect(page.locator(cell(page, 5))).to_have_count(0)
    expect(bar).to_be_hidden()
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(cell(page, 5))).to_have_count(1)
    assert len(client.get("/api/items", params={"filter": "favourite = true"}).json()["items"]) == 2


def test_a_finger_that_stays_chooses(open_page: Open) -> None:
    page = open_page(has_touch=True, viewport={"width": 390, "height": 844})
    shown(page)
    page.locator("#grid .open").nth(2).evaluate(
        "link => link.dispatchEvent(new PointerEvent('contextmenu', { pointerType: 'touch', bubbles: true, cancelable: true }))"
    )
    expect(page.locator("#chosen-count")).to_have_text("1 chosen")


def test_a_picture_is_saved_and_leads_to_its_folder(open_page: Open) -> None:
    page = open_page("?q=red+circle")
    page.locator("#grid .open").first.click()
    dialog = page.get_by_role("dialog")
    name = dialog.locator("#detail-name").inner_text()
    with page.expect_download() as saved:
        page.keyboard.press("d")
    assert saved.value.suggested_filename == name
    expect(dialog.get_by_role("link", name="Original")).to_have_attribute("href", re.compile("/picture"))
    folder = dialog.locator("#detail-meta dd").filter(has_text="album").get_by_role("link").last
    inside = folder.inner_text()
    folder.click()
    expect(dialog.locator("#detail-name")).to_have_text(name)
    page.keyboard.press("Escape")
    expect(page.locator("#box")).to_have_value("")
    if inside != "album":
        expect(page.locator("#home-trail strong")).to_have_text(inside)


def test_a_slideshow_goes_on_by_itself_until_it_is_stopped(open_page: Open) -> None:
    page = open_page(
        init="""
      const later = window.setTimeout;
      window.setTimeout = (work, delay, ...rest) => later(work, delay === 4000 ? 400 : delay, ...rest);
    """
    )
    page.locator("#grid .open").first.click()
    expect(page.locator("#detail-name")).to_have_text("000000.jpg")
    page.keyboard.press("s")
    expect(page.locator("#detail.playing")).to_be_visible()
    box = page.locator("#detail").bounding_box()
    assert box
    assert (box["width"], box["height"]) >= (1180, 800), "it fills the window even where it may not fill the screen"
    expect(page.get_by_role("button", name="Stop the slideshow")).to_have_attribute("aria-pressed", "true")
    # Past two pictures at least; how many more, the machine decides.
    expect(page.locator("#detail-name")).to_have_text(re.compile(r"0000(0[2-9]|[1-9]\d)\.jpg"))
    page.keyboard.press("s")
    expect(page.locator("#detail.playing")).to_have_count(0)
    name = page.locator("#detail-name").inner_text()
    page.wait_for_timeout(1500)
    expect(page.locator("#detail-name")).to_have_text(name)


def test_it_can_be_installed_as_an_app(open_page: Open, client: httpx.Client) -> None:
    page = open_page()
    manifest = client.get("/app.webmanifest")
    assert manifest.headers["content-type"].startswith("application/manifest+json")
    for icon in json.loads(manifest.text)["icons"]:
        got = client.get(f"/{icon['src']}")
        assert (got.status_code, got.headers["content-type"]) == (200, icon["type"])
    assert client.get("/favicon.ico").status_code == 200
    session = page.context.new_cdp_session(page)
    assert not session.send("Page.getAppManifest")["errors"]


def test_no_path_of_the_machine_stands_on_the_page(open_page: Open, tmp_path: Path) -> None:
    page = open_page()
    shown(page)
    page.get_by_role("button", name="Filters").click()
    page.get_by_text("More fields").first.click()
    page.locator("#grid .open").first.click()
    expect(page.locator("#detail")).to_be_visible()
    page.locator("#detail").get_by_text("More fields").click()
    assert str(tmp_path) not in page.content()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast(open_page: Open, scheme: str) -> None:
    page = open_page(color_scheme=scheme)
    shown(page)
    page.get_by_role("button", name="Filters").click()
    page.get_by_text("Near a place").click()
    page.get_by_role("button", name="Months of 2022").click()
    page.locator("#grid .open").first.focus()
    page.keyboard.press("x")
    page.keyboard.press("f")
    said(page, "2 pictures added to favourites.")
    found = page.evaluate(CONTRASTS)
    page.keyboard.press("Escape")
    page.locator("#grid .open").nth(3).click()
    expect(page.locator("#detail-meta")).to_be_visible()
    page.locator("#detail").get_by_text("More fields").click()
    found += page.evaluate(CONTRASTS)
    assert len(found) > 40
    assert not [(text, round(ratio, 2)) for text, ratio in found if ratio < 4.5]


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_nothing_sticks_out_sideways(open_page: Open, width: int) -> None:
    page = open_page(viewport={"width": width, "height": 800})
    shown(page)
    page.get_by_role("button", name="Filters").click()
    page.get_by_text("Near a place").click()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator("#grid .open").first.focus()
    page.keyboard.press("x")
    bar = page.get_by_role("toolbar").bounding_box()
    assert bar
    assert bar["x"] >= 0
    assert bar["x"] + bar["width"] <= width


def test_ten_pictures_are_enough(browser: Browser, tmp_path: Path) -> None:
    with serving(album(tmp_path, 10), limits=FREE) as client:
        page = browser.new_page(viewport={"width": 1200, "height": 800})
        page.goto(f"{client.base_url}/")
        shows(page, 7)
        expect(page.locator("#home-examples a")).to_have_count(0)
        expect(page.locator("#end")).to_be_hidden()
        page.close()


@pytest.mark.slow
def test_a_hundred_thousand_pictures_scroll_to_the_end(browser: Browser, tmp_path: Path) -> None:
    with serving(album(tmp_path, 100_000, files=300), limits=FREE) as client:
        page = browser.new_page(viewport={"width": 1200, "height": 800})
        page.goto(f"{client.base_url}/")
        shown(page)
        most = page.evaluate(
            """async () => {
              let most = 0;
              for (let i = 0; i < 30; i++) {
                const height = document.body.scrollHeight;
                scrollTo(0, height);
                while (document.body.scrollHeight === height) await new Promise((resolve) => setTimeout(resolve, 10));
                most = Math.max(most, document.querySelectorAll("#grid li").length);
              }
              return most;
            }"""
        )
        assert most < 400
        assert page.evaluate("document.querySelector('#grid').lastElementChild.index") > 5000
        page.get_by_role("button", name="Filters").click()
        page.get_by_role("button", name=re.compile("^1990 2,4")).click()
        expect(page.locator("#grid .head h2").first).to_contain_text("1990")
        page.close()


def test_a_hit_says_by_which_words_it_was_found_and_quotes_leave_only_these(open_page: Open) -> None:
    page = open_page("?q=%22circle+on+red%22+red")
    first = page.locator("#grid li:not(.head)").first
    expect(first.locator(".said")).to_contain_text("caption: circle on red")
    assert first.locator(".said").is_visible()
    said = page.locator("#grid li:not(.head) .said").all_inner_texts()
    assert said
    assert all(text.startswith("caption: circle on red") for text in said)
    first.locator(".open").click()
    expect(page.locator("#detail-said")).to_contain_text("Found by words: caption: circle on red")
    page = open_page("?q=%22nowhere+at+all%22+red")
    expect(page.locator("body")).to_contain_text("No picture here has the words")
