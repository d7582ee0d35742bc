"""Every command that writes, on a disk that is full after so many bytes, and with a limit on the size of files.

It ends with exit 2 and says where; with room again, typed again, it gives the result of one that always had room.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.attack.conftest import Attack
from tests.attack.nursery import End, Nursery
from tests.attack.world import COMMANDS, Command, World, typed

pytestmark = pytest.mark.slow
#: Bytes of a message: what a command says goes into a file as well, which is limited with the others.
SAID = 2000
PAGE = 4096


class SmallDisk:
    """A tmpfs mounted over the folder in which the world's copies are attacked."""

    def __init__(self, world: World) -> None:
        self.world = world

    def resize(self, free: int | None) -> None:
        """So many bytes beyond what is used; None: as many as anyone wants."""
        size = 2**30 if free is None else self.used() + free
        subprocess.run(["mount", "-o", f"remount,size={size}", self.world.copy], check=True)

    def used(self) -> int:
        state = os.statvfs(self.world.copy)
        return (state.f_blocks - state.f_bfree) * state.f_frsize

    def restore(self, *without: str) -> None:
        """As `World.restore`, on the disk."""
        self.resize(None)
        for path in self.world.copy.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        skipped = lambda at, names: without if Path(at) == self.world.whole else ()  # noqa: E731
        shutil.copytree(self.world.whole, self.world.copy, ignore=skipped, dirs_exist_ok=True)


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory, nursery: Nursery) -> Iterator[SmallDisk]:
    world = World(tmp_path_factory.mktemp("small-disk"), nursery)
    shutil.rmtree(world.copy)
    world.copy.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1g", "tmpfs", world.copy], capture_output=True)
    if mounted.returncode:
        pytest.skip("needs the right to mount a small disk")
    yield SmallDisk(world)
    subprocess.run(["umount", world.copy], check=True)


def judged(attack: Attack, command: Command, where: str, world: World, end: End) -> bool:
    """Whether the command was stopped, in the way it should be."""
    if end.code == 0:
        attack.tried["had room enough"] += 1
        return False
    attack.tried["stopped"] += 1
    if not end.refused:
        attack.failed(f"{where}: not told\n{end}")
    return True


def goes_on(attack: Attack, command: Command, where: str, world: World) -> None:
    begun = any((world.copy / name).exists() for name in command.makes)
    end = world.vse(*typed(command), *([command.again] if command.again and begun else []))
    made = world.result(command) if end.code == 0 else {}
    if made != world.made[command.name]:
        differ = sorted(n for n in {*made, *world.made[command.name]} if made.get(n) != world.made[command.name].get(n))
        attack.failed(f"{where}, then room again: {differ[:5]}\n{end}")


@pytest.mark.parametrize("command", COMMANDS, ids=[command.name for command in COMMANDS])
def test_full_disk(command: Command, disk: SmallDisk, attack: Attack) -> None:
    world = disk.world
    disk.restore(*command.makes)
    before = disk.used()
    assert world.vse(*typed(command)).code == 0
    pages = (disk.used() - before) // PAGE + 2
    for free in sorted(map(int, attack.rng.permutation(pages + 1)[: attack.some(2, of=2 * len(COMMANDS))])):
        disk.restore(*command.makes)
        disk.resize(free * PAGE)
        end = world.vse(*typed(command))
        disk.resize(None)
        where = f"{free} of {pages} pages free"
        if judged(attack, command, where, world, end):
            goes_on(attack, command, where, world)
    attack.close()


@pytest.mark.parametrize("command", COMMANDS, ids=[command.name for command in COMMANDS])
def test_limited_files(command: Command, world: World, attack: Attack) -> None:
    places = [world.whole / name for name in command.makes]
    files = [p for place in places for p in (place.rglob("*") if place.is_dir() else [place]) if p.is_file()]
    largest = max(path.stat().st_size for path in files)
    least = min(SAID, largest - 1)
    for limit in sorted(map(int, attack.rng.integers(least, largest, attack.some(2, of=2 * len(COMMANDS))))):
        world.restore(*command.makes)
        where = f"no file beyond {limit} of {largest} bytes"
        if judged(attack, command, where, world, world.vse(*typed(command), largest=limit)):
            goes_on(attack, command, where, world)
    attack.close()
