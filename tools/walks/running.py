"""docs/walks.md as a program: its `sh` blocks are run as they stand, and what they show is compared with what the page says.

    command          # a word for the reader
    command          # → this; and this            each must be in what the command prints
    command          # exit 2 → this               where the command ends with 2

A `python` block that opens with `# NAME.py` is written to that file first. `vse serve` is started, visited and stopped.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "walks.md"
COMMENT = re.compile(r"\s\s+# (?:exit (\d+) ?)?(?:→ (.*)|.*)$")


class WalkError(Exception):
    """A command did not do what the page says."""


@dataclass(frozen=True)
class Command:
    """shown: what it must print. code: its exit code."""

    text: str
    shown: tuple[str, ...] = ()
    code: int = 0


@dataclass(frozen=True)
class File:
    name: str
    text: str


@dataclass
class Walk:
    title: str
    steps: list[Command | File] = field(default_factory=list)

    @property
    def commands(self) -> list[Command]:
        return [step for step in self.steps if isinstance(step, Command)]


@dataclass(frozen=True)
class Time:
    """Seconds of the processor and of the clock."""

    cpu: float
    clock: float


def read(text: str) -> list[Walk]:
    """The walks of a page, in its sequence: the sections that have commands."""
    walks = []
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        walk = Walk(section.partition("\n")[0])
        for kind, block in re.findall(r"^```(sh|python)\n(.*?)^```", section, re.MULTILINE | re.DOTALL):
            walk.steps += _commands(block) if kind == "sh" else _file(block)
        if walk.commands:
            walks.append(walk)
    return walks


def _commands(block: str) -> Iterator[Command]:
    for line in block.replace("\\\n", " ").splitlines():
        found = COMMENT.search(line)
        text = (line[: found.start()] if found else line).strip()
        code, shown = found.groups() if found else (None, None)
        if text:
            yield Command(text, tuple(shown.split("; ")) if shown else (), int(code or 0))


def _file(block: str) -> list[File]:
    name, _, text = block.removeprefix("# ").partition("\n")
    return [File(name, text)] if name.endswith(".py") else []


def walk_through(walk: Walk, programs: Path, folder: Path, visit: Callable[[httpx.Client], object]) -> Time:
    """Runs a walk in a folder. programs: of the environment. visit: looks at what is served. Raises WalkError."""
    environment = os.environ | {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),  # for tools; vsekit lies below src and comes from the environment
        "VSEKIT_CACHE": str(folder / ".cache"),
    }
    began, used = time.monotonic(), _used()
    for step in walk.steps:
        if isinstance(step, File):
            (folder / step.name).write_text(step.text, encoding="utf-8")
        elif step.text.startswith("vse serve"):
            _serve(step, folder, environment, visit)
        else:
            done = subprocess.run(
                ["bash", "-c", step.text], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
            _compare(step, done.returncode, done.stdout.decode())
    return Time(_used() - used, time.monotonic() - began)


def _used() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def _compare(command: Command, code: int, printed: str) -> None:
    missing = [words for words in command.shown if words not in printed]
    if code != command.code:
        raise WalkError(f"{command.text}\nended with {code}, not {command.code}:\n{printed}")
    if missing:
        raise WalkError(f"{command.text}\ndoes not say {missing[0]!r}:\n{printed}")


def _serve(
    command: Command, folder: Path, environment: dict[str, str], visit: Callable[[httpx.Client], object]
) -> None:
    program = ["bash", "-c", f"exec {command.text} --port 0"]
    with subprocess.Popen(program, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            address = server.stdout.readline().strip()
            with httpx.Client(base_url=address, timeout=120) as client:
                while client.get("/readyz").status_code != 200:
                    time.sleep(0.1)
                visit(client)
            server.send_signal(signal.SIGTERM)
            _compare(command, server.wait(), address)
        finally:
            server.kill()


def timed(text: str, times: dict[str, Time]) -> str:
    """The page with times in the line below each heading, which says `Time: …`: the processor's, whoever else computes."""
    for title, took in times.items():
        line = f"Time: {took.cpu:.0f} seconds of one core."
        text, count = re.subn(rf"(^## {re.escape(title)}\n)Time: .*$", rf"\g<1>{line}", text, flags=re.MULTILINE)
        if count != 1:
            raise WalkError(f"docs/walks.md has no line `Time: …` below “{title}”")
    return text
