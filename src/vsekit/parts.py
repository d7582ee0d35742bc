"""What every interchangeable part shares: settings that refuse unknown keys, and a set of vectors with a mask.

A part (a loss, a pooling, a similarity, an encoder, a head, an optimiser) is one file that holds a pure function, a thin
`nn.Module` around it, and a `Part` with its settings whose `build(...)` makes the module. The folder's `__init__` lists
the files in one `OneOf`; YAML picks a part with `kind`, or with the bare name when the defaults do:

    similarity: cosine
    loss: {kind: max_of_hinges, margin: 0.2}

A `kind` may also be a part from outside the package, see `outside`.
"""

from __future__ import annotations

import copy
import importlib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, get_args

import yaml
from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, ValidationError, model_validator
from pydantic.functional_validators import ModelWrapValidatorHandler
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from vsekit.errors import UserError, nearest
from vsekit.outside import Missing, Untrusted, from_outside, offered

if TYPE_CHECKING:
    from torch import Tensor


class Settings(BaseModel):
    """Settings that name the field when a key is unknown or a value has the wrong type."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    @model_validator(mode="wrap")
    @classmethod
    def _with_hints(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """An unknown key is told with the nearest known one."""
        try:
            return handler(value)
        except ValidationError as error:
            lines = [_line(e, cls.model_fields) for e in error.errors(include_url=False)]
            raise ValidationError.from_exception_data(error.title, lines) from None


def _line(error: Any, fields: Iterable[str]) -> InitErrorDetails:
    what: str = error["msg"].removeprefix("Value error, ")
    if error["type"] == "extra_forbidden" and len(error["loc"]) == 1:
        what = f"no such setting{nearest(error['loc'][0], fields)}"
    elif error["type"] == "literal_error" and isinstance(error["input"], str) and "did you mean" not in what:
        what += nearest(error["input"], re.findall(r"'([^']*)'", error["ctx"]["expected"]))
    return InitErrorDetails(
        type=PydanticCustomError(error["type"], "{what}", {"what": what, **error.get("ctx", {})}),
        loc=error["loc"],
        input=error["input"],
    )


class Part(Settings):
    """Settings of one part. Each folder's `base` has a subclass that says what its parts are and what they build.

    The package's own parts narrow `kind` to a `Literal` with their name as the default. A part from outside leaves it
    alone: it holds what the person called it, by default `module:Class`.
    """

    kind: str

    @model_validator(mode="before")
    @classmethod
    def _own_name(cls, value: Any) -> Any:
        if isinstance(value, dict) and "kind" not in value and cls.model_fields["kind"].is_required():
            return {"kind": f"{cls.__module__}:{cls.__qualname__}", **value}
        return value


class OneOf:
    """Metadata that lets a field hold any part of a folder: `Annotated[LossPart, OneOf(LossPart, __name__, …)]`.

    Args:
        base: the class that all parts of the folder have.
        package: the folder.
        group: `vsekit.<group>` is the group of entry points.
        modules: the folder's files, one a part. They are imported when a part is first looked for, so that a part can itself
            hold parts of its folder.
    """

    def __init__(self, base: type[Part], package: str, group: str, modules: Sequence[str]) -> None:
        self.base, self.package, self.group, self.modules = base, package, group, modules
        self.word = re.sub(r"(?<!^)(?=[A-Z])", " ", base.__name__.removesuffix("Part")).lower()

    @cached_property
    def parts(self) -> dict[str, type[Part]]:
        """The package's own, by kind."""
        found: dict[str, type[Part]] = {}
        for name in self.modules:
            module = importlib.import_module(f"{self.package}.{name}")
            for value in vars(module).values():
                if isinstance(value, type) and issubclass(value, self.base) and value.__module__ == module.__name__:
                    found[value.model_fields["kind"].default] = value
        return found

    def find(self, kind: str) -> type[Part]:
        """The class of this kind, of the package or from outside; PydanticCustomError when there is none."""
        if kind in self.parts:
            return self.parts[kind]
        try:
            found = from_outside(kind, self.group)
        except (Missing, Untrusted) as error:
            raise PydanticCustomError(_OUTSIDE, "{what}", {"what": f"{error.what}. {error.remedy}"}) from None
        if found is None:
            names = [*self.parts, *offered(self.group)]
            what = (
                f"no {self.word} '{kind}'{nearest(kind, names) or '.'} There are: {', '.join(names)}; one of another "
                f"package is named module:Class, or must be installed (entry point of vsekit.{self.group})."
            )
            raise PydanticCustomError(_OUTSIDE, "{what}", {"what": what})
        if not (isinstance(found, type) and issubclass(found, self.base)):
            what = (
                f"'{kind}' is no {self.word}. It should be a subclass of {self.base.__module__}.{self.base.__name__}."
            )
            raise PydanticCustomError(_OUTSIDE, "{what}", {"what": what})
        return found

    def validate(self, value: Any) -> Part:
        if isinstance(value, self.base):
            if ":" not in value.kind and not isinstance(value, self.find(value.kind)):
                raise PydanticCustomError(_OUTSIDE, "{what}", {"what": f"'{value.kind}' is not the part it says it is"})
            return value
        if isinstance(value, str):
            value = {"kind": value}
        if not isinstance(value, Mapping) or not isinstance(value.get("kind"), str):
            what = f"a {self.word} is a name, or a mapping with its name as 'kind'. There are: {', '.join(self.parts)}."
            raise PydanticCustomError("part", "{what}", {"what": what})
        return self.find(value["kind"]).model_validate(dict(value))

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        # Serialised as the class it is: a part from outside has fields that no schema made here could know.
        as_it_is = core_schema.simple_ser_schema("any")
        return core_schema.no_info_plain_validator_function(self.validate, serialization=as_it_is)


#: Type of the errors about kinds: a part that is not there, or that may not be imported.
_OUTSIDE = "kind"


def kinds(union: Any) -> list[str]:
    """The package's own kinds of a folder: `kinds(LossSettings)`."""
    one_of = next(extra for extra in get_args(union) if isinstance(extra, OneOf))
    return list(one_of.parts)


def lacks_part(error: ValidationError) -> bool:
    """Whether settings failed because of a part that is not there, or that may not be imported."""
    return any(e["type"] == _OUTSIDE for e in error.errors())


class Sets(NamedTuple):
    """A batch of sets of vectors, padded to the longest.

    vectors: (B, N, d); what stands at padded places is arbitrary and must never matter.
    mask: (B, N) bool, True where there is a vector; every row has at least one.

    Several views of each item (crops of a picture, positions of a sentence) have an axis of their own: (B, V, N, d) and
    (B, V, N). An item has at least one view; one it lacks has no True in its mask. Towers average them.
    """

    vectors: Tensor
    mask: Tensor


class Tokens(NamedTuple):
    """A batch of tokenised sentences, padded. ids: (B, T) int64; lengths: (B,) int64, each at least 1."""

    ids: Tensor
    lengths: Tensor


class ReadTokens(NamedTuple):
    """`Tokens` with what a frozen encoder made of each before: states (B, T, d)."""

    ids: Tensor
    lengths: Tensor
    states: Tensor


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
        elif not isinstance(value, Mapping):
            result[key] = copy.deepcopy(value)
        else:
            before = {"kind": old} if isinstance(old, str) else old if isinstance(old, Mapping) else {}
            same = value.get("kind", before.get("kind")) == before.get("kind")
            result[key] = merged(before if same else {}, value)
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


def wrong_fields(error: ValidationError, under: str = "") -> list[str]:
    """A line for every wrong field, by its dotted name."""
    paths = (".".join(str(step) for step in ((under,) if under else ()) + e["loc"]) for e in error.errors())
    return [f"{path or 'settings'}: {e['msg']}" for path, e in zip(paths, error.errors())]


def settings_error(error: ValidationError, source: str | Path) -> UserError:
    """Every wrong field of a settings file, by name, in one message."""
    lines = wrong_fields(error)
    return UserError(f"{len(lines)} wrong setting{'s' * (len(lines) > 1)}\n  " + "\n  ".join(lines), file=source)
