"""Processes that kill themselves at a moment that is counted, not timed: the kill happens on every machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

_WATCH = """
import os, signal, sys
_folder, _left = {folder!r}, {operation}
def _watch(event, arguments):
    global _left
    if event in ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir") and str(arguments[0]).startswith(_folder):
        _left -= 1
        if _left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(_watch)
"""


def killed_at(operation: int, folder: Path, program: str, *arguments: str) -> bool:
    """Runs a Python program that is killed before the n-th time it opens, makes, renames or removes a file in `folder`.

    False when the program ended well before that; any other end is an error.
    """
    watch = _WATCH.format(folder=str(folder), operation=operation)
    paths = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    code = subprocess.run([sys.executable, "-c", watch + program, *arguments], env=paths).returncode
    assert code in (0, -signal.SIGKILL), f"ended with {code}"
    return code != 0
