"""Several real processes, connected by gloo, are one run: same batches, same losses, same gradients, same end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from safetensors.numpy import load_file
from tests.training.conftest import TINY
from tests.training.processes import ROOT, ends, free_port, start
from tests.training.test_resume import outcome

PATHS = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)]), "OMP_NUM_THREADS": "1"}

#: Batch norm, a classifier by rows, mined negatives, and a last batch of fewer pairs than processes.
RECIPE: dict[str, Any] = {
    "model": TINY["model"]
    | {"image": TINY["model"]["image"] | {"head": {"kind": "fc_bn_relu_fc", "hidden": 16, "dropout": 0.0}}},
    "stages": {
        "first": {
            "epochs": 2,
            "batch_size": 10,
            "loss": {"kind": "weighted_sum", "terms": [{"loss": "info_nce"}, {"loss": {"kind": "instance"}}]},
            "optimiser": {"kind": "sgd", "lr": 0.1},
        },
        "second": {
            "epochs": 1,
            "batch_size": 71,
            "start": "best",
            "loss": {"kind": "weighted_sum", "terms": [{"loss": "offline_quintuplet"}, {"loss": "instance"}]},
            "mine": {"captions": 4, "images": 2},
            "optimiser": {"kind": "sgd", "lr": 0.01},
        },
    },
}


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(RECIPE, sort_keys=False))
    return path


def arguments(recipe: Path, data: Path, out: Path, *more: str) -> list[str]:
    options = ["--data", str(data), "--out", str(out), "--no-report", "--checkpoint-seconds", "0"]
    return ["train", str(recipe), *options, "--set", "querybank.size=20", *more]


def vse(*given: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "vsekit", *given]
    result = subprocess.run(command, env=PATHS, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    return result


def events(run: Path, event: str) -> list[dict[str, Any]]:
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [line for line in lines if line["event"] == event]


def alike(run: Path, other: Path) -> None:
    """Two runs that differ by rounding alone."""
    for one, two in zip(events(run, "train"), events(other, "train"), strict=True):
        assert one.keys() == two.keys()
        assert all(one[k] == pytest.approx(two[k], rel=1e-4, abs=1e-5) for k in one if not isinstance(one[k], str))
    for one, two in zip(events(run, "validation"), events(other, "validation"), strict=True):
        assert one["rsum"] == pytest.approx(two["rsum"])
    mine, theirs = (load_file(folder / "model" / "model.safetensors") for folder in (run, other))
    assert mine.keys() == theirs.keys()
    for name, weight in mine.items():
        np.testing.assert_allclose(weight, theirs[name], rtol=1e-3, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("size", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_every_loss_has_the_gradients_of_one_process_with_the_whole_batch(size: int) -> None:
    told = ends(start([["-m", "tests.training.same_gradients"]] * size))
    assert [(code, out) for code, out, _ in told] == [(0, "same\n")] * size, told


@pytest.mark.slow
def test_chunks_change_no_gradient_in_two_processes() -> None:
    told = ends(start([["-m", "tests.training.same_gradients", "3"]] * 2))
    assert [(code, out) for code, out, _ in told] == [(0, "same\n")] * 2, told


def test_a_run_of_two_processes_is_the_run_of_one(recipe: Path, collection: Path, tmp_path: Path) -> None:
    vse(*arguments(recipe, collection, tmp_path / "one"))
    told = vse(*arguments(recipe, collection, tmp_path / "two", "--devices", "2", "--json"))
    alike(tmp_path / "one", tmp_path / "two")
    assert json.loads(told.stdout)["best"] == events(tmp_path / "two", "end")[0]["best"]  # one process speaks


@pytest.mark.slow
def test_two_machines_meet_and_train_the_run_of_one(recipe: Path, collection: Path, tmp_path: Path) -> None:
    vse(*arguments(recipe, collection, tmp_path / "one"))
    place = ["--nodes", "2", "--rendezvous", f"127.0.0.1:{free_port()}"]
    command = [sys.executable, "-m", "vsekit", *arguments(recipe, collection, tmp_path / "two", *place)]
    machines = [subprocess.Popen(command, env=PATHS, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    told = ends(machines)
    assert [code for code, *_ in told] == [0, 0], told
    alike(tmp_path / "one", tmp_path / "two")


#: `vse`, in which one process of the first attempt is killed when it reads its fourth batch.
KILLED = """
import os, signal
from vsekit.training.collection import Collection
read, left = Collection.batch, [4]
def batch(*given, **named):
    left[0] -= 1
    if not left[0] and os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    return read(*given, **named)
Collection.batch = batch
from vsekit.cli import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("size", ["2", "3"])
def test_a_run_that_lost_a_process_ends_bit_identical(
    size: str, recipe: Path, collection: Path, tmp_path: Path
) -> None:
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    vse(*arguments(recipe, collection, tmp_path / "whole", "--devices", size))
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", size, "--max-restarts", "1"]
    command = [sys.executable, *torchrun, str(script), *arguments(recipe, collection, tmp_path / "killed")]
    result = subprocess.run(command, env=PATHS, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    assert "Going on from step" in result.stderr
    assert outcome(tmp_path / "killed") == outcome(tmp_path / "whole")


#: The same kill in every process that Python starts: `vse train --devices` starts its own.
ANYWHERE = """
import os
if os.environ.get("RANK") == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    import signal
    from vsekit.training.collection import Collection
    read, left = Collection.batch, [4]
    def batch(*given, **named):
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return read(*given, **named)
    Collection.batch = batch
"""


@pytest.mark.slow
def test_vse_train_that_loses_a_process_goes_on_by_itself_or_says_how(
    recipe: Path, collection: Path, tmp_path: Path
) -> None:
    (tmp_path / "killing").mkdir()
    (tmp_path / "killing" / "sitecustomize.py").write_text(ANYWHERE)
    paths = PATHS | {"PYTHONPATH": os.pathsep.join([str(tmp_path / "killing"), PATHS["PYTHONPATH"]])}

    def killed(out: str, *more: str) -> subprocess.CompletedProcess[str]:
        given = arguments(recipe, collection, tmp_path / out, "--devices", "2", *more)
        command = [sys.executable, "-m", "vsekit", *given]
        return subprocess.run(command, env=paths, capture_output=True, text=True, timeout=300)

    vse(*arguments(recipe, collection, tmp_path / "whole", "--devices", "2"))
    restarted = killed("restarted", "--max-restarts", "1")
    assert restarted.returncode == 0, restarted.stderr
    assert "Going on from step" in restarted.stderr
    assert outcome(tmp_path / "restarted") == outcome(tmp_path / "whole")
    stopped = killed("stopped")
    assert stopped.returncode == 2, stopped.stderr
    assert "--resume" in stopped.stderr
    vse(*arguments(recipe, collection, tmp_path / "stopped", "--devices", "2", "--resume"))
    assert outcome(tmp_path / "stopped") == outcome(tmp_path / "whole")


@pytest.mark.slow
def test_a_run_resumes_with_another_number_of_processes_and_says_so(
    recipe: Path, collection: Path, tmp_path: Path
) -> None:
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    vse(*arguments(recipe, collection, tmp_path / "one"))
    out = tmp_path / "fewer"
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    command = [sys.executable, *torchrun, *arguments(recipe, collection, out)]
    assert subprocess.run(command, env=PATHS, capture_output=True, timeout=300).returncode != 0
    told = vse(*arguments(recipe, collection, out, "--resume"))
    assert "had 2 processes and goes on with 1" in told.stderr
    assert "bit-identical" in told.stderr
    alike(tmp_path / "one", out)


@pytest.mark.slow
def test_half_precision_goes_with_several_processes(recipe: Path, collection: Path, tmp_path: Path) -> None:
    vse(*arguments(recipe, collection, tmp_path / "one", "--precision", "bf16-mixed"))
    vse(*arguments(recipe, collection, tmp_path / "two", "--precision", "bf16-mixed", "--devices", "2"))
    one, two = ([line["loss"] for line in events(tmp_path / run, "train")] for run in ("one", "two"))
    assert one[0] == pytest.approx(two[0], rel=1e-5)  # the loss itself is not rounded to half
    np.testing.assert_allclose(one[:16], two[:16], rtol=0.02)
