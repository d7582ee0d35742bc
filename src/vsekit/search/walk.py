"""What should be in an index: the pictures below a folder, or those of a collection, with their captions.

Nothing is opened here. How a picture is named is said in `vsekit.search.pictures`.
"""

from __future__ import annotations

import math
import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from vsekit.data.clean import read_to_search
from vsekit.data.pairs import Pairs, Picture
from vsekit.data.readers import FORMATS
from vsekit.data.readers.base import IMAGE_SUFFIXES, Options
from vsekit.errors import UserError
from vsekit.search.items import Value

_NUMBER = re.compile(r"-?(0|[1-9]\d{0,14})(\.\d+)?")


class Sentence(NamedTuple):
    """A caption and its metadata."""

    text: str
    meta: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Seen:
    """A picture as it lies there now.

    folder: where it lies below the root, the root's own name included: what a person would say.
    meta: the collection's columns.
    captions: None where nothing is known of captions, which leaves those of the index as they are.
    """

    path: str
    size: int
    mtime_ns: int
    folder: str
    meta: Mapping[str, Value] = field(default_factory=dict)
    captions: tuple[Sentence, ...] | None = None


@dataclass
class Source:
    """The pictures of a folder or of a collection.

    root: absolute. collection: the name of its format; None for a folder that was walked.
    folders: where the pictures lie.
    unreadable: folders that could not be listed, with the reason; what the index knows of them is left alone.
    missing: pictures of a collection that are not there, with the reason.
    how: what `source_of` was given, by name, so that it can be looked at again; None for what was read in Python.
    moving: pictures that are being written or moved just now; what the index knows of them is left alone.
    deleted: pictures that somebody was seen to delete, even where their whole folder went with them.
    notes: what of a collection was set aside, for people.
    listed: the folders that were walked, each with those in it. linked: whether links led to some of them.
    """

    root: str
    collection: str | None = None
    folders: list[str] = field(default_factory=list)
    pictures: list[Seen] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    how: dict[str, Any] | None = None
    moving: frozenset[str] = frozenset()
    deleted: frozenset[str] = frozenset()
    notes: list[str] = field(default_factory=list)
    listed: dict[str, frozenset[str]] = field(default_factory=dict, repr=False)
    linked: bool = False

    def holds(self, path: str, collection: Value | None) -> bool:
        """Whether an item of the index came from here, so that it must go when it is here no more."""
        if path in self.moving:
            return False
        if self.collection is not None:
            return collection == self.root
        return _below(path, self.root) and not any(_below(path, folder) for folder in self.unreadable)


def walk(root: Path | str) -> Source:
    """The pictures below a folder at any depth, in alphabetical order, by their names' endings.

    Names that start with a dot are skipped. Links are followed, every folder is visited once, by its own path where it has
    one below the root; so links in a circle do no harm.
    """
    top = os.path.abspath(root)
    try:
        if not stat.S_ISDIR(os.stat(top).st_mode):
            raise UserError("this is a file, not a folder", file=root)
    except FileNotFoundError:
        raise UserError(f"no such folder: {root}") from None
    except OSError as error:
        raise UserError(f"can't look into this folder: {error.strerror}", file=root) from None
    source = Source(_slashed(top), folders=[_slashed(top)])
    visited: set[tuple[int, int]] = set()
    links: list[str] = []
    waiting = [top]
    while waiting or links:
        # Links last: a folder that also lies below the root is better known by its own path.
        folder = waiting.pop() if waiting else links.pop(0)
        try:
            status = os.stat(folder)
            if (status.st_dev, status.st_ino) in visited:
                continue
            visited.add((status.st_dev, status.st_ino))
            folders, led = _list(source, folder)
        except OSError as error:
            source.unreadable[folder] = error.strerror or str(error)
            continue
        links += led
        waiting += reversed(folders)
    return source


def _list(source: Source, folder: str) -> tuple[list[str], list[str]]:
    """Adds what lies in a folder to `source`, and gives the folders in it: its own, and those that links lead to."""
    with os.scandir(folder) as listing:
        entries = sorted((entry for entry in listing if not entry.name.startswith(".")), key=lambda e: e.name)
    below = os.path.relpath(folder, os.path.dirname(source.root)).replace(os.sep, "/")
    folders: list[str] = []
    links: list[str] = []
    for entry in entries:
        try:
            if entry.is_dir():
                (links if entry.is_symlink() else folders).append(entry.path)
            elif os.path.splitext(entry.name)[1].lower() in IMAGE_SUFFIXES:
                entry.path.encode()
                status = entry.stat()
                if stat.S_ISREG(status.st_mode):
                    source.pictures.append(Seen(_slashed(entry.path), status.st_size, status.st_mtime_ns, below))
        except OSError as error:  # gone since, or a link to nowhere
            source.missing[_slashed(entry.path)] = error.strerror or str(error)
        except UnicodeEncodeError:
            source.missing[entry.path.encode(errors="replace").decode()] = "its name is not UTF-8"
    source.listed[_slashed(folder)] = frozenset(map(_slashed, folders))
    source.linked |= bool(links)
    return folders, links


def relisted(source: Source, folders: Iterable[str]) -> Source | None:
    """A folder that was walked, as it is now where only what lies in `folders` changed: these are listed anew, all else is as it
    was. None where a whole walk must tell: a folder came or went, is not known or can't be read, or links lead to some."""
    folders = set(folders)
    if source.collection is not None or source.linked or not folders <= source.listed.keys():
        return None
    if not folders:
        return source
    kept = [picture for picture in source.pictures if picture.path.rpartition("/")[0] not in folders]
    missing = {path: why for path, why in source.missing.items() if path.rpartition("/")[0] not in folders}
    now = replace(source, pictures=kept, missing=missing, listed=dict(source.listed))
    try:
        for folder in sorted(folders):
            _list(now, folder)
    except OSError:
        return None
    if now.linked or any(now.listed[folder] != source.listed[folder] for folder in folders):
        return None
    return now


def away(path: str) -> tuple[str, str] | None:
    """Whether a picture that is there no more went with its whole folder, which is most likely a drive that is not mounted or
    a link that leads nowhere: that folder, and what is wrong with it. None where its folder has other things in it."""
    folder = os.path.dirname(path)
    if os.path.isdir(folder):
        return (folder, "empty now") if _is_empty(folder) else None
    while not os.path.exists(os.path.dirname(folder)):
        folder = os.path.dirname(folder)
    above = os.path.dirname(folder)
    return (above, "empty now") if _is_empty(above) else (folder, "not there now")


def _is_empty(folder: str) -> bool:
    try:
        with os.scandir(folder) as listing:
            return not any(listing)
    except OSError:  # what can't be listed is told elsewhere
        return False


def source_of(
    path: Path | str,
    *,
    format: str | None = None,
    images: Path | None = None,
    columns: Mapping[str, str] | None = None,
) -> Source:
    """A folder of pictures, or a collection: a file is one, and a folder with annotations in it is, too.

    Args:
        format: that of a collection; "photos" walks the folder whatever is in it. Texts beside pictures count as captions
            with "folder" only: anybody may keep notes beside photographs.
        images, columns: of a collection, see `vsekit.data.readers.read`.
    """
    path = Path(path)
    if not path.exists():
        raise UserError(f"no such folder or collection: {path}")
    how: dict[str, Any] = {
        "path": os.path.abspath(path),
        "format": format,
        "columns": dict(columns) if columns else None,
    }
    how["images"] = None if images is None else os.path.abspath(images)
    if format is None and path.is_dir() and not columns:
        found = [name for name, reader in FORMATS.items() if name != "folder" and reader.find(path, Options())]
        format = "photos" if not found else None
    if format == "photos":
        source = walk(path)
        source.how = {"path": how["path"], "format": format}
        return source
    read = read_to_search(path, format=format, images=images, columns=columns)
    source = collected(read.pairs, format)
    source.how, source.notes = how, read.lines()
    if source.missing and not source.pictures:
        raise UserError(
            f"none of the {len(source.missing)} pictures of this collection is there, the first is {next(iter(source.missing))}",
            file=path,
            remedy="Put them there, or name their folder with --images. All problems at once: vse data check",
        )
    return source


def again(source: Source) -> Source:
    """The same folder or collection as it is now. UserError where it is not there, or can't be read."""
    if source.how is None:
        raise UserError(
            "what was read in Python can't be looked at again", file=source.root, remedy="Give the collection's path."
        )
    return source_of(**source.how)


def collected(pairs: Pairs, format: str | None = None) -> Source:
    """The pictures of a collection with their captions and columns. Numbers in columns of text (CSV) become numbers."""
    source = Source(_slashed(os.path.abspath(pairs.root)), collection=format or "")
    captions: list[list[Sentence]] = [[] for _ in pairs.pictures]
    convert = _columns(caption.meta for caption in pairs.captions)
    for caption in pairs.captions:
        captions[caption.picture].append(Sentence(caption.text, convert(caption.meta)))
    convert = _columns(picture.meta for picture in pairs.pictures)
    for picture, sentences in zip(pairs.pictures, captions):
        path = _path(picture)
        try:
            status = os.stat(picture.path)  # type: ignore[arg-type]
        except OSError as error:
            source.missing[path] = error.strerror or str(error)
            continue
        meta = {**convert(picture.meta), "split": picture.split, "collection": source.root}
        size = status.st_size if picture.offset is None else picture.size or 0
        folder = os.path.basename(os.path.dirname(path))
        source.pictures.append(Seen(path, size, status.st_mtime_ns, folder, meta, tuple(sentences)))
    for folder in sorted({os.path.dirname(picture.path) for picture in source.pictures}):
        if not source.folders or not _below(folder + "/", source.folders[-1]):
            source.folders.append(folder)
    return source


def _path(picture: Picture) -> str:
    if picture.path is None:
        raise UserError(
            f"picture '{picture.id}' has no image file; this collection holds features only",
            remedy="Index a collection with pictures.",
        )
    path = _slashed(os.path.abspath(picture.path))
    return path if picture.offset is None else f"{path}#{picture.offset}+{picture.size}"


def _columns(rows: Iterable[Mapping[str, Any]]) -> Any:
    """A function that makes metadata of a row: what filters can't compare is left out; a column of texts that are all
    numbers becomes numbers."""
    rows = list(rows)
    texts: dict[str, bool] = {}
    for row in rows:
        for name, value in row.items():
            if value not in (None, ""):
                texts[name] = texts.get(name, True) and isinstance(value, str) and bool(_NUMBER.fullmatch(value))

    def convert(row: Mapping[str, Any]) -> dict[str, Value]:
        kept: dict[str, Value] = {}
        for name, value in row.items():
            if texts.get(name) and value:
                value = float(value) if "." in value else int(value)
            if (isinstance(value, str | bool | int) and value != "") or (
                isinstance(value, float) and math.isfinite(value)
            ):
                kept[name] = value
        return kept

    return convert


def _below(path: str, folder: str) -> bool:
    return path.startswith(_slashed(folder).rstrip("/") + "/")


def _slashed(path: str) -> str:
    return path.replace(os.sep, "/")


def place_of(sources: Sequence[Path | str | Pairs | Source]) -> str:
    """Where the index of a single folder goes unless said: inside it; of a collection, into its folder."""
    from vsekit.search.stores.embedded import INSIDE

    if len(sources) != 1:
        raise UserError("several folders, and no place for their index", remedy="Name one, e.g. --out photos.index")
    (source,) = sources
    first = Path(source.root if isinstance(source, Source | Pairs) else source)
    return str((first.parent if first.is_file() else first) / INSIDE)
