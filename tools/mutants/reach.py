"""What was recorded: the tests that reach a line, and how long they take."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coverage import CoverageData

from tools.mutants.mutations import Mutant


@dataclass(frozen=True)
class Reach:
    """lines: of each file and line (as text) the tests that reach it. seconds: of each test that passed."""

    lines: dict[str, dict[str, list[str]]]
    seconds: dict[str, float]

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
    return Reach(as_text, {name: test["seconds"] for name, test in tests.items() if test["passed"]})
