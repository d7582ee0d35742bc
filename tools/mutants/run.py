"""One mutant and its tests, in a process forked from one that has imported what is slow to import."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tools.mutants.mutations import Mutant

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["torch", "numpy", "scipy.stats", "pydantic", "PIL.Image", "pytest", "hypothesis"])


def environment(copy: Path) -> dict[str, str]:
    """For a process that tests the sources in `copy` with one thread."""
    paths = os.pathsep.join([str(copy / "src"), str(copy)])
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return {**os.environ, **one_thread, "PYTHONPATH": paths, "VSEKIT_CACHE": str(copy / ".cache")}


def outcome(mutant: Mutant, copy: Path, tests: Sequence[str], seconds: float) -> str:
    """killed, timeout (which is as good) or survived. The copy is as it was, afterwards."""
    file = copy / mutant.file
    before, times = file.read_bytes(), file.stat()
    file.write_text(mutant.code, encoding="utf-8")
    os.utime(file, (times.st_atime, times.st_mtime + 1000 + time.time() % 1000))  # no compiled file is taken for it
    process = _SERVER.Process(target=_test, args=(copy, environment(copy), list(tests)))
    try:
        process.start()
        process.join(seconds)
        if process.exitcode is None:
            return "timeout"
        return "survived" if process.exitcode == 0 else "killed"
    finally:
        if process.pid is not None:
            _end_group(process.pid)
        process.join()
        file.write_bytes(before)
        os.utime(file, (times.st_atime, times.st_mtime))


def _end_group(leader: int) -> None:
    """Ends the process and what it started, if anything is left of them."""
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def _test(copy: Path, variables: dict[str, str], tests: list[str]) -> None:
    import pytest

    os.setsid()
    os.chdir(copy)
    os.environ.update(variables)
    sys.path[:0] = [str(copy / "src"), str(copy)]
    sys.dont_write_bytecode = True
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    os._exit(int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests])))
