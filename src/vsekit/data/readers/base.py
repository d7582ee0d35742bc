"""What all readers share: options, the shape of a reader, names of splits, and reading text and JSON."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vsekit.data.pairs import Pairs
from vsekit.data.readers.encodings import decoded
from vsekit.data.readers.problems import Place, Problems
from vsekit.errors import UserError

IMAGE_SUFFIXES = frozenset(
    {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".heic", ".heif", ".avif"}
)

_SPLIT_NAMES = {"training": "train", "dev": "val", "valid": "val", "validation": "val"}


@dataclass(frozen=True)
class Options:
    """What a person may say about a collection.

    restval: count Karpathy's split "restval" as "train", as the papers do on COCO.
    columns: role (image, caption, split, group) to the table's column.
    images: the folder the pictures' names are relative to.
    """

    restval: bool = False
    columns: Mapping[str, str] = field(default_factory=dict)
    images: Path | None = None


@dataclass(frozen=True)
class Reader:
    """One format.

    name: what `--format` calls it.
    looks_for: what makes a path this format, in words.
    find: (path, options) → the files of this format at `path`; empty when it is another format.
    read: (path, files, options, problems) → the collection.
    single: the format is one file; several in a folder are ambiguous.
    """

    name: str
    looks_for: str
    find: Callable[[Path, Options], list[Path]]
    read: Callable[[Path, list[Path], Options, Problems], Pairs]
    single: bool = False


def hash_split(group: str) -> str:
    """The split of a group when the collection names none: 80 % train, 10 % val, 10 % test, by a hash of its name.

    It depends on nothing else, so it stays when pictures are added or the order changes.
    """
    tenth = int.from_bytes(hashlib.sha256(group.encode()).digest()[:8], "big") % 10
    return "val" if tenth == 8 else "test" if tenth == 9 else "train"


def split_name(name: str) -> str:
    """The usual name of a split: dev, valid and validation are val, training is train."""
    return _SPLIT_NAMES.get(name.lower(), name)


def split_in(name: str) -> str | None:
    """The split a file's name tells.

    >>> split_in("captions_val2014"), split_in("train-000012"), split_in("trainers")
    ('val', 'train', None)
    """
    found = re.search(
        r"(?<![a-z])(train|training|restval|val|valid|validation|dev|test|testall)(?![a-z])", name.lower()
    )
    return split_name(found[1]) if found else None


def files_in(path: Path, *endings: str, below: Iterable[str] = ("annotations",)) -> list[Path]:
    """`path` itself, or the files in it and in these folders below it, whose names end so."""
    if path.is_file():
        return [path] if path.name.lower().endswith(endings) else []
    # Names, not Paths: the folder may hold 100,000 pictures.
    folders = [path, *(path / name for name in sorted(below) if (path / name).is_dir())]
    names = ((folder, name) for folder in folders for name in sorted(os.listdir(folder)))
    return [folder / name for folder, name in names if name.lower().endswith(endings) and not name.startswith(".")]


def sniff(path: Path, size: int = 1 << 16) -> str:
    """The beginning and the end of a file, enough to tell one big JSON from another without parsing it."""
    with path.open("rb") as file:
        head = file.read(size)
        file.seek(max(file.tell(), path.stat().st_size - size))
        return (head + file.read()).decode("utf-8-sig", errors="replace").lstrip()


def read_text(path: Path, problems: Problems) -> str:
    text, foreign = decoded(path.read_bytes())
    for line, byte, encoding in foreign:
        problems.add(
            "encoding",
            f"the byte 0x{byte:02x} is not UTF-8 but {encoding}",
            Place(path, line),
            remedy=f"Convert the file, for example: iconv -f {encoding} -t utf-8 '{path.name}' > utf8-{path.name}",
        )
    return text


def read_lines(path: Path, problems: Problems) -> list[str]:
    """The lines without their ends; blank lines at the end of the file don't count."""
    # str.splitlines also breaks at U+2028, form feeds and the like, which may stand in captions.
    return [line.strip() for line in read_text(path, problems).rstrip().split("\n")]


_NO_ANNOTATIONS = "No collection's annotations look so; was the file garbled, or made to do harm? Fetch it again."


def parse_json(text: str, at: Place) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(
            f"this is not valid JSON: {error.msg} (column {error.colno})",
            file=at.file,
            line=(at.line or 1) + error.lineno - 1,
            field=at.field,
            remedy="Mend it there, or fetch it again if it was cut off.",
        ) from None
    except RecursionError:
        raise UserError("this JSON is nested too deeply to be read", **at._asdict(), remedy=_NO_ANNOTATIONS) from None
    except ValueError:  # the one other that json raises
        raise UserError("a whole number here has thousands of digits", **at._asdict(), remedy=_NO_ANNOTATIONS) from None


def one_or_more(value: Any) -> Iterator[tuple[str, Any]]:
    """A text, or each of a list of texts with the index that ends its field's name."""
    if isinstance(value, list | tuple):
        yield from ((f"[{i}]", v) for i, v in enumerate(value))
    else:
        yield "", value


def expect(entry: Any, key: str, types: type | tuple[type, ...], at: Place, problems: Problems) -> Any:
    """`entry[key]` if it is there and of the right type; else None, and a problem."""
    value = entry.get(key) if isinstance(entry, dict) else None
    if isinstance(value, types):
        return value
    wanted = " or ".join(_TYPE_NAMES[t] for t in (types if isinstance(types, tuple) else (types,)))
    if not isinstance(entry, dict):
        what, place = f"expected an object, found {shown(entry)}", at
    else:
        what = f"'{key}' is missing" if key not in entry else f"'{key}' is {shown(value)}"
        place = at._replace(field=f"{at.field}.{key}" if at.field else key)
    problems.add("bad-field", what, place, remedy=f"It must hold '{key}': {wanted}.")
    return None


_TYPE_NAMES: dict[Any, str] = {str: "a text", int: "a whole number", list: "a list"}


def shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
