"""docs/export.md does what it says: its commands and programs run, in the order of the page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.export.conftest import build

PAGE = Path(__file__).resolve().parents[2] / "docs" / "export.md"


@pytest.mark.slow
def test_every_command_and_program_of_the_page_runs(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    rng = np.random.default_rng(0)
    (tmp_path / "photos").mkdir()
    rows = ["image,caption,split"]
    for number in range(8):
        name = f"photos/{number}.png"
        Image.fromarray(rng.integers(0, 256, (40, 50, 3), dtype=np.uint8)).save(tmp_path / name)
        rows.append(f"{name},a red wall,{'train' if number < 4 else 'val'}")
    (tmp_path / "catalogue.csv").write_text("\n".join(rows) + "\n")
    for name in ("a.png", "b.png"):
        Image.fromarray(rng.integers(0, 256, (40, 50, 3), dtype=np.uint8)).save(tmp_path / name)
    build().save(tmp_path / "runs" / "mine" / "model")
    blocks = re.findall(r"```(sh|python)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert [kind for kind, _ in blocks] == ["sh", "python", "sh", "sh", "python", "sh"]
    printed = []
    for kind, text in blocks:
        lines = text.splitlines() if kind == "sh" else [text]
        for line in lines:
            command = [sys.executable, "-m", *line.replace("vse ", "vsekit ", 1).split()]
            if kind == "python":
                command = [sys.executable, "-c", line]
            done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{line}\n{done.stderr}"
            printed.append(done.stdout)
    assert "Compared with the model: cosines of 1.0000" in printed[0] or "cosines of 0.9999" in printed[0]
    assert "int8 loses" in printed[2]
    assert "trust_remote_code=True" in printed[3]
    assert "4 images and 4 captions of 10 dimensions" in printed[5]
    assert "8 images of 10 dimensions" in printed[6]
    assert "rsum" in printed[7]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["export", "runs/mine", "out", "--to", "tflite"], "can't export to 'tflite'"),
        (["export", "runs/mine", "out", "--to", "onnx", "--int8"], "Give both --int8 and --data"),
        (["export", "nowhere", "out", "--to", "onnx"], "no such folder: nowhere"),
        (["embed", "nowhere", "photos"], "no place for the embeddings"),
        (["embed", "nowhere", "--out", "vectors"], "give a FOLDER of pictures, or --data"),
    ],
)
def test_mistakes_end_with_exit_code_2_and_a_sentence(tmp_path: Path, arguments: list[str], said: str) -> None:
    command = [sys.executable, "-m", "vsekit", *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
