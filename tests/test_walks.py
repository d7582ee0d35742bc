"""docs/walks.md, walked. The page says what each command shows; here is what else must be true after a walk."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
import yaml
from tools.walks.running import PAGE, Command, File, Time, Walk, WalkError, read, timed, walk_through

WALKS = read(PAGE.read_text(encoding="utf-8"))


def nobody(client: httpx.Client) -> None:
    raise AssertionError("nothing is served")


def test_the_page_has_three_walks_and_twenty_queries_that_say_what_they_find() -> None:
    assert len(WALKS) == 3
    searches = [command for command in WALKS[1].commands if command.text.startswith("vse search")]
    assert len(searches) == 20
    assert all(command.shown for command in searches)
    assert [walk.title for walk in WALKS if any(c.text.startswith("vse serve") for c in walk.commands)] == [
        walk.title for walk in WALKS[:2]
    ]


def test_a_page_is_read_as_it_stands() -> None:
    text = (
        "# Walks\n```sh\nnot of a walk\n```\n## One\nTime: none.\n```sh\nvse a 'b # c'   # exit 2 → x y; z\nvse \\\n  d\n\n"
        "e    # a word\n```\n```python\n# f.py\nf = 1\n```\n```python\nno file\n```\n## Two\nText.\n"
    )
    commands = [Command("vse a 'b # c'", ("x y", "z"), 2), Command("vse    d"), Command("e"), File("f.py", "f = 1\n")]
    assert read(text) == [Walk("One", commands)]  # type: ignore[arg-type]


def test_a_command_that_does_not_show_what_the_page_says_stops_the_walk(tmp_path: Path) -> None:
    def go(command: Command) -> Time:
        return walk_through(Walk("", [File("f.txt", "seen\n"), command]), Path("/bin"), tmp_path, nobody)

    assert go(Command("cat f.txt", ("seen",))).clock > 0
    go(Command("cat f.txt >&2; exit 3", ("seen",), 3))
    with pytest.raises(WalkError, match="does not say 'unseen'"):
        go(Command("cat f.txt", ("seen", "unseen")))
    with pytest.raises(WalkError, match="ended with 3, not 0"):
        go(Command("cat f.txt; exit 3", ("seen",)))


def test_times_are_written_below_the_headings() -> None:
    page = "## One\nTime: none.\n\n## Two\nTime: none.\n"
    assert timed(page, {"Two": Time(61.4, 99.6)}) == ("## One\nTime: none.\n\n## Two\nTime: 61 seconds of one core.\n")
    with pytest.raises(WalkError, match="Three"):
        timed(page, {"Three": Time(1, 1)})


def found(client: httpx.Client, words: str) -> str:
    assert "<title>" in client.get("/").text
    answer = client.post("/api/search", json={"query": words, "top": 1})
    assert answer.status_code == 200, answer.text
    (hit,) = answer.json()["hits"]
    assert client.get(hit["thumbnail"]).headers["content-type"] == "image/jpeg"
    return str(hit["name"])


def catalogue_page(client: httpx.Client) -> None:
    assert found(client, "a dense wood").startswith("wood-")
    assert client.get("/api/status").json()["pictures"] == 360


def catalogue_after(folder: Path) -> None:
    """What the drawing put in is what was set aside: two rows twice, an empty one, a missing and a torn picture."""
    run = folder / "runs" / "catalogue"
    with (run / "skipped.csv").open(encoding="utf-8", newline="") as file:
        reasons = Counter(row["reason"] for row in csv.DictReader(file) if row["reason"] != "encoding")
    assert reasons == {"duplicate-caption": 2, "empty-caption": 1, "missing-image": 1, "broken-image": 1}
    members = yaml.safe_load((run / "recipe.yaml").read_text(encoding="utf-8"))["members"]
    assert all(member["stages"]["heads"]["loss"]["kind"] == "info_nce" for member in members.values())
    trained = json.loads((run / "ensemble.json").read_text(encoding="utf-8"))["members"]
    assert trained
    assert "<html" in (run / "report.html").read_text(encoding="utf-8")
    assert not list(folder.glob("*.yaml")), "nobody wrote settings"


def photographs_page(client: httpx.Client) -> None:
    assert found(client, "boarding pass") == "Screenshot_20240302.png"


def photographs_after(folder: Path) -> None:
    """Nothing was moved, changed or removed: 19 files are there, and the index."""
    files = [path for path in (folder / "Pictures").rglob("*") if path.is_file() and ".vsekit-index" not in path.parts]
    assert len(files) == 19


def loss_after(folder: Path) -> None:
    kinds = {}
    for name in ("hinges", "soft"):
        config = yaml.safe_load((folder / "runs" / name / "config.yaml").read_text(encoding="utf-8"))
        kinds[name] = config["stages"]["main"]["loss"]["kind"]
    assert kinds == {"hinges": "sum_of_hinges", "soft": "soft_hinges:SoftHinges"}


AFTER: list[tuple[Callable[[httpx.Client], None], Callable[[Path], None]]] = [
    (catalogue_page, catalogue_after),
    (photographs_page, photographs_after),
    (nobody, loss_after),
]


@pytest.mark.slow
@pytest.mark.parametrize(("walk", "after"), list(zip(WALKS, AFTER)), ids=[walk.title for walk in WALKS])
def test_a_walk_shows_what_its_page_says(
    walk: Walk,
    after: tuple[Callable[[httpx.Client], None], Callable[[Path], None]],
    programs: Path,
    tmp_path: Path,
) -> None:
    walk_through(walk, programs, tmp_path, after[0])
    after[1](tmp_path)
