"""What Windows, macOS and Linux do differently: locks, room on the disk, renaming over open files, limits, processes.

All else of vsekit asks here and knows no system. `fcntl` and `resource` are not on Windows, `msvcrt` is only there.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO

fcntl: Any
resource: Any
msvcrt: Any
try:
    import fcntl
    import resource
except ImportError:
    import msvcrt

    fcntl = resource = None

#: The byte that Windows locks. Others can't read a locked byte, so it lies behind all that a lock file says.
LOCKED_BYTE = 2**30
#: How long Windows' indexers and virus scanners may have a file open that is to be replaced.
PATIENCE, PAUSE = 5.0, 0.05
FILES_ON_WINDOWS = 8192  # of the C library; sockets don't count there
STILL_ACTIVE, QUERY_LIMITED_INFORMATION = 259, 0x1000


def lock(file: IO[Any], *, wait: bool = False) -> None:
    """Takes the lock that an open file is; OSError where another has it, unless `wait`. It ends with the process, with
    `unlock`, and outside Windows when the file is closed."""
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        return
    while True:
        try:
            _windows_lock(file, msvcrt.LK_NBLCK)
            return
        except OSError:
            if not wait:
                raise
        time.sleep(PAUSE)


def unlock(file: IO[Any]) -> None:
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_UN)
    else:
        _windows_lock(file, msvcrt.LK_UNLCK)


def _windows_lock(file: IO[Any], how: int) -> None:
    at = os.lseek(file.fileno(), 0, os.SEEK_CUR)
    os.lseek(file.fileno(), LOCKED_BYTE, os.SEEK_SET)
    try:
        msvcrt.locking(file.fileno(), how, 1)
    finally:
        os.lseek(file.fileno(), at, os.SEEK_SET)


@contextmanager
def locked(path: Path, *, wait: bool = False) -> Iterator[None]:
    """Holds the lock that is the file `path`, which is made. OSError as `lock` raises it, and where it can't be made."""
    with path.open("ab") as file:
        lock(file, wait=wait)
        try:
            yield
        finally:
            unlock(file)


def sync(path: Path) -> None:
    """Returns when the file is on the disk. Windows can't say so of a file that is open for reading alone."""
    with path.open("r+b") as file:
        os.fsync(file.fileno())


def open_to_read(path: Path, *options: str) -> int:
    """A descriptor. options: names of flags, for the systems that have them. Windows would else read text, up to the first
    Ctrl-Z, and with other line ends."""
    flags = os.O_RDONLY
    for name in ("O_BINARY", *options):
        flags |= getattr(os, name, 0)
    return os.open(path, flags)


def replace(source: Path, target: Path) -> None:
    """Renames, in place of what is there. Windows refuses as long as somebody reads the target: that is waited for."""
    _patiently(lambda: source.replace(target))


def remove(path: Path) -> None:
    """Removes a file, if there. Windows keeps one that somebody maps: it stays, for whoever tidies next."""
    if fcntl is not None:
        path.unlink(missing_ok=True)
        return
    with contextlib.suppress(PermissionError):
        path.unlink(missing_ok=True)


def _patiently(rename: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE
    while True:
        try:
            rename()
            return
        except PermissionError:
            if fcntl is not None or time.monotonic() > until:
                raise
        time.sleep(PAUSE)


def reserve(file: BinaryIO, count: int) -> None:
    """Makes room for `count` more bytes, which are zeros; OSError where the disk is full. The place in the file stays.

    A disk that is full would else kill who writes to a map of the file.
    """
    file.flush()
    start = file.tell()
    if hasattr(os, "posix_fallocate"):
        if count:
            os.posix_fallocate(file.fileno(), start, count)
        return
    zeros = bytes(2**20)  # macOS and Windows have no such call
    while count:
        count -= file.write(zeros[: min(count, len(zeros))])
    file.seek(start)


def limit_memory(count: int) -> bool:
    """Sets a limit to the bytes that this process may have; whether the system does so. macOS and Windows don't."""
    if resource is None or sys.platform == "darwin":
        return False
    resource.setrlimit(resource.RLIMIT_AS, (count, count))
    return True


def most_memory() -> int:
    """Bytes that this process had at most; 0 where the system doesn't say. rusage on Linux would count those of the
    process that started it, and counts in other units."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        return 0 if resource is None else int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def most_files(wanted: int) -> int:
    """How many files the process may open, after asking for `wanted`."""
    if resource is None:
        return min(wanted, FILES_ON_WINDOWS)
    endless = resource.RLIM_INFINITY
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == endless else min(hard, wanted)
    if soft != endless and soft < allowed:
        with contextlib.suppress(OSError, ValueError):  # some systems allow less than they say
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return wanted if soft == endless else int(soft)


def claim_address(listener: socket.socket) -> None:
    """Before `bind`: an address that was just given up is taken at once, and nobody shares it. The option for the former
    means the opposite of the latter on Windows, where there is another one."""
    option = socket.SO_REUSEADDR if fcntl is not None else socket.SO_EXCLUSIVEADDRUSE  # type: ignore[attr-defined]
    listener.setsockopt(socket.SOL_SOCKET, option, 1)


def apart() -> dict[str, Any]:
    """Options of `subprocess.Popen` for a process that Ctrl-C does not reach."""
    if fcntl is not None:
        return {"start_new_session": True}
    return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}  # type: ignore[attr-defined]


def is_running(process: int) -> bool:
    """Whether there is a process of this number."""
    if fcntl is None:
        return _is_running_on_windows(process)
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _is_running_on_windows(process: int) -> bool:
    """`os.kill(process, 0)` would send it Ctrl-C there."""
    kernel = ctypes.windll.kernel32  # type: ignore[attr-defined]
    handle = kernel.OpenProcess(QUERY_LIMITED_INFORMATION, False, process)
    if not handle:
        return False
    code = ctypes.c_ulong()
    known = kernel.GetExitCodeProcess(handle, ctypes.byref(code))
    kernel.CloseHandle(handle)
    return not known or code.value == STILL_ACTIVE
