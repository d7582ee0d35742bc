"""The command line as a person meets it: real processes, their output, exit codes, and what they leave behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.training.conftest import write_precomputed

PROGRAM = "import torch; torch.set_num_threads(1); from vsekit.cli import main; main()"


def vse(*arguments: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == code, result.stderr
    assert "Traceback" not in result.stderr
    return result


def test_importing_vsekit_loads_none_of_its_heavy_friends() -> None:
    check = "import sys, vsekit; print([m for m in ('torch', 'numpy', 'transformers', 'lightning_fabric') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", check], capture_output=True, text=True).stdout.strip() == "[]"


def test_help_and_version_need_no_torch() -> None:
    check = (
        "import sys; from vsekit.cli import main; sys.argv = ['vse', '--help']\n"
        "try: main()\nexcept SystemExit: pass\nprint('torch' in sys.modules, file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
    assert result.stderr.strip() == "False"
    assert "evaluate" in result.stdout


@pytest.fixture
def embeddings(tmp_path: Path) -> tuple[Path, Path]:
    rng = np.random.default_rng(0)
    images = rng.normal(size=(30, 8)).astype(np.float32)
    captions = np.repeat(images, 5, axis=0) + 0.8 * rng.normal(size=(150, 8))
    np.save(tmp_path / "images.npy", images)
    np.save(tmp_path / "captions.npy", captions.astype(np.float32))
    return tmp_path / "images.npy", tmp_path / "captions.npy"


def outside(embeddings: tuple[Path, Path]) -> list[str | Path]:
    return ["--image-embeddings", embeddings[0], "--caption-embeddings", embeddings[1], "--quiet"]


def test_embeddings_made_elsewhere_are_measured_as_by_a_slow_loop(embeddings: tuple[Path, Path]) -> None:
    printed = json.loads(vse("evaluate", *outside(embeddings), "--captions-per-image", "5", "--json").stdout)
    a, b = (np.load(path).astype(np.float64) for path in embeddings)
    scores = (a / np.linalg.norm(a, axis=1)[:, None]) @ (b / np.linalg.norm(b, axis=1)[:, None]).T
    i2t = [min(list(np.argsort(-scores[i])).index(c) for c in range(5 * i, 5 * i + 5)) for i in range(30)]
    t2i = [list(np.argsort(-scores[:, c])).index(c // 5) for c in range(150)]
    for way, ranks in (("i2t", np.array(i2t)), ("t2i", np.array(t2i))):
        for k in (1, 5, 10):
            assert printed[way][f"r{k}"] == pytest.approx(100 * np.mean(ranks < k))
        assert printed[way]["medr"] == np.floor(np.median(ranks)) + 1
        assert printed[way]["meanr"] == pytest.approx(ranks.mean() + 1)
    assert printed["rsum"] == pytest.approx(sum(printed[way][f"r{k}"] for way in ("i2t", "t2i") for k in (1, 5, 10)))
    assert (printed["protocol"], printed["n_images"], printed["n_captions"]) == ("full", 30, 150)


def test_mining_embeddings_finds_what_sorting_finds(embeddings: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "mined"
    vse(
        "mine",
        *outside(embeddings),
        "--out",
        out,
        "--top-captions",
        "7",
        "--top-images",
        "4",
        "--similarity",
        "inner_product",
    )
    a, b = (np.load(path) for path in embeddings)
    scores = a @ b.T
    scores[np.arange(30)[:, None] == np.arange(150) // 5] = -np.inf
    assert (np.load(out / "captions.npy") == np.argsort(-scores, axis=1)[:, :7]).all()
    assert (np.load(out / "images.npy") == np.argsort(-scores.T, axis=1)[:, :4]).all()


def test_mining_flags_captions_of_a_picture_that_is_there_twice(embeddings: tuple[Path, Path], tmp_path: Path) -> None:
    images = np.load(embeddings[0])
    images[7] = images[3]
    np.save(embeddings[0], images)
    out = tmp_path / "mined"
    sizes = ["--top-captions", "20", "--top-images", "10", "--margin", "9"]
    printed = json.loads(vse("mine", *outside(embeddings), "--out", out, *sizes, "--json").stdout)
    assert printed["reasons"]["same picture"] > 0
    assert printed["reasons"]["scores above"] == 0


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("nan", "row 3"),
        ("zero", "zero vector"),
        ("flat", "shape"),
        ("count", "captions_per_image"),
        ("pickle", "npy"),
        ("gone", "no such file"),
    ],
)
def test_bad_embeddings_end_with_code_2_and_write_nothing(
    what: str, message: str, embeddings: tuple[Path, Path], tmp_path: Path
) -> None:
    images = np.load(embeddings[0])
    if what == "nan":
        images[3, 2] = np.nan
    elif what == "zero":
        images[3] = 0
    elif what == "flat":
        images = images.ravel()
    elif what == "count":
        images = images[:-1]
    np.save(embeddings[0], images.astype(object) if what == "pickle" else images, allow_pickle=what == "pickle")
    if what == "gone":
        embeddings[0].unlink()
    for command in (["evaluate"], ["mine", "--out", tmp_path / "out"]):
        result = vse(*command, *outside(embeddings), code=2)
        assert message in result.stderr
        assert result.stdout == ""
    assert not (tmp_path / "out").exists()


def test_recipes_print_every_row_with_published_numbers() -> None:
    rows = json.loads(vse("recipes", "--json").stdout)
    by_id = {row["id"]: row for row in rows}
    assert by_id["vsepp:1.11"]["published"] == {"i2t": [64.6, 90.0, 95.7, 1.0], "t2i": [52.0, 84.3, 92.0, 1.0]}
    assert {"paper", "table", "row", "dataset", "protocol", "published", "settings"} <= set(rows[0])
    assert {row["paper"] for row in rows} >= {"vsepp", "convse", "dual_path", "aoq", "vse_2ad"}


def test_recipes_in_a_pipe_are_whole_lines_with_a_description_and_can_be_searched() -> None:
    header, *lines = vse("recipes", "hard", "negatives", "--dataset", "flickr30k").stdout.splitlines()
    assert header.startswith("row ")
    found = next(line for line in lines if line.startswith("vsepp:3.11 "))
    assert "38.6/64.6/74.6" in found
    assert "hard negatives (max of hinges)" in found
    assert all(" flickr30k" in line for line in lines)
    assert "no row has all of that: zeppelin" in vse("recipes", "zeppelin", code=2).stderr


def test_scenes_are_written_checked_and_refused_where_something_else_is(tmp_path: Path) -> None:
    out = tmp_path / "scenes"
    vse("data", "scenes", "--out", out, "--train", "6", "--val", "2", "--test", "2", "--quiet")
    assert "train" in vse("data", "check", out, "--quiet").stdout
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    vse("data", "scenes", "--out", tmp_path / "mine", "--train", "6", "--quiet", code=2)
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_train_evaluate_compare_report_and_audit_follow_each_other(tmp_path: Path, recipe: Path) -> None:
    data, run = write_precomputed(tmp_path / "data"), tmp_path / "run"
    end = json.loads(vse("train", recipe, "--data", data, "--out", run, "--quiet", "--json").stdout)
    assert (run / "report.html").is_file()
    table = vse(
        "evaluate", run, "--data", data, "--quiet", "--csv", tmp_path / "a.csv", "--trec", tmp_path / "trec"
    ).stdout
    assert "image → text" in table
    assert (tmp_path / "a.csv").read_text().count("\n") == 2
    assert {p.name for p in (tmp_path / "trec").iterdir()} == {"i2t.run", "t2i.run", "i2t.qrels", "t2i.qrels"}
    val = json.loads(vse("evaluate", run, "--data", data, "--split", "val", "--quiet", "--json").stdout)
    assert val["rsum"] == pytest.approx(end["best"]["rsum"])
    compared = json.loads(vse("compare", run, run, "--data", data, "--quiet", "--json").stdout)
    assert compared["against_first"][0]["rsum"]["difference"] == 0
    vse("audit", run, "--data", data, "--quiet")
    assert (run / "audit.html").is_file()  # beside the report


@pytest.mark.slow
def test_evaluate_uses_a_models_querybank_unless_told_not_to(tmp_path: Path, recipe: Path) -> None:
    data, run = write_precomputed(tmp_path / "data"), tmp_path / "run"
    bank = ("--set", "querybank.weight=3")
    end = json.loads(
        vse("train", recipe, "--data", data, "--out", run, "--quiet", "--no-report", "--json", *bank).stdout
    )
    measure = ("evaluate", run, "--data", data, "--split", "val", "--quiet", "--json")
    assert json.loads(vse(*measure, "--plain").stdout)["rsum"] == pytest.approx(end["best"]["rsum"])
    assert json.loads(vse(*measure).stdout)["rsum"] != pytest.approx(end["best"]["rsum"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "vsepp:9.9", "--data", "x", "--out", "y"], "no row '9.9'"),
        (["train", "vsepp:demo", "--data", "nowhere", "--out", "y"], "nowhere"),
        (["evaluate"], "--image-embeddings"),
        (["evaluate", "norun", "--data", "."], "no collection found here"),
        (["features", "nosuch", "--data", ".", "--out", "y"], "nosuch"),
        (["reproduce", "vsepp:1.11"], "Karpathy"),
    ],
)
def test_mistakes_are_explained_and_end_with_code_2(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch
) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.chdir(tmp_path)
    result = vse(*arguments, code=2)
    assert message in result.stderr
    assert not list(tmp_path.iterdir())


def test_ctrl_c_is_told_and_ends_with_code_130() -> None:
    stopped = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background ignores it
import vsekit.recipes.describe
vsekit.recipes.describe.search = lambda *_: os.kill(os.getpid(), signal.SIGINT)
from vsekit.cli import main
main()
"""
    result = subprocess.run([sys.executable, "-c", stopped, "recipes"], capture_output=True, text=True)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "vse: stopped\n")


@pytest.mark.slow
def test_token_features_are_extracted_once_and_train_as_if_they_were_not(tiny_bert: Path, tmp_path: Path) -> None:
    data = write_precomputed(tmp_path / "data")
    made = ["features", "transformer", "--set", f"model={tiny_bert}", "--data", data, "--out", tmp_path / "states"]
    printed = json.loads(vse(*made, "--json", "--quiet").stdout)
    assert printed["tokens"]["train"] == np.load(tmp_path / "states" / "train" / "states.npy").shape[0]
    recipe = tmp_path / "recipe.yaml"
    text = {"encoder": {"kind": "transformer", "model": str(tiny_bert)}, "pooling": "mean"}
    model = {"dim": 8, "image": {"encoder": "precomputed", "pooling": "single"}, "text": text}
    stage = {"epochs": 2, "batch_size": 8, "loss": "sum_of_hinges", "freeze": ["text.encoder"]}
    recipe.write_text(json.dumps({"model": model, "stages": {"main": stage}}))  # JSON is YAML
    for name, more in (("kept", ["--text-features", tmp_path / "states"]), ("cached", [])):
        vse("train", recipe, "--data", data, "--out", tmp_path / name, "--no-report", "--quiet", *more)
    kept, cached = ((tmp_path / name / "metrics.jsonl").read_bytes() for name in ("kept", "cached"))
    assert kept == cached
    wrong = ["--text-features", tmp_path / "states", "--set", "model.text.encoder.max_length=4"]
    refused = vse("train", recipe, "--data", data, "--out", tmp_path / "other", "--no-report", *wrong, code=2)
    assert "other sentences" in refused.stderr
