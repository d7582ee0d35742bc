"""`vse index`, `search` and `serve` in processes that lack what Windows lacks (`tests/windows.py`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image
from tests.cli import test_serve
from tests.cli.test_serve import serving

pytest.importorskip("faiss")
made = test_serve.made
ROOT = Path(__file__).parents[2]


@pytest.fixture
def windows(tmp_path: Path) -> dict[str, str]:
    """The environment of such a process, and of all that it starts."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("from tests.windows import pretend; pretend()\n")
    paths = (tmp_path / "site", ROOT / "src", ROOT)
    return {
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "OMP_NUM_THREADS": "1",
        "VSEKIT_CACHE": str(tmp_path / "cache"),
    }


def vse(windows: dict[str, str], *arguments: object) -> str:
    command = [sys.executable, "-m", "vsekit", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | windows)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_such_a_process_has_no_fcntl_and_no_resource(windows: dict[str, str]) -> None:
    code = "import importlib, sys\nfor name in ('fcntl', 'resource'):\n    try: importlib.import_module(name)\n"
    code += "    except ImportError: print(name)\nfrom vsekit import system; print(system.msvcrt.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | windows)
    assert done.stdout.split() == ["fcntl", "resource", "msvcrt"], done.stderr


@pytest.mark.slow
def test_pictures_are_indexed_found_and_kept_current(made: Path, windows: dict[str, str], tmp_path: Path) -> None:
    photos, index = tmp_path / "photos", tmp_path / "index"
    photos.mkdir()
    Image.new("RGB", (30, 20), "red").save(photos / "red.png")
    vse(windows, "index", made / "model", photos, "--out", index)
    Image.new("RGB", (30, 20), "blue").save(photos / "blue.png")
    report = json.loads(vse(windows, "index", made / "model", photos, "--out", index, "--json"))
    assert (report["added"], report["unchanged"]) == (1, 1)
    answer = json.loads(vse(windows, "search", index, "a red wall", "--json"))
    assert {Path(hit["path"]).name for hit in answer["hits"]} == {"red.png", "blue.png"}


def test_an_index_is_served_with_thumbnails_and_uploads(made: Path, windows: dict[str, str]) -> None:
    with serving(made / "index", **windows) as (client, _):
        hits = client.post("/api/search", json={"query": "red wall"}).json()["hits"]
        assert {hit["name"] for hit in hits} == {"red.png", "green.png", "blue.png"}
        assert client.get(hits[0]["thumbnail"]).headers["content-type"] == "image/jpeg"
        files = {"file": (made / "photos" / "blue.png").read_bytes()}
        assert client.post("/api/search/picture", files=files).json()["hits"][0]["name"] == "blue.png"
