"""The search page in a real browser."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from urllib.parse import parse_qs, urlsplit

import pytest

pytest.importorskip("playwright")
pytest.importorskip("fastapi")

from playwright.sync_api import Browser, Page, expect
from tests.serve.browser import Fake, Refusal, Serving, png, serving

Open = Callable[..., Page]
expect.set_options(timeout=10_000)

#: Every visible text with the contrast (WCAG 2.1) of its colour against what is painted behind it.
CONTRASTS = """() => {
  const sheet = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
  const canvas = sheet.getContext("2d", { willReadFrequently: true });
  const known = {};
  const rgba = (css) => known[css] ??= read(css);
  const read = (css) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = css; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255]; };
  const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3]));
  const light = (rgb) => rgb.map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) layers.push(rgba(getComputedStyle(e).backgroundColor));
    return layers.reverse().reduce((under, layer) => over(layer, under), [255, 255, 255]);
  };
  const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const modal = document.querySelector("dialog[open]");
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement, text = walker.currentNode.data.trim();
    const shown = element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
    if (!text || !shown || element.closest(".visually-hidden, .skip, noscript") || (modal && !modal.contains(element))) continue;
    const ground = behind(element), colour = over(rgba(getComputedStyle(element).color), ground);
    const [low, high] = [light(ground), light(colour)].sort((a, b) => a - b);
    found.push([text, (high + 0.05) / (low + 0.05)]);
  }
  return found;
}"""

TRANSFER = """([data, name, type]) => {
  const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0)), transfer = new DataTransfer();
  transfer.items.add(new File([bytes], name, { type }));
  const how = { bubbles: true, cancelable: true };
"""
DROP = (
    TRANSFER
    + """
  for (const event of ["dragover", "drop"])
    document.querySelector("main").dispatchEvent(new DragEvent(event, { dataTransfer: transfer, ...how }));
}"""
)
PASTE = TRANSFER + 'document.dispatchEvent(new ClipboardEvent("paste", { clipboardData: transfer, ...how })); }'


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    with serving(Fake()) as server:
        yield server


@pytest.fixture
def fake(server: Serving) -> Fake:
    """A new one behind the same address."""
    fake = Fake()
    server.behind(fake)
    return fake


@pytest.fixture
def open_page(browser: Browser, server: Serving, fake: Fake) -> Iterator[Open]:
    """Opens the page; in the end no script failed, and nothing was asked of any other host."""
    contexts, failures, hosts = [], [], set()

    def opened(path: str = "", **options: object) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 800}, **options})  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: failures.append(str(error)))
        page.on("console", lambda message: failures.append(message.text) if "Security Policy" in message.text else None)
        page.on(
            "request",
            lambda request: hosts.add(urlsplit(request.url).netloc) if request.url.startswith("http") else None,
        )
        page.goto(server.url + path)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not failures
    assert hosts <= {f"127.0.0.1:{server.port}"}


def ids(page: Page) -> list[str]:
    """The pictures in the document, in the order of the answer."""
    links = page.locator("#grid .open").evaluate_all("links => links.map(link => link.getAttribute('href'))")
    return [parse_qs(link)["item"][0] for link in links]


def until(page: Page, condition: str) -> None:
    """Waits for it from outside: the page's own policy forbids playwright's way, which evaluates strings."""
    for _ in range(400):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(25)
    pytest.fail(f"never came true: {condition}")


def asked_with(page: Page, fake: Fake, filter: str | None) -> None:
    """Waits until the last search that reached the server had this filter."""
    for _ in range(400):
        if fake.log and fake.log[-1]["filter"] == filter:
            return
        page.wait_for_timeout(25)
    assert fake.log[-1]["filter"] == filter


def first(fake: Fake, query: str, expression: str | None = None) -> str:
    """The best answer to a query."""
    found = fake.answer(query, 1, 0, "image", expression)
    fake.log.pop()
    return found.hits[0].id


def expect_first(page: Page, item: str) -> None:
    expect(page.locator("#grid li[aria-posinset='1'] .open")).to_have_attribute("href", re.compile(f"item={item}(&|$)"))


def picture(seed: int = 5) -> list[str]:
    return [base64.b64encode(png(64, 48, seed)).decode(), "holiday.png", "image/png"]


def test_the_box_has_the_focus_and_results_come_as_one_types(open_page: Open, fake: Fake) -> None:
    page = open_page()
    expect(page.locator("#box")).to_be_focused()
    expect(page.locator("h1")).to_have_text("Search 300 pictures in your own words")
    page.keyboard.type("a dog", delay=20)
    expect_first(page, first(fake, "a dog"))
    expect(page.get_by_role("status")).to_have_text("60 pictures, best first; more follow")
    assert len(fake.log) < len("a dog"), "words typed in one go are not asked for letter by letter"


def test_enter_asks_at_once_and_again(open_page: Open, fake: Fake) -> None:
    page = open_page("?q=dog")
    expect_first(page, first(fake, "dog"))
    page.keyboard.press("Enter")
    for _ in range(400):
        asked = [entry["query"] for entry in fake.log if entry["offset"] == 0]
        if len(asked) > 1:
            break
        page.wait_for_timeout(25)
    assert asked == ["dog", "dog"]


def test_an_answer_that_comes_late_is_dropped(open_page: Open, fake: Fake) -> None:
    fake.delays["slow"] = 0.8
    page = open_page()
    page.fill("#box", "slow")
    until(page, "document.querySelector('#busy').classList.contains('on')")
    page.fill("#box", "quick")
    expect_first(page, first(fake, "quick"))
    page.wait_for_timeout(900)
    expect_first(page, first(fake, "quick"))
    assert [entry["query"] for entry in fake.log][:2] == ["slow", "quick"]


def test_rows_fill_the_width_and_keep_every_shape(open_page: Open, fake: Fake) -> None:
    page = open_page("?q=dog")
    expect(page.locator("#grid li").first).to_be_visible()
    boxes = page.locator("#grid li").evaluate_all(
        """cells => cells.map((cell) => {
          const { left, top, right, height, width } = cell.getBoundingClientRect();
          return [left, top, right, height, width, cell.hit.width / cell.hit.height];
        })"""
    )
    rows: dict[float, list[list[float]]] = {}
    for box in boxes:
        rows.setdefault(box[1], []).append(box)
        assert box[4] / box[3] == pytest.approx(box[5], rel=0.03)
    grid = page.locator("#grid").bounding_box()
    assert grid
    for row in rows.values():
        assert row[-1][2] == pytest.approx(grid["x"] + grid["width"], abs=1.5)
        assert all(left[2] < right[0] for left, right in pairwise(row)), "pictures must not overlap"


def test_scores_show_on_hover_and_no_match_is_not_washed_out(open_page: Open, fake: Fake) -> None:
    fake.verdicts["unicorn"] = "Nothing here matches."
    page = open_page("?q=unicorn")
    cell = page.locator("#grid li").first
    expect(cell.locator(".caption")).to_have_css("opacity", "0")
    expect(cell.locator("img")).to_have_css("opacity", "1")
    cell.hover()
    expect(cell.locator(".caption")).to_have_css("opacity", "1")
    expect(cell.locator(".score")).to_have_text("no match0.600")
    expect(page.get_by_role("status")).to_have_text("Nothing here matches. These come nearest.")


def test_a_dropped_picture_is_searched_with_and_captions_come_along(open_page: Open, fake: Fake) -> None:
    page = open_page("?q=dog")
    page.evaluate(DROP, picture())
    expect(page.locator("#chip-text")).to_have_text("holiday.png")
    captions = page.get_by_role("region", name="Nearest captions")
    expect(captions.get_by_role("listitem")).to_have_count(5)
    expect(captions.locator("img")).to_have_attribute("src", re.compile("^data:image/jpeg"))
    asked = [entry["kind"] for entry in fake.log if entry["query"].startswith("picture:") and not entry["offset"]]
    assert sorted(asked) == ["caption", "image"]
    words = captions.get_by_role("link").first.inner_text()
    captions.get_by_role("link").first.click()
    expect(page.locator("#box")).to_have_value(words)
    expect_first(page, first(fake, words))
    expect(page.locator("#chip")).to_be_hidden()


def test_a_picture_query_survives_reload_and_back(open_page: Open, fake: Fake) -> None:
    page = open_page("?q=dog")
    page.evaluate(DROP, picture())
    expect(page.get_by_role("region", name="Nearest captions")).to_be_visible()
    page.reload()
    expect(page.locator("#chip-text")).to_have_text("holiday.png")
    expect(page.locator("#grid li").first).to_be_visible()
    page.go_back()
    expect(page.locator("#box")).to_have_value("dog")
    expect_first(page, first(fake, "dog"))


def test_a_pasted_picture_is_searched_with(open_page: Open, fake: Fake) -> None:
    page = open_page()
    page.evaluate(PASTE, picture(9))
    expect(page.locator("#chip")).to_be_visible()
    expect(page.get_by_role("region", name="Nearest captions")).to_be_visible()  # the grid was there before, to browse
    assert fake.log[0]["query"].startswith("picture:")


def test_a_chosen_file_is_searched_with(open_page: Open, fake: Fake) -> None:
    page = open_page()
    page.set_input_files("#file", {"name": "beach.png", "mimeType": "image/png", "buffer": png(40, 40, 3)})
    expect(page.locator("#chip-text")).to_have_text("beach.png")
    expect(page.get_by_role("region", name="Nearest captions")).to_be_visible()


def test_what_is_too_large_or_no_picture_is_said_to_be(open_page: Open, fake: Fake) -> None:
    fake.largest_upload = 10
    page = open_page()
    page.evaluate(DROP, picture())
    expect(page.locator("#message")).to_contain_text("That picture is too large")
    expect(page.locator("#message")).to_contain_text("at most 1.0 MB are taken")
    page.evaluate(DROP, [base64.b64encode(b"%PDF").decode(), "paper.pdf", "application/pdf"])
    expect(page.locator("#message h1")).to_have_text("That is no picture")


def test_a_shared_link_to_a_dropped_picture_says_what_is_missing(open_page: Open, fake: Fake) -> None:
    page = open_page("?picture=elsewhere")
    expect(page.locator("#message")).to_contain_text("Drop it here once more")
    assert not fake.log


def test_filters_become_one_expression(open_page: Open, fake: Fake) -> None:
    page = open_page("?q=dog")
    page.get_by_role("button", name="Filters").click()
    panel = page.get_by_role("complementary", name="Filters")
    expect(panel.get_by_label("year, from")).to_be_hidden()
    panel.get_by_text("More fields").click()
    panel.get_by_label("year, from").fill("2015")
    panel.get_by_label("X100").check()
    panel.get_by_label("Z6").check()
    panel.get_by_label("flash").select_option("no")
    panel.get_by_label("name contains").fill('1"')
    panel.get_by_label("Filter expression").fill("year < 2020 or year = 2022")
    chosen = 'year >= 2015 and camera in ("X100", "Z6") and flash = false'
    written = "(year < 2020 or year = 2022)"
    asked_with(page, fake, f'{chosen} and name contains "1\\"" and {written}')
    panel.get_by_label("name contains").fill("")
    wanted = f"{chosen} and {written}"
    expect_first(page, first(fake, "dog", wanted))
    shown = page.locator("#grid li").evaluate_all("cells => cells.map(c => c.hit.meta)")
    assert shown
    assert all(m["year"] >= 2015 and m["camera"] in ("X100", "Z6") and m["flash"] is False for m in shown)
    expect(page.locator("#filters-count")).to_have_text("4")
    page.reload()
    expect_first(page, first(fake, "dog", wanted))
    page.get_by_role("button", name="Filters").click()
    expect(panel.get_by_label("year, from")).to_have_value("2015")
    expect(panel.get_by_label("Z6")).to_be_checked()
    panel.get_by_role("button", name="Clear filters").click()
    expect_first(page, first(fake, "dog"))
    asked_with(page, fake, None)


def test_a_filter_that_cannot_be_read_says_so_beside_it(open_page: Open, fake: Fake) -> None:
    page = open_page("?q=dog")
    page.get_by_role("button", name="Filters").click()
    page.get_by_text("More fields").click()
    box = page.get_by_label("Filter expression")
    box.fill("year >>> 3")
    expect(page.locator("#where-error")).to_have_text("Can't read the filter: year >>> 3.")
    expect(box).to_have_attribute("aria-invalid", "")
    box.fill("year > 2012")
    expect(page.locator("#where-error")).to_be_empty()
    expect_first(page, first(fake, "dog", "year > 2012"))


def test_nothing_found_offers_to_clear_the_filters(open_page: Open, fake: Fake) -> None:
    page = open_page("?q=dog&where=year+%3E+3000")
    expect(page.locator("#message")).to_contain_text("Nothing passes these filters.")
    page.locator("#message").get_by_role("button", name="Clear filters").click()
    expect_first(page, first(fake, "dog"))


def test_more_like_this_and_words_that_change_it(open_page: Open, fake: Fake) -> None:
    page = open_page("?q=dog")
    start = first(fake, "dog")
    expect_first(page, start)
    page.locator("#grid li").first.hover()
    page.locator("#grid li .more").first.click()
    expect_first(page, first(fake, f"item:{start}"))
    expect(page.locator("#chip-text")).to_have_text(f"photo-{int(start[1:]):05}.jpg")
    page.fill("#box", "at night")
    expect_first(page, first(fake, f'item:{start} + "at night"'))
    page.fill("#box", "- water")
    expect_first(page, first(fake, f'item:{start} - "water"'))
    page.get_by_label("Remove the picture from the query").click()
    expect_first(page, first(fake, "- water"))


def test_back_forward_and_reload_find_their_place(open_page: Open, fake: Fake) -> None:
    page = open_page()
    page.fill("#box", "dog")
    page.keyboard.press("Enter")
    expect_first(page, first(fake, "dog"))
    page.evaluate("scrollTo(0, 900)")
    page.wait_for_timeout(100)
    page.locator("#grid .more").nth(8).evaluate("link => link.click()")
    expect(page.locator("#chip")).to_be_visible()
    expect(page.get_by_role("region", name="Nearest captions")).to_be_visible()
    asked = len(fake.log)
    page.go_back()
    expect(page.locator("#box")).to_have_value("dog")
    until(page, "scrollY === 900")
    assert len(fake.log) == asked, "going back needs no new answer"
    page.go_forward()
    expect(page.locator("#chip")).to_be_visible()
    page.go_back()
    page.go_back()
    expect(page.locator("h1")).to_contain_text("Search 300 pictures")
    page.go_forward()
    page.reload()
    expect(page.locator("#box")).to_have_value("dog")
    expect_first(page, first(fake, "dog"))


def test_everything_works_from_the_keyboard(open_page: Open, fake: Fake) -> None:
    page = open_page()
    page.keyboard.type("dog")
    expect_first(page, first(fake, "dog"))
    active = "document.activeElement.closest('li')?.index"
    page.keyboard.press("ArrowDown")
    assert page.evaluate(active) == 0
    page.keyboard.press("ArrowRight")
    assert page.evaluate(active) == 1
    assert page.evaluate("getComputedStyle(document.activeElement.closest('li')).outlineStyle") == "solid"
    page.keyboard.press("ArrowDown")
    below = page.evaluate(active)
    assert below > 1
    page.keyboard.press("ArrowUp")
    page.keyboard.press("End")
    until(page, f"{active} === 59 || {active} > 59")
    page.keyboard.press("Home")
    assert page.evaluate(active) == 0
    assert page.locator("#grid [tabindex='0']").count() == 3, "one picture and its buttons are in the tab order"
    page.keyboard.press("Enter")
    expect(page.locator("#detail")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#detail")).to_be_hidden()
    assert page.evaluate(active) == 0
    page.keyboard.press("ArrowUp")
    expect(page.locator("#box")).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("m")
    expect_first(page, first(fake, f"item:{first(fake, 'dog')}"))
    page.locator("#grid .open").first.focus()
    page.keyboard.press("/")
    expect(page.locator("#box")).to_be_focused()


def test_the_dialog_steps_keeps_the_focus_and_goes_back(open_page: Open, fake: Fake) -> None:
    page = open_page("?q=dog")
    expect_first(page, first(fake, "dog"))
    page.locator("#grid .open").nth(0).click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("h2")).to_have_text(f"photo-{int(first(fake, 'dog')[1:]):05}.jpg")
    expect(dialog.get_by_text("Camera", exact=True)).to_be_visible()
    expect(dialog.locator("#detail-captions li")).to_have_count(1)
    for _ in range(16):
        page.keyboard.press("Tab")
        # After the last control the browser's own come, and none of the page behind.
        assert page.evaluate(
            "document.activeElement === document.body || Boolean(document.activeElement.closest('#detail'))"
        )
    name = dialog.locator("h2").inner_text()
    page.keyboard.press("ArrowRight")
    expect(dialog.locator("h2")).not_to_have_text(name)
    page.keyboard.press("ArrowLeft")
    expect(dialog.locator("h2")).to_have_text(name)
    page.keyboard.press("ArrowRight")
    page.reload()
    expect(dialog).to_be_visible()
    page.go_back()
    expect(dialog).to_be_hidden()
    assert page.url.endswith("?q=dog")
    page.go_forward()
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    until(page, "document.activeElement.closest('li')?.index === 1")


def test_a_link_to_a_picture_alone_opens_it(open_page: Open, fake: Fake) -> None:
    page = open_page("?item=p7")
    expect(page.get_by_role("dialog").locator("h2")).to_have_text("photo-00007.jpg")
    page.get_by_role("button", name="Close").click()
    expect(page.locator("h1")).to_contain_text("Search 300 pictures")


def test_why_shades_the_words_and_draws_their_boxes(open_page: Open, fake: Fake) -> None:
    fake.boxes = {"dog": [(0.25, 0.5, 0.75, 1.0, 0.9)], "sand": [(0.0, 0.5, 1.0, 1.0, 0.3)]}
    page = open_page("?q=dog+on+sand")
    page.locator("#grid .open").first.click()
    why = page.locator("#detail-why")
    expect(why.locator(".word")).to_have_count(3)
    weights = why.locator(".word").evaluate_all("words => words.map(w => Number(w.style.getPropertyValue('--weight')))")
    assert max(weights) == 1
    assert all(0 <= weight <= 1 for weight in weights)
    picture = page.locator("#detail-image").bounding_box()
    box = page.locator("#detail-boxes rect").first.bounding_box()
    assert picture
    assert box
    assert box["x"] == pytest.approx(picture["x"] + 0.25 * picture["width"], abs=3)
    assert box["width"] == pytest.approx(0.5 * picture["width"], abs=6)
    assert box["y"] + box["height"] == pytest.approx(picture["y"] + picture["height"], abs=3)
    why.get_by_role("button", name="dog").focus()
    expect(page.locator("#detail-boxes .marked")).to_have_count(1)
    expect(page.locator("#detail-boxes rect:not(.marked)")).to_have_css("opacity", "0")


def test_half_an_expression_while_typing_leaves_what_was_found(open_page: Open, fake: Fake) -> None:
    page = open_page("?q=dog")
    expect_first(page, first(fake, "dog"))
    fake.refusals = [Refusal(422, "a quote is not closed")]
    page.fill("#box", '"dog')
    expect(page.get_by_role("status")).to_have_text("A quote is not closed.")
    expect_first(page, first(fake, "dog"))


def test_an_empty_index_says_how_to_fill_it(open_page: Open, server: Serving) -> None:
    server.behind(Fake(pictures=0, captions=0))
    page = open_page()
    expect(page.locator("#message h1")).to_have_text("Nothing is indexed yet")
    expect(page.locator("#message pre")).to_contain_text("vse index")
    expect(page.locator("#filters-toggle")).to_be_hidden()


def test_a_server_that_goes_away_is_waited_for(open_page: Open, server: Serving, fake: Fake) -> None:
    page = open_page("?q=dog")
    expect_first(page, first(fake, "dog"))
    server.stop()
    try:
        page.fill("#box", "cat")
        expect(page.get_by_role("alert").filter(has_text="The server is not answering")).to_be_visible()
        expect_first(page, first(fake, "dog"))
    finally:
        server.start()
    expect_first(page, first(fake, "cat"))
    expect(page.locator("#banner")).to_be_hidden()
    until(page, "[...document.querySelectorAll('#grid img')].slice(0, 5).every(i => i.complete && i.naturalWidth)")


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        (Refusal(429, "too many requests", headers={"Retry-After": "2"}), "That was a little fast for this server."),
        (Refusal(503, "the model is being loaded", headers={"Retry-After": "2"}), "The model is being loaded."),
    ],
)
def test_a_server_that_is_busy_is_waited_for(open_page: Open, fake: Fake, refusal: Refusal, said: str) -> None:
    fake.refusals = [refusal]
    page = open_page("?q=dog")
    expect(page.locator("#banner")).to_have_text(f"{said} Going on in a moment.")
    expect_first(page, first(fake, "dog"))
    expect(page.locator("#banner")).to_be_hidden()


def test_an_error_of_the_server_can_be_tried_again(open_page: Open, fake: Fake) -> None:
    fake.refusals = [Refusal(500, "something went wrong in the server", "Its log says what.")]
    page = open_page("?q=dog")
    expect(page.locator("#message")).to_contain_text("Its log says what.")
    page.get_by_role("button", name="Try again").click()
    expect_first(page, first(fake, "dog"))


def test_a_token_is_asked_for_until_it_is_right(open_page: Open, fake: Fake) -> None:
    fake.token = "open sesame"
    page = open_page("?q=dog")
    page.get_by_role("textbox", name="Token").fill("open barley")
    page.keyboard.press("Enter")
    expect(page.locator("#token-error")).to_have_text("This is not the token.")
    page.get_by_role("textbox", name="Token").fill("open sesame")
    page.keyboard.press("Enter")
    expect(page.locator("#token")).to_be_hidden()
    expect_first(page, first(fake, "dog"))
    expect(page.locator("#filters-toggle")).to_be_visible()


@pytest.mark.slow
def test_ten_thousand_pictures_scroll_with_few_in_the_document(open_page: Open, server: Serving) -> None:
    fake = Fake(pictures=10_000, captions=0)
    server.behind(fake)
    page = open_page("?q=dog")
    expect(page.locator("#grid li").first).to_be_visible()
    most = page.evaluate(
        """async () => {
          let most = 0;
          const end = document.getElementById("end");
          while (end.hidden) {
            const height = document.body.scrollHeight;
            scrollTo(0, height);
            while (end.hidden && document.body.scrollHeight === height) await new Promise((resolve) => setTimeout(resolve, 10));
            most = Math.max(most, document.querySelectorAll("#grid li").length);
          }
          return most;
        }"""
    )
    assert most < 150
    expect(page.locator("#end")).to_have_text("That is all: 10,000 pictures.")
    offsets = [entry["offset"] for entry in fake.log]
    assert offsets == sorted(set(offsets)), "no page is asked for twice"
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    expect(page.locator("#grid li[aria-posinset='10000']")).to_be_visible()
    page.evaluate("scrollTo(0, document.body.scrollHeight / 2)")
    until(
        page,
        """[...document.querySelectorAll("#grid li")].some(
          (cell) => cell.getBoundingClientRect().top < 400 && cell.index > 4000 && cell.index < 6000)""",
    )
    page.evaluate("scrollTo(0, 0)")
    expect_first(page, first(fake, "dog"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast(open_page: Open, fake: Fake, scheme: str) -> None:
    fake.verdicts["unicorn"] = "Nothing here matches."
    for path in ("", "?like=p3", "?q=unicorn&where=year+%3E+2010", "?q=dog+on+sand&item=p3"):
        page = open_page(path, color_scheme=scheme)
        page.wait_for_load_state("networkidle")
        if "item" in path:
            expect(page.locator("#detail-why")).to_be_visible()
        elif path:
            page.get_by_role("button", name="Filters").click()
            page.locator("#grid li").first.hover()
        texts = page.evaluate(CONTRASTS)
        assert len(texts) > 5
        assert not [(text, round(ratio, 2)) for text, ratio in texts if ratio < 4.5]
        ground = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", ground)[:3])) < 200) == (scheme == "dark")


def test_the_theme_can_be_chosen_and_is_kept(open_page: Open, fake: Fake) -> None:
    page = open_page(color_scheme="light")
    scheme = "getComputedStyle(document.documentElement).colorScheme"
    page.get_by_role("button", name="Switch between light and dark").click()
    assert page.evaluate(scheme) == "dark"
    page.reload()
    assert page.evaluate(scheme) == "dark"
    page.get_by_role("button", name="Switch between light and dark").click()
    assert page.evaluate(scheme) == "light dark", "back to the system's choice is no choice"


@pytest.mark.parametrize("width", [320, 768, 2560])
def test_nothing_sticks_out_sideways(open_page: Open, fake: Fake, width: int) -> None:
    page = open_page("?like=p3", viewport={"width": width, "height": 700})
    expect(page.get_by_role("region", name="Nearest captions")).to_be_visible()
    page.get_by_role("button", name="Filters").click()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator("#grid .open").first.click()
    expect(page.locator("#detail")).to_be_visible()
    assert page.evaluate(
        "document.getElementById('detail').scrollWidth <= document.getElementById('detail').clientWidth"
    )
    clipped = page.locator("#detail :is(button, a, h2)").evaluate_all(
        """all => all.filter((e) => e.checkVisibility({ visibilityProperty: true })).filter((e) => {
          const { left, right } = e.getBoundingClientRect();
          return left < 0 || right > innerWidth;
        }).length"""
    )
    assert clipped == 0


def test_everything_has_a_name(open_page: Open, fake: Fake) -> None:
    page = open_page("?like=p3")
    expect(page.get_by_role("region", name="Nearest captions")).to_be_visible()
    page.get_by_role("button", name="Filters").click()
    assert page.locator("img:not([alt])").count() == 0
    assert page.locator("#grid img[alt='']").count() == 0
    for landmark in ("banner", "main", "search", "complementary"):
        expect(page.get_by_role(landmark)).to_have_count(1)  # type: ignore[arg-type]
    session = page.context.new_cdp_session(page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    controls = {
        "button",
        "link",
        "textbox",
        "searchbox",
        "checkbox",
        "combobox",
        "spinbutton",
        "image",
        "dialog",
    }
    seen = set()
    for node in nodes:
        role = node.get("role", {}).get("value")
        if not node.get("ignored") and role in controls:
            seen.add(role)
            assert node.get("name", {}).get("value"), json.dumps(node)
    assert {"button", "link", "searchbox", "checkbox", "spinbutton", "image"} <= seen


def test_motion_is_reduced_when_asked_for(open_page: Open, fake: Fake) -> None:
    page = open_page(reduced_motion="reduce")
    assert page.evaluate("getComputedStyle(document.getElementById('busy'), '::before').animationName") == "none"


def test_the_best_picture_is_laid_out_with_the_answer_before_any_picture_has_come(
    open_page: Open, server: Serving
) -> None:
    server.behind(Fake(pictures=100_000, captions=0))
    page = open_page()
    page.route("**/thumbnail*", lambda route: None)  # none ever comes
    page.fill("#box", "dog")
    expect(page.locator("#status")).to_contain_text("best first")  # the grid was there before, to browse
    box = page.locator("#grid li[aria-posinset='1']").bounding_box()
    assert box
    assert box["height"] > 100
    expect(page.locator("#grid li[aria-posinset='1'] img")).to_have_attribute("fetchpriority", "high")
    assert page.locator("#grid li").count() <= 60
