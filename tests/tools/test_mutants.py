from __future__ import annotations

from pathlib import Path

import pytest
from tools.mutants import run
from tools.mutants.mutations import sample
from tools.mutants.reach import Reach, carried, name_of, text_of

FIRST = '''"""A docstring is no behaviour."""

__all__ = ["add"]


def add(a: int, b: int = 3) -> int:
    if a > b:
        raise UserError("too large" + "!")
    return a + b
'''
SECOND = "def double(a):\n    return 2 * a\n"


def write(root: Path, **files: str) -> list[str]:
    for name, text in files.items():
        (root / f"{name}.py").write_text(text)
    return [f"{name}.py" for name in files]


def test_faults_are_those_of_behaviour_and_an_edit_elsewhere_leaves_them(tmp_path: Path) -> None:
    files = write(tmp_path, first=FIRST, second=SECOND)
    before = list(sample(tmp_path, files, 100, 0))
    assert {mutant.line for mutant in before if mutant.file == "first.py"} == {
        6,
        7,
        9,
    }  # the default, the test, the sum
    few = [mutant.diff for mutant in sample(tmp_path, files, 3, 0)]
    assert few == [mutant.diff for mutant in before][:3]
    write(tmp_path, second=SECOND + "\n\ndef half(a):\n    return a\n")
    again = {mutant.diff: mutant for mutant in sample(tmp_path, files, 100, 0)}
    for mutant in before:
        assert again[mutant.diff].around == mutant.around
        assert mutant.code != FIRST


def test_what_tests_reached_goes_with_the_lines(tmp_path: Path) -> None:
    write(tmp_path, source="a\nb\nc\n", test_same="def test_x():\n    pass\n", test_other="def test_y():\n    pass\n")
    names = {f"{name}.py": name_of(tmp_path / f"{name}.py") for name in ("test_same", "test_other")}
    same, other = "test_same.py::test_x", "test_other.py::test_y"
    old = Reach(
        {"source.py": {"2": [same, other], "3": [same]}}, {same: 1.0, other: 2.0}, {"source.py": "a\nb\nc\n"}, names
    )
    write(tmp_path, source="new\na\nb\n", test_other="def test_y():\n    assert True\n")
    found = carried(old, tmp_path)
    assert found.lines == {"source.py": {"3": [same]}}
    assert found.seconds == {same: 1.0}
    assert list(found.tested) == ["test_same.py"]


def test_a_test_is_named_by_its_own_text(tmp_path: Path) -> None:
    write(tmp_path, test_a="def test_x(n):\n    pass\n\n\ndef test_y():\n    pass\n")
    names = [text_of(tmp_path, f"test_a.py::{test}") for test in ("test_x[1]", "test_y", "test_gone")]
    write(tmp_path, test_a="def test_x(n):\n    pass\n\n\ndef test_y():\n    assert True\n")
    assert text_of(tmp_path, "test_a.py::test_x[2]") == names[0] != ""
    assert text_of(tmp_path, "test_a.py::test_y") not in (names[1], "")
    assert names[2] == text_of(tmp_path, "nowhere.py::test_x") == ""


@pytest.mark.slow
def test_the_first_test_that_fails_kills_and_what_never_ends_is_a_timeout(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    ends = "def test_passes():\n    pass\n\n\ndef test_fails():\n    assert False\n\n\n"
    write(copy, test_a=ends + "def test_never():\n    while True:\n        pass\n")
    limits = {"passes": 0, "fails": 0, "never": -4.5}
    found = {name: run.tested(copy, [f"test_a.py::test_{name}"], limit) for name, limit in limits.items()}
    assert {name: one.what for name, one in found.items()} == {
        "passes": "survived",
        "fails": "killed",
        "never": "timeout",
    }
    assert found["fails"].killer == "test_a.py::test_fails"
