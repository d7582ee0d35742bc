from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import tests.windows as windows

from vsekit import system
from vsekit.files import write_text

ROOT = Path(__file__).parents[1]


@pytest.fixture(params=["posix", "windows"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "windows":
        on_windows(monkeypatch)
    return request.param


def on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "fcntl", None)
    monkeypatch.setattr(system, "resource", None)
    monkeypatch.setattr(system, "msvcrt", windows.MSVCRT, raising=False)


def test_a_lock_is_held_by_one_and_let_go(tmp_path: Path, either: str) -> None:
    path = tmp_path / "lock"
    with system.locked(path), path.open("ab") as other, pytest.raises(OSError):
        system.lock(other)
    with path.open("ab") as other:
        system.lock(other)
        system.unlock(other)
    with system.locked(path):
        pass


def test_what_a_locked_file_says_can_be_read_and_its_place_stays(tmp_path: Path, either: str) -> None:
    path = tmp_path / "lock"
    with path.open("w+", encoding="ascii") as file:
        file.write("4711\n")
        file.flush()
        file.seek(2)
        system.lock(file)
        assert file.tell() == 2
        assert path.read_text(encoding="ascii") == "4711\n"
        assert path.stat().st_size == 5
        system.unlock(file)


HOLD = """
import sys
from pathlib import Path
from vsekit import system
with system.locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
"""


def test_who_waits_gets_the_lock_when_another_process_ends(tmp_path: Path, either: str) -> None:
    start = [] if either == "posix" else ["from tests.windows import pretend; pretend()"]
    holder = subprocess.Popen(
        [sys.executable, "-c", "\n".join([*start, HOLD]), str(tmp_path / "lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert holder.stdin
    assert holder.stdout
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(OSError), system.locked(tmp_path / "lock"):
        pass
    holder.stdin.close()
    with system.locked(tmp_path / "lock", wait=True):
        assert holder.wait() == 0
    holder.stdout.close()


def test_room_is_reserved_where_the_file_stands_with_and_without_fallocate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("with", "without"):
        if name == "without":
            monkeypatch.delattr(os, "posix_fallocate")
        with (tmp_path / name).open("wb") as file:
            file.write(b"head")
            system.reserve(file, 2**20 + 3)
            file.write(b"more")
        assert (tmp_path / name).read_bytes() == b"headmore" + bytes(2**20 - 1), name


def test_a_file_that_somebody_reads_is_replaced_when_he_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows refuses to replace a file that is open. Elsewhere a refusal is meant, and comes at once."""
    real, refused = os.replace, []

    def replace(source: str, target: str) -> None:
        if len(refused) < 3:
            refused.append(target)
            raise PermissionError(13, "the file is in use")
        real(source, target)

    target = tmp_path / "file"
    write_text(target, "old")
    monkeypatch.setattr(os, "replace", replace)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    with pytest.raises(PermissionError):
        write_text(target, "new")
    assert (len(refused), target.read_text()) == (1, "old")
    on_windows(monkeypatch)
    write_text(target, "new")
    assert (len(refused), target.read_text()) == (3, "new")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_windows_waits_only_so_long_for_a_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_windows(monkeypatch)
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(system.time, "monotonic", lambda: clock.now)
    monkeypatch.setattr(system.time, "sleep", lambda seconds: setattr(clock, "now", clock.now + seconds))
    (tmp_path / "new").write_text("")
    monkeypatch.setattr(os, "replace", _in_use)
    with pytest.raises(PermissionError):
        system.replace(tmp_path / "new", tmp_path / "old")
    assert system.PATIENCE <= clock.now < system.PATIENCE + 1


def test_a_file_that_windows_keeps_is_left_and_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mapped").write_text("")
    monkeypatch.setattr(os, "unlink", _in_use)
    with pytest.raises(PermissionError):
        system.remove(tmp_path / "mapped")
    on_windows(monkeypatch)
    system.remove(tmp_path / "mapped")


def _in_use(*_: object) -> None:
    raise PermissionError(13, "the file is in use")


def test_a_descriptor_reads_bytes_on_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(os, "O_BINARY", 1 << 15, raising=False)
    monkeypatch.setattr(os, "open", lambda path, flags: asked.append(flags) or 0)
    system.open_to_read(tmp_path)
    system.open_to_read(tmp_path, "O_NOFOLLOW", "O_UNKNOWN_HERE")
    assert asked == [os.O_RDONLY | 1 << 15, os.O_RDONLY | 1 << 15 | os.O_NOFOLLOW]


def test_an_address_is_nobody_elses(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows SO_REUSEADDR would let a second server take the same port."""
    asked: list[int] = []
    listener = SimpleNamespace(setsockopt=lambda level, option, value: asked.append(option))
    system.claim_address(listener)  # type: ignore[arg-type]
    on_windows(monkeypatch)
    monkeypatch.setattr(system.socket, "SO_EXCLUSIVEADDRUSE", -5, raising=False)
    system.claim_address(listener)  # type: ignore[arg-type]
    assert asked == [system.socket.SO_REUSEADDR, -5]


def test_running_processes_are_told_from_ended_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert system.is_running(os.getpid())
    assert not system.is_running(ended.pid)


def test_windows_is_asked_for_a_process_and_nothing_is_sent_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """`os.kill(process, 0)` is Ctrl-C there. A process can be open and have ended: its exit code says so."""
    on_windows(monkeypatch)
    codes, closed = {11: 259, 12: 0}, []

    def exit_code(handle: int, where: object) -> int:
        where._obj.value = codes[handle]  # type: ignore[attr-defined]
        return 1

    kernel = SimpleNamespace(
        OpenProcess=lambda access, inherit, process: process if process in codes else 0,
        GetExitCodeProcess=exit_code,
        CloseHandle=closed.append,
    )
    monkeypatch.setattr(system.ctypes, "windll", SimpleNamespace(kernel32=kernel), raising=False)
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("a signal was sent"))
    assert [system.is_running(process) for process in (11, 12, 13)] == [True, False, False]
    assert closed == [11, 12]


def test_without_resource_there_are_files_but_no_limit_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    on_windows(monkeypatch)
    assert system.most_files(65536) == 8192
    assert system.most_files(100) == 100
    assert system.limit_memory(1) is False


def test_a_limit_of_memory_holds_on_linux() -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("only Linux has one")
    code = "from vsekit import system; assert system.limit_memory(2**30); bytearray(2**30)"
    paths = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=paths)
    assert "MemoryError" in done.stderr


def test_only_one_file_knows_of_systems() -> None:
    """Another that imports these modules, or calls what some system lacks, would not start there."""
    told = ("import fcntl", "import resource\n", "import msvcrt", "posix_fallocate", "SIGKILL", "os.fork(", "import select",
            "import pwd", "import termios", "os.kill(", "start_new_session", "getuid",
            "os.pread", "SO_REUSEADDR", "os.open(")  # fmt: skip
    package = ROOT / "src" / "vsekit"
    found = [
        (path.name, word)
        for path in sorted(package.rglob("*.py"))
        for word in told
        if path.name != "system.py" and word in path.read_text(encoding="utf-8")
    ]
    assert found == []


def test_output_goes_into_a_pipe_that_has_no_such_characters() -> None:
    """As pipes on Windows are: 256 characters, and no arrow among them."""
    paths = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "cp1252"}
    program = [sys.executable, "-m", "vsekit", "recipes", "scenes", "--json"]
    plain = subprocess.run(program, capture_output=True, env=paths | {"PYTHONIOENCODING": "utf-8"})
    narrow = subprocess.run(program, capture_output=True, env=paths)
    assert narrow.returncode == 0, narrow.stderr.decode("cp1252")
    assert json.loads(narrow.stdout.decode("cp1252")) == json.loads(plain.stdout)
