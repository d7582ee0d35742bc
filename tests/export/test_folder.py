from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.export.conftest import CNN, VIEW, build, cosines

import vsekit
from vsekit.data.views import ViewSettings
from vsekit.encoders.text.transformer import TransformerSettings
from vsekit.errors import UserError
from vsekit.export.folder import compared, export_onnx, make_room
from vsekit.export.runtime import is_exported, open_exported
from vsekit.export.sources import VSESource
from vsekit.models.querybank import Querybank
from vsekit.seals import write_sealed

TEXTS = ["a dog", "a red wall .", "", "A blue, blue dog cannot see the wall. " * 5]
PROGRAM = """
import json, sys
README = open("README.md", encoding="utf-8").read().split("```python")[1].split("```")[0]
exec(README)
vectors = [encode_text(text).tolist() for text in json.loads(sys.argv[1])]
pictures = [encode_image(path).tolist() for path in json.loads(sys.argv[2])]
assert "torch" not in sys.modules and "vsekit" not in sys.modules
print(json.dumps([vectors, pictures]))
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model folder with a querybank and a calibration, and its export."""
    folder = tmp_path_factory.mktemp("export")
    model = build()
    generator = torch.Generator().manual_seed(0)
    bank = [torch.randn(6, 10, generator=generator) for _ in range(2)]
    model.querybank = Querybank(*bank, temperature=0.05, weight=0.7)
    model.save(folder / "model")
    (folder / "model" / "calibration.json").write_text('{"format": 1, "tables": {}, "sample": {}}')
    export_onnx(folder / "model", folder / "onnx")
    return folder / "model", folder / "onnx"


def test_the_runtime_gives_the_vectors_of_vsekit_load(exported: tuple[Path, Path], pictures: list[Path]) -> None:
    from PIL import Image

    model, there = vsekit.load(exported[0]), open_exported(exported[1])
    for size in (1, 2, 5):
        assert cosines(there.encode_texts(TEXTS, size), model.encode_texts(TEXTS)).min() > 1 - 1e-4
        assert cosines(there.encode_images(pictures, size), model.encode_images(pictures)).min() > 1 - 1e-4
    mixed: list[Any] = [Image.open(pictures[0]), np.asarray(Image.open(pictures[2])), str(pictures[4])]
    assert cosines(there.encode_images(mixed), model.encode_images(mixed)).min() > 1 - 1e-4
    assert there.encode_images(pictures[0]).shape == there.encode_texts("a dog").shape == (1, 10)
    assert there.encode_images([]).shape == there.encode_texts([]).shape == (0, 10)
    assert there.words("a dog") == ["<start>", "a", "dog", "<end>"]
    with pytest.raises(UserError, match="must be a string, not bytes"):
        there.encode_texts([b"a dog"])  # type: ignore[list-item]
    with pytest.raises(UserError, match="no such picture"):
        there.encode_images(["nowhere.jpg"])


def test_config_names_the_model_and_every_file(exported: tuple[Path, Path]) -> None:
    folder = exported[1]
    config = json.loads((folder / "config.json").read_text())
    files = {path.name for path in folder.iterdir()} - {"config.json"}
    assert set(config["files"]) == files >= {"image.onnx", "text.onnx", "vocab.json", "README.md", "calibration.json"}
    for name, digest in config["files"].items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
    assert config["fingerprint"] == VSESource(vsekit.load(exported[0]).model, "x").fingerprint
    bank, original = open_exported(folder).querybank, vsekit.load(exported[0]).model.querybank
    assert bank is not None
    assert original is not None
    np.testing.assert_array_equal(bank["images"], original.images.numpy())
    assert (bank["temperature"], bank["weight"]) == (0.05, 0.7)
    assert is_exported(folder)
    assert not is_exported(exported[0])


@pytest.mark.parametrize("rank", [None, 6])
def test_a_fitted_bank_in_8_bits_is_read_as_the_model_reads_it(rank: int | None, tmp_path: Path) -> None:
    model, generator = build(), torch.Generator().manual_seed(0)
    sides = [torch.randn(200, rank or 10, generator=generator) for _ in range(2)]
    directions = None
    if rank:
        directions = torch.linalg.qr(torch.randn(10, rank, generator=generator)).Q.T
        sides = [side @ directions for side in sides]
    model.querybank = Querybank(*sides, 0.05, 0.7, fitted=True, directions=directions)
    model.save(tmp_path / "model")
    export_onnx(tmp_path / "model", tmp_path / "onnx")
    bank, kept = open_exported(tmp_path / "onnx").querybank, vsekit.load(tmp_path / "model").model.querybank
    assert bank is not None
    assert kept is not None
    assert kept.fitted
    for name, side in zip(("images", "captions"), sides):
        assert not torch.equal(getattr(kept, name), side.half().float())
        torch.testing.assert_close(
            getattr(kept, name), side, atol=float(side.abs().max()) / (60 if rank else 250), rtol=0
        )
        np.testing.assert_allclose(bank[name], getattr(kept, name).numpy(), rtol=1e-6, atol=1e-6 if rank else 0)


def test_the_fingerprint_is_that_of_a_search_index(exported: tuple[Path, Path]) -> None:
    from vsekit.search.models import load_search_model

    assert open_exported(exported[1]).fingerprint == load_search_model(exported[0]).fingerprint


def run_readme(folder: Path, pictures: list[Path]) -> list[np.ndarray]:
    """What the README's program gives, in a process of its own."""
    given = [json.dumps(TEXTS), json.dumps([str(path) for path in pictures])]
    command = [sys.executable, "-c", PROGRAM, *given]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [np.array(rows) for rows in json.loads(done.stdout)]


def test_the_readmes_program_gives_the_same_without_vsekit(exported: tuple[Path, Path], pictures: list[Path]) -> None:
    texts, images = run_readme(exported[1], pictures)
    model = vsekit.load(exported[0])
    assert cosines(texts, model.encode_texts(TEXTS)).min() > 1 - 1e-4
    assert cosines(images, model.encode_images(pictures)).min() > 1 - 1e-4


def test_ten_crops_and_a_transformer_through_the_readme(tmp_path: Path, tiny_bert: Path, pictures: list[Path]) -> None:
    view = ViewSettings.model_validate({"kind": "10C", "resize": 40, "pixels": 32, "keep_aspect": True})
    encoder = {"kind": "transformer", "model": str(tiny_bert), "max_length": 12}
    tokenizer = TransformerSettings.model_validate(encoder).make_tokenizer([])
    model = build(view, tokenizer, text={"encoder": encoder, "pooling": "mean"})
    model.save(tmp_path / "model")
    export_onnx(tmp_path / "model", tmp_path / "onnx")
    loaded, there = vsekit.load(tmp_path / "model"), open_exported(tmp_path / "onnx")
    texts, images = run_readme(tmp_path / "onnx", pictures)
    for some in (texts, there.encode_texts(TEXTS)):
        assert cosines(some, loaded.encode_texts(TEXTS)).min() > 1 - 1e-4
    for some in (images, there.encode_images(pictures)):
        assert cosines(some, loaded.encode_images(pictures)).min() > 1 - 1e-4


def test_a_model_of_features_takes_features(tmp_path: Path) -> None:
    model = build(image={"encoder": {"kind": "precomputed", "dim": 8}, "pooling": "gpo"})
    model.save(tmp_path / "model")
    export_onnx(tmp_path / "model", tmp_path / "onnx")
    rng = np.random.default_rng(0)
    features = [rng.standard_normal((n, 8)).astype(np.float32) for n in (3, 1, 7)]
    there = open_exported(tmp_path / "onnx")
    assert (
        cosines(there.encode_images(features), vsekit.load(tmp_path / "model").encode_images(features)).min() > 0.9999
    )
    with pytest.raises(UserError, match="can't read pictures"):
        there.encode_images(["a.jpg"])
    with pytest.raises(UserError, match="features have 5 numbers, the model expects 8"):
        there.encode_images([np.zeros(5, np.float32)])


def test_a_model_that_compares_sets_is_refused_with_the_reason() -> None:
    sets = {"projection": "linear", "pooling": "none", "head": "identity"}
    model = build(similarity="scan", image=sets | {"encoder": CNN | {"output": "grid"}}, text=sets)
    with pytest.raises(UserError, match="'scan' of this model compares sets"):
        VSESource(model, "scan")


def test_importing_and_running_it_needs_neither_torch_nor_transformers(exported: tuple[Path, Path]) -> None:
    code = (
        "import sys; sys.modules['torch'] = sys.modules['transformers'] = None\n"
        "from vsekit.export.runtime import open_exported\n"
        "print(open_exported(sys.argv[1]).encode_texts(['a dog']).shape)"
    )
    command = [sys.executable, "-c", code, str(exported[1])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "(1, 10)", done.stderr


@pytest.fixture
def copied(exported: tuple[Path, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(exported[1], tmp_path / "copied"))


def test_damaged_missing_and_foreign_graphs_are_refused(copied: Path) -> None:
    config = json.loads((copied / "config.json").read_text())

    def replaced(data: bytes) -> None:
        """Puts another file in the place of the text tower, and its digest into config.json."""
        (copied / "text.onnx").write_bytes(data)
        files = config["files"] | {"text.onnx": hashlib.sha256(data).hexdigest()}
        write_sealed(copied / "config.json", config | {"files": files})

    whole = (copied / "text.onnx").read_bytes()
    (copied / "text.onnx").write_bytes(whole[:-9] + b"\0" + whole[-8:])
    with pytest.raises(UserError, match=r"text.onnx: this is not the file that was exported.*\n.*vse export"):
        open_exported(copied).encode_texts(["a"])
    replaced(b"no graph at all")
    with pytest.raises(UserError, match=r"text.onnx: not a graph that onnxruntime can run"):
        open_exported(copied).encode_texts(["a"])
    replaced(whole.replace(config["fingerprint"].encode(), b"0123456789abcdef"))
    with pytest.raises(UserError, match="exported from model 0123456789abcdef"):
        open_exported(copied).encode_texts(["a"])
    (copied / "text.onnx").unlink()
    with pytest.raises(UserError, match=r"text.onnx: this file of the exported model is missing"):
        open_exported(copied).encode_texts(["a"])
    (copied / "vocab.json").write_text("[]")
    with pytest.raises(UserError, match=r"vocab.json: this is not the file"):
        open_exported(copied).encode_texts(["a"])


def test_the_command_line_names_a_damaged_graph_and_the_remedy(copied: Path, pictures: list[Path]) -> None:
    (copied / "image.onnx").write_bytes(b"no graph")
    command = [sys.executable, "-m", "vsekit", "embed", str(copied), str(pictures[0].parent), "--out", "vectors"]
    done = subprocess.run(command, cwd=copied.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert str(copied / "image.onnx") in done.stderr
    assert "Export the model again: vse export MODEL --to onnx DIR" in done.stderr


def test_folders_that_are_no_exports_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no exported model here"):
        open_exported(tmp_path)
    for text in ("{}", "[]", "nothing", '{"vsekit_export": 99}'):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(UserError, match=r"config\.json: (not an exported model|this file is damaged)"):
            open_exported(tmp_path)


def test_a_changed_setting_of_an_export_is_noticed(copied: Path) -> None:
    config = (copied / "config.json").read_text()
    (copied / "config.json").write_text(config.replace('"dim": 10', '"dim": 11', 1))
    with pytest.raises(UserError, match=r"config\.json: this file is damaged[\s\S]*vse export"):
        open_exported(copied)


def test_an_export_that_was_killed_is_begun_again_by_the_same_command(copied: Path, tmp_path: Path) -> None:
    begun = tmp_path / "killed while it was made"
    begun.mkdir()
    (begun / ".unfinished.x.tmp").touch()  # killed at its very first file
    make_room(begun)
    for name in ("image.onnx", ".text.onnx.x.tmp"):  # killed in the middle
        (begun / name).touch()
    make_room(begun)
    assert {path.name for path in begun.iterdir()} == {"image.onnx", "unfinished"}
    (begun / "unfinished").unlink()
    with pytest.raises(UserError, match="other things stand here"):
        make_room(begun)
    (copied / "notes.txt").write_text("mine")
    make_room(copied)  # an earlier export goes, file by file
    assert {path.name for path in copied.iterdir()} == {"unfinished", "notes.txt"}
    make_room(copied)


def test_an_onnxruntime_that_is_missing_or_too_old_is_named(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime

    monkeypatch.setattr(onnxruntime, "__version__", "1.9.2")
    with pytest.raises(UserError, match=r"onnxruntime 1\.9\.2 is too old"):
        open_exported(copied).encode_texts(["a"])
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(UserError, match=r"(?s)'onnxruntime', which is not installed.*vsekit\[onnx\]"):
        open_exported(copied).encode_texts(["a"])


def test_sessions_use_the_cores_they_may_and_do_not_spin(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0, 3, 4}, raising=False)
    options = open_exported(copied).text_session.get_session_options()
    assert options.intra_op_num_threads == 3
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"


def test_an_export_replaces_an_earlier_one_and_nothing_else(exported: tuple[Path, Path], tmp_path: Path) -> None:
    other = build(dim=6)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("precious")
    with pytest.raises(UserError, match="other things stand here"):
        export_onnx(VSESource(other, "other"), tmp_path / "out")
    (tmp_path / "out" / "thesis.txt").unlink()
    shutil.copytree(exported[1], tmp_path / "out", dirs_exist_ok=True)
    export_onnx(VSESource(other, "other"), tmp_path / "out")
    assert open_exported(tmp_path / "out").encode_texts(["a dog"]).shape == (1, 6)
    assert not (tmp_path / "out" / "calibration.json").exists()


def test_a_folder_whose_vectors_differ_is_no_export(copied: Path) -> None:
    other = VSESource(build(VIEW, text={"pooling": "mean"}), "other")
    with pytest.raises(UserError, match="the text graph gives other vectors than the model"):
        compared(other, copied)
    assert not is_exported(copied)
