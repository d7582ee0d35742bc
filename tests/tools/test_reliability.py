from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tools.promises import PROMISES
from tools.reliability import PAGE, RUNS, page, results

TESTS = Path(__file__).parents[1]


def names(file: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef)}


def test_the_page_is_what_promises_and_counts_give() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(results()), "run python -m tools.reliability"


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.text[:40])
def test_every_promise_has_tests_and_they_exist(promise) -> None:  # type: ignore[no-untyped-def]
    assert promise.tests
    for test in promise.tests:
        file, _, name = test.partition("::")
        assert name in names(TESTS / file), test


def test_every_run_is_shown_with_its_count_and_the_command_that_repeats_it() -> None:
    found = {
        name: {"tried": 1234, "refused": 1200, "right": 34, "failed": 0, "seed": 7, "commit": "abc"} for name in RUNS
    }
    found["soak"] = {
        "minutes": 2.0, "requests": 5678, "statuses": {"200": 5678}, "unexpected": {}, "indexed": 3, "failed": 0,
        "mib": 400, "mib_an_hour": 1.25, "seed": 7, "commit": "abc",
    }  # fmt: skip
    made = page(found)
    for name, (what, command) in RUNS.items():
        (line,) = [line for line in made.splitlines() if line.startswith("|") and what in line]
        assert ("5,678" if name == "soak" else "1,234") in line
        assert command in line
        assert "7, abc" in line
    assert "+1.2 MiB an hour" in made
    assert "The last full runs" in page({})


def test_failures_are_said_in_words_with_what_somebody_noted() -> None:
    found = {"tried": 9, "failed": 0, "seed": 7, "commit": "abc"}
    assert "| no failure |" in page({"kills": found})
    assert "| 1 failure: mended |" in page({"kills": {**found, "failed": 1, "note": "mended"}})
    assert "| 2 failures |" in page({"kills": {**found, "failed": 2}})
