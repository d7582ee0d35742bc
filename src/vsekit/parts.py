"""What every interchangeable part shares: settings that refuse unknown keys, and a set of vectors with a mask.

A part (a loss, a pooling, a similarity, an encoder, a head) is one file that holds a pure function, a thin
`nn.Module` around it, and a `Part` with its settings whose `build(...)` makes the module. The folder's
`__init__` lists the parts in one union; YAML picks one with `kind`, or with the bare name when the defaults do:

    similarity: cosine
    loss: {kind: max_of_hinges, margin: 0.2}
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from vsekit.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor


class Settings(BaseModel):
    """Settings that name the field when a key is unknown or a value has the wrong type."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


class Part(Settings):
    """Settings of one part. Subclasses narrow `kind` to a `Literal` with their own name as the default."""

    kind: str


def _bare_name(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


#: Metadata for the union of a folder's parts: `Annotated[ASettings | BSettings, *ONE_OF]`.
ONE_OF = (Field(discriminator="kind"), BeforeValidator(_bare_name))


class Sets(NamedTuple):
    """A batch of sets of vectors, padded to the longest.

    vectors: (B, N, d); what stands at padded places is arbitrary and must never matter.
    mask: (B, N) bool, True where there is a vector; every row has at least one.
    """

    vectors: Tensor
    mask: Tensor


class Tokens(NamedTuple):
    """A batch of tokenised sentences, padded. ids: (B, T) int64; lengths: (B,) int64, each at least 1."""

    ids: Tensor
    lengths: Tensor


def merged(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `change` laid over it, key by key; None removes a mapping; another `kind` replaces the whole part.

    >>> merged({"loss": {"kind": "a", "margin": 1}, "clip": 2}, {"loss": {"kind": "b"}, "clip": None})
    {'loss': {'kind': 'b'}, 'clip': None}
    >>> merged({"stages": {"one": {"epochs": 1}, "two": {}}}, {"stages": {"one": None}})
    {'stages': {'two': {}}}
    """
    result = copy.deepcopy(dict(base))
    for key, value in change.items():
        old = result.get(key)
        if value is None and isinstance(old, Mapping):
            del result[key]
        elif (
            isinstance(value, Mapping)
            and isinstance(old, Mapping)
            and value.get("kind", old.get("kind")) == old.get("kind")
        ):
            result[key] = merged(old, value)
        elif isinstance(value, Mapping) and isinstance(old, str) and value.get("kind", old) == old:
            result[key] = merged({"kind": old}, value)
        else:
            result[key] = merged({}, value) if isinstance(value, Mapping) else copy.deepcopy(value)
        if key == "stages" and isinstance(result.get(key), Mapping):
            # A stage that is not there can't be removed; that is no mistake.
            result[key] = {name: stage for name, stage in result[key].items() if stage is not None}
    return result


def apply_sets(settings: Mapping[str, Any], assignments: Iterable[str]) -> dict[str, Any]:
    """Lays `key.path=value` assignments (the command line's --set) over settings; values are read as YAML.

    >>> apply_sets({"stages": {"one": {"epochs": 30}}}, ["stages.one.epochs=2"])
    {'stages': {'one': {'epochs': 2}}}
    """
    result = dict(settings)
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        if not equals or not path:
            raise UserError(
                f"can't read --set {assignment}", remedy="Write key.path=value, for example stages.main.epochs=3."
            )
        try:
            value: Any = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise UserError(f"--set {path}: the value is not YAML: {error}") from None
        for key in reversed(path.split(".")):
            value = {key: value}
        result = merged(result, value)
    return result


def settings_error(error: ValidationError, source: str) -> UserError:
    """Every wrong field of a settings file, by name, in one message."""
    lines = [f"{'.'.join(str(part) for part in e['loc']) or 'settings'}: {e['msg']}" for e in error.errors()]
    return UserError(f"{len(lines)} wrong setting{'s' * (len(lines) > 1)}\n  " + "\n  ".join(lines), file=source)
