"""A pytest plugin: which lines each test reaches, its own and those of the shared fixtures it uses, and how long it takes.

pytest -p tools.mutants.record, with the folder to write to in $MUTANTS_RECORD and the sources in $MUTANTS_SOURCE. Processes
that a test starts are recorded too, where they end by themselves.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import coverage
import pytest

_FOLDER, _SOURCE = Path(os.environ["MUTANTS_RECORD"]), os.environ["MUTANTS_SOURCE"]
_coverage = coverage.Coverage(str(_FOLDER / "lines"), data_suffix=True, source=[_SOURCE], config_file=False)
_tests: dict[str, dict[str, Any]] = {}
_shared: dict[str, list[str]] = {}


def pytest_configure() -> None:
    settings = f"[run]\ndata_file = {_FOLDER}/lines\nparallel = true\nsource = {_SOURCE}\n"
    (_FOLDER / "coveragerc").write_text(settings + "context = ${PYTEST_CURRENT_TEST-}\n")
    _coverage.start()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    os.environ["COVERAGE_PROCESS_START"] = str(_FOLDER / "coveragerc")
    _coverage.switch_context(item.nodeid)
    found = getattr(item, "_fixtureinfo", None)
    definitions = [d for named in (found.name2fixturedefs.values() if found else ()) for d in named]
    _shared[item.nodeid] = [_name(definition) for definition in definitions if definition.scope != "function"]


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """What a shared fixture does is reached by every test that uses it, not only by the first."""
    if fixturedef.scope != "function":
        _coverage.switch_context(_name(fixturedef))
    try:
        return (yield)
    finally:
        _coverage.switch_context(os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0])


def _name(definition: Any) -> str:
    return f"fixture {definition.baseid}::{definition.argname}"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    seen = _tests.setdefault(report.nodeid, {"seconds": 0.0, "passed": True})
    seen["seconds"] += report.duration
    seen["passed"] &= report.outcome == "passed"


def pytest_sessionfinish() -> None:
    _coverage.stop()
    _coverage.save()
    # With pytest-xdist, reports reach the controller too; only the process that ran a test knows its fixtures.
    tests = {name: {**_tests[name], "shared": shared} for name, shared in _shared.items() if name in _tests}
    (_FOLDER / f"tests-{os.getpid()}.json").write_text(json.dumps(tests))
