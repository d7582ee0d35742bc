"""A process that lacks what Windows lacks, and has its locks: `msvcrt.locking` with the same contract, made of Linux' locks
of open files, which hold between processes and between two openings in one."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess  # before there is an msvcrt, by which it knows Windows
import sys
from types import ModuleType, SimpleNamespace

LK_UNLCK, LK_LOCK, LK_NBLCK = 0, 1, 2
LACKING = ("posix_fallocate", "getloadavg", "sched_getaffinity", "fork", "nice", "getuid", "geteuid", "pread",
           "pwrite", "fchmod", "killpg", "setsid")  # fmt: skip


def locking(handle: int, how: int, count: int) -> None:
    """Locks `count` bytes from where the file stands; OSError where another opening has one of them."""
    kind = fcntl.F_UNLCK if how == LK_UNLCK else fcntl.F_WRLCK
    fcntl.fcntl(handle, fcntl.F_OFD_SETLK, struct.pack("hhqqi", kind, os.SEEK_CUR, 0, count, 0))


MSVCRT = SimpleNamespace(locking=locking, LK_UNLCK=LK_UNLCK, LK_LOCK=LK_LOCK, LK_NBLCK=LK_NBLCK)


def pretend() -> None:
    """Must come before vsekit is imported."""
    import select
    import signal
    import socket

    assert not any(name.startswith("vsekit") for name in sys.modules)
    msvcrt = ModuleType("msvcrt")
    msvcrt.__dict__.update(vars(MSVCRT))
    sys.modules["msvcrt"] = msvcrt
    for name in ("fcntl", "resource"):
        sys.modules[name] = None  # type: ignore[assignment]  # importing it fails
    for name in LACKING:
        if hasattr(os, name):
            delattr(os, name)
    del signal.SIGKILL
    real = select.select

    def sockets_alone(*lists):
        assert all(hasattr(one, "getpeername") for some in lists[:3] for one in some), "Windows waits for sockets alone"
        return real(*lists)

    select.select = sockets_alone
    socket.SO_EXCLUSIVEADDRUSE = socket.SO_REUSEADDR  # type: ignore[attr-defined]
    subprocess.CREATE_NEW_PROCESS_GROUP = 0  # type: ignore[attr-defined]  # Popen takes none here
