"""Looking through an index over HTTP."""

from __future__ import annotations

import io
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.serve.album import album
from tests.serve.conftest import serving

from vsekit.search.items import Item
from vsekit.search.searcher import Searcher
from vsekit.serve.archive import inside
from vsekit.serve.limits import Limits


@pytest.fixture
def searcher(tmp_path: Path) -> Searcher:
    return album(tmp_path, 60)


@pytest.fixture
def client(searcher: Searcher) -> Iterator[httpx.Client]:
    with serving(searcher, limits=Limits(archive_pictures=10, rate=0)) as client:
        yield client


def pages(client: httpx.Client, **options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while True:
        page = client.get("/api/items", params=options).raise_for_status().json()
        found += page["items"]
        if page["after"] is None:
            return found
        options["after"] = page["after"]


def numbers(items: list[dict[str, Any]]) -> list[int]:
    return [int(item["id"][8:]) for item in items]


def of(number: int, searcher: Searcher) -> str:
    return next(item.id for item in searcher.store.all_items("image") if int(item.id[8:]) == number)


def test_the_newest_come_first_page_by_page(client: httpx.Client) -> None:
    found = pages(client, top=7)
    dates = [item["meta"]["dated"] for item in found]
    assert len(set(numbers(found))) == 60
    assert dates == sorted(dates, reverse=True)


def test_a_filter_keeps_what_passes_it(client: httpx.Client) -> None:
    found = pages(client, top=7, filter='folder >= "album/2019 Rome/" and folder < "album/2019 Rome0"')
    assert numbers(found) == list(range(2, 60, 4))


@pytest.mark.parametrize("query", ["after=nothing", "after=2021%00,p", "top=0", "top=100000", "filter=year+>>"])
def test_mistakes_are_told(client: httpx.Client, query: str) -> None:
    answer = client.get(f"/api/items?{query}")
    assert answer.status_code == 422
    assert answer.json()["error"]


def test_months_and_folders_are_counted(client: httpx.Client, searcher: Searcher) -> None:
    items = list(searcher.store.all_items("image"))
    for expression, passing in ((None, items), ('camera = "X100"', [i for i in items if i.meta["camera"] == "X100"])):
        facets = client.get("/api/facets", params={"filter": expression} if expression else {}).json()
        months = Counter(str(item.meta["dated"])[:7] for item in passing)
        assert facets["months"] == [[month, months[month]] for month in sorted(months, reverse=True)]
        assert dict(facets["folders"]) == Counter(item.meta["folder"] for item in passing)


def test_places_are_those_of_the_pictures(client: httpx.Client) -> None:
    places = client.get("/api/places").json()
    assert [(round(p["lat"], 1), round(p["lon"], 1), p["count"]) for p in places] == [
        (41.9, 12.5, 20),
        (48.2, 16.4, 20),
    ]
    assert numbers([place["item"] for place in places]) == [0, 1]


def test_copies_and_bursts_are_stacked(client: httpx.Client, searcher: Searcher) -> None:
    found = client.get("/api/items", params={"top": 60, "stack": True}).json()["items"]
    stacks = {number: item["stack"] and int(item["stack"][8:]) for number, item in zip(numbers(found), found)}
    assert {number: first for number, first in stacks.items() if first is not None} == {1: 0, 3: 2, 4: 2}
    hits = client.post("/api/search", json={"query": "red circle", "stack": True}).json()["hits"]
    assert [int(hit["stack"][8:]) for hit in hits if int(hit["id"][8:]) in (0, 1) and hit["stack"]] in ([0], [1])


def test_a_stack_goes_on_over_the_edge_of_a_page(client: httpx.Client) -> None:
    ask = {"query": "blue circle", "stack": True}
    whole = client.post("/api/search", json={**ask, "top": 60}).json()["hits"]
    parts = [client.post("/api/search", json={**ask, "top": 1, "offset": i}).json()["hits"][0] for i in range(60)]
    assert [(hit["id"], hit["stack"]) for hit in parts] == [(hit["id"], hit["stack"]) for hit in whole]
    assert sum(hit["stack"] is not None for hit in whole) == 3


def test_favourites_are_kept_found_and_taken_back(client: httpx.Client, searcher: Searcher) -> None:
    chosen = [of(3, searcher), of(8, searcher)]
    assert client.post("/api/marks", json={"ids": chosen, "favourite": True}).json() == {"changed": chosen}
    again = client.post("/api/marks", json={"ids": [*chosen, of(9, searcher)], "favourite": True}).json()
    assert again == {"changed": [of(9, searcher)]}
    assert numbers(pages(client, filter="favourite = true")) == [3, 8, 9]
    client.post("/api/marks", json={"ids": again["changed"], "favourite": False})
    assert numbers(pages(client, filter="favourite = true")) == [3, 8]
    hits = client.post("/api/search", json={"query": "red", "filter": "favourite = true"}).json()["hits"]
    assert sorted(numbers(hits)) == [3, 8]


def test_what_is_hidden_is_found_nowhere_unless_it_is_asked_for(tmp_path: Path) -> None:
    with serving(album(tmp_path, 30, captions=True)) as client:
        first = client.get("/api/items?top=1").json()["items"][0]["id"]
        client.post("/api/marks", json={"ids": [first], "hidden": True})
        assert first not in [item["id"] for item in pages(client)]
        assert sum(count for _, count in client.get("/api/facets").json()["folders"]) == 29
        for kind in ("image", "caption"):
            hits = client.post("/api/search", json={"query": "red circle", "top": 60, "kind": kind}).json()["hits"]
            assert len(hits) == 29
            assert first not in [hit["picture"] for hit in hits]
        shown = client.get("/api/items", params={"filter": "hidden = true"}).json()["items"]
        assert [item["id"] for item in shown] == [first]
        client.post("/api/marks", json={"ids": [first], "hidden": False})
        assert first in [item["id"] for item in pages(client)]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"ids": ["nobody"], "hidden": True}, 404),
        ({"ids": [], "hidden": True}, 422),
        ({"ids": ["nobody"]}, 422),
        ({"ids": ["nobody"], "loved": True}, 422),
    ],
)
def test_what_cannot_be_marked_is_refused(client: httpx.Client, body: dict[str, Any], status: int) -> None:
    assert client.post("/api/marks", json=body).status_code == status


def test_marks_obey_the_rules_for_writes(searcher: Searcher) -> None:
    body = {"ids": [of(3, searcher)], "hidden": True}
    with serving(searcher, token="secret", limits=Limits(rate=0)) as client:
        known = {"Authorization": "Bearer secret"}
        assert client.post("/api/marks", json=body).status_code == 401
        elsewhere = {**known, "Origin": "https://elsewhere.example"}
        assert client.post("/api/marks", json=body, headers=elsewhere).status_code == 403
        assert client.post("/api/archive", data={"ids": body["ids"][0]}, headers=elsewhere).status_code == 403
        assert client.post("/api/marks", json=body, headers=known).status_code == 200


def test_an_index_that_cannot_be_written_says_so(searcher: Searcher, monkeypatch: pytest.MonkeyPatch) -> None:
    database = searcher.store._database  # type: ignore[attr-defined]
    database._ways = ["mode=ro"]
    with serving(searcher) as client:
        answer = client.post("/api/marks", json={"ids": [of(3, searcher)], "hidden": True})
        assert answer.status_code == 422
        assert "can't be written" in answer.json()["error"]


def test_an_archive_holds_the_files(client: httpx.Client, searcher: Searcher) -> None:
    chosen = [of(i, searcher) for i in (2, 5, 7)]
    answer = client.post("/api/archive", data={"ids": ",".join(chosen)})
    assert answer.headers["content-disposition"].startswith("attachment")
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert archive.testzip() is None
        items = searcher.store.items(chosen)
        expected = {f"{item.meta['folder']}/{Path(item.path).name}": Path(item.path).read_bytes() for item in items}
        assert {name: archive.read(name) for name in archive.namelist()} == expected


def test_an_archive_names_what_is_not_there(client: httpx.Client, searcher: Searcher) -> None:
    gone, there = searcher.store.items([of(2, searcher), of(5, searcher)])
    Path(gone.path).unlink()
    answer = client.post("/api/archive", data={"ids": f"{gone.id},{there.id}"})
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert len(archive.namelist()) == 2
        assert Path(gone.path).name in archive.read("not-here.txt").decode()


def test_an_archive_has_limits(client: httpx.Client, searcher: Searcher) -> None:
    many = ",".join(of(i, searcher) for i in range(11))
    assert client.post("/api/archive", data={"ids": many}).status_code == 413
    assert client.post("/api/archive", data={"ids": ","}).status_code == 422
    assert client.post("/api/archive", data={"ids": "nobody"}).status_code == 404
    with serving(searcher, limits=Limits(archive_bytes=100)) as small:
        assert small.post("/api/archive", data={"ids": of(1, searcher)}).status_code == 413


@pytest.mark.parametrize("folder", ["../../etc", "/etc", "a\\..\\..\\b", "a/./b", "..", ""])
def test_no_name_in_an_archive_leads_out_of_it(folder: str) -> None:
    names: set[str] = set()
    item = Item("p", "image", "/photos/A.jpg", meta={"folder": folder})
    first, second = inside(item, names), inside(replace(item, path="/photos/a.JPG"), names)
    assert first.casefold() != second.casefold()
    for name in (first, second):
        assert not name.startswith("/")
        assert "\\" not in name
        assert not {"..", "."} & set(name.split("/"))


def test_a_file_is_saved_as_it_lies_there(client: httpx.Client, searcher: Searcher) -> None:
    (item,) = searcher.store.items([of(2, searcher)])
    answer = client.get(f"/api/items/{item.id}/file")
    assert answer.content == Path(item.path).read_bytes()
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''000002.jpg"
    Path(item.path).write_text("no picture")
    assert client.get(f"/api/items/{item.id}/file").status_code == 415


def test_examples_come_from_captions_or_from_what_is_there(tmp_path: Path) -> None:
    with serving(album(tmp_path / "said", 30, captions=True)) as client:
        examples = client.get("/api/examples").json()
        assert examples
        assert all(example.startswith("a white") for example in examples)
    with serving(album(tmp_path / "silent", 30)) as client:
        assert client.get("/api/examples").json() == [], "without a calibration nothing is known to fit"


def test_no_path_of_this_machine_is_shown(tmp_path: Path) -> None:
    searcher = album(tmp_path, 12)
    (item,) = searcher.store.latest(1)
    with searcher.store.__class__(searcher.store.location) as writer:
        writer.update([replace(item, meta={**item.meta, "collection": str(tmp_path)})])
    with serving(searcher) as client:
        for path in ("status", "items", f"items/{item.id}", "facets", "places"):
            assert str(tmp_path) not in client.get(f"/api/{path}").text
