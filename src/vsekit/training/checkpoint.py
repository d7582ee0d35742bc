"""Checkpoints for exact resume: a folder appears whole or not at all, safetensors and JSON only.

state/step-00001200-00/  weights.safetensors   the model's and the loss's
                         optimiser.safetensors  moments, one tensor an entry
                         state.json             where the run was, and the checksums of all three
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from vsekit import system
from vsekit.errors import UserError
from vsekit.files import write_tensors
from vsekit.seals import KEY, check_files, read_sealed, sums_of, write_sealed
from vsekit.training.shards import Rows

WEIGHTS, MOMENTS = "weights.safetensors", "optimiser.safetensors"
REPAIR = "Start anew in another folder."


def save_checkpoint(
    folder: Path,
    module: nn.Module,
    optimisers: Sequence[torch.optim.Optimizer],
    state: dict[str, Any],
    rows: Rows | None = None,
) -> None:
    """Writes `folder/step-STEPS-STAGE` and then removes older ones.

    rows: what the processes share out by rows; all of them must call this, and the leader writes.
    """
    rows = rows or Rows()
    parameters = dict(module.named_parameters())
    weights = {name: rows.whole(parameters.get(name), value) for name, value in module.state_dict().items()}
    tensors, plain = _flat(optimisers, rows)
    if not rows.world.leads:
        return
    folder.mkdir(parents=True, exist_ok=True)
    # A stage starts with as many steps as the one before ended with.
    final = folder / f"step-{state['steps']:08d}-{state['stage']:02d}"
    if final.exists():
        return
    temporary = folder / f".{final.name}.tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    write_tensors(temporary / WEIGHTS, weights)
    write_tensors(temporary / MOMENTS, tensors)
    sums = sums_of(temporary, [temporary / WEIGHTS, temporary / MOMENTS])
    write_sealed(temporary / "state.json", {**state, "optimiser": plain}, sums)
    for file in temporary.iterdir():
        system.sync(file)
    system.replace(temporary, final)
    for old in folder.iterdir():
        if old.name != final.name:
            shutil.rmtree(old, ignore_errors=True)


def newest_checkpoint(folder: Path) -> Path | None:
    """The newest whole checkpoint; half-written ones have another name."""
    found = sorted(folder.glob("step-*")) if folder.is_dir() else []
    return found[-1] if found else None


def read_state(checkpoint: Path) -> dict[str, Any]:
    """What state.json says. UserError where it can't be read, or is not what was written."""
    try:
        return read_sealed(checkpoint / "state.json", REPAIR)
    except OSError as error:
        raise _damaged(checkpoint, error) from None


def _damaged(checkpoint: Path, error: Exception) -> UserError:
    what = str(error).splitlines()[0]
    return UserError(f"this checkpoint is damaged: {what}", file=checkpoint, remedy=REPAIR)


def load_model_weights(checkpoint: Path, model: nn.Module) -> None:
    """The weights of the model alone, for what is made with them before all else is put back: features of an encoder that
    an earlier stage trained, and that is frozen now."""
    prefix = "model."
    try:
        check_files(checkpoint, read_state(checkpoint).get(KEY, {}), REPAIR)
        weights = load_file(checkpoint / WEIGHTS)
        own = {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}
        model.load_state_dict(own)
    except (OSError, SafetensorError, RuntimeError) as error:
        raise _damaged(checkpoint, error) from None


def load_checkpoint(
    checkpoint: Path, module: nn.Module, optimisers: Sequence[torch.optim.Optimizer], rows: Rows | None = None
) -> None:
    """Puts weights and moments back; of what is shared out by `rows`, this process's."""
    rows = rows or Rows()
    state, parameters = read_state(checkpoint), dict(module.named_parameters())
    try:
        check_files(checkpoint, state.get(KEY, {}), REPAIR)
        weights = load_file(checkpoint / WEIGHTS)
        module.load_state_dict({name: rows.own(parameters.get(name), value) for name, value in weights.items()})
        flat = {**load_file(checkpoint / MOMENTS), **state["optimiser"]}
    except (OSError, SafetensorError, RuntimeError, KeyError) as error:
        raise _damaged(checkpoint, error) from None
    for number, optimiser in enumerate(optimisers):
        entries: dict[int, dict[str, Any]] = {}
        moved = _parameters(optimiser)
        for key, value in flat.items():
            which, place, name = key.split(".", 2)
            if int(which) == number:
                own = rows.own(moved[int(place)], value) if isinstance(value, Tensor) else value
                entries.setdefault(int(place), {})[name] = own
        optimiser.load_state_dict({"state": entries, "param_groups": optimiser.state_dict()["param_groups"]})
        for parameter, entry in optimiser.state.items():
            for name, value in entry.items():
                # Fused optimisers walk the memory: moments must lie in it as their parameter does (channels last).
                if isinstance(value, Tensor) and value.shape == parameter.shape:
                    entry[name] = torch.empty_like(parameter).copy_(value)


def _parameters(optimiser: torch.optim.Optimizer) -> list[Tensor]:
    """In the order that `Optimizer.state_dict` numbers them."""
    return [parameter for group in optimiser.param_groups for parameter in group["params"]]


def _flat(optimisers: Sequence[torch.optim.Optimizer], rows: Rows) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Moments by "optimiser.parameter.name": tensors, and plain numbers."""
    tensors: dict[str, Tensor] = {}
    plain: dict[str, Any] = {}
    for number, optimiser in enumerate(optimisers):
        moved = _parameters(optimiser)
        for place, entry in optimiser.state_dict()["state"].items():
            for name, value in entry.items():
                key = f"{number}.{place}.{name}"
                if isinstance(value, Tensor):
                    tensors[key] = rows.whole(moved[place], value).contiguous()
                else:
                    plain[key] = value
    return tensors, plain
