"""Every file that vsekit keeps, damaged in every way: a refusal with the file and the remedy, a repair, or the right answer.

Never a traceback, and never another answer.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from tests.attack.conftest import Attack
from tests.attack.nursery import End
from tests.attack.world import COMMANDS, ON_DATA, SEARCH, World, answered, typed

pytestmark = pytest.mark.slow
Damage = Callable[[bytes, np.random.Generator], bytes | None]


def _cut(data: bytes, rng: np.random.Generator) -> bytes:
    return data[: int(rng.integers(1, len(data)))]


def _zero_a_part(data: bytes, rng: np.random.Generator) -> bytes:
    start = int(rng.integers(len(data)))
    length = min(int(rng.integers(1, 600)), len(data) - start)
    return data[:start] + bytes(length) + data[start + length :]


def _flip(data: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(data)
    changed[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def _garble(data: bytes, rng: np.random.Generator) -> bytes:
    start = int(rng.integers(len(data)))
    noise = rng.bytes(min(16, len(data) - start))
    return data[:start] + noise + data[start + len(noise) :]


DAMAGES: dict[str, Damage] = {
    "emptied": lambda data, rng: b"",
    "cut": _cut,
    "one byte short": lambda data, rng: data[:-1],
    "zeroed": lambda data, rng: bytes(len(data)),
    "zeroed in part": _zero_a_part,
    "bit flipped": _flip,
    "bit flipped again": _flip,
    "garbled": _garble,
    "lost": lambda data, rng: None,
}


@dataclass(frozen=True)
class Reader:
    """A command that reads what is kept. makes: files that it writes, which are compared beside what it says."""

    line: str
    makes: tuple[str, ...] = ()

    def answer(self, world: World, end: End) -> str:
        """What was said and made, without the time it took."""
        said = answered(end) if end.arguments[0] == "search" else "" if self.makes else end.out
        made = [hashlib.sha256((world.copy / name).read_bytes()).hexdigest() for name in self.makes]
        return "\n".join([said, *made])


EVALUATE = Reader(f"evaluate run {ON_DATA} --json --quiet")
SEARCHED = Reader(" ".join(SEARCH).replace("a red dog", "red"))
FILTERED = Reader("search index dog --top 30 --no-pictures --json --filter year>=2010")
EMBEDDED = ("images.npy", "captions.npy")
READERS: dict[str, list[Reader]] = {
    "features": [EVALUATE],
    "run/model": [EVALUATE, SEARCHED],
    "run": [Reader(f"report run {ON_DATA} --split val --json --quiet")],
    "mined": [Reader(f"mine run {ON_DATA} --out mined --top-captions 5 --top-images 4 --json --quiet")],
    "states": [Reader(f"train states.yaml {ON_DATA} --text-features states --out other --no-report --json --quiet")],
    # Again the same: a search, and a search after the command that makes what is damaged anew.
    "index": [SEARCHED, FILTERED, Reader("index run photos.csv --out index --quiet", ("photos.csv",)), SEARCHED],
    "onnx": [Reader("embed onnx --data photos.csv --out o --quiet", tuple(f"o/{name}" for name in EMBEDDED))],
    "vectors": [
        Reader("embed run --data photos.csv --out vectors --quiet", tuple(f"vectors/{name}" for name in EMBEDDED))
    ],
}


def files_of(world: World, kept: str) -> list[str]:
    found = [path for path in sorted((world.whole / kept).rglob("*")) if path.is_file() and path.stat().st_size]
    names = [path.relative_to(world.whole).as_posix() for path in found]
    inner = [other + "/" for other in READERS if other != kept and other.startswith(kept + "/")]
    return [name for name in names if not name.startswith(tuple(inner))]


def damaged(path: Path, damage: Damage, rng: np.random.Generator) -> bool:
    """False where the damage changes nothing."""
    data = path.read_bytes()
    new = damage(data, rng)
    if new is None:
        path.unlink()
    elif new == data:
        return False
    else:
        path.write_bytes(new)
    return True


def drawn(attack: Attack, names: list[str], count: int) -> list[tuple[str, str]]:
    """Files and damages in a random order, all of them before one comes again."""
    cases = [(name, how) for name in names for how in DAMAGES]
    order = [cases[i] for _ in range(-(-count // len(cases))) for i in attack.rng.permutation(len(cases))]
    return order[:count]


def told(end: End, name: str) -> bool:
    """Whether a refusal names the file or its folder, and the remedy."""
    folder = Path(name).parent.name
    message = end.err[end.err.rfind("vse: ") :].strip()
    return end.refused and (Path(name).name in message or folder in message) and "\n" in message


def judged(attack: Attack, world: World, kept: str, name: str, how: str, truth: list[str]) -> str:
    """What came of one damaged file."""
    came, refused = "unharmed", set()
    for reader, right in zip(READERS[kept], truth):
        end = world.vse(*reader.line.split())
        if end.code == 0 and "Traceback" not in end.err and reader.answer(world, end) == right:
            came = "repaired" if reader in refused or "damaged and made again" in end.out else came
        elif told(end, name):
            came = "refused"
            refused.add(reader)
        else:
            attack.failed(
                f"{name} {how}: {'another answer' if end.code == 0 else 'no refusal'}\n{end}\n{end.err[-300:]}"
            )
            return "failed"
    return came


@pytest.mark.parametrize("kept", READERS)
def test_damaged(kept: str, world: World, attack: Attack) -> None:
    world.restore()
    ends = [world.vse(*reader.line.split()) for reader in READERS[kept]]
    assert all(end.code == 0 for end in ends), "\n".join(map(str, ends))
    truth = [reader.answer(world, end) for reader, end in zip(READERS[kept], ends)]
    for name, how in drawn(attack, files_of(world, kept), attack.some(8, of=len(READERS) + 1)):
        world.restore()
        if damaged(world.copy / name, DAMAGES[how], attack.rng):
            attack.tried[judged(attack, world, kept, name, how, truth)] += 1
    attack.close()


def test_damaged_while_unfinished(world: World, attack: Attack) -> None:
    """A run that was killed, damaged, and told to go on."""
    train = next(c for c in COMMANDS if c.name == "train")
    world.restore("run")
    assert world.vse(*typed(train), kill=world.moments["train"] * 3 // 4).code == -9
    begun = {
        p.relative_to(world.copy).as_posix(): p.read_bytes() for p in (world.copy / "run").rglob("*") if p.is_file()
    }
    names = sorted(name for name, data in begun.items() if data)
    for name, how in drawn(attack, names, attack.some(8, of=len(READERS) + 1)):
        world.restore("run")
        for other, data in begun.items():
            (world.copy / other).parent.mkdir(parents=True, exist_ok=True)
            (world.copy / other).write_bytes(data)
        if not damaged(world.copy / name, DAMAGES[how], attack.rng):
            continue
        end = world.vse(*typed(train), "--resume")
        if told(end, name):
            attack.tried["refused"] += 1
        elif end.code == 0 and world.result(train) == world.made["train"]:
            attack.tried["unharmed"] += 1
        else:
            attack.tried["failed"] += 1
            made = world.result(train)
            differ = [n for n, digest in world.made["train"].items() if made.get(n) != digest]
            attack.failed(f"{name} {how}: {differ}\n{end}\n{end.err[-300:]}")
    attack.close()


def test_a_damage_that_nobody_noticed_would_be_one(world: World, attack: Attack) -> None:
    """The judge itself: a changed answer, and a refusal that names nothing, are failures."""
    silent = End(0, json.dumps({"hits": [1]}), "", 0, ["evaluate"])
    assert EVALUATE.answer(world, silent) != EVALUATE.answer(world, End(0, json.dumps({"hits": [2]}), "", 0, ["x"]))
    assert not told(End(2, "", "vse: something is wrong", 0, []), "run/model/config.json")
    assert told(End(2, "", "vse: run/model/config.json: damaged\n  Train again.", 0, []), "run/model/config.json")
