"""vse index as a person meets it; a real process once, since starting one costs seconds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.models.conftest import VIEW, WORDS, settings

from vsekit.cli import main
from vsekit.models.model import VSE
from vsekit.search.stores import open_store


class Vse:
    """Runs a command in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.capsys, self.monkeypatch = capsys, monkeypatch

    def __call__(self, *arguments: str | Path, code: int = 0) -> str:
        """What it prints; stderr where it is to fail."""
        self.monkeypatch.setattr(sys, "argv", ["vse", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = self.capsys.readouterr()
        assert ended.value.code == code, err
        return err if code else out


@pytest.fixture
def vse(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Vse:
    return Vse(capsys, monkeypatch)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    VSE(settings(), WORDS, VIEW).save(tmp_path / "run" / "model")
    return tmp_path / "run"


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for name in ("a/1.png", "a/2.jpg", "b/3.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (24, 30, 3), dtype=np.uint8)).save(tmp_path / name)
    return tmp_path


def test_a_folder_is_indexed_beside_its_pictures_and_the_next_command_is_named(
    vse: Vse, model: Path, photos: Path
) -> None:
    (photos / "a/broken.png").write_text("no")
    out = vse("index", model, photos / "a", "-q")
    place = photos / "a" / ".vsekit-index"
    assert "2 new" in out
    assert f"{photos}/a/broken.png: not a picture" in out
    assert f"vse search {place}" in out
    assert "2 unchanged" in vse("index", model, photos / "a", "-q")
    with open_store(place) as store:
        assert store.count("image") == 2
        assert store.header["model"] == str(model)


def test_several_folders_a_model_option_and_json(vse: Vse, model: Path, photos: Path) -> None:
    out = photos / "index"
    printed = json.loads(vse("index", photos / "a", photos / "b", "--model", model, "--out", out, "--json", "-q"))
    assert (printed["index"], printed["added"], printed["pictures"], printed["broken"]) == (str(out), 3, 3, {})
    printed = json.loads(vse("index", model, photos / "b", "--out", out, "--rebuild", "--json", "-q"))
    assert (printed["added"], printed["pictures"]) == (1, 1)


def test_a_table_is_indexed_with_captions_under_the_names_of_its_columns(vse: Vse, model: Path, photos: Path) -> None:
    (photos / "list.csv").write_text("file,title,price\na/1.png,a dog,3\na/2.jpg,a wall,4\n")
    options = ["--columns", "image=file,caption=title", "--out", photos / "index", "--json", "-q"]
    printed = json.loads(vse("index", model, photos / "list.csv", *options))
    assert (printed["pictures"], printed["captions"]) == (2, 2)
    with open_store(photos / "index") as store:
        assert sorted(item.text for item in store.all_items("caption")) == ["a dog", "a wall"]
        assert sorted(item.meta["price"] for item in store.all_items("image")) == [3, 4]


def test_an_index_is_copied_whole(vse: Vse, model: Path, photos: Path) -> None:
    vse("index", model, photos / "a", "--out", photos / "index", "-q")
    assert "2 items" in vse("index", "copy", photos / "index", photos / "copy", "-q")
    assert "2 items" in vse("index", "copy", photos / "index", photos / "half", "--dtype", "float16", "-q")
    assert (photos / "half" / "image-0.f16").exists()
    with open_store(photos / "index") as old, open_store(photos / "copy") as new:
        assert list(old.all_items()) == list(new.all_items())
        assert old.header == new.header
        ids = [item.id for item in old.all_items()]
        np.testing.assert_array_equal(old.vectors(ids), new.vectors(ids))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "gone"], "no such folder or collection: gone"),
        (["run", "a", "b"], "several folders, and no place"),
        (["run", "a", "--out", "x", "--store", "y"], "two places"),
        (["a", "--model", "typo"], "no model 'typo'"),
        (["a", "--model", "b"], "no model here"),
        (["run", "a", "--store", "oracle://x"], "can't read the store"),
        (["run", "a", "--format", "tables"], "no format 'tables'"),
        (["copy", "a"], "copy wants two places"),
        (["copy", "a", "c"], "no index here"),
    ],
)
def test_mistakes_are_named(
    vse: Vse, model: Path, photos: Path, arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(photos)
    assert message in vse("index", *arguments, "-q", code=2)


def test_an_index_of_another_model_is_refused(vse: Vse, model: Path, photos: Path, tmp_path: Path) -> None:
    vse("index", model, photos / "a", "-q")
    torch.manual_seed(1)
    VSE(settings(), WORDS, VIEW).save(tmp_path / "other")
    message = vse("index", tmp_path / "other", photos / "a", "-q", code=2)
    assert "made with another model" in message
    assert "--rebuild" in message


def test_help_has_examples_and_needs_no_torch() -> None:
    check = (
        "import sys; from vsekit.cli import main; sys.argv = ['vse', 'index', '--help']\n"
        "try: main()\nexcept SystemExit: pass\nprint('torch' in sys.modules, file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
    assert result.stderr.strip() == "False"
    assert "vse index copy" in result.stdout


def test_a_check_names_what_is_damaged_and_index_says_what_it_repaired(vse: Vse, model: Path, photos: Path) -> None:
    vse("index", model, photos / "a", "--out", photos / "index")
    assert "as it was written" in vse("index", "check", photos / "index")
    vectors = photos / "index" / "image-0.f32"
    vectors.write_bytes(bytes(vectors.stat().st_size))
    vse("index", "check", photos / "index", code=2)
    assert "2 damaged and made again" in vse("index", model, photos / "a", "--out", photos / "index")
    found = json.loads(vse("index", "check", photos / "index", "--json"))
    assert (found["pictures"], found["damage"], found["waiting"]) == (2, [], 0)
    assert "no index here" in vse("index", "check", photos / "none", code=2)


def test_the_text_in_pictures_is_read_where_that_is_asked_for_and_once(
    vse: Vse, model: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vsekit.search import ocr

    monkeypatch.setattr(ocr.Reader, "__init__", lambda self: None)
    monkeypatch.setattr(ocr.Reader, "read", lambda self, image: f"Ticket {image.width}")
    assert "read for text" not in vse("index", model, photos / "a", "-q")
    assert "2 unchanged, 2 read for text" in vse("index", model, photos / "a", "--ocr", "-q")
    assert json.loads(vse("index", model, photos / "a", "--ocr", "--json", "-q"))["read"] == 0
    found = json.loads(vse("search", photos / "a", '"ticket 30"', "--json"))["hits"]
    assert [hit["said"] for hit in found] == 2 * [[{"where": "text in the picture", "words": ["ticket 30"]}]]
    assert "--watch does not read" in vse("index", model, photos / "a", "--ocr", "--watch", code=2)


def test_reading_text_without_its_extra_is_refused_before_anything_is_indexed(
    vse: Vse, model: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rapidocr_onnxruntime", None)
    assert "vsekit[ocr]" in vse("index", model, photos / "a", "--ocr", "-q", code=2)
    assert not (photos / "a" / ".vsekit-index").exists()
