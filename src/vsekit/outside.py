"""Parts from outside the package: named as `my_package.my_module:MyLoss`, or by an installed entry point.

    loss: {kind: my_package.losses:SoftHinges, margin: 0.3}
    loss: {kind: soft_hinges, margin: 0.3}          # [project.entry-points."vsekit.losses"] in my_package

Importing a module runs its code. A person who names it in a YAML file, in Python or on the command line wants that, and
whoever installs a package with an entry point does too. A model folder from elsewhere must not decide it: there a
`module:Class` is imported only within `trusting()`, or when the person named it before in this process.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from vsekit.errors import UserError, nearest

_trusting: ContextVar[bool] = ContextVar("trusting", default=False)
_named: set[str] = set()


class Untrusted(UserError):
    """A `module:Class` that something other than the person named."""


class Missing(UserError):
    """A part from outside that is not installed, or is something else."""


@contextmanager
def trusting(trust: bool = True) -> Iterator[None]:
    """Within it, `module:Class` names are imported: a person named them, or said that they trust who did."""
    token = _trusting.set(trust or _trusting.get())
    try:
        yield
    finally:
        _trusting.reset(token)


def offered(group: str) -> dict[str, EntryPoint]:
    """Installed entry points of `vsekit.<group>`, by name."""
    return {entry.name: entry for entry in entry_points(group=f"vsekit.{group}")}


def from_outside(name: str, group: str) -> Any | None:
    """The object called `module:Class`, or the entry point `name` of `vsekit.<group>`; None when it is neither.

    Raises Untrusted or Missing, which say what to do.
    """
    if ":" in name:
        return _imported(name)
    entry = offered(group).get(name)
    if entry is None:
        return None
    try:
        return entry.load()
    except (ImportError, AttributeError) as error:
        raise Missing(
            f"'{name}' is installed as {entry.value}, which can't be imported: {error}",
            remedy="Install the package anew, or remove it.",
        ) from None


def _imported(name: str) -> Any:
    module, _, attribute = name.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), *attribute.split("."))):
        raise Missing(f"can't read '{name}'", remedy="Write module:Class, for example my_package.losses:SoftHinges.")
    if not _trusting.get() and name not in _named:
        raise Untrusted(
            f"'{name}' is code from outside vsekit, and it would be imported and run",
            remedy=f"If you know {module} and trust it: --trust; in Python trust=True, or with vsekit.outside.trusting().",
        )
    try:
        found: Any = importlib.import_module(module)
    except ImportError as error:
        raise Missing(
            f"can't import {module}: {error}",
            remedy=f"Install the package that has it, or put the folder of {module.split('.')[0]} on PYTHONPATH.",
        ) from None
    for attribute_name in attribute.split("."):
        try:
            found = getattr(found, attribute_name)
        except AttributeError:
            hint = nearest(attribute_name, [each for each in dir(found) if not each.startswith("_")])
            raise Missing(f"{module} has no {attribute}{hint}", remedy="Write module:Class.") from None
    _named.add(name)
    return found
