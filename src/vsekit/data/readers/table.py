"""A table with a column for the picture and one for the caption: CSV, TSV, JSONL, Parquet, or a JSON list of objects.

    image,caption,split,camera
    a/1.jpg,A dog runs.,train,Leica

Several rows may name the same picture, and a caption cell may hold a list (not in CSV). Further columns become `meta`:
of the captions when they differ within a picture, else of the picture. Without a split column the file's name tells the
split (train.csv), or a hash of the group.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from vsekit.data.pairs import Pairs
from vsekit.data.readers.base import Options, Reader, files_in, one_or_more, parse_json, read_text, sniff, split_in
from vsekit.data.readers.build import Builder, Images
from vsekit.data.readers.problems import Place, Problems
from vsekit.errors import UserError, missing_extra, nearest

#: The column of each role, if `Options.columns` doesn't say; the first that is there.
ROLES = {
    "image": ("image", "filepath", "file_path", "file_name", "filename", "image_path", "path"),
    "caption": ("caption", "captions", "text", "title", "sentence"),
    "split": ("split",),
    "group": ("group", "person_id", "id"),
}
_SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet", ".json")

Row = tuple[Place, dict[str, Any]]


def find(path: Path, options: Options) -> list[Path]:
    files = files_in(path, *_SUFFIXES)
    if path.is_file() and path.suffix.lower() != ".json":
        return files
    return [file for file in files if _fits(file, options)]


def _fits(file: Path, options: Options) -> bool:
    """Whether a file found in a folder has columns for picture and caption."""
    suffix = file.suffix.lower()
    if suffix == ".parquet":
        try:
            names = set(_parquet(file, lambda table: table.schema_arrow.names))
        except UserError:
            return True  # Reading it will say why it can't be read.
    else:
        head = sniff(file)
        if suffix == ".json" and not head.startswith("["):
            return False
        words = head if suffix in (".json", ".jsonl") else head.partition("\n")[0]
        names = {word.strip() for word in re.split(r'[",;\t|]', words)}
    wanted = ([options.columns[role]] if role in options.columns else ROLES[role] for role in ("image", "caption"))
    return all(names.intersection(columns) for columns in wanted)


def read(path: Path, files: list[Path], options: Options, problems: Problems) -> Pairs:
    builder = Builder(path, options, problems)
    for file in files:
        with problems.catching():
            rows = list(_rows(file, problems))
            if not rows:
                raise UserError("the table has no rows", file=file)
            columns = _columns(file, {name for _, row in rows for name in row}, options)
            varying = _varying(rows, columns["image"])
            if columns.get("group") == "id" and "group" not in options.columns and "id" in varying:
                del columns["group"]  # It numbers the captions.
            images = Images(file, options, problems)
            for at, row in rows:
                _add_row(at, row, columns, varying, builder, images, problems)
    return builder.pairs()


def _columns(file: Path, names: set[str], options: Options) -> dict[str, str]:
    """The column of each role."""
    for role, name in options.columns.items():
        if role not in ROLES:
            raise UserError(
                f"no role '{role}' for a column{nearest(role, ROLES)}",
                field="columns",
                remedy=f"Roles: {', '.join(ROLES)}.",
            )
        if name not in names:
            raise UserError(
                f"no column '{name}'{nearest(name, names)}", file=file, remedy=f"It has: {', '.join(sorted(names))}."
            )
    columns = dict(options.columns)
    for role, usual in ROLES.items():
        left = [name for name in usual if name in names and name not in columns.values()]
        if role not in columns and left:
            columns[role] = left[0]
        if role in ("image", "caption") and role not in columns:
            raise UserError(
                f"no column for the {role}; there are {', '.join(sorted(names))}",
                file=file,
                remedy=f"Call it one of {', '.join(usual)}, or name it: --columns {role}=COLUMN",
            )
    return columns


def _varying(rows: list[Row], image: str) -> set[str]:
    """The columns that differ between rows of one picture."""
    first: dict[str, dict[str, Any]] = {}
    varying: set[str] = set()
    for _, row in rows:
        before = first.setdefault(str(row.get(image)), row)
        if before is not row:
            varying.update(name for name in row if row[name] != before.get(name))
    return varying


def _add_row(
    at: Place,
    row: dict[str, Any],
    columns: dict[str, str],
    varying: set[str],
    builder: Builder,
    images: Images,
    problems: Problems,
) -> None:
    def place(name: str) -> Place:
        return at._replace(field=f"{at.field}.{name}" if at.field else name)

    name = row.get(columns["image"])
    if not isinstance(name, str) or not name:
        what = "the image is not a file's name" if name else "the image is empty"
        problems.add("bad-field", what, place(columns["image"]), remedy="Write the path of an image file.")
        return
    given: dict[str, str | None] = {"split": split_in(Path(at.file or "").stem), "group": None}
    for role in (role for role in given if role in columns):
        value = row.get(columns[role])
        if value is None or value == "":
            problems.add("bad-field", f"the {role} is empty", place(columns[role]), remedy="Fill it in for all rows.")
            return
        given[role] = str(value)
    more = {column: value for column, value in row.items() if column not in columns.values()}
    named = place(columns["image"])
    picture = builder.picture(
        name,
        images(name, named),
        named,
        again=True,
        meta={column: value for column, value in more.items() if column not in varying},
        **given,
    )
    own = {column: value for column, value in more.items() if column in varying}
    for index, text in one_or_more(row.get(columns["caption"])):
        builder.caption(text, picture, place(columns["caption"] + index), own)


def _rows(file: Path, problems: Problems) -> Iterator[Row]:
    match file.suffix.lower():
        case ".parquet":
            for i, row in enumerate(_parquet(file, lambda table: table.read().to_pylist())):
                yield Place(file, field=f"[{i}]"), row
        case ".json":
            for i, entry in enumerate(parse_json(read_text(file, problems), Place(file))):
                yield from _object(entry, Place(file, field=f"[{i}]"), problems)
        case ".jsonl":
            for i, line in enumerate(read_text(file, problems).split("\n"), start=1):
                if line.strip():
                    with problems.catching("bad-row"):
                        yield from _object(parse_json(line, Place(file, i)), Place(file, i), problems)
        case suffix:
            yield from _csv_rows(file, "\t" if suffix == ".tsv" else None, problems)


def _object(entry: Any, at: Place, problems: Problems) -> Iterator[Row]:
    if isinstance(entry, dict):
        yield at, entry
    else:
        problems.add("bad-field", "this is not an object", at, remedy='Write {"image": …, "caption": …}.')


def _csv_rows(file: Path, delimiter: str | None, problems: Problems) -> Iterator[Row]:
    text = read_text(file, problems)
    head = text.partition("\n")[0]
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter or max(",;\t|", key=head.count), strict=True)
    line = 0
    try:
        names = [name.strip() for name in next(rows, [])]
        line = rows.line_num
        if len(set(names)) < len(names):
            raise UserError("two columns have the same name", file=file, line=1, remedy="Rename or remove one.")
        for cells in rows:
            at, line = Place(file, line + 1), rows.line_num
            if len(cells) == len(names):
                yield at, {name: cell.strip() for name, cell in zip(names, cells)}
            elif cells:
                problems.add(
                    "bad-row",
                    f"{len(cells)} cells, but the header has {len(names)}",
                    at,
                    remedy='A cell that contains the separator stands in "quotes".',
                )
    except csv.Error as error:
        problems.add("unreadable", f"this is not CSV: {error}", Place(file, line + 1), remedy="Close every quote.")


def _parquet(file: Path, look: Callable[[Any], list[Any]]) -> list[Any]:
    """What `look` finds in the opened file."""
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise missing_extra("pyarrow", "tables") from None
    try:
        return look(parquet.ParquetFile(file))
    except (ArrowException, OSError, ValueError) as error:
        raise UserError(f"this is not a whole Parquet file: {error}", file=file, remedy="Write it again.") from None


READER = Reader("table", "a .csv, .tsv, .jsonl, .parquet or list in .json with columns image and caption", find, read)
