"""Items over HTTP: what is known of one, its thumbnail, its picture, its file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any, BinaryIO
from urllib.parse import quote

from fastapi import FastAPI, Query, Request
from fastapi.responses import Response, StreamingResponse
from pydantic_core import to_json

from vsekit.search.items import Item
from vsekit.serve import pictures, shapes
from vsekit.serve.decoders import Decoders
from vsekit.serve.description import problems
from vsekit.serve.engine import Engine
from vsekit.serve.limits import Limits
from vsekit.serve.problems import ProblemError
from vsekit.serve.schemas import ItemOut
from vsekit.serve.static import cached

LATER = "private, max-age=31536000, immutable"
#: What may go wrong with a picture that is shown.
_SHOWN = problems(403, 404, 413, 415, 422)


def add_items(app: FastAPI, engine: Engine, limits: Limits, decoders: Decoders) -> None:
    thumbnails = pictures.Thumbnails(limits.thumbnail_bytes, decoders)

    @app.get(
        "/api/items/{id}", operation_id="item", tags=["items"], response_model=ItemOut, responses=problems(404, 422),
        summary="An item, with its captions",
    )  # fmt: skip
    async def item(id: str) -> Response:
        return json_answer(await engine.read(lambda: shapes.detail(engine.searcher.store, known_item(engine, id))))

    @app.get(
        "/api/items/{id}/thumbnail",
        operation_id="thumbnail",
        tags=["items"],
        response_class=Response,
        responses={200: {"content": {"image/jpeg": {}}, "description": "A JPEG."}, **_SHOWN},
        summary="A small upright picture",
    )
    async def thumbnail(
        request: Request,
        id: str,
        size: Annotated[int, Query(ge=1, le=1024, description="Of the longer side, in pixels.")] = 256,
        v: Annotated[str, Query(description="As in the address that hits carry: lets browsers keep it.")] = "",
    ) -> Response:
        def make() -> tuple[dict[str, str], bytes]:
            opened = open_item(engine, id)
            return _cache_headers(opened, v, f"{size}"), thumbnails.get(opened, size)

        headers, made = await engine.show(make)
        return cached(request, headers) or Response(made, media_type="image/jpeg", headers=headers)

    @app.get(
        "/api/items/{id}/picture",
        operation_id="picture",
        tags=["items"],
        response_class=Response,
        responses={200: {"content": {"image/*": {}}, "description": "The picture."}, **_SHOWN},
        summary="The picture's file; as JPEG where browsers can't show it",
    )
    async def picture(request: Request, id: str, v: str = "") -> Response:
        def make() -> tuple[dict[str, str], BinaryIO | bytes, str]:
            opened = open_item(engine, id)
            return _cache_headers(opened, v, "picture"), *pictures.for_browser(opened.file, decoders)

        headers, content, media_type = await engine.show(make)
        if isinstance(content, bytes):
            return cached(request, headers) or Response(content, media_type=media_type, headers=headers)
        if (known := cached(request, headers)) is not None:
            content.close()
            return known
        return StreamingResponse(pieces(engine, content), media_type=media_type, headers=headers)

    @app.get(
        "/api/items/{id}/file",
        operation_id="file",
        tags=["items"],
        response_class=Response,
        responses={200: {"content": {"application/octet-stream": {}}, "description": "The file."}, **_SHOWN},
        summary="The picture's file as it lies there, to be saved",
    )
    async def file(id: str) -> Response:
        def make() -> tuple[BinaryIO, str]:
            opened, name = open_item(engine, id), shapes.name_of(known_item(engine, id))
            return pictures.as_indexed(opened, decoders), name

        content, name = await engine.show(make)
        saved = f"attachment; filename*=UTF-8''{quote(name, safe='')}"
        return StreamingResponse(
            pieces(engine, content), media_type="application/octet-stream", headers={"Content-Disposition": saved}
        )


def known_item(engine: Engine, id: str) -> Item:
    try:
        return engine.searcher.store.items([id])[0]
    except KeyError:
        raise ProblemError(404, "there is no such item", "Ids are in the answers of a search.") from None


def open_item(engine: Engine, id: str) -> pictures.Opened:
    item = known_item(engine, id)
    if item.kind == "caption":
        item = known_item(engine, item.picture)
    return pictures.open_indexed(item, engine.roots)


def _cache_headers(opened: pictures.Opened, v: str, what: str) -> dict[str, str]:
    """For ever at the address that names the content; else to be asked for again."""
    return {
        "ETag": f'"{opened.version}-{what}"',
        "Cache-Control": LATER if opened.fixed and v == opened.version else "private, no-cache",
    }


async def pieces(engine: Engine, file: BinaryIO) -> AsyncIterator[bytes]:
    with file:
        while piece := await engine.read(file.read, 1 << 20):
            yield piece


def json_answer(value: Any, status: int = 200) -> Response:
    return Response(to_json(value), status, media_type="application/json")
