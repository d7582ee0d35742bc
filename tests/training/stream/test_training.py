"""Training on a stream, as a person does it: from the command line, over processes, with kills and with what goes wrong."""

from __future__ import annotations

import csv
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.data.stream.shards import jpeg, sample, write_members
from tests.killing import killed_at
from tests.training.processes import ends, start
from tests.training.stream.conftest import STREAMED, arguments
from tests.training.test_processes import PATHS, events, vse
from tests.training.test_resume import PROGRAM

from vsekit.data.text import Vocabulary
from vsekit.parts import merged


def outcome(run: Path) -> dict[str, bytes]:
    names = ["metrics.jsonl", "model/model.safetensors", "model/config.json", "model/vocab.json", "model/README.md"]
    weights = next((run / "state").glob("step-*/weights.safetensors"))
    return {name: (run / name).read_bytes() for name in names} | {"last weights": weights.read_bytes()}


def skipped(run: Path) -> list[tuple[str, str, str]]:
    with (run / "skipped.csv").open() as file:
        return [(Path(row["file"]).name, row["field"], row["reason"]) for row in csv.DictReader(file)]


def state(run: Path) -> dict[str, Any]:
    (path,) = (run / "state").glob("step-*/state.json")
    return dict(json.loads(path.read_text()))


def spoil(shards: Path) -> None:
    """A broken picture, a missing caption and a shard that is cut off."""
    broken = [("broken.jpg", jpeg("red")[:300]), ("broken.txt", "Broken."), ("silent.jpg", jpeg("blue"))]
    write_members(shards / "train-3.tar", [*sample("s3k0", 0), *broken])
    path = shards / "train-2.tar"
    path.write_bytes(path.read_bytes()[: -512 * 21])


SPOILT = [
    ("train-3.tar", "broken.jpg", "broken-picture"),
    ("train-3.tar", "silent", "no-caption"),
    ("train-2.tar", "", "damaged-shard"),
]


@pytest.mark.slow
def test_a_stream_killed_at_random_moments_ends_bit_identical(shards: Path, recipe: Path, tmp_path: Path) -> None:
    spoil(shards)
    subprocess.run([sys.executable, "-c", PROGRAM, *arguments(recipe, shards, tmp_path / "whole", "-q")], check=True)
    rng, out, kills = random.Random(0), tmp_path / "killed", 0
    while killed_at(rng.randint(60, 160), out, PROGRAM, *arguments(recipe, shards, out, "-q", "--resume")):
        kills += 1
    assert kills >= 2
    assert outcome(out) == outcome(tmp_path / "whole")
    assert sorted(skipped(out)) == sorted(skipped(tmp_path / "whole")) == sorted(SPOILT)


#: `vse`, in which the second process of the first attempt is killed when it makes its fifth batch, in the middle of a shard.
KILLED = """
import os, signal
from vsekit.training.stream.batches import StreamBatches
make = StreamBatches.make
def watched(self, number):
    if number == 4 and os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    return make(self, number)
StreamBatches.make = watched
from vsekit.cli import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("size", ["2", "3"])
def test_a_stream_that_lost_a_process_ends_bit_identical(size: str, shards: Path, recipe: Path, tmp_path: Path) -> None:
    spoil(shards)
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    vse(*arguments(recipe, shards, tmp_path / "whole", "--devices", size))
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", size, "--max-restarts", "1"]
    command = [sys.executable, *torchrun, str(script), *arguments(recipe, shards, tmp_path / "killed")]
    result = subprocess.run(command, env=PATHS, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    assert "Going on from step" in result.stderr
    assert outcome(tmp_path / "killed") == outcome(tmp_path / "whole")
    assert sorted(skipped(tmp_path / "killed")) == sorted(SPOILT)


@pytest.mark.slow
def test_a_stream_goes_on_with_another_number_of_processes_and_every_pair_comes_once(
    shards: Path, recipe: Path, tmp_path: Path
) -> None:
    script, out = tmp_path / "killed.py", tmp_path / "run"
    script.write_text(KILLED)
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    command = [sys.executable, *torchrun, *arguments(recipe, shards, out)]
    assert subprocess.run(command, env=PATHS, capture_output=True, timeout=300).returncode != 0
    (before,) = [one["pairs"] for one in state(out)["stream"][:1]]
    assert 0 < before < 56
    told = vse(*arguments(recipe, shards, out, "--resume", "--devices", "3"))
    assert "had 2 processes and goes on with 3" in told.stderr
    assert "bit-identical" in told.stderr
    assert state(out)["pairs"] == 56
    assert len(events(out, "train")) == 14


def test_a_stream_learns_what_the_same_shards_in_memory_do(shards: Path, tmp_path: Path) -> None:
    """A batch of the whole collection has the same loss, however it is sorted."""
    settings = merged(
        STREAMED, {"data": {"view": STREAMED["data"]["eval_view"]}, "stages": {"first": {"batch_size": 90}}}
    )
    recipe = tmp_path / "one-batch.yaml"
    recipe.write_text(yaml.safe_dump(settings))
    vse("train", str(recipe), "--data", str(shards), "--out", str(tmp_path / "memory"), "--no-report", "-q")
    vse(*arguments(recipe, shards, tmp_path / "streamed", "-q"))
    losses = [[line["loss"] for line in events(tmp_path / run, "train")] for run in ("memory", "streamed")]
    assert len(losses[0]) == 2
    assert losses[1] == [pytest.approx(loss, rel=1e-5) for loss in losses[0]]


@pytest.mark.slow
def test_a_shard_that_vanished_is_told_by_rank_and_the_run_goes_on_when_it_is_back(
    shards: Path, recipe: Path, tmp_path: Path
) -> None:
    vse(*arguments(recipe, shards, tmp_path / "whole", "--devices", "2"))
    out, away = tmp_path / "run", tmp_path / "away.tar"
    settings = ["--set", f"data.stream.vocabulary={tmp_path}/whole/model/vocab.json"]
    (shards / "train-2.tar").rename(away)
    told = ends(start([["-m", "vsekit", *arguments(recipe, shards, out, *settings)]] * 2), seconds=60)
    assert [code for code, *_ in told] == [2, 2], told
    errors = [error for *_, error in told]
    (which,) = [rank for rank, error in enumerate(errors) if "train-2.tar" in error]
    assert f"rank {which} of 2: this shard can't be read, tried 3 times: there is no such file" in errors[which]
    assert "--resume" in errors[which]
    assert f"rank {1 - which} of 2 has lost the others" in errors[1 - which]
    assert not any("Traceback" in error for error in errors)
    away.rename(shards / "train-2.tar")
    vse(*arguments(recipe, shards, out, *settings, "--resume", "--devices", "2"))
    assert outcome(out)["last weights"] == outcome(tmp_path / "whole")["last weights"]


def test_a_vocabulary_is_counted_once_or_given(shards: Path, recipe: Path, tmp_path: Path) -> None:
    pattern, words = f"{shards}/train-{{0..4}}.tar", tmp_path / "words.json"
    told = vse("data", "vocab", pattern, "--out", str(words), "--min-count", "1", "--json")
    captions = [text for shard in range(5) for text in _captions(shards / f"train-{shard}.tar")]
    assert Vocabulary.read(words).all_words == Vocabulary.build(captions, 1).all_words
    assert json.loads(told.stdout)["words"] == len(Vocabulary.read(words))
    counted = vse(*arguments(recipe, shards, tmp_path / "counted"))
    given = vse(*arguments(recipe, shards, tmp_path / "given", "--set", f"data.stream.vocabulary={words}"))
    assert "Reading the captions of 5 shards" in counted.stderr
    assert "Reading the captions" not in given.stderr
    vocabularies = [(tmp_path / run / "model" / "vocab.json").read_bytes() for run in ("counted", "given")]
    assert vocabularies[0] == vocabularies[1]


def _captions(shard: Path) -> list[str]:
    import tarfile

    with tarfile.open(shard) as archive:
        texts = [archive.extractfile(member).read() for member in archive if member.name.endswith(".json")]  # type: ignore[union-attr]
    return [caption for text in texts for caption in json.loads(text)["captions"]]


@pytest.mark.slow
def test_shards_and_what_measures_them_come_over_http(shards: Path, recipe: Path, tmp_path: Path) -> None:
    import http.server
    import threading
    from functools import partial

    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(shards))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        place = f"http://127.0.0.1:{web.server_port}"
        more = ["--val", f"{place}/val-{{0..0}}.tar", "--set", "data.val_pictures=4"]
        vse(*arguments(recipe, place, tmp_path / "far", *more))
        web.shutdown()
    vse(*arguments(recipe, shards, tmp_path / "near", "--set", "data.val_pictures=4"))
    far, near = outcome(tmp_path / "far"), outcome(tmp_path / "near")
    assert far["last weights"] == near["last weights"]
    assert "(4 pictures, 4 captions)" in far["model/README.md"].decode()
    assert [e["rsum"] for e in events(tmp_path / "far", "validation")] == [
        e["rsum"] for e in events(tmp_path / "near", "validation")
    ]
