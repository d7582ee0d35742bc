"""Processes that can't be one run say why, which of them it is, and what to do; none waits for ever."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.training.conftest import TINY
from tests.training.processes import ends, free_port, start
from tests.training.test_processes import KILLED, PATHS, arguments
from typer.testing import CliRunner

from vsekit.errors import UserError
from vsekit.training.run import RunFolder
from vsekit.training.settings import RunSettings

PROGRAM = """
import sys
from datetime import timedelta
from vsekit.training import launch, world
{change}
from vsekit.cli import main
main()
"""


#: Of processes that no other will meet; those that will may be slow to start.
IMPATIENT = "world.PATIENCE = launch.PATIENCE = timedelta(seconds=5)"
#: Of a process that comes to what the others said after they have all read it.
SLOW = """
import time
wait = world.World._wait
world.World._wait = lambda *given: (wait(*given), time.sleep(4))
"""


def program(given: list[str], change: str = "") -> list[str]:
    return ["-c", PROGRAM.format(change=change), *given]


def both_say(told: list[tuple[int, str, str]], *words: str) -> None:
    for code, _, error in told:
        assert code == 2, error
        assert "Traceback" not in error
        assert all(word in error for word in words), error


def test_other_settings_are_named_by_rank_and_field(recipe: Path, collection: Path, tmp_path: Path) -> None:
    commands = [
        program(arguments(recipe, collection, tmp_path / "run", "--set", f"stages.first.optimiser.lr={rate}"))
        for rate in (0.1, 0.2)
    ]
    both_say(ends(start(commands)), "rank 1 differs from rank 0 in stages.first.optimiser.lr: 0.2, not 0.1")
    assert not (tmp_path / "run" / "config.yaml").exists()


def test_another_collection_is_named_by_rank(recipe: Path, collection: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for file in collection.iterdir():
        (other / file.name).write_bytes(file.read_bytes())
    captions = (other / "train_caps.txt").read_text()
    (other / "train_caps.txt").write_text(captions.replace("a red dog", "a red fox"))
    commands = [program(arguments(recipe, data, tmp_path / "run")) for data in (collection, other)]
    both_say(ends(start(commands)), "rank 1 differs from rank 0 in collection", "the same collection")


@pytest.mark.slow
def test_another_version_of_the_code_is_named_by_rank(recipe: Path, collection: Path, tmp_path: Path) -> None:
    given = arguments(recipe, collection, tmp_path / "run")
    commands = [program(given), program(given, SLOW + 'world.code = lambda: "0123"')]
    both_say(ends(start(commands)), "rank 1 differs from rank 0 in code: '0123'", "the same vsekit")


@pytest.mark.parametrize("rank", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_a_process_that_finds_no_other_says_so_within_its_patience(
    rank: int, recipe: Path, collection: Path, tmp_path: Path
) -> None:
    given = program(arguments(recipe, collection, tmp_path / "run"), IMPATIENT)
    (alone,) = start(
        [["-c", f"import os, sys; os.environ['RANK'] = '{rank}'; exec(sys.argv.pop(1))", *given[1:]]], size=2
    )
    ((code, _, error),) = ends([alone], seconds=60)
    assert code == 2, error
    assert f"rank {rank} of 2" in error
    assert "--rendezvous" in error
    assert "Traceback" not in error


@pytest.mark.slow
def test_a_machine_that_finds_no_other_says_so(recipe: Path, collection: Path, tmp_path: Path) -> None:
    place = ["--nodes", "2", "--rendezvous", f"127.0.0.1:{free_port()}"]
    command = [sys.executable, *program(arguments(recipe, collection, tmp_path / "run", *place), IMPATIENT)]
    result = subprocess.run(command, env=PATHS, capture_output=True, text=True, timeout=60)
    assert result.returncode == 2, result.stderr
    assert "2 machines did not meet" in result.stderr


def test_what_several_processes_cannot_do_is_told_before_they_start(
    recipe: Path, collection: Path, tmp_path: Path
) -> None:
    from vsekit.cli import app
    from vsekit.cli import train as _  # noqa: F401

    result = CliRunner().invoke(app, arguments(recipe, collection, tmp_path / "run", "--nodes", "2"))
    assert isinstance(result.exception, UserError)
    assert "--rendezvous" in str(result.exception)


@pytest.mark.slow
def test_half_precision_that_scales_losses_is_refused(recipe: Path, collection: Path, tmp_path: Path) -> None:
    given = program(arguments(recipe, collection, tmp_path / "run", "--precision", "16-mixed"))
    both_say(ends(start([given] * 2)), "16-mixed", "bf16-mixed")


def test_a_process_that_loses_another_says_so_and_ends(recipe: Path, collection: Path, tmp_path: Path) -> None:
    """Without torchrun, which would end it."""
    one, other = ends(start([["-c", KILLED, *arguments(recipe, collection, tmp_path / "run")]] * 2), seconds=120)
    assert other[0] < 0
    assert one[0] == 2, one[2]
    assert "rank 0 of 2 has lost the others" in one[2]
    assert "--resume" in one[2]
    assert "Traceback" not in one[2]


def test_a_run_folder_that_a_machine_does_not_see_is_told(tmp_path: Path) -> None:
    settings = RunSettings.model_validate(TINY)
    leader, other = (RunFolder(tmp_path / "run", settings, {}, "", resume=False, leads=one) for one in (True, False))
    other.create()
    assert not (tmp_path / "run").exists()  # only the leader writes
    with pytest.raises(UserError, match="rank 3 does not see the run folder") as error:
        other.must_be_seen(3, seconds=0)
    assert "share" in str(error.value)
    leader.create()
    other.must_be_seen(3, seconds=0)


ENDING = """
import atexit, sys
from vsekit.training import world
class Late:
    def __del__(self): print("taken apart")
late = Late()
atexit.register(print, "tidied up")
if sys.argv[1] == "several": world._joined = world.World(size=2)
print("done", end=", ")
world.leave(3)
sys.exit(4)
"""


def test_a_process_of_several_ends_with_its_code_and_all_said_but_is_not_taken_apart() -> None:
    told = [
        subprocess.run([sys.executable, "-c", ENDING, how], env=PATHS, capture_output=True, text=True, timeout=60)
        for how in ("several", "alone")
    ]
    assert [(one.returncode, one.stdout, one.stderr) for one in told] == [
        (3, "done, tidied up\n", ""),
        (4, "done, tidied up\ntaken apart\n", ""),
    ]
