"""What is in a collection, and everything that is wrong with it."""

from __future__ import annotations

import hashlib
import os
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from vsekit.data.decoding import PictureError, open_picture, upright, upright_size
from vsekit.data.glance import glances
from vsekit.data.pairs import Pairs, Picture
from vsekit.data.readers import detect
from vsekit.data.readers.base import Options
from vsekit.data.readers.build import report_missing
from vsekit.data.readers.problems import Place, Problem, Problems
from vsekit.progress import QUIET, Progress

TINY = 16  # pixels on the shorter side
_WORD = re.compile(r"\w+(?:['’]\w+)*")


@dataclass(frozen=True)
class Spread:
    """The smallest, the mean and the largest of some counts."""

    min: int
    mean: float
    max: int

    @classmethod
    def of(cls, counts: np.ndarray) -> Spread:
        return cls(int(counts.min()), float(counts.mean()), int(counts.max())) if len(counts) else cls(0, 0.0, 0)

    def __str__(self) -> str:
        return f"{self.min}" if self.min == self.max else f"{self.min}–{self.max}, mean {self.mean:.1f}"


@dataclass(frozen=True)
class SplitCounts:
    pictures: int
    captions: int
    groups: int
    captions_per_picture: Spread


@dataclass(frozen=True)
class Report:
    """The findings of `check`.

    vocabulary: different words, lower-cased, in all captions.
    words: words in a caption.
    problems: errors first, then warnings, then remarks.
    """

    root: Path
    format: str
    splits: dict[str, SplitCounts]
    vocabulary: int
    words: Spread
    problems: list[Problem]

    @property
    def ok(self) -> bool:
        return all(problem.severity != "error" for problem in self.problems)

    def to_dict(self) -> dict[str, Any]:
        return {
            "root": str(self.root),
            "format": self.format,
            "ok": self.ok,
            "splits": {name: asdict(counts) for name, counts in self.splits.items()},
            "vocabulary": self.vocabulary,
            "words": asdict(self.words),
            "problems": [problem.to_dict() for problem in self.problems],
        }

    def lines(self, examples: int = 3) -> list[str]:
        """The report for people: counts, then each kind of problem with its first examples."""
        out = [f"{self.root}: {self.format}"]
        for name, n in self.splits.items():
            groups = "" if n.groups == n.pictures else f", {n.groups} groups"
            each = f"{n.captions_per_picture} a picture"
            out.append(f"  {name:<8} {n.pictures} pictures, {n.captions} captions ({each}){groups}")
        out.append(f"  {self.vocabulary} different words; words a caption: {self.words}")
        kinds: dict[tuple[str, str], list[Problem]] = defaultdict(list)
        for problem in self.problems:
            kinds[problem.severity, problem.kind].append(problem)
        for (severity, kind), alike in kinds.items():
            out.append(f"{severity}: {kind}" + (f" ({len(alike)} times)" if len(alike) > 1 else ""))
            out += [f"  {problem.at}: {problem.what}" for problem in alike[:examples]]
            if len(alike) > examples:
                out.append(f"  … and {len(alike) - examples} more")
            if alike[0].remedy:
                out.append(f"  → {alike[0].remedy}")
        counts = Counter(problem.severity for problem in self.problems)
        out.append(f"{counts['error']} errors, {counts['warning']} warnings")
        return out


def check(
    path: Path | str,
    *,
    format: str | None = None,
    restval: bool = False,
    columns: Mapping[str, str] | None = None,
    images: Path | str | None = None,
    pictures: bool = True,
    workers: int = 2,
    progress: Progress = QUIET,
) -> Report:
    """Reads a collection to its end and reports everything that is wrong with it.

    Args:
        path, format, restval, columns, images: as in `vsekit.data.readers.read`.
        pictures: decode every picture; otherwise only see that the files exist.
        workers: threads that decode.
        progress: told what the text and the headers of the pictures show, before all of them are decoded.

    Raises UserError only when there is no collection at `path`.
    """
    options = Options(restval, columns or {}, Path(images) if images else None)
    path = Path(path)
    reader, files = detect(path, options, format)
    problems = Problems(strict=False)
    pairs = Pairs([], [], path)
    with problems.catching():
        pairs = reader.read(path, files, options, problems)

    _check_captions(pairs, problems)
    _check_groups(pairs, problems)
    if pictures:
        _say_first(pairs, problems, progress)
    digests = _check_pictures(pairs, problems, pictures, workers, progress)
    if pairs.features is not None:
        digests.update(_check_features(pairs, problems))
    _check_leaks(pairs, digests, problems)

    lengths = np.array([len(_WORD.findall(c.text)) for c in pairs.captions], dtype=np.int64)
    vocabulary = {word for c in pairs.captions for word in _WORD.findall(c.text.lower())}
    order = ("error", "warning", "info")
    return Report(
        path,
        reader.name,
        _counts(pairs),
        len(vocabulary),
        Spread.of(lengths),
        sorted(problems, key=lambda problem: order.index(problem.severity)),
    )


def _counts(pairs: Pairs) -> dict[str, SplitCounts]:
    each = np.bincount(pairs.caption_pictures, minlength=len(pairs.pictures))
    splits = np.array([picture.split for picture in pairs.pictures])
    counts = {}
    for name in pairs.splits:
        chosen = splits == name
        groups = len(np.unique(pairs.picture_groups[chosen]))
        counts[name] = SplitCounts(int(chosen.sum()), int(each[chosen].sum()), groups, Spread.of(each[chosen]))
    return counts


def _check_captions(pairs: Pairs, problems: Problems) -> None:
    """Captions written twice for one picture, for different groups, and in different splits."""
    groups: dict[str, set[str]] = defaultdict(set)
    splits: dict[str, set[str]] = defaultdict(set)
    seen: set[tuple[int, str]] = set()
    for caption, at in zip(pairs.captions, problems.caption_places):
        if not caption.text:
            continue
        picture = pairs.pictures[caption.picture]
        if (caption.picture, caption.text) in seen:
            what = f"the picture '{picture.id}' has the caption '{_short(caption.text)}' twice"
            problems.add("duplicate-caption", what, at, remedy="Remove one.", severity="warning")
        seen.add((caption.picture, caption.text))
        groups[caption.text].add(picture.group)
        splits[caption.text].add(picture.split)

    shared = {text: len(found) for text, found in groups.items() if len(found) > 1}
    if shared:
        worst = max(shared, key=shared.__getitem__)
        problems.add(
            "shared-caption",
            f"{len(shared)} captions stand at pictures of different groups; '{_short(worst)}' at {shared[worst]}",
            Place(pairs.root),
            remedy="In training and evaluation these are false negatives; give such pictures one group, or say more.",
            severity="warning",
        )
    common = Counter(" and ".join(sorted(found)) for found in splits.values() if len(found) > 1)
    for names, count in common.items():
        what = f"{count} captions are the same in {names}"
        problems.add("caption-in-splits", what, Place(pairs.root), severity="info")


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def _check_groups(pairs: Pairs, problems: Problems) -> None:
    first: dict[str, Picture] = {}
    for picture, at in zip(pairs.pictures, problems.picture_places):
        other = first.setdefault(picture.group, picture)
        if other.split != picture.split:
            problems.add(
                "leak",
                f"the group '{picture.group}' is in {picture.split} ('{picture.id}') and {other.split} ('{other.id}')",
                at,
                remedy="Put all pictures of a group into the same split.",
            )


def _check_pictures(
    pairs: Pairs,
    problems: Problems,
    decode: bool,
    workers: int,
    progress: Progress,
) -> dict[int, bytes]:
    """Reports missing, broken and tiny pictures. Returns a digest of the bytes of each readable picture, by index."""
    todo = [i for i, picture in enumerate(pairs.pictures) if picture.path is not None]
    reported = {problem.at for problem in problems if problem.kind == "missing-image"}
    digests: dict[int, bytes] = {}
    with (
        ThreadPoolExecutor(max(workers, 1)) as pool,
        warnings.catch_warnings(),
        progress.bar("Checking", "pictures") as bar,
    ):
        warnings.simplefilter("ignore")  # Pillow's remarks on odd but readable files
        looks = pool.map(partial(_look, decode=decode), (pairs.pictures[i] for i in todo))
        for done, (i, (digest, kind, what)) in enumerate(zip(todo, looks), start=1):
            picture, at = pairs.pictures[i], problems.picture_places[i]
            if digest is not None:
                digests[i] = digest
            if kind == "missing-image" and at not in reported and picture.path is not None:
                report_missing(problems, picture.id, at, [picture.path.parent])
            elif kind == "broken-image":
                remedy = "Fetch it again, or leave it out."
                problems.add(kind, f"the picture '{picture.id}' can't be decoded: {what}", at, remedy=remedy)
            elif kind == "tiny-image":
                remedy = "Look whether it is a thumbnail or a placeholder."
                problems.add(kind, f"the picture '{picture.id}' is {what}", at, remedy=remedy, severity="warning")
            bar(done, len(todo))
    return digests


def _say_first(pairs: Pairs, problems: Problems, progress: Progress) -> None:
    """What can be told in a second or two: decoding every picture may take minutes, and who waits may want to stop."""
    kinds = Counter(problem.kind for problem in problems if problem.severity == "error")
    if any(picture.path is not None for picture in pairs.pictures):
        bad = sum(why is not None for why in glances(pairs.pictures))
        kinds.update({"missing or broken pictures": bad} if bad else {})
    if kinds:
        listed = ", ".join(f"{count} × {kind}" for kind, count in kinds.items())
        progress.say(f"At first sight: {listed}. Now decoding every picture.")


def _look(picture: Picture, decode: bool) -> tuple[bytes | None, str | None, str]:
    """(digest of the bytes, kind of problem, what it is)."""
    if picture.path is None or not os.path.isfile(picture.path):
        return None, "missing-image", ""
    if not decode:
        return None, None, ""
    try:
        data = picture.read()
        with open_picture(data) as image:
            width, height = upright_size(image)
            upright(image)  # whole, however large
    except OSError as error:
        return None, "broken-image", error.strerror or str(error)
    except PictureError as error:
        return None, "broken-image", error.reason
    tiny = min(width, height) < TINY
    return hashlib.sha256(data).digest(), "tiny-image" if tiny else None, f"{width} × {height} pixels"


def _check_features(pairs: Pairs, problems: Problems, block_bytes: int = 1 << 26) -> Iterator[tuple[int, bytes]]:
    """Reports rows that are not finite or all zero. Yields a digest of each other row, by picture index."""
    features = pairs.features
    if features is None:
        return
    withrow = [(i, picture.row) for i, picture in enumerate(pairs.pictures) if picture.row is not None]
    step = max(1, block_bytes // max(1, int(np.prod(features.shape[1:])) * features.dtype.itemsize))
    for start in range(0, len(withrow), step):
        chosen = withrow[start : start + step]
        block = np.ascontiguousarray(features[np.array([row for _, row in chosen])]).reshape(len(chosen), -1)
        finite, filled = np.isfinite(block).all(axis=1), (block != 0).any(axis=1)
        for (i, _), row, is_finite, is_filled in zip(chosen, block, finite, filled):
            at, name = problems.picture_places[i], pairs.pictures[i].id
            if not is_finite:
                what = f"the features of '{name}' hold NaN or infinity"
                problems.add("bad-features", what, at, remedy="Extract them again.")
            elif not is_filled:
                what = f"the features of '{name}' are all zero"
                problems.add("zero-features", what, at, remedy="Extract them again.", severity="warning")
            else:
                yield i, hashlib.sha256(row.tobytes()).digest()


def _check_leaks(pairs: Pairs, digests: Mapping[int, bytes], problems: Problems) -> None:
    """The same picture (or row of features) twice: a leak between splits, else a duplicate."""
    first: dict[tuple[bytes, str | None], int] = {}
    for i, digest in sorted(digests.items()):
        picture = pairs.pictures[i]
        # "testall" holds "test" by construction (VSE++'s files of COCO), so it is looked at on its own.
        other = pairs.pictures[first.setdefault((digest, "testall" if picture.split == "testall" else None), i)]
        at = problems.picture_places[i]
        if other.split != picture.split:
            what = f"'{picture.id}' in {picture.split} is the same picture as '{other.id}' in {other.split}"
            problems.add("leak", what, at, remedy="Remove it from one of the splits.")
        elif other.group != picture.group:
            what = f"'{picture.id}' is the same picture as '{other.id}'"
            problems.add("duplicate-image", what, at, remedy="Remove one, or give both one group.", severity="warning")
