"""The faults: mutmut's operators on a file's syntax tree, at the places where a fault is one of behaviour.

Left out are annotations, docstrings, imports, `__all__`, decorators, assertions, and what an error or a progress bar says.
"""

from __future__ import annotations

import difflib
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.mutators import mutation_operators

_SKIPPED = (cst.Annotation, cst.Import, cst.ImportFrom, cst.Assert, cst.Raise, cst.Decorator)
_MESSAGES = {"say", "bar", "UserError", "missing_extra", "_refuse"}


@dataclass(frozen=True)
class Mutant:
    """lines: of the innermost statement around it, all of which a test may be seen to reach.

    around: the function it is in, with the fault; outside of functions, the line.
    """

    file: str
    line: int
    lines: tuple[int, int]
    diff: str
    around: str
    code: str

    @property
    def summary(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name in ("file", "line", "diff")}


class _Places(cst.CSTVisitor):
    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self) -> None:
        self.found: list[tuple[cst.CSTNode, list[cst.CSTNode], int, tuple[int, int], cst.FunctionDef | None]] = []
        self.statement = (1, 1)
        self.functions: list[cst.FunctionDef] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, _SKIPPED) or _is_docstring(node) or _is_message(node) or _is_export(node):
            return False
        if isinstance(node, cst.SimpleStatementLine | cst.BaseCompoundStatement):
            where = self.get_metadata(PositionProvider, node)
            last = where.end.line
            if isinstance(node, cst.BaseCompoundStatement):  # its head; of a match, its first line
                last = self.get_metadata(PositionProvider, getattr(node, "body", node)).start.line
            self.statement = (where.start.line, max(where.start.line, last))
        mutated = [new for kind, operator in mutation_operators if isinstance(node, kind) for new in operator(node)]
        if mutated:
            line = self.get_metadata(PositionProvider, node).start.line
            low, high = self.statement
            lines = self.statement if low <= line <= high else (line, line)
            self.found.append((node, mutated, line, lines, self.functions[-1] if self.functions else None))
        if isinstance(node, cst.FunctionDef):
            self.functions.append(node)
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if self.functions and self.functions[-1] is original_node:
            self.functions.pop()


def _is_docstring(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Expr) and isinstance(node.value, cst.SimpleString | cst.ConcatenatedString)


def _is_export(node: cst.CSTNode) -> bool:
    """`__all__`, which says what is there, as an import does."""
    return isinstance(node, cst.Assign) and any(_named(target.target, {"__all__"}) for target in node.targets)


def _named(node: cst.CSTNode, names: set[str]) -> bool:
    return isinstance(node, cst.Name) and node.value in names


def _is_message(node: cst.CSTNode) -> bool:
    if not isinstance(node, cst.Call):
        return False
    name = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
    return _named(name, _MESSAGES)


def sample(root: Path, files: Sequence[str], count: int, seed: int) -> Iterator[Mutant]:
    """`count` places drawn without replacement from all files, and one of the faults there are at each.

    Each place has a number made of the seed, its file and the text of its line, and the lowest are drawn: an edit
    elsewhere leaves the sample as it is.
    """
    trees, places = {}, []
    for file in files:
        wrapper = MetadataWrapper(cst.parse_module((root / file).read_text(encoding="utf-8")))
        visitor = _Places()
        wrapper.visit(visitor)
        trees[file] = wrapper.module
        text, seen = wrapper.module.code.splitlines(), Counter[str]()
        for place in visitor.found:
            at = text[place[2] - 1].strip()
            seen[at] += 1
            number = hashlib.sha256(f"{seed}\0{file}\0{at}\0{seen[at]}".encode()).digest()
            places.append((number, file, place))
    for number, file, (node, mutated, line, lines, function) in sorted(places, key=lambda place: place[0])[:count]:
        tree = trees[file]
        before = tree.code
        fault = mutated[number[-1] % len(mutated)]
        after = cst.ensure_type(tree.deep_replace(node, fault), cst.Module).code
        shown = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
        diff = "\n".join(text for text in shown if not text.startswith(("---", "+++", "@@")))
        around = diff
        if function is not None and function is not node:
            around = tree.code_for_node(cst.ensure_type(function.deep_replace(node, fault), cst.FunctionDef))
        yield Mutant(file, line, lines, diff, around, after)
