"""Many pictures as one ZIP file, written while it is sent: nothing of it is kept, on disk or in memory."""

from __future__ import annotations

import io
import zipfile
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from typing import Annotated

from fastapi import FastAPI, Form
from fastapi.responses import Response, StreamingResponse

from vsekit.search.items import Item
from vsekit.serve import pictures, shapes
from vsekit.serve.decoders import Decoders
from vsekit.serve.description import problems
from vsekit.serve.engine import Engine
from vsekit.serve.items import known_item
from vsekit.serve.limits import Limits
from vsekit.serve.problems import ProblemError

PIECE = 2**20
MISSING = "not-here.txt"


class _Sink(io.RawIOBase):
    """What was written since it was last taken. It can't be gone back in, so sizes follow the files."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, part: object) -> int:
        self._parts.append(bytes(part))  # type: ignore[call-overload]
        return len(self._parts[-1])

    def take(self) -> bytes:
        taken, self._parts = b"".join(self._parts), []
        return taken


def add_archive(app: FastAPI, engine: Engine, limits: Limits, decoders: Decoders) -> None:
    @app.post(
        "/api/archive",
        operation_id="archive",
        tags=["items"],
        response_class=Response,
        responses={200: {"content": {"application/zip": {}}, "description": "A ZIP."}, **problems(404, 413, 422)},
        summary="The files of pictures as one ZIP; a form, so that browsers save it as it comes",
    )
    async def archive(ids: Annotated[str, Form(min_length=1, description="With commas between them.")]) -> Response:
        wanted = [id for id in dict.fromkeys(ids.split(",")) if id]
        if not wanted or len(wanted) > limits.archive_pictures:
            most = f"at least 1 and at most {limits.archive_pictures:,}"
            raise ProblemError(413 if wanted else 422, f"an archive holds {most} pictures", "Choose fewer.")
        items = await engine.read(lambda: [known_item(engine, id) for id in wanted])
        size = sum(item.size for item in items)
        if size > limits.archive_bytes:
            raise ProblemError(
                413, f"these files have {size:,} bytes, more than {limits.archive_bytes:,}", "Choose fewer."
            )
        name = f"pictures-{datetime.now():%Y-%m-%d}.zip"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return StreamingResponse(_sent(engine, items, decoders), media_type="application/zip", headers=headers)


async def _sent(engine: Engine, items: list[Item], decoders: Decoders) -> AsyncIterator[bytes]:
    pieces = written(engine, items, decoders)
    while (piece := await engine.show(next, pieces, None)) is not None:
        if piece:
            yield piece


def written(engine: Engine, items: list[Item], decoders: Decoders) -> Iterator[bytes]:
    """The archive, in pieces. Pictures are not compressed: they are already. What can't be read is named in `MISSING`."""
    sink, missing, names = _Sink(), [], set[str]()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as archive:
        for item in items:
            name = inside(item, names)
            try:
                file = pictures.as_indexed(pictures.open_indexed(item, engine.roots), decoders)
            except ProblemError as problem:
                missing.append(f"{name}: {problem.detail}\n")
                continue
            with file, archive.open(zipfile.ZipInfo(name, _time(item)), "w", force_zip64=True) as entry:
                while piece := file.read(PIECE):
                    entry.write(piece)
                    yield sink.take()
            yield sink.take()
        if missing:
            archive.writestr(MISSING, "".join(missing))
    yield sink.take()


def inside(item: Item, names: set[str]) -> str:
    """A name in the archive that leads nowhere else and that no other has; added to `names`."""
    folder = str(item.meta.get("folder", "")).replace("\\", "/").split("/")
    parts = [part for part in [*folder, shapes.name_of(item)] if part.strip(". ") and "\0" not in part]
    name = "/".join(parts) or item.id
    stem, dot, ending = name.rpartition(".")
    number = 1
    while name.casefold() in names:
        number += 1
        name = f"{stem}-{number}{dot}{ending}" if dot else f"{ending}-{number}"
    names.add(name.casefold())
    return name


def _time(item: Item) -> tuple[int, int, int, int, int, int]:
    """ZIP knows the years from 1980 to 2107."""
    try:
        at = datetime.fromisoformat(str(item.meta["dated"]))
    except (KeyError, ValueError):
        at = datetime(1980, 1, 1)
    return (min(2107, max(1980, at.year)), at.month, at.day, at.hour, at.minute, at.second)
