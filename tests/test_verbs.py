"""The verbs: what docs/python.md shows runs, and does what the commands do."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import vsekit
from vsekit import verbs

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The programs of docs/python.md, one after the other in one process: their folder, and what they printed."""
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    programs = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(programs) == 2
    folder = tmp_path_factory.mktemp("verbs")
    (folder / "program.py").write_text("import torch; torch.set_num_threads(1)\n" + "\n".join(programs))
    environment = {**os.environ, "VSEKIT_CACHE": str(folder / "cache")}
    command = [sys.executable, "program.py"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_the_programs_of_the_docs_run(played: tuple[Path, str]) -> None:
    folder, printed = played
    lines = printed.splitlines()
    assert lines[0] == "{'train': 96, 'val': 16, 'test': 16}"
    assert lines[1].startswith("rsum ")
    assert len(eval(lines[3])) == 5
    assert lines[4] == "(4, 2)"
    assert (folder / "vectors" / "images.npy").is_file()


def test_a_verb_measures_what_the_command_measures(played: tuple[Path, str]) -> None:
    folder, printed = played
    metrics = vsekit.evaluate(folder / "runs" / "tiny", folder / "scenes", split="test", confidence=False)
    assert f"rsum {metrics.rsum:.1f}," in printed
    command = [sys.executable, "-m", "vsekit", "evaluate", "runs/tiny", "--data", "scenes", "--json", "-q"]
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
    assert f'"rsum": {metrics.rsum}' in answer


def test_importing_a_room_does_not_hide_the_verb_of_the_same_name(played: tuple[Path, str]) -> None:
    import vsekit.search.searcher
    import vsekit.serve

    answer = vsekit.search(played[0] / "scenes.index", "a red circle", top=2)
    assert len(answer.hits) == 2
    assert callable(vsekit.serve)


def test_every_verb_is_offered_typed_and_documented_with_an_example() -> None:
    offered = {name for name, value in vars(verbs).items() if inspect.isfunction(value) and not name.startswith("_")}
    assert offered == set(vsekit.__all__) - {"Progress", "__version__"}
    for name in offered:
        verb = getattr(verbs, name)
        signature = inspect.signature(verb)
        assert ">>> " in (verb.__doc__ or ""), name
        assert signature.return_annotation is not inspect.Signature.empty
        assert all(p.annotation is not inspect.Parameter.empty for p in signature.parameters.values()), name


def test_importing_the_package_imports_nothing_heavy() -> None:
    heavy = ["torch", "numpy", "PIL", "transformers", "pydantic", "typer", "faiss", "fastapi", "pyarrow"]
    program = f"import sys, vsekit; print([name for name in {heavy!r} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout.strip() == "[]"
