from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vsekit import threads

#: /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice.
LINE = "cpu{} {} {} 0 {} 0 0 0 {} 0 0\n"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A machine of four cores, of which the process may use some, and what they do while it is looked at."""

    def look(usable: set[int], **busy: dict[int, int]) -> None:
        """busy: of 100 ticks, how many each core spends for `user`, `nice` or `steal`."""
        stat = tmp_path / "stat"

        def write(share: int) -> None:
            rows = []
            for core in range(4):
                user, nice, steal = (share * busy.get(k, {}).get(core, 0) for k in ("user", "nice", "steal"))
                rows.append(LINE.format(core, 5000 + user, nice, 9000 + 100 * share - user - nice - steal, steal))
            stat.write_text("cpu  1 2 3 4 5 6 7 8 9 10\n" + "".join(rows) + "intr 12\n")

        write(0)
        monkeypatch.setattr(threads, "_STAT", stat)
        monkeypatch.setattr(threads.time, "sleep", lambda seconds: write(1))
        monkeypatch.setattr(threads, "usable_cores", lambda: usable)
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)

    return look


def test_cores_that_others_keep_busy_are_left_to_them(machine) -> None:
    machine({0, 1, 2, 3})
    assert threads.choose(4) == 4
    machine({0, 1, 2, 3}, user={0: 100, 2: 90})
    assert threads.choose(4) == 2
    machine({0, 1}, user={0: 100, 1: 100})
    assert threads.choose(2) == 1
    machine({0, 1}, steal={1: 100})
    assert threads.choose(2) == 1


def test_only_the_cores_that_the_process_may_use_count(machine) -> None:
    machine({1, 2}, user={0: 100, 3: 100})
    assert threads.choose(2) == 2
    machine({1}, user={0: 100})
    assert threads.choose(4) == 1


def test_niced_processes_and_short_work_leave_the_cores_free(machine) -> None:
    machine({0, 1}, nice={0: 100}, user={1: 30})
    assert threads.choose(2) == 2


def test_never_more_than_torch_has_and_what_the_user_sets_is_kept(machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine({0, 1, 2, 3})
    assert threads.choose(2) == 2
    machine({0, 1}, user={0: 100, 1: 100})
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert threads.choose(2) == 2


def test_where_the_system_does_not_say_the_load_average_does(
    machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine({0, 1})
    monkeypatch.setattr(threads, "_STAT", tmp_path / "missing")
    for load, expected in ((0.2, 2), (1.1, 1), (7.0, 1)):
        monkeypatch.setattr(os, "getloadavg", lambda load=load: (load, 0.0, 0.0))
        assert threads.choose(2) == expected


@pytest.mark.parametrize(
    ("given", "expected"), [({}, "passive"), ({"OMP_WAIT_POLICY": "active"}, "active"), ({"GOMP_SPINCOUNT": "9"}, None)]
)
def test_the_command_line_makes_threads_wait_asleep_unless_told_otherwise(given: dict, expected: str | None) -> None:
    """Before torch is there: OpenMP reads its settings when it loads."""
    program = (
        "import os, sys, atexit; from vsekit import threads; wait = threads.wait_passively\n"
        "def check(): assert 'torch' not in sys.modules; wait()\n"
        "threads.wait_passively = check\n"
        "atexit.register(lambda: print(os.environ.get('OMP_WAIT_POLICY')))\n"
        "from vsekit.cli import main; main()"
    )
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_WAIT", "GOMP_SPIN", "KMP_BLOCK"))}
    done = subprocess.run(
        [sys.executable, "-c", program, "--version"], env=clean | given, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == str(expected)
