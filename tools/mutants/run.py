"""One mutant and its tests, in a process forked from one that has imported what is slow to import."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tools.mutants.mutations import Mutant

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["torch", "numpy", "scipy.stats", "pydantic", "PIL.Image", "pytest", "hypothesis"])


@dataclass(frozen=True)
class Outcome:
    """killer: the test that failed; none where the sources could not be imported."""

    what: Literal["killed", "timeout", "survived"]
    killer: str = ""


def environment(copy: Path) -> dict[str, str]:
    """For a process that tests the sources in `copy` with one thread."""
    paths = os.pathsep.join([str(copy / "src"), str(copy)])
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return {**os.environ, **one_thread, "PYTHONPATH": paths, "VSEKIT_CACHE": str(copy / ".cache")}


def outcome(mutant: Mutant, copy: Path, tests: Sequence[str], seconds: float) -> Outcome:
    """What becomes of a mutant whose tests take `seconds`. The copy is as it was, afterwards."""
    with _changed(copy / mutant.file, mutant.code):
        return tested(copy, tests, seconds)


@contextmanager
def _changed(file: Path, code: str) -> Iterator[None]:
    before, times = file.read_bytes(), file.stat()
    file.write_text(code, encoding="utf-8")
    os.utime(file, (times.st_atime, times.st_mtime + 1000 + time.time() % 1000))  # no compiled file is taken for it
    try:
        yield
    finally:
        file.write_bytes(before)
        os.utime(file, (times.st_atime, times.st_mtime))


def tested(copy: Path, tests: Sequence[str], seconds: float, *options: str) -> Outcome:
    """The first test of the copy that fails. What never ends is a timeout.

    Four times the processor time that the tests take is the limit, and not time by the clock, of which a busy machine takes
    more; only what waits for nothing meets that one.
    """
    verdict = copy.with_name(f"{copy.name}.verdict")
    verdict.write_text("")
    cpu = int(20 + 4 * seconds)
    process = _SERVER.Process(target=_test, args=(copy, environment(copy), [*options, *tests], verdict, cpu))
    try:
        process.start()
        process.join(4 * cpu)
    finally:
        if process.pid is not None:
            _end_group(process.pid)
        ended = process.exitcode
        process.join()
    if ended is None or ended in (-signal.SIGXCPU, -signal.SIGKILL):
        return Outcome("timeout")
    return Outcome("survived") if ended == 0 else Outcome("killed", verdict.read_text())


def _end_group(leader: int) -> None:
    """Ends the process and what it started, if anything is left of them."""
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


class _Verdict:
    """A plugin that notes the test that failed."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.file.write_text(report.nodeid)


def _test(copy: Path, variables: dict[str, str], tests: list[str], verdict: Path, cpu: int) -> None:
    import pytest

    os.setsid()
    os.chdir(copy)
    os.environ.update(variables)
    sys.path[:0] = [str(copy / "src"), str(copy)]
    sys.dont_write_bytecode = True
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    used = resource.getrusage(resource.RUSAGE_SELF)
    spent = int(used.ru_utime + used.ru_stime)
    resource.setrlimit(resource.RLIMIT_CPU, (spent + cpu, spent + cpu + 10))
    arguments = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]
    os._exit(int(pytest.main(arguments, plugins=[_Verdict(verdict)])))
