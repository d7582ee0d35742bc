"""`vse mcp` as an assistant meets it: a real process over a real index, asked with the official client."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from anyio.from_thread import start_blocking_portal
from PIL import Image
from tests.models.conftest import VIEW, WORDS, settings

import vsekit
from vsekit.models.model import VSE
from vsekit.search.indexing import index

pytest.importorskip("faiss")
mcp = pytest.importorskip("mcp")
PROGRAM = ["-c", "from vsekit.cli import main; main()", "mcp"]
YEARS = {"red": 2019, "green": 2020, "blue": 2020}


def exif(year: int, turned: int = 1) -> Image.Exif:
    made = Image.Exif()
    made[0x0112], made[0x0110] = turned, "X100"
    made[0x0132] = f"{year}:06:01 12:00:00"
    return made


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, an index of four pictures, and the pictures."""
    folder = tmp_path_factory.mktemp("mcp")
    torch.manual_seed(0)
    VSE(settings(), WORDS, VIEW).save(folder / "model")
    (folder / "photos" / "trip").mkdir(parents=True)
    for name, year in YEARS.items():
        Image.new("RGB", (30, 20), name).save(folder / "photos" / f"{name}.jpg", exif=exif(year))
    wide = Image.new("RGB", (3000, 1000), "white")
    wide.paste("black", (0, 0, 1500, 1000))
    wide.save(folder / "photos" / "trip" / "turned.jpg", exif=exif(2021, turned=6))  # to be shown turned clockwise
    Image.new("RGB", (30, 20), "purple").save(folder / "secret.png")
    index(folder / "model", folder / "photos", folder / "index")
    return folder


class Asking:
    """A client of a process of its own, to be asked without `await`."""

    def __init__(self, portal: Any, client: Any) -> None:
        self._portal, self._client = portal, client

    def tools(self) -> list[Any]:
        return self._portal.call(self._client.list_tools).tools

    def call(self, tool: str, **arguments: Any) -> Any:
        return self._portal.call(self._client.call_tool, tool, arguments)

    def told(self, tool: str, **arguments: Any) -> dict[str, Any]:
        answer = self.call(tool, **arguments)
        assert not answer.is_error, answer.content
        return answer.structured_content

    def ids(self) -> dict[str, str]:
        return {hit["name"]: hit["id"] for hit in self.told("search", words="a red dog")["hits"]}

    def shown(self, **arguments: Any) -> Image.Image:
        answer = self.call("look", **arguments)
        assert not answer.is_error, answer.content
        assert answer.content[0].mime_type == "image/jpeg"
        return Image.open(io.BytesIO(base64.b64decode(answer.content[0].data)))

    def refused(self, tool: str, **arguments: Any) -> str:
        answer = self.call(tool, **arguments)
        assert answer.is_error
        return answer.content[0].text


@contextmanager
def asking(place: Path) -> Iterator[Asking]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    server = mcp.StdioServerParameters(command=sys.executable, args=[*PROGRAM, str(place)], env=environment)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(mcp.Client(server)) as client:
        yield Asking(portal, client)


@pytest.fixture(scope="module")
def client(made: Path) -> Iterator[Asking]:
    with asking(made / "index") as client:
        yield client


def test_there_are_three_tools_that_only_read(client: Asking) -> None:
    tools = client.tools()
    assert {tool.name for tool in tools} == {"search", "look", "describe"}
    assert all(tool.annotations.read_only_hint and tool.description for tool in tools)


def test_words_pictures_and_filters_find_what_vsekit_search_finds(made: Path, client: Asking) -> None:
    for asked, same in (
        ({"words": "a red dog"}, {"query": "a red dog"}),
        ({"words": "a red dog", "filter": "year = 2020"}, {"query": "a red dog", "filter": "year = 2020"}),
        ({"words": '"dog" - 0.5*"red"', "top": 2, "offset": 1}, {"query": '"dog" - 0.5*"red"', "top": 2, "offset": 1}),
        ({"like": client.ids()["blue.jpg"]}, {"like": client.ids()["blue.jpg"]}),
    ):
        found, truth = client.told("search", **asked), vsekit.search(made / "index", **same)
        assert [hit["id"] for hit in found["hits"]] == [hit.item.id for hit in truth.hits]
        assert [hit["match"] for hit in found["hits"]] == [hit.match for hit in truth.hits]
        assert np.allclose([hit["score"] for hit in found["hits"]], [hit.score for hit in truth.hits], atol=1e-4)
        assert (found["more"], found["verdict"]) == (truth.more, truth.verdict)


def test_a_picture_is_shown_upright_and_no_larger_than_asked_for(client: Asking) -> None:
    known = client.ids()
    red = client.shown(id=known["red.jpg"]).convert("RGB").getpixel((10, 10))
    assert red == pytest.approx((254, 0, 0), abs=3)
    for asked, longest in ((1024, 1024), (200, 256)):
        shown = client.shown(id=known["turned.jpg"], size=asked)
        assert shown.size == (pytest.approx(longest / 3, abs=1), longest)
        assert shown.getpixel((5, 5))[0] < 10 < 245 < shown.getpixel((5, longest - 5))[0]


def test_a_description_counts_what_the_index_holds(made: Path, client: Asking) -> None:
    told = client.told("describe")
    assert (told["pictures"], told["captions"], told["model"]) == (4, 0, "model")
    assert told["years"] == {"2019": 1, "2020": 2, "2021": 1}
    assert told["cameras"] == {"X100": 4}
    assert told["folders"] == {"photos": 3, "photos/trip": 1}
    assert (told["fields"]["year"]["min"], told["fields"]["year"]["max"]) == (2019, 2021)
    assert str(made) not in str(told)


def test_mistakes_are_told_with_a_remedy_and_the_next_question_is_answered(client: Asking) -> None:
    assert "no item" in client.refused("look", id="nothing")
    assert "either words or like" in client.refused("search", words="a dog", like="x")
    assert "either words or like" in client.refused("search")
    assert "column" in client.refused("search", words="a dog", filter="year >>= 3")
    assert "50" in client.refused("search", words="a dog", top=51)
    assert "1024" in client.refused("look", id="nothing", size=5000)
    assert "too long" in client.refused("search", words="dog " * 300)
    assert len(client.ids()) == 4


def test_no_file_outside_the_index_is_read(made: Path, client: Asking) -> None:
    """Neither one that a query names, nor one that a link in place of an indexed picture leads to."""
    green = made / "photos" / "green.jpg"
    assert "files can't be named" in client.refused("search", words=f'{made}/secret.png - "dog"')
    kept = green.read_bytes()
    id = client.ids()["green.jpg"]
    green.unlink()
    green.symlink_to(made / "secret.png")
    try:
        assert "outside" in client.refused("look", id=id)
    finally:
        green.unlink()
        green.write_bytes(kept)


def test_nothing_is_written(made: Path, client: Asking) -> None:
    def state() -> dict[str, tuple[str, int]]:
        files = [path for path in made.rglob("*") if path.is_file()]
        return {str(path): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns) for path in files}

    before = state()
    client.shown(id=client.ids()["red.jpg"])
    client.told("describe")
    assert state() == before


def test_an_index_that_is_made_anew_is_followed(made: Path, tmp_path: Path) -> None:
    torch.manual_seed(1)
    VSE(settings(), WORDS, VIEW).save(tmp_path / "other")
    index(made / "model", made / "photos", tmp_path / "index")
    with asking(tmp_path / "index") as client:
        assert client.told("describe")["model"] == "model"
        index(tmp_path / "other", made / "photos", tmp_path / "index", rebuild=True)
        assert client.told("describe")["model"] == "other"
        truth = [hit.item.id for hit in vsekit.search(tmp_path / "index", "a red dog").hits]
        assert [hit["id"] for hit in client.told("search", words="a red dog")["hits"]] == truth


def test_a_missing_index_is_refused_before_anything_is_answered(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, *PROGRAM, str(tmp_path / "none")], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert "none" in done.stderr
