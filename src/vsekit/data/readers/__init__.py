"""Readers: every common format of image–caption collections, turned into `Pairs`.

`read(path)` finds out the format from what is there. Adding a format is one file with a `READER`, and one line here.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping
from pathlib import Path

from vsekit.data.pairs import Pairs
from vsekit.data.readers import coco, cuhk_pedes, folder, karpathy, precomputed, table, webdataset
from vsekit.data.readers.base import Options, Reader
from vsekit.data.readers.problems import Problems
from vsekit.errors import UserError, nearest
from vsekit.outside import from_outside, offered, trusting

__all__ = ["FORMATS", "detect", "read"]

#: By name, in order of precedence: a file that an earlier format claims is not offered to a later one.
FORMATS: dict[str, Reader] = {
    reader.name: reader
    for reader in (
        karpathy.READER,
        coco.READER,
        cuhk_pedes.READER,
        precomputed.READER,
        webdataset.READER,
        table.READER,
        folder.READER,
    )
}


def read(
    path: Path | str,
    *,
    format: str | None = None,
    restval: bool = False,
    columns: Mapping[str, str] | None = None,
    images: Path | str | None = None,
) -> Pairs:
    """Reads a collection; the first mistake in it raises a `UserError` with file, line and field.

    Args:
        path: a file (.json, .csv, .tsv, .jsonl, .parquet, .tar, _ims.npy), or a folder that holds some.
        format: one of `FORMATS`, when what is there does not tell.
        restval: count Karpathy's "restval" as "train".
        columns: of a table, {"image": …, "caption": …, "split": …, "group": …} to the names of its columns.
        images: the folder of the pictures, when it is not in a usual place beside the annotations.

    The pictures themselves are not opened; `vsekit.data.check.check` does that.
    """
    options = Options(restval, columns or {}, Path(images) if images else None)
    reader, files = detect(Path(path), options, format)
    # Hundreds of thousands of new objects and no garbage among them: walking them again and again doubles the time.
    collecting = gc.isenabled()
    gc.disable()
    try:
        return reader.read(Path(path), files, options, Problems())
    finally:
        if collecting:
            gc.enable()


def detect(path: Path, options: Options | None = None, format: str | None = None) -> tuple[Reader, list[Path]]:
    """The format of `path` and its files. Raises UserError when there is none, or more than one."""
    options = options or Options()
    if not path.exists():
        raise UserError("there is no such file or folder", file=path)
    if options.images and not options.images.is_dir():
        raise UserError("there is no such folder", file=options.images, remedy="It should hold the pictures.")
    readers = [_reader(format)] if format else list(FORMATS.values())
    found: list[tuple[Reader, list[Path]]] = []
    for reader in readers:
        # Loose text files decide only where nothing says more.
        files = [] if found and reader is folder.READER else reader.find(path, options)
        if files and not any(set(files) <= set(claimed) for _, claimed in found):
            found.append((reader, files))
    if not found:
        raise UserError(
            f"no collection found here{f' in the format {format}' if format else ''}",
            file=path,
            remedy="Looked for:\n" + "\n".join(f"    {r.name:<12} {r.looks_for}" for r in readers),
        )
    if len(found) > 1:
        listing = "; ".join(f"{reader.name} ({', '.join(f.name for f in files[:3])})" for reader, files in found)
        raise UserError(
            f"more than one collection here: {listing}", file=path, remedy="Choose one with --format, or name the file."
        )
    reader, files = found[0]
    if reader.single and len(files) > 1:
        names = ", ".join(file.name for file in files)
        raise UserError(f"more than one {reader.name} file here: {names}", file=path, remedy="Name the file itself.")
    return reader, files


def _reader(format: str) -> Reader:
    """The reader a person named: one of `FORMATS`, `module:READER` or an installed entry point of vsekit.readers."""
    if format in FORMATS:
        return FORMATS[format]
    with trusting():
        reader = from_outside(format, "readers")
    if reader is None:
        names = [*FORMATS, *offered("readers")]
        what = f"no format '{format}'{nearest(format, names)}"
        raise UserError(what, field="format", remedy=f"There are: {', '.join(names)}; or name one as module:READER.")
    if not isinstance(reader, Reader):
        raise UserError(
            f"'{format}' is no reader", field="format", remedy="It should be a vsekit.data.readers.base.Reader."
        )
    return reader
