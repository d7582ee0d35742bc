"""Recipes: one YAML per paper, holding the base settings and every row of its results tables as a change to them.

    paper:    title, authors, venue
    base:     RunSettings
    variants: named changes that rows share
    rows:     name → {use: [variants], set: {changes}, table, method, dataset, protocol, published: {...}}

A row is named `paper:row`, for example `vsepp:1.7`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vsekit.errors import UserError, nearest
from vsekit.outside import trusting
from vsekit.parts import apply_sets, merged, settings_error

#: As many rows are named where one is asked for that isn't there.
FEW_ROWS = 40


class Row(BaseModel):
    """A row of a results table.

    published: i2t and t2i as [R@1, R@5, R@10, Med r], None where the paper prints none; rsum; oips, items a second as a
        multiple of the slowest (VSE+2AD); seconds_a_batch (AOQ). The last two depend on the machine: benchmarks measure them.
    """

    model_config = ConfigDict(extra="forbid")

    recipe: str
    name: str
    table: str
    method: str
    dataset: str
    protocol: str = "full"
    trainset: str = ""
    note: str = ""
    needs: str = ""
    published: dict[str, list[float | None]] = {}
    ensemble: list[str] = Field(default=[], description="rows whose runs are averaged to give this one")
    settings: dict[str, Any]

    @property
    def id(self) -> str:
        return f"{self.recipe}:{self.name}"


def names() -> list[str]:
    """The recipes that come with the package."""
    return sorted(Path(f.name).stem for f in resources.files(__name__).iterdir() if f.name.endswith(".yaml"))


@cache
def _read(recipe: str) -> dict[str, Any]:
    if recipe not in names():
        raise UserError(
            f"no recipe '{recipe}'{nearest(recipe, names())}",
            remedy=f"There are: {', '.join(names())}; rows are listed by: vse recipes",
        )
    loaded: dict[str, Any] = yaml.safe_load((resources.files(__name__) / f"{recipe}.yaml").read_text(encoding="utf-8"))
    return loaded


def paper(recipe: str) -> str:
    """Title, authors and venue of a recipe's paper."""
    return str(_read(recipe)["paper"])


def _row(recipe: str, content: Mapping[str, Any], name: str) -> Row:
    row = content["rows"][name]
    described = {key: value for key, value in row.items() if key not in ("use", "set")}
    return Row(recipe=recipe, name=name, settings=settings_of(content, row), **described)


def settings_of(content: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """The base settings with an entry's variants (`use`) and its own changes (`set`) laid over them."""
    settings: dict[str, Any] = content["base"]
    for variant in entry.get("use", []):
        settings = merged(settings, content["variants"][variant])
    return merged(settings, entry.get("set", {}))


def rows(recipe: str | None = None) -> list[Row]:
    """All rows of one recipe, or of all."""
    result = []
    for one in [recipe] if recipe else names():
        content = _read(one)
        result += [_row(one, content, name) for name in content["rows"]]
    return result


def find(name: str) -> Row:
    """The row called `paper:row`."""
    recipe, _, row = name.partition(":")
    content = _read(recipe)
    if row not in content["rows"]:
        rows = list(content["rows"])
        some = f"Its rows: {', '.join(rows)}. " if len(rows) <= FEW_ROWS else f"It has {len(rows)} rows. "
        raise UserError(
            f"recipe '{recipe}' has no row '{row}'{nearest(row, rows)}", remedy=f"{some}See: vse recipes {recipe}"
        )
    return _row(recipe, content, row)


def load_settings(recipe: str, assignments: Iterable[str] = ()) -> Any:
    """RunSettings of `paper:row`, or of a YAML file, with --set assignments laid over them."""
    path = Path(recipe)
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            raise UserError(
                f"no such file: {path}", remedy="Give a YAML file or paper:row; vse recipes lists the rows."
            )
        try:
            settings = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise UserError(f"not YAML: {error}", file=path) from None
        if not isinstance(settings, dict):
            raise UserError("a recipe file holds settings: seed, model, data, stages", file=path)
        for key in ("source", "collection"):  # of a run's config.yaml: which data it had
            settings.pop(key, None)
    else:
        settings = find(recipe).settings
    return checked(settings, assignments, recipe)


def checked(settings: Mapping[str, Any], assignments: Iterable[str], source: str) -> Any:
    """RunSettings of what a person wrote, with --set assignments laid over it; parts from outside are imported."""
    from vsekit.training.settings import RunSettings

    assignments = list(assignments)
    try:
        with trusting():
            return RunSettings.model_validate(apply_sets(settings, assignments))
    except ValidationError as error:
        wrong = settings_error(error, source)
        hints = [hint for assignment in assignments if (hint := _new_name(settings, assignment))]
        raise UserError(wrong.what, file=source, remedy="\n  ".join(hints) or None) from None


def _new_name(settings: Mapping[str, Any], assignment: str) -> str | None:
    """A hint where --set names something new beside names that are like it (stages.man for stages.main)."""
    here: Any = settings
    for step in assignment.partition("=")[0].split("."):
        if isinstance(here, Mapping) and step not in here:
            hint = nearest(step, here)
            return f"--set {assignment}: there was no '{step}'{hint}" if hint else None
        here = here[step] if isinstance(here, Mapping) else None
    return None
