"""What was recorded: the tests that reach a line, and how long they take."""

from __future__ import annotations

import ast
import difflib
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coverage import CoverageData

from tools.mutants.mutations import Mutant


@dataclass(frozen=True)
class Reach:
    """What was recorded, of which sources and tests.

    lines: of each file and line (as text) the tests that reach it. seconds: of each test that passed.
    sources: the text of each file. tested: by file of tests, what names its text.
    """

    lines: dict[str, dict[str, list[str]]]
    seconds: dict[str, float]
    sources: dict[str, str]
    tested: dict[str, str]

    def tests(self, mutant: Mutant, patience: float) -> list[str]:
        """Those that reach the mutant's statement, up to `patience` seconds of them: those that mirror its file first,
        then those that mirror its room, the quickest first."""
        at = self.lines.get(mutant.file, {})
        low, high = mutant.lines
        found = {test for line in range(low, high + 1) for test in at.get(str(line), ())}
        chosen: list[str] = []
        path = Path(mutant.file).relative_to("src/vsekit")
        own, room = f"tests/{path.parent}/test_{path.stem}.py::", f"tests/{path.parts[0]}/"
        order = {test: (not test.startswith(own), not test.startswith(room), self.seconds[test]) for test in found}
        for test in sorted(found, key=lambda test: (order[test], test)):
            patience -= self.seconds[test]
            if chosen and patience < 0:
                break
            chosen.append(test)
        return chosen


def name_of(file: Path) -> str:
    """Of what is in a file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]


def text_of(root: Path, test: str) -> str:
    """Names the text of a test; "" where it is not there."""
    path, _, name = test.partition("::")
    file, name = root / path, name.rpartition("::")[2].partition("[")[0]
    if not test or not file.is_file():
        return ""
    text = file.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            lines = text.splitlines()[first - 1 : node.end_lineno]
            return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
    return name_of(file) if path.startswith("src/") else ""


def carried(old: Reach, root: Path) -> Reach:
    """What still holds of an older recording: the tests of files that are the same, at the lines where those of the sources
    have gone. A line that is new is reached by nothing, until a file of tests that reaches it is recorded."""
    tested = {
        file: name for file, name in old.tested.items() if (root / file).is_file() and name_of(root / file) == name
    }
    seconds = {test: took for test, took in old.seconds.items() if test.partition("::")[0] in tested}
    lines: dict[str, dict[str, list[str]]] = {}
    for file, at in old.lines.items():
        if file in old.sources and (root / file).is_file():
            before, now = old.sources[file].splitlines(), (root / file).read_text(encoding="utf-8").splitlines()
            for block in difflib.SequenceMatcher(None, before, now, autojunk=False).get_matching_blocks():
                for offset in range(block.size):
                    kept = [test for test in at.get(str(block.a + offset + 1), ()) if test in seconds]
                    if kept:
                        lines.setdefault(file, {})[str(block.b + offset + 1)] = kept
    return Reach(lines, seconds, {}, tested)


def joined(first: Reach, second: Reach) -> Reach:
    """second: newer, and with the sources of now."""
    lines = {file: dict(at) for file, at in first.lines.items()}
    for file, at in second.lines.items():
        for line, tests in at.items():
            here = lines.setdefault(file, {})
            here[line] = sorted({*here.get(line, ()), *tests})
    return Reach(lines, first.seconds | second.seconds, second.sources, first.tested | second.tested)


def read(folder: Path, root: Path) -> Reach:
    """Of the files that the plugin left in `folder`, about sources in `root`.

    A line that runs when its module is imported is reached by all tests that reach anything in the module.
    """
    tests: dict[str, dict[str, Any]] = {}
    for file in folder.glob("tests-*.json"):
        tests |= json.loads(file.read_text())
    users: dict[str, set[str]] = {}
    for name, test in tests.items():
        if test["passed"]:
            for context in (name, *test["shared"]):
                users.setdefault(context, set()).add(name)
    lines: dict[str, dict[int, set[str]]] = {}
    imported: dict[str, set[int]] = {}
    for file in folder.glob("lines.*"):
        data = CoverageData(str(file))
        data.read()
        for source in data.measured_files():
            path = os.path.relpath(source, root)
            at = lines.setdefault(path, {})
            for line, contexts in data.contexts_by_lineno(source).items():
                # Started processes are named after the test and its phase, "… (call)".
                names = {context.rpartition(" (")[0] if context.endswith(")") else context for context in contexts}
                at.setdefault(line, set()).update(*(users.get(name, set()) for name in names | set(contexts)))
                if "" in contexts:  # outside of any test: when the module was imported
                    imported.setdefault(path, set()).add(line)
    for path, numbers in imported.items():
        everyone = set().union(*lines[path].values())
        for line in numbers:
            lines[path][line] = everyone
    as_text = {f: {str(n): sorted(reached) for n, reached in at.items() if reached} for f, at in lines.items()}
    seconds = {name: test["seconds"] for name, test in tests.items() if test["passed"]}
    sources = {str(f.relative_to(root)): f.read_text(encoding="utf-8") for f in (root / "src").rglob("*.py")}
    tested = {file: name_of(root / file) for file in {name.partition("::")[0] for name in tests}}
    return Reach(as_text, seconds, sources, tested)
