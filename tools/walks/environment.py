"""An empty environment with the built wheel, as a person has it who has only pip."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tools.walks.running import ROOT

EXTRAS = "photos,ocr"


def build_wheel(folder: Path) -> Path:
    _run(sys.executable, "-m", "build", "--wheel", "--outdir", folder, ROOT)
    (built,) = folder.glob("*.whl")
    return built


def make_environment(wheel: Path, folder: Path) -> Path:
    """Makes it, and gives the folder of its programs. Nothing of this checkout is in it."""
    _run(sys.executable, "-m", "venv", folder)
    install = [folder / "bin" / "pip", "install", "-q", "-c", ROOT / "constraints.txt"]
    _run(*install, "torch")
    _run(*install, f"{wheel}[{EXTRAS}]")
    return folder / "bin"


def clear() -> dict[str, str]:
    """Variables without the paths of this checkout: pip would find vsekit there, and not install it."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def _run(*command: object) -> None:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, env=clear())
    if done.returncode:
        raise RuntimeError(f"{command}\n{done.stdout}\n{done.stderr}")
