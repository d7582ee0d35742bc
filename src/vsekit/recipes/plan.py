"""What must be trained for a row: its members, and the runs that they start from or mine with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from vsekit import recipes
from vsekit.errors import UserError, nearest
from vsekit.outside import trusting
from vsekit.parts import settings_error
from vsekit.recipes import Row, apply_sets, datasets
from vsekit.training.settings import RunSettings


@dataclass(frozen=True)
class Run:
    """A model to train, and those its settings refer to."""

    row: Row
    folder: Path
    settings: RunSettings
    before: list[Run]

    @classmethod
    def of(cls, row: Row, out: Path, sets: Sequence[str], offset: int = 0, *, referred: bool = False) -> Run:
        """offset: added to the seed. referred: another run's settings refer to this one."""
        row = _first_alike(row)
        own = row.settings.get("seed", 0)
        settings = apply_sets(deepcopy(row.settings), [s for s in sets if _fits(s, row, referred)])
        # Members of an ensemble that differ in their seeds must go on doing so.
        given = settings["seed"] + own if any(s.startswith("seed=") for s in sets) else own
        seed = settings["seed"] = given + offset
        before = []
        for place, key in _paths(settings):
            other = _row_at(place[key])
            if other:
                before.append(cls.of(other, out, sets, referred=True))
                place[key] = str(before[-1].folder)
        try:
            with trusting():  # what is not the recipe's own, a person named with --set
                checked = RunSettings.model_validate(settings)
        except ValidationError as error:
            raise settings_error(error, row.id) from None
        return cls(row, out / row.recipe / (row.name if seed == own else f"{row.name}-seed{seed}"), checked, before)


@dataclass(frozen=True)
class Plan:
    """The models whose scores are averaged for a row. folder: where it is said which these are."""

    members: list[Run]
    folder: Path

    @classmethod
    def of(cls, row: Row, out: Path, sets: Sequence[str], offset: int = 0) -> Plan:
        rows = [recipes.find(f"{row.recipe}:{name}") for name in row.ensemble] or [row]
        members = [Run.of(member, out, sets, offset) for member in rows]
        seed = members[0].folder.name.removeprefix(members[0].row.name)
        return cls(members, out / row.recipe / (row.name + seed) if row.ensemble else members[0].folder)

    def runs(self) -> Iterator[Run]:
        """Every model to train, a teacher before those who learn from it."""
        for member in self.members:
            yield from member.before
            yield member


def _first_alike(row: Row) -> Row:
    """The paper's first row with the same model and data, so that one run serves all the rows it appears in."""

    def model_of(row: Row) -> tuple[Any, ...]:
        return datasets.dataset(row), row.needs, row.settings

    # A row that averages other rows has no model of its own.
    alike = (other for other in recipes.rows(row.recipe) if not other.ensemble and model_of(other) == model_of(row))
    return next(alike, row)


def _fits(assignment: str, row: Row, referred: bool) -> bool:
    """Whether an assignment is for this row: one inside a stage (stages.second.epochs=1) is for rows that have it, one
    to a whole stage (stages.first=null) for rows that were asked for."""
    top, *stage = assignment.partition("=")[0].split(".")
    if top != "stages" or not stage:
        return True
    if stage[1:] == ["teacher"]:
        return not referred and stage[0] in row.settings["stages"]  # a teacher has no teacher
    return stage[0] in row.settings["stages"] if len(stage) > 1 else not referred


def refuse_unknown_stages(sets: Sequence[str], plans: Sequence[Sequence[Plan]]) -> None:
    runs = [run for plan in plans for run in plan[0].runs()]
    for assignment in sets:
        path = assignment.partition("=")[0]
        if path.count(".") > 1 and not any(_fits(assignment, run.row, False) for run in runs):
            there = sorted({stage for run in runs for stage in run.settings.stages})
            raise UserError(
                f"no row here has the stage of --set {path}{nearest(path.split('.')[1], there)}",
                remedy=f"The stages are: {', '.join(there)}.",
            )


def _paths(settings: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Where settings may refer to another run: (mapping, key), or (list, place) of a list."""
    for stage in filter(None, settings["stages"].values()):
        if "start" in stage:
            yield stage, "start"
        if stage.get("mine", {}).get("teacher"):
            yield stage["mine"], "teacher"
        if stage.get("teacher"):
            teachers = [stage["teacher"]] if isinstance(stage["teacher"], str) else stage["teacher"]
            stage["teacher"] = [path for teacher in teachers for path in _members(teacher)]
            yield from ((stage["teacher"], place) for place in range(len(stage["teacher"])))


def _members(path: str) -> list[str]:
    """The runs that `runs/PAPER/ROW` stands for, where the row averages others; else the path alone."""
    row = _row_at(path)
    return [f"runs/{row.recipe}/{name}" for name in row.ensemble] if row and row.ensemble else [path]


def _row_at(path: str) -> Row | None:
    """The row that `runs/PAPER/ROW` stands for; None for any other path."""
    match Path(path).parts:
        case ("runs", paper, name) if paper in recipes.names():
            return recipes.find(f"{paper}:{name}")
    return None
