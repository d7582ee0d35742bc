"""Every command that writes, killed before a call that could write, then typed again: the result of one never killed."""

from __future__ import annotations

import pytest
from tests.attack.conftest import Attack
from tests.attack.world import COMMANDS, Command, World, typed

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("command", COMMANDS, ids=[command.name for command in COMMANDS])
def test_killed(command: Command, world: World, attack: Attack) -> None:
    there_are = world.moments[command.name]
    moments = attack.rng.permutation(there_are)[: attack.some(3, of=len(COMMANDS))] + 1
    for moment in map(int, moments):
        world.restore(*command.makes)
        killed = world.vse(*typed(command), kill=moment, coarse=command.coarse)
        if killed.code != -9:  # threads make a moment more or less
            assert killed.code == 0, killed
            continue
        begun = any((world.copy / name).exists() for name in command.makes)
        end = world.vse(*typed(command), *([command.again] if command.again and begun else []))
        made = world.result(command) if end.code == 0 else {}
        attack.tried["killed"] += 1
        if made != world.made[command.name]:
            differ = sorted(
                n for n in {*made, *world.made[command.name]} if made.get(n) != world.made[command.name].get(n)
            )
            attack.failed(f"killed at moment {moment} of {there_are}: {differ[:5]}\n{end}")
    attack.close()
