"""The run folder: what is in it and how it grows.

config.yaml     everything the run was made with; replayable with vse train config.yaml. Its first line is a checksum of the rest
model/          the best snapshot, complete in itself
metrics.jsonl   a line a step and a line a validation; the same bytes whenever the run is repeated. The closing line holds
                a checksum of all lines before it
timings.jsonl   seconds and pairs/s, and CPU seconds of training and validation, which are never the same twice
state/          for exact resume
skipped.csv     what of the collection was set aside, and why; written before training
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from pydantic import ValidationError

from vsekit import system
from vsekit.data.clean import SKIPPED
from vsekit.errors import UserError
from vsekit.evaluation.config import CONFIG, REPAIR, read_config, write_config
from vsekit.files import remove_left_over
from vsekit.seals import KEY
from vsekit.training.checkpoint import newest_checkpoint, read_state
from vsekit.training.settings import RunSettings

LOCK = ".lock"
#: How long a folder made by one process may take to be seen by another.
SEEN_SECONDS = 30.0


class RunFolder:
    """A run folder to be made, or one to go on with. Nothing is written before `create`.

    Raises UserError when the folder is in use by another run, or was made with other settings.

    leads: of several processes, this is the one that writes; to the others the folder is only there to be read.
    """

    def __init__(
        self,
        path: Path,
        settings: RunSettings,
        source: dict[str, Any],
        collection: str,
        *,
        resume: bool,
        leads: bool = True,
    ) -> None:
        self.path, self.leads = path, leads
        self.model, self.state = path / "model", path / "state"
        self.metrics, self.timings = path / "metrics.jsonl", path / "timings.jsonl"
        self._lock: TextIO | None = None
        self.content = {**settings.model_dump(mode="json"), "collection": collection, "source": source}
        config = path / CONFIG
        if not leads:
            return
        if path.exists() and not path.is_dir():
            raise UserError("this is a file, not a folder", file=path, remedy="Choose another --out.")
        if config.is_file():
            if not resume:
                raise UserError(
                    "this folder holds a run already",
                    file=path,
                    remedy="Add --resume to go on with it, or choose another --out.",
                )
            self._same(read_config(config), self.content, config)
        elif path.exists() and any(file.name not in (LOCK, SKIPPED) for file in path.iterdir()):
            raise UserError("this folder is not empty and holds no run", file=path, remedy="Choose another --out.")

    def create(self) -> None:
        """Makes the folder. It is locked until this process ends: two runs in one folder would undo each other."""
        if not self.leads:
            return
        self.path.mkdir(parents=True, exist_ok=True)
        if self._lock is None:
            self._lock = (self.path / LOCK).open("a", encoding="ascii")
            try:
                system.lock(self._lock)
            except OSError:
                raise UserError("another process is training into this folder", file=self.path) from None
            remove_left_over(self.path)
        write_config(self.path / CONFIG, self.content)

    def must_be_seen(self, rank: int, seconds: float = SEEN_SECONDS) -> None:
        """UserError where this process does not see the folder that the leader has made; network disks take a moment."""
        until = time.monotonic() + seconds
        while not (self.path / CONFIG).is_file():
            if time.monotonic() > until:
                raise UserError(
                    f"rank {rank} does not see the run folder that rank 0 has made",
                    file=self.path,
                    remedy="Put --out on a file system that all machines share, under the same path.",
                )
            time.sleep(0.1)

    @staticmethod
    def _same(old: dict[str, Any], new: dict[str, Any], config: Path) -> None:
        was, now = (
            {k: v for k, v in flat(side).items() if not k.startswith("source")}
            for side in (_with_defaults(old, new), _as_json(new))
        )
        changed = sorted(k for k in was.keys() | now.keys() if was.get(k) != now.get(k))
        if changed:
            key = changed[0]
            raise UserError(
                f"the run was made with {key} = {was.get(key)!r}, not {now.get(key)!r}"
                + (f" (and {len(changed) - 1} more differences)" if len(changed) > 1 else ""),
                file=config,
                remedy="Resume with the settings of config.yaml, or start anew in another folder.",
            )


def _with_defaults(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """A run's settings with the defaults of those that did not exist yet when it was made: they are what it did."""
    if flat(old).keys() == flat(_as_json(new)).keys():
        return old
    try:
        settings = RunSettings.model_validate({k: v for k, v in old.items() if k in RunSettings.model_fields})
    except ValidationError:  # what this version has no more is a difference, and is told as one
        return old
    return old | settings.model_dump(mode="json")


def finished(run: Path) -> dict[str, Any] | None:
    """The closing line of a run's metrics.jsonl, when the run is complete."""
    lines = read_metrics(run) if (run / "metrics.jsonl").is_file() else []
    return lines[-1] if lines and lines[-1].get("event") == "end" else None


class Log:
    """Appends JSON lines; the file is made with the first. `size` cuts what was written after a checkpoint.

    sha256: of the first `size` bytes, where it was written down; UserError where the file is another one now.
    """

    def __init__(self, path: Path, size: int | None = None, sha256: str | None = None) -> None:
        self.path = path
        self._file: BinaryIO | None = None
        before = path.read_bytes()[:size] if path.is_file() else b""
        self.sha256 = hashlib.sha256(before)
        if size is not None:
            if len(before) < size or sha256 not in (None, self.sha256.hexdigest()):
                raise _damaged(path)
            if path.is_file():
                os.truncate(path, size)

    @property
    def file(self) -> BinaryIO:
        if self._file is None:
            self._file = self.path.open("ab")
        return self._file

    def write(self, line: dict[str, Any]) -> None:
        data = json.dumps(line, allow_nan=False).encode() + b"\n"
        self.sha256.update(data)
        self.file.write(data)

    def flushed(self) -> int:
        """Makes sure all is on disk; returns the size."""
        self.file.flush()
        os.fsync(self.file.fileno())
        return self.file.tell()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, by dotted keys."""
    if isinstance(value, dict) and value:
        return {k: v for key, inner in value.items() for k, v in flat(inner, f"{prefix}{key}.").items()}
    return {prefix[:-1]: value}


def read_metrics(run: Path) -> list[dict[str, Any]]:
    """All whole lines of a run's metrics.jsonl; the last may be half of one, while the run goes on or after a kill.

    UserError where a line is none, or where they are not those that the closing line or, without one, the newest checkpoint
    vouches for.
    """
    path = run / "metrics.jsonl"
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise UserError("this run's log is missing", file=path, remedy=REPAIR) from None
    whole = data[: data.rfind(b"\n") + 1]
    lines = []
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            found = json.loads(line)
        except ValueError as error:
            raise UserError(f"this is no line of a log: {error}", file=path, line=number, remedy=REPAIR) from None
        if not isinstance(found, dict):
            raise UserError("this is no line of a log", file=path, line=number, remedy=REPAIR)
        lines.append(found)
    if lines and lines[-1].get("event") == "end":
        before, expected = whole[: whole.rstrip(b"\n").rfind(b"\n") + 1], lines[-1].pop(KEY, None)
    elif checkpoint := newest_checkpoint(run / "state"):
        state = read_state(checkpoint)
        before, expected = data[: state["metrics_size"]], state.get("metrics_sha256")
    else:
        before, expected = b"", None
    if expected not in (None, hashlib.sha256(before).hexdigest()):
        raise _damaged(path)
    return lines


def _damaged(log: Path) -> UserError:
    return UserError("this log is damaged: it is not what was written", file=log, remedy=REPAIR)
