"""vse duplicates as a person meets it, with the system's real trash in a folder of its own."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.cli.test_index import Vse
from tests.models.conftest import VIEW, WORDS, settings

from vsekit.models.model import VSE
from vsekit.search.indexing import index
from vsekit.search.models import load_search_model
from vsekit.search.stores import open_store


@pytest.fixture
def vse(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Vse:
    return Vse(capsys, monkeypatch)


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two pictures, one of them with a copy; the trash is tmp_path/data/Trash."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for name in [name for name in sys.modules if name.startswith("send2trash")]:
        monkeypatch.delitem(sys.modules, name)
    torch.manual_seed(0)
    VSE(settings(), WORDS, VIEW).save(tmp_path / "run" / "model")
    folder = tmp_path / "photos"
    (folder / "sub").mkdir(parents=True)
    for seed in range(2):
        noise = np.random.default_rng(seed).integers(0, 256, (24, 30, 3), dtype=np.uint8)
        Image.fromarray(noise).save(folder / f"{seed}.png")
    shutil.copy(folder / "0.png", folder / "sub" / "copy.png")
    index(load_search_model(tmp_path / "run"), folder, folder / ".vsekit-index")
    return folder


def copies(printed: str) -> list[tuple[str, list[str]]]:
    groups = [group for group in json.loads(printed)["groups"] if group["kind"] == "copies"]
    return [(group["keep"]["path"], [other["path"] for other in group["others"]]) for group in groups]


def test_copies_are_listed_and_nothing_is_changed(vse: Vse, photos: Path, tmp_path: Path) -> None:
    out = vse("duplicates", photos, "-q", "--sheet", tmp_path / "sheet.html")
    assert f"{photos}/0.png  (best: first; 30 × 24" in out
    assert f"{photos}/sub/copy.png  (same bytes; 30 × 24" in out
    assert "1 pictures have 1 copies (" in out
    assert (tmp_path / "sheet.html").is_file()
    assert copies(vse("duplicates", photos, "-q", "--json")) == [(f"{photos}/0.png", [f"{photos}/sub/copy.png"])]
    assert (photos / "sub" / "copy.png").is_file()


def test_copies_go_to_the_trash_only_after_yes(vse: Vse, photos: Path, tmp_path: Path) -> None:
    refused = vse("duplicates", photos, "-q", "--trash", "copies", code=2)
    assert "nobody to ask" in refused
    assert "--yes" in refused
    assert "Only copies can go" in vse("duplicates", photos, "-q", "--trash", "burst", code=2)
    assert (photos / "sub" / "copy.png").is_file()
    printed = json.loads(vse("duplicates", photos, "-q", "--trash", "copies", "--yes", "--json"))
    assert printed["trash"]["moved"] == [f"{photos}/sub/copy.png"]
    assert not (photos / "sub" / "copy.png").exists()
    assert (tmp_path / "data" / "Trash" / "files" / "copy.png").read_bytes() == (photos / "0.png").read_bytes()
    with open_store(photos) as store:
        assert sorted(item.path for item in store.all_items()) == [f"{photos}/0.png", f"{photos}/1.png"]
    assert copies(vse("duplicates", photos, "-q", "--json")) == []


def test_a_person_who_says_no_keeps_everything(vse: Vse, photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import typer

    asked: list[str] = []
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(typer, "confirm", lambda question, err: asked.append(question))
    vse("duplicates", photos, "-q", "--trash", "copies")
    assert len(asked) == 1
    assert asked[0].startswith("Move 1 copies (")
    assert (photos / "sub" / "copy.png").is_file()
