"""Generated requests on a running server, by schemathesis with all of its checks: every answer is a described one, none is a
500, what is right is accepted, what is wrong is refused, and nothing is told without the token.

`plain` requests are right in every language they hold (see `tests.attack.plain_requests`); in the others, queries, filters
and pictures are anything, and may be refused.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.attack.conftest import Attack
from tests.attack.nursery import ROOT
from tests.serve.test_run import start

pytestmark = pytest.mark.slow
TOKEN = "a token"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    process, url = start("--token", TOKEN, "--limits", json.dumps({"rate": 0}))
    yield url
    assert process.poll() is None
    process.kill()
    assert "Traceback" not in process.communicate()[1]


def ask(url: str, seed: int, examples: int, phases: str, folder: Path, *, plain: bool) -> tuple[int, int, str]:
    """One run of schemathesis; how many requests it made, its exit code, and what it says."""
    events = folder / "events.ndjson"
    command = [Path(sys.executable).with_name("st"), "--config-file", Path(__file__).with_name("schemathesis.toml")]
    command += ["run", f"{url}openapi.json", "--no-color"]
    command += ["-H", f"Authorization: Bearer {TOKEN}", "--phases", phases, "--mode", "all", "--checks", "all"]
    command += ["--seed", str(seed), "--max-examples", str(examples), "--continue-on-failure"]
    command += ["--report", "ndjson", "--report-ndjson-path", events]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HYPOTHESIS_STORAGE_DIRECTORY": str(folder)}
    if plain:
        environment["SCHEMATHESIS_HOOKS"] = "tests.attack.plain_requests"
    else:
        command += ["--exclude-checks", "positive_data_acceptance"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return _requests(events), done.returncode, done.stdout + done.stderr


def _requests(events: Path) -> int:
    finished = (json.loads(line).get("ScenarioFinished") for line in events.read_text().splitlines())
    return sum(len(event["recorder"].get("cases", ())) for event in finished if event)


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "any"])
def test_requests(plain: bool, server: str, attack: Attack, tmp_path: Path) -> None:
    count, phases, round_ = attack.some(600, of=2), "examples,coverage,fuzzing,stateful", 0
    while attack.tried["requests"] < count:
        seed = 1000 * attack.seed + round_
        made, code, said = ask(server, seed, 3 if count < 1000 else 200, phases, tmp_path, plain=plain)
        attack.tried["requests"] += made
        if code:
            attack.failed(f"st run --seed {seed}\n{said[-6000:]}")
        phases, round_ = "fuzzing,stateful", round_ + 1  # what else there is does not depend on the seed
    attack.close()
