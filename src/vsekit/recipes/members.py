"""Several models of one collection, trained best first and averaged: what `vse train` does without a recipe.

OUT/recipe.yaml       what was chosen and why, to be edited and trained again: vse train OUT/recipe.yaml
OUT/members/NAME/     the run of each member
OUT/ensemble.json     the members whose scores are averaged, and the validation rsum; vse evaluate OUT measures them
OUT/model/            the best single member: what search, serving and export use, which need one vector a picture
OUT/skipped.csv       what of the collection was set aside
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import ValidationError

from vsekit.data.clean import SKIPPED
from vsekit.data.pairs import Pairs
from vsekit.data.readers.base import hash_split
from vsekit.errors import UserError
from vsekit.evaluation.meeting import ENSEMBLE, score_runs
from vsekit.evaluation.protocols import evaluate
from vsekit.evaluation.scorers import Average, Scorer
from vsekit.files import write_json, write_text
from vsekit.parts import apply_sets, settings_error
from vsekit.progress import QUIET, Progress
from vsekit.recipes import load_settings
from vsekit.recipes.choose import RESERVE, Choice, Cost, choose, measured
from vsekit.recipes.look import look
from vsekit.recipes.tune import names_a_model, tuning
from vsekit.training.loop import train
from vsekit.training.settings import RunSettings

RECIPE = "recipe.yaml"


class _Plain(yaml.SafeDumper):
    """Writes what stands twice twice: a person who edits one member must not change another."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def recipe_text(choice: Choice, about: list[str], data: str) -> str:
    """The YAML of a choice, with what was seen and why as comments."""
    head = [f"# vse train {RECIPE} --data {data} --out runs/again", "#", *about, *choice.lines()]
    comments = "\n".join(line if line.startswith("#") else f"# {line}" for line in head)
    content: dict[str, Any] = {"pictures": choice.pictures} if choice.pictures else {}
    content["members"] = {member.name: member.settings for member in (*choice.members, *choice.spare)}
    return f"{comments}\n\n" + yaml.dump(content, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=120)


class Recipe(NamedTuple):
    """What a recipe of several models says. pictures: to train on at most so many."""

    members: dict[str, RunSettings]
    pictures: int | None = None


def read_members(path: Path, sets: Sequence[str] = ()) -> Recipe | None:
    """A YAML file of members, in its order; None when it is a recipe of one model, or no YAML file."""
    if path.suffix not in (".yaml", ".yml") or not path.is_file():
        return None
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise UserError(f"not YAML: {error}", file=path) from None
    if not isinstance(content, dict) or "members" not in content:
        return None
    members, pictures = content["members"], content.get("pictures")
    unknown = sorted(content.keys() - {"members", "pictures"})
    if unknown:
        raise UserError(f"no setting '{unknown[0]}' beside members", file=path, remedy="There are: members, pictures.")
    if not isinstance(members, dict) or not members:
        raise UserError("members holds a name and settings for each model", file=path, field="members")
    if pictures is not None and (not isinstance(pictures, int) or pictures < 1):
        raise UserError("pictures is a whole number", file=path, field="pictures")
    found = {}
    for name, settings in members.items():
        try:
            found[str(name)] = RunSettings.model_validate(apply_sets(settings, sets))
        except ValidationError as error:
            raise settings_error(error, f"{path} [members.{name}]") from None
    return Recipe(found, pictures)


def run_settings(recipe: str | Path | None, sets: Sequence[str] = ()) -> RunSettings | None:
    """Those of `paper:row`, of a YAML file, or of going on from a model; None where several models are to be trained."""
    if recipe is None or read_members(Path(recipe)) is not None:
        return None
    settings: RunSettings = (tuning if names_a_model(str(recipe)) else load_settings)(str(recipe), sets)
    return settings


class Members:
    """Trains members one after another into OUT.

    Args:
        seconds: of each member, where they were guessed; corrected by how long the ones before took.
        deadline: on the clock of `time.monotonic`; a member that would not end before it is not begun, and training stops
            at the last epoch that does. The first is always trained.
        training: further arguments of `train`.
    """

    def __init__(
        self,
        members: Mapping[str, RunSettings],
        pairs: Pairs,
        out: Path,
        *,
        seconds: Mapping[str, float] | None = None,
        deadline: float | None = None,
        source: dict[str, Any] | None = None,
        progress: Progress = QUIET,
        **training: Any,
    ) -> None:
        self.members, self.pairs, self.out, self.progress = members, pairs, out, progress
        self.seconds, self.deadline, self.source, self.training = seconds or {}, deadline, source, training
        self.val = pairs.split(next(iter(members.values())).data.val)
        self.scores: dict[str, Scorer] = {}
        self.averages: dict[tuple[str, ...], float] = {}
        self.alone: dict[str, float] = {}
        self.together: list[str] = []
        self.rsum = self.guessed = self.took = 0.0

    def run(self) -> dict[str, Any]:
        """Trains them all, or those there is time for; interrupted, leaves what is there ready to use."""
        for name, settings in self.members.items():
            if self.alone and self._too_late(name):
                self.progress.say(f"No time left for {name}.")
                continue
            folder, began = self.out / "members" / name, time.monotonic()
            self.progress.say(f"{name}: {folder}")
            try:
                train(
                    settings,
                    self.pairs,
                    folder,
                    source=self.source,
                    resume=True,
                    deadline=self.deadline,
                    progress=self.progress,
                    **self.training,
                )
            except KeyboardInterrupt:
                if (folder / "model" / "model.safetensors").is_file():
                    self._take(name)
                raise
            self._take(name)
            self.guessed += self.seconds.get(name, 0.0)
            self.took += time.monotonic() - began
        return {"members": self.together, "rsum": self.rsum, "alone": self.alone, "best": self.best}

    @property
    def best(self) -> str:
        return max(self.alone, key=lambda name: self.alone[name])

    def _too_late(self, name: str) -> bool:
        slower = self.took / self.guessed if self.guessed else 1.0
        return self.deadline is not None and time.monotonic() + slower * self.seconds.get(name, 0.0) > self.deadline

    def _take(self, name: str) -> None:
        """Measures a member alone, and averages anew: the best alone, and in turn each that makes the average better."""
        self.scores[name] = score_runs([self.out / "members" / name], self.val, self.progress)
        self.alone[name] = self._measure([name])
        self.together, self.rsum = [], 0.0
        for one in sorted(self.alone, key=lambda one: -self.alone[one]):
            rsum = self._measure([*self.together, one])
            if rsum > self.rsum:
                self.together, self.rsum = [*self.together, one], rsum
        said = f"{name} alone: validation rsum {self.alone[name]:.1f}"
        if len(self.alone) > 1:
            said += f"; the best average so far {self.rsum:.1f}: {', '.join(self.together)}"
        self.progress.say(said)
        if self.best == name:
            _replace(self.out / "members" / name / "model", self.out / "model")
        paths = [f"members/{member}" for member in self.together]
        write_json(self.out / ENSEMBLE, {"members": paths, "rsum": self.rsum, "alone": self.alone})

    def _measure(self, names: list[str]) -> float:
        """Of an average; most of them were measured when a member came before."""
        if tuple(names) not in self.averages:
            scores = Average([self.scores[name] for name in names])
            found = evaluate(scores, self.val.picture_groups, self.val.caption_groups)
            self.averages[tuple(names)] = found.rsum
        return self.averages[tuple(names)]


def _replace(source: Path, target: Path) -> None:
    """Copies a folder to where another may be."""
    beside, old = target.with_name(f".{target.name}.tmp"), target.with_name(f".{target.name}.old.tmp")
    for folder in (beside, old):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, beside)
    if target.exists():
        target.rename(old)
    beside.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def must_be_free(out: Path) -> None:
    """UserError where there is something in the folder already."""
    if out.exists() and (not out.is_dir() or any(file.name != SKIPPED for file in out.iterdir())):
        raise UserError(
            "this folder is not empty", file=out, remedy="Add --resume to go on with it, or choose another --out."
        )


def write_recipe(out: Path, text: str) -> None:
    """Writes OUT/recipe.yaml. Raises UserError when something else is in the folder."""
    must_be_free(out)
    write_text(out / RECIPE, text)


def with_val(pairs: Pairs) -> Pairs:
    """The collection; where it has no split "val", with the tenth of "train" that a hash chooses as such."""
    if "val" in pairs.splits or "train" not in pairs.splits:
        return pairs
    pictures = [
        replace(picture, split="val") if picture.split == "train" and hash_split(picture.group) == "val" else picture
        for picture in pairs.pictures
    ]
    return replace(pairs, pictures=pictures)


def fewer(pairs: Pairs, train: int, val: int = 1000) -> Pairs:
    """At most so many pictures to train and to select on, evenly over the collection."""
    chosen: list[int] = []
    for split, most in (("train", train), ("val", val)):
        some = [i for i, picture in enumerate(pairs.pictures) if picture.split == split]
        step = max(1.0, len(some) / most)
        chosen += [some[int(n * step)] for n in range(min(most, len(some)))]
    return pairs.take(sorted(chosen))


def train_members(
    recipe: Path | None,
    pairs: Pairs,
    out: Path,
    *,
    minutes: float | None = None,
    sets: Sequence[str] = (),
    resume: bool = False,
    cost: Cost | None = None,
    source: dict[str, Any] | None = None,
    progress: Progress = QUIET,
    **training: Any,
) -> dict[str, Any]:
    """Trains the members of a recipe file or, without one, of a choice made for the collection.

    Args:
        pairs: with features attached where they stand for the pictures.
        minutes: a budget to keep to.
        sets: key.path=value assignments laid over every member's settings.
        resume: go on with what is in `out`.
        cost: of this machine; None measures it.
        training: further arguments of `train`.

    Returns the members that are averaged and their validation rsum, each member's alone, and the best one.
    """
    started = time.monotonic()
    seconds: dict[str, float] = {}
    pairs = with_val(pairs)
    written = out / RECIPE
    if resume and written.is_file():
        recipe = written
    if recipe is None:
        seen = look(pairs)
        choice = choose(seen, minutes, cost or (Cost() if seen.features else measured()))
        for line in (*seen.lines(), *choice.lines()):
            progress.say(line)
        write_recipe(out, recipe_text(choice, seen.lines(), str((source or {}).get("data", "DATA"))))
        seconds = {member.name: member.seconds for member in (*choice.members, *choice.spare)}
        recipe = written
    elif recipe != written:
        write_recipe(out, recipe.read_text(encoding="utf-8"))
    plan = read_members(recipe, sets)
    if plan is None:
        raise UserError("this file has no members", file=recipe, remedy="Name a recipe of one model as RECIPE.")
    deadline = None if minutes is None else started + 60 * minutes * (1 - RESERVE / 2)
    pairs = fewer(pairs, plan.pictures) if plan.pictures else pairs
    chosen = Members(
        plan.members, pairs, out, seconds=seconds, deadline=deadline, source=source, progress=progress, **training
    )
    return chosen.run()
