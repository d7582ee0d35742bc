from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.models.conftest import VIEW, WORDS, sets, settings
from typer.testing import CliRunner

from vsekit.cli import app, search
from vsekit.errors import UserError
from vsekit.models.model import VSE
from vsekit.search.items import Item
from vsekit.search.models import load_search_model
from vsekit.search.stores import open_store

assert search  # registers the command
CAPTIONS = ("a red wall", "a blue dog", "blue wall", "red dog", "a dog", "a wall")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, a re-ranking model, six pictures with captions, and their index."""
    folder = tmp_path_factory.mktemp("search")
    torch.manual_seed(0)
    VSE(settings(), WORDS, VIEW).save(folder / "model")
    VSE(sets("scan"), WORDS, VIEW).save(folder / "scan")
    rng = np.random.default_rng(0)
    items, captions = [], []
    for i, text in enumerate(CAPTIONS):
        path = folder / f"photo {i}.png"
        Image.fromarray(rng.integers(0, 255, (30, 40, 3), dtype=np.uint8)).save(path)
        meta = {"year": 2000 + i}
        items.append(
            Item(f"p{i}", "image", str(path), picture=f"p{i}", width=40, height=30, content=f"c{i}", meta=meta)
        )
        captions.append(Item(f"p{i}#0", "caption", str(path), text, f"p{i}"))
    model = load_search_model(folder / "model")
    with open_store(folder / "index", create=model.dim) as store:
        store.write(items, model.encode_images([item.path for item in items]))
        store.write(captions, model.encode_texts(CAPTIONS))
        store.set_header({"model": model.name, "fingerprint": model.fingerprint})
    return folder


def run(folder: Path, *arguments: str) -> str:
    result = CliRunner().invoke(app, ["search", str(folder / "index"), *arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def found(folder: Path, *arguments: str) -> dict:
    return json.loads(run(folder, *arguments, "--json"))


def test_words_in_captions_lead_and_exact_words_leave_nothing_else(folder: Path) -> None:
    assert [hit["id"] for hit in found(folder, '"red dog"')["hits"]] == ["p3"]
    assert found(folder, '"red dog"')["hits"][0]["said"] == [{"where": "caption", "words": ["red dog"]}]
    assert run(folder, '"red dog"').splitlines()[0].endswith("[caption: red dog]")
    assert "No picture here has the words" in run(folder, '"dog red"')


def test_words_are_answered_with_paths_best_first(folder: Path) -> None:
    lines = run(folder, '"a red wall" + "a"', "--top", "4").splitlines()
    assert len(lines) == 4
    scores = [float(line.split()[1]) for line in lines]
    assert scores == sorted(scores, reverse=True)
    assert all(str(folder) in line for line in lines)
    assert len({line.index(str(folder)) for line in lines}) == 1  # aligned


def test_json_holds_items_scores_and_times(folder: Path) -> None:
    answer = found(folder, "a red wall", "--top", "2")
    assert answer["more"] is True
    assert set(answer["timing"]) == {"encode", "search", "total"}
    assert {"id", "path", "meta", "score", "standing", "match"} <= set(answer["hits"][0])


def test_pages_items_filters_and_captions(folder: Path) -> None:
    whole = [hit["id"] for hit in found(folder, "a dog")["hits"]]
    assert [hit["id"] for hit in found(folder, "a dog", "--offset", "2", "--top", "2")["hits"]] == whole[2:4]
    assert [hit["id"] for hit in found(folder, "a dog", "--filter", "year = 2003")["hits"]] == ["p3"]
    assert "p1" not in [hit["id"] for hit in found(folder, "--like", "p1")["hits"]]
    best = found(folder, "a blue dog", "--captions")["hits"][0]
    assert (best["text"], best["picture"]) == ("a blue dog", "p1")


def test_a_picture_asks_alone_or_in_a_sum(folder: Path) -> None:
    picture = str(folder / "photo 2.png")
    assert found(folder, "--image", picture)["hits"][0]["id"] == "p2"
    assert found(folder, f'{picture} + 0.01*"dog"')["hits"][0]["id"] == "p2"


def test_re_ranking_keeps_the_items_and_explains_with_regions(folder: Path, tmp_path: Path) -> None:
    before = [hit["id"] for hit in found(folder, "a red dog")["hits"]]
    rerank = ["--rerank", f"{folder / 'scan'}:3"]
    answer = found(folder, "a red dog", *rerank, "--why")
    after = [hit["id"] for hit in answer["hits"]]
    assert set(after[:3]) == set(before[:3])
    assert after[3:] == before[3:]
    why = answer["hits"][0]["why"]
    assert [word["word"] for word in why["words"]] == ["a", "red", "dog"]
    assert set(why["boxes"]) == {"a", "red", "dog"}
    shown = run(folder, "a red dog", *rerank, "--why", "--why-dir", str(tmp_path))
    assert len(list(tmp_path.glob("*.png"))) == 6
    assert "red +" in shown or "red -" in shown


def test_a_sheet_is_written_and_opened(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    run(folder, "a dog", "--sheet", str(tmp_path / "sheet.html"), "--open")
    assert opened == [(tmp_path / "sheet.html").as_uri()]
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    run(folder, "a dog", "--open")
    assert opened[1].startswith(tmp_path.as_uri())
    assert Path(opened[1].removeprefix("file://")).read_text().startswith("<!doctype html>")


def test_a_terminal_that_shows_pictures_gets_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vsekit.search.terminal.graphics", lambda: "kitty")
    assert run(folder, "a dog").startswith("\x1b_Ga=T")
    assert not run(folder, "a dog", "--no-pictures").startswith("\x1b")
    assert "\x1b" not in run(folder, "a dog", "--json")


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ([], "either a query, --image or --like"),
        (["a dog", "--like", "p1"], "either a query, --image or --like"),
        (["--image", "nowhere.png"], "no such picture"),
        (["--like", "nope"], "no item 'nope'"),
        (['"dog" - wall'], "column 9"),
        (["a dog", "--model", "nowhere"], "no model 'nowhere'"),
        (["a dog", "--rerank", "nowhere:0"], "re-ranks nothing"),
        (["a dog", "--why-dir", "x"], "--why-dir"),
    ],
)
def test_mistakes_are_named(folder: Path, arguments: list[str], what: str) -> None:
    with pytest.raises(UserError, match=what):
        run(folder, *arguments)


def test_the_wrong_model_is_refused_and_a_moved_one_can_be_named(folder: Path, tmp_path: Path) -> None:
    torch.manual_seed(1)
    VSE(settings(), WORDS, VIEW).save(tmp_path / "other")
    with pytest.raises(UserError, match="made with another model"):
        run(folder, "a dog", "--model", str(tmp_path / "other"))
    (folder / "model").rename(folder / "moved")
    try:
        with pytest.raises(UserError, match="Say where it is: --model"):
            run(folder, "a dog")
        assert found(folder, "a dog", "--model", str(folder / "moved"))["hits"]
    finally:
        (folder / "moved").rename(folder / "model")
