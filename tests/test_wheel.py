"""The built wheel in an empty environment: what a person gets who has only pip."""

from __future__ import annotations

import json
import subprocess
import zipfile
from pathlib import Path

import pytest
from PIL import Image, ImageDraw
from tools.walks.environment import clear

import vsekit

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow


def run(*command: object, cwd: Path) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False, env=clear()
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture
def vse(programs: Path) -> Path:
    return programs / "vse"


def test_the_wheel_holds_the_starter_the_recipes_and_the_page(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    package = ROOT / "src" / "vsekit"
    wanted = [
        *package.glob("recipes/*.yaml"),
        *package.glob("models/starter/**/*"),
        *package.glob("serve/page/**/*"),
        package / "py.typed",
    ]
    assert len(wanted) > 20
    assert [p for p in wanted if p.is_file() and p.relative_to(package.parent).as_posix() not in names] == []


def test_the_version_is_the_packages_own(wheel: Path, vse: Path, tmp_path: Path) -> None:
    assert wheel.name.startswith(f"vsekit-{vsekit.__version__}-")
    assert run(vse, "--version", cwd=tmp_path).strip() == vsekit.__version__


def test_photographs_are_indexed_and_found_by_words(vse: Path, tmp_path: Path) -> None:
    pictures = tmp_path / "Pictures"
    pictures.mkdir()
    for colour in ("red", "green", "blue"):
        image = Image.new("RGB", (320, 240), "white")
        ImageDraw.Draw(image).ellipse((60, 20, 260, 220), fill=colour)
        image.save(pictures / f"{colour}.jpg")
    run(vse, "index", pictures, cwd=tmp_path)
    answer = json.loads(run(vse, "search", pictures, "a red ball", "--json", cwd=tmp_path))
    assert {Path(hit["path"]).name for hit in answer["hits"]} == {"red.jpg", "green.jpg", "blue.jpg"}


def test_the_demo_runs(vse: Path, tmp_path: Path) -> None:
    small = ("--train", "96", "--test", "16", "--set", "model.dim=16", "--set", "stages.main.epochs=1")
    result = json.loads(run(vse, "demo", *small, "--json", cwd=tmp_path))
    assert result["trained"]["rsum"] >= 0
    assert (tmp_path / "runs" / "demo" / "report.html").is_file()
