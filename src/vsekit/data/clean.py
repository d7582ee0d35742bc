"""A collection with dirt in it, made fit for training: what can't be used is set aside, with where it stood and why.

The order is by cost: what the text tells, then whether the files are there, then their headers. Of pictures that stand in two
splits the one that measures is kept, and the training copy goes, so that numbers stay comparable. A caption written twice for
a picture goes only from tables: published collections have a few, and their numbers count them.
"""

from __future__ import annotations

import csv
import gc
import hashlib
import io
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from vsekit.data.alike import alike, joined, looks
from vsekit.data.glance import glances
from vsekit.data.pairs import Caption, Pairs, Picture
from vsekit.data.readers import detect
from vsekit.data.readers.base import Options, hash_split
from vsekit.data.readers.problems import Place, Problem, Problems, Severity
from vsekit.errors import UserError
from vsekit.files import write_text
from vsekit.progress import QUIET, Progress

#: Kinds of problems after which nothing sound can be said of the rest of a file.
FATAL = frozenset({"unreadable", "empty"})
#: Kinds that reading has mended itself.
MENDED = frozenset({"encoding", "duplicate-picture"})
#: A collection that loses more than this share of its captions is not dirty but misread.
MOST = 0.5
SKIPPED = "skipped.csv"
#: Which split keeps a picture that stands in several; any other split comes before training.
_KEEPS = {"test": 0, "val": 1, "restval": 3, "train": 3}
_REMEDY = "Mend it, or leave it out."


@dataclass(frozen=True)
class SetAside:
    """A problem, and what was done about it."""

    problem: Problem
    done: Literal["left out", "mended"]


@dataclass(frozen=True)
class Clean:
    """A collection to train on.

    skipped: all that was left out or mended.
    splits_made: how many pictures were given a split, because they named none.
    tied: how many of those follow another one, of their group or nearly the same.
    """

    pairs: Pairs
    skipped: list[SetAside] = field(default_factory=list)
    splits_made: int = 0
    tied: int = 0

    def lines(self) -> list[str]:
        """For people: how much was set aside and why, and how splits were made."""
        out = []
        for done in ("left out", "mended"):
            kinds = Counter(item.problem.kind for item in self.skipped if item.done == done)
            if kinds:
                listed = ", ".join(f"{count} × {kind}" for kind, count in kinds.most_common())
                out.append(f"{sum(kinds.values())} {done}: {listed}")
        if self.splits_made:
            counts = ", ".join(f"{name} {count}" for name, count in self.pairs.splits.items())
            together = f"; {self.tied} stay with their group or a nearly equal picture" if self.tied else ""
            out.append(f"{self.splits_made} pictures name no split; by a hash of their names: {counts}{together}")
        return out

    def to_dict(self) -> dict[str, Any]:
        return {
            "splits": self.pairs.splits,
            "captions": len(self.pairs.captions),
            "splits_made": self.splits_made,
            "set_aside": [item.problem.to_dict() | {"done": item.done} for item in self.skipped],
        }

    def table(self) -> str:
        """`skipped` as CSV."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["file", "line", "field", "reason", "what", "done"])
        for item in self.skipped:
            at = item.problem.at
            writer.writerow([at.file, at.line, at.field, item.problem.kind, item.problem.what, item.done])
        return out.getvalue()

    def write(self, folder: Path) -> Path | None:
        """Writes skipped.csv into a folder, if there is anything to write."""
        if not self.skipped:
            return None
        write_text(folder / SKIPPED, self.table())
        return folder / SKIPPED


def read_skipped(folder: Path) -> list[SetAside]:
    """What a skipped.csv lists; nothing where there is none."""
    try:
        rows = list(csv.DictReader(io.StringIO((folder / SKIPPED).read_text(encoding="utf-8"))))
    except FileNotFoundError:
        return []
    places = [Place(row["file"], int(row["line"]) if row["line"] else None, row["field"] or None) for row in rows]
    return [SetAside(Problem(row["reason"], row["what"], at), row["done"]) for row, at in zip(rows, places)]  # type: ignore[arg-type]


def read_clean(
    path: Path | str,
    *,
    format: str | None = None,
    restval: bool = False,
    columns: Mapping[str, str] | None = None,
    images: Path | str | None = None,
    strict: bool = False,
    pictures: bool = True,
    kept: Path | None = None,
    progress: Progress = QUIET,
) -> Clean:
    """Reads a collection and sets aside what is wrong with it.

    Args:
        path, format, restval, columns, images: as in `vsekit.data.readers.read`.
        strict: the first problem is a UserError instead.
        pictures: look at the files of the pictures; False where features stand for them.
        kept: a folder to keep the looks of pictures in, where splits have to be made.

    Raises UserError when there is no collection, or when most of it would be set aside.
    """
    options = Options(restval, columns or {}, Path(images) if images else None)
    found = _read(Path(path), format, options, Problems(strict=strict))
    found.one_split_a_group()
    if pictures:
        found.files()
        found.headers(progress)
        found.copies()
    return found.result(kept if pictures else None, pictures, progress)


def read_to_search(
    path: Path | str,
    *,
    format: str | None = None,
    columns: Mapping[str, str] | None = None,
    images: Path | str | None = None,
) -> Clean:
    """Reads a collection to be indexed: captions that can't be used are set aside, and the pictures stay, with captions or
    without, in whatever split; the caller finds out which are missing or broken."""
    options = Options(False, columns or {}, Path(images) if images else None)
    found = _read(Path(path), format, options, Problems(strict=False))
    texts = [caption for i, caption in enumerate(found.pairs.captions) if i not in found.captions_out]
    if len(texts) < MOST * len(found.pairs.captions):
        raise found.misread(len(texts))
    return Clean(replace(found.pairs, captions=texts), found.skipped)


def _read(path: Path, format: str | None, options: Options, problems: Problems) -> _Cleaning:
    """A collection, of whose text it is known what is wrong."""
    reader, files = detect(path, options, format)
    collecting = gc.isenabled()
    gc.disable()  # as in `read`
    try:
        pairs = reader.read(path, files, options, problems)
    finally:
        if collecting:
            gc.enable()
    found = _Cleaning(pairs, problems)
    found.text(rows=reader.name == "table")
    return found


class _Cleaning:
    """What is to be set aside, gathered step by step. Each step looks only at what is still there."""

    def __init__(self, pairs: Pairs, problems: Problems) -> None:
        self.pairs, self.problems = pairs, problems
        self.pictures_out: set[int] = set()
        self.captions_out: set[int] = set()
        self.skipped: list[SetAside] = []
        fatal = next((problem for problem in problems if problem.kind in FATAL), None)
        if fatal:
            raise fatal.error()

    def text(self, rows: bool) -> None:
        """What reading found and, of a table, rows written twice."""
        pairs, places = self.pairs, self.problems.caption_places
        refused = {_entry(p.at) for p in self.problems if p.kind == "conflict"}
        seen: set[tuple[int, str]] = set()
        for problem in list(self.problems):
            # What reading left out itself, and captions refused below; missing files are looked for again, each of them.
            if problem.severity == "error" and problem.kind not in ("missing-image", "no-caption"):
                self.skipped.append(SetAside(problem, "mended" if problem.kind in MENDED else "left out"))
        bad = {p.at for p in self.problems if p.kind in ("empty-caption", "bytes-caption", "bad-field")}
        for i, (caption, at) in enumerate(zip(pairs.captions, places)):
            if at in bad or _entry(at) in refused:
                self.captions_out.add(i)
            elif rows and (caption.picture, caption.text) in seen:
                self.captions_out.add(i)
                name = pairs.pictures[caption.picture].id
                self._out("duplicate-caption", f"the picture '{name}' has this caption already", at, "warning")
            seen.add((caption.picture, caption.text))

    def one_split_a_group(self) -> None:
        groups = ((i, picture.group) for i, picture in enumerate(self.pairs.pictures))
        self._one_split(groups, lambda name: f"the group '{name}'")

    def files(self) -> None:
        for i, picture in self._left():
            if picture.path is not None and not os.path.isfile(picture.path):
                self._picture_out(i, "missing-image", f"the picture '{picture.id}' is not at {picture.path}")

    def headers(self, progress: Progress) -> None:
        left = self._left()
        with progress.bar("Looking at pictures", "pictures") as bar:
            for done, ((i, picture), why) in enumerate(zip(left, glances(p for _, p in left)), start=1):
                if why is not None:
                    self._picture_out(i, "broken-image", f"the picture '{picture.id}' can't be decoded: {why}")
                bar(done, len(left))

    def copies(self) -> None:
        """The same bytes in two splits. Only files of the same size are read."""
        sizes: dict[int, list[int]] = defaultdict(list)
        for i, picture in self._left():
            if picture.path is not None and i not in self.problems.without_split:
                size = picture.size if picture.offset is not None else os.path.getsize(picture.path)
                sizes[size or 0].append(i)
        pictures = self.pairs.pictures
        several = [i for some in sizes.values() if len({pictures[i].split for i in some}) > 1 for i in some]
        digests = ((i, hashlib.sha256(pictures[i].read()).hexdigest()) for i in several)
        self._one_split(digests, lambda _: "the same picture")

    def result(self, kept: Path | None, look: bool, progress: Progress) -> Clean:
        pairs = self.pairs
        captioned = {c.picture for i, c in enumerate(pairs.captions) if i not in self.captions_out}
        for i, picture in self._left():
            if i not in captioned:
                self._picture_out(i, "no-caption", f"the picture '{picture.id}' has no caption left")
        left = [i for i, _ in self._left()]
        texts = [
            c for i, c in enumerate(pairs.captions) if not (i in self.captions_out or c.picture in self.pictures_out)
        ]
        if len(texts) < MOST * len(pairs.captions):
            raise self.misread(len(texts))
        renamed, tied = self._made_splits(left, look, kept, progress)
        position = {old: new for new, old in enumerate(left)}
        captions = [Caption(c.text, position[c.picture], c.meta) for c in texts]
        cleaned = replace(
            pairs,
            pictures=[replace(pairs.pictures[i], split=renamed.get(i, pairs.pictures[i].split)) for i in left],
            captions=captions,
        )
        return Clean(cleaned, self.skipped, len(renamed), tied)

    def _made_splits(
        self, left: list[int], look: bool, kept: Path | None, progress: Progress
    ) -> tuple[dict[int, str], int]:
        """Splits of the pictures that name none: by a hash of what they are tied to; and how many are tied to another."""
        loose = [i for i in left if i in self.problems.without_split]
        if not loose:
            return {}, 0
        pictures = [self.pairs.pictures[i] for i in loose]
        first: dict[str, int] = {}
        ties = [(first.setdefault(picture.group, n), n) for n, picture in enumerate(pictures)]
        if look and all(picture.path is not None for picture in pictures):
            with progress.bar("Comparing pictures", "pictures") as bar:
                ties += alike(looks(pictures, kept=kept, progress=bar))
        roots = joined(len(pictures), ties)
        # The smallest name, so that the order of the file does not matter.
        names: dict[int, str] = {}
        for root, picture in zip(roots.tolist(), pictures):
            names[root] = min(names.get(root, picture.group), picture.group)
        splits = {i: hash_split(names[root]) for i, root in zip(loose, roots.tolist())}
        return splits, int((roots != np.arange(len(roots))).sum())

    def _one_split(self, keys: Iterable[tuple[int, str]], what: Callable[[str], str]) -> None:
        """Of pictures with one key in several splits, those of one split stay; see `_KEEPS`."""
        alike: dict[str, list[int]] = defaultdict(list)
        for i, key in keys:
            # "testall" holds "test" by construction (VSE++'s files of COCO).
            if self.pairs.pictures[i].split != "testall" and i not in self.problems.without_split:
                alike[key].append(i)
        for key, some in alike.items():
            stays = min(some, key=lambda i: _KEEPS.get(self.pairs.pictures[i].split, 2))
            split = self.pairs.pictures[stays].split
            for i in some:
                picture = self.pairs.pictures[i]
                if picture.split != split:
                    other = self.pairs.pictures[stays].id
                    why = (
                        f"{what(key)} is in {picture.split} ('{picture.id}') and in {split} ('{other}'), which keeps it"
                    )
                    self._picture_out(i, "leak", why)

    def _left(self) -> list[tuple[int, Picture]]:
        return [(i, picture) for i, picture in enumerate(self.pairs.pictures) if i not in self.pictures_out]

    def _picture_out(self, i: int, kind: str, what: str) -> None:
        self.pictures_out.add(i)
        self._out(kind, what, self.problems.picture_places[i])

    def _out(self, kind: str, what: str, at: Place, severity: Severity = "error") -> None:
        """Raises it when the problems are strict."""
        self.problems.add(kind, what, at, remedy=_REMEDY, severity=severity)
        self.skipped.append(SetAside(self.problems[-1], "left out"))

    def misread(self, left: int) -> UserError:
        kinds = Counter(item.problem.kind for item in self.skipped if item.done == "left out")
        listed = ", ".join(f"{count} × {kind}" for kind, count in kinds.most_common())
        worst = kinds.most_common(1)[0][0]
        example = next(problem for problem in self.problems if problem.kind == worst)
        return UserError(
            f"only {left} of {len(self.pairs.captions)} captions can be used: {listed}; for example, {example.what}",
            file=example.at.file,
            line=example.at.line,
            remedy=f"{example.remedy or ''} All problems at once: vse data check".strip(),
        )


def _entry(at: Place) -> tuple[object, ...]:
    """The row or entry a place is in."""
    return (at.file, at.line) if at.line else (at.file, (at.field or "").partition("]")[0])
