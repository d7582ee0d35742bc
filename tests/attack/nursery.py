"""A process that has everything imported, and has a child for each command of `vse`: ten a second instead of one in three.

    {"arguments": ["search", …], "folder": where it runs, "kill": n, "coarse": …, "largest": bytes}   a line in
    {"code": …, "out": …, "err": …, "moments": …}                                                     a line out

kill: the child kills itself before the n-th call that could write (`Moments`); 0 only counts them. coarse: before the n-th
file that is opened for writing, renamed or removed, since counting all calls makes some commands ten times as slow. largest:
no file may grow beyond it.
"""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

ROOT = Path(__file__).parents[2]
SECONDS = 120  # of the processor: a child that takes more goes round in circles

WRITING = {
    "fsync", "ftruncate", "link", "mkdir", "open", "posix_fallocate", "remove", "rename", "replace", "rmdir", "truncate",
    "unlink", "write",
}  # fmt: skip


class Moments:
    """Counts calls into C that could write: of `os`, of open files, of SQLite, of safetensors; kills at the n-th."""

    def __init__(self, kill: int | None) -> None:
        self.count, self.kill = 0, kill

    def __call__(self, frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and self._writes(called):
            self._one()

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """The coarse way, see the module."""
        opened = event == "open" and bool(arguments[2] & (os.O_WRONLY | os.O_RDWR))
        if opened or event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"):
            self._one()

    def _one(self) -> None:
        self.count += 1
        if self.count == self.kill:
            os.kill(os.getpid(), signal.SIGKILL)

    @staticmethod
    def _writes(called: Any) -> bool:
        name, of = called.__name__, getattr(called, "__self__", None)
        if isinstance(of, ModuleType):
            return name == "serialize_file" or (name in WRITING and of.__name__ == "posix")
        if isinstance(of, io.IOBase):
            return name in ("write", "flush", "close", "truncate") and of not in (sys.stdout, sys.stderr)
        return isinstance(of, sqlite3.Connection | sqlite3.Cursor) and name.startswith(("execute", "close", "commit"))


@dataclass
class End:
    """How a command ended. code: its exit code, or minus the signal that ended it. moments: calls that could write."""

    code: int
    out: str
    err: str
    moments: int
    arguments: list[str] = field(default_factory=list)

    @property
    def refused(self) -> bool:
        """Exit 2 with a message for a person."""
        return self.code == 2 and "vse: " in self.err and "Traceback" not in self.err

    def __str__(self) -> str:
        where = [line.strip() for line in self.err.splitlines() if "/vsekit/" in line][-3:]
        said = [*where, *self.err.strip().splitlines()[-1:]]
        return "\n  ".join([f"vse {' '.join(self.arguments)}", f"ended with {self.code}", *said])


class Nursery:
    """The process as its users see it; `with` ends it."""

    def __init__(self) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, "-m", "tests.attack.nursery"]
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()

    def run(
        self,
        *arguments: str,
        folder: Path,
        kill: int | None = None,
        coarse: bool = False,
        largest: int | None = None,
    ) -> End:
        assert self._process.stdin
        assert self._process.stdout
        asked = {"arguments": arguments, "folder": str(folder), "kill": kill, "coarse": coarse, "largest": largest}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return End(**json.loads(self._process.stdout.readline()), arguments=list(arguments))


def _child(asked: dict[str, Any], moments: Moments) -> int:
    from vsekit.cli import main

    os.chdir(asked["folder"])
    os.environ["VSEKIT_CACHE"] = str(Path(asked["folder"]) / "cache")
    if asked["largest"] is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (asked["largest"], resource.RLIM_INFINITY))
    sys.argv = ["vse", *asked["arguments"]]
    if asked["kill"] is not None and asked["coarse"]:
        sys.addaudithook(moments.audit)
    elif asked["kill"] is not None:
        threading.setprofile(moments)
        sys.setprofile(moments)
    code = 0
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        sys.setprofile(None)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    return code


def _serve(asked: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as counted:
        child = os.fork()
        if child == 0:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
            moments = Moments(asked["kill"])
            code = 1
            try:
                code = _child(asked, moments)
                sys.stdout.flush()
                sys.stderr.flush()
                counted.write(str(moments.count).encode())
                counted.flush()
            finally:
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        texts = []
        for file in (out, err, counted):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    return {"code": code, "out": texts[0], "err": texts[1], "moments": int(texts[2] or 0)}


def _import_all() -> None:
    import torch

    torch.set_num_threads(1)
    import lightning_fabric  # noqa: F401
    import onnx  # noqa: F401
    import onnxruntime  # noqa: F401
    import onnxscript  # noqa: F401
    import pyarrow.parquet  # noqa: F401
    from transformers import AutoModel, AutoTokenizer, BertModel, BertTokenizer  # noqa: F401

    import vsekit.demo.story
    import vsekit.export.embeddings
    import vsekit.export.folder
    import vsekit.export.sources
    import vsekit.recipes.reproduce
    import vsekit.report.audit
    import vsekit.report.run
    import vsekit.search.indexing
    import vsekit.search.searcher
    import vsekit.search.sheet
    import vsekit.training.loop  # noqa: F401
    from vsekit.cli import (  # noqa: F401
        audit,
        compare,
        data,
        demo,
        evaluate,
        features,
        index,
        mine,
        recipes,
        report,
        reproduce,
        search,
        serve,
        train,
    )  # fmt: skip


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # nothing else may be said there
    _import_all()
    for line in sys.stdin:
        answers.write(json.dumps(_serve(json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
