"""The HTTP API over a searcher, with the page at /. `vsekit.serve.run.serve` runs it; see docs/serve.md."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import Annotated, Any, BinaryIO, Literal

from fastapi import Body, FastAPI, File, Form, Query, Request, UploadFile
from fastapi.responses import Response, StreamingResponse
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic_core import to_json

from vsekit.data.decoding import PictureError
from vsekit.search.items import Item
from vsekit.search.models import Prepared
from vsekit.search.query import Query as Asked
from vsekit.search.query import parse
from vsekit.search.searcher import Ask, Searcher
from vsekit.serve import pictures, shapes
from vsekit.serve.decoders import Decoders
from vsekit.serve.description import describe, problems
from vsekit.serve.engine import Engine
from vsekit.serve.gate import LOG, Gate
from vsekit.serve.limits import Limits
from vsekit.serve.metrics import Metrics
from vsekit.serve.problems import ProblemError, handle_problems
from vsekit.serve.schemas import (
    TOP,
    Health,
    ItemOut,
    SearchIn,
    SearchOut,
    SessionIn,
    StatusOut,
    WhyIn,
    WhyOut,
)
from vsekit.serve.sessions import COOKIE, Sessions
from vsekit.serve.static import cached, page_routes
from vsekit.version import __version__

KindOption = Literal["image", "caption"]
STATUS_SECONDS = 5.0
LATER = "private, max-age=31536000, immutable"
SEARCH_EXAMPLES = {
    "words": {"value": {"query": "a brown dog running on sand", "top": 20}},
    "arithmetic": {"summary": "More dog, less water", "value": {"query": '"dog" - 0.5*"water"'}},
    "filter": {"value": {"query": "sunset", "filter": 'year >= 2020 and camera = "X100"'}},
}


def create_app(
    load: Callable[[], Searcher],
    *,
    limits: Limits | None = None,
    token: str | None = None,
    hosts: Collection[str] | None = None,
    log: str = "off",
    failed: Callable[[Exception], object] = lambda error: LOG.error("can't load", exc_info=error),
) -> FastAPI:
    """The app. See `Engine` for load and failed, `Gate` for token, hosts and log."""
    limits = limits or Limits()
    metrics = Metrics(lambda: shapes.sizes(engine.searcher.store) if engine.ready else {})
    engine, sessions = Engine(load, limits, metrics, failed), Sessions()
    decoders = Decoders(limits.pixels)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        loading = asyncio.create_task(engine.start())
        yield
        await asyncio.wait([loading])
        engine.close()
        decoders.close()

    app = FastAPI(
        title="vsekit",
        version=__version__,
        description="Search pictures with words, words with pictures. Errors are JSON: a reason, and a remedy.",
        lifespan=lifespan,
        docs_url=None,  # its scripts come from elsewhere
        redoc_url=None,
    )
    handle_problems(app)
    app.add_middleware(Gate, limits=limits, metrics=metrics, sessions=sessions, token=token, hosts=hosts, log=log)
    _add_search(app, engine, limits, metrics, decoders)
    _add_items(app, engine, limits, decoders)
    _add_server(app, engine, metrics, sessions, token)
    app.router.routes.extend(page_routes())
    describe(app, limits)
    return app


def _add_search(app: FastAPI, engine: Engine, limits: Limits, metrics: Metrics, decoders: Decoders) -> None:
    usual = min(TOP, limits.top)

    async def answer(request: Request, ask: Ask) -> Response:
        _check_limits(ask, limits)
        engine.searcher  # noqa: B018  says so when it is not loaded
        found = await engine.answer(ask)
        encode, search = found.timing.encode, found.timing.search
        total = 1e3 * (time.perf_counter() - request.state.start)
        metrics.encode.observe(encode / 1e3)
        metrics.search.observe(search / 1e3)
        metrics.rest.observe(max(0.0, total - encode - search) / 1e3)
        return _json(shapes.answer(found, encode, search, total))

    @app.post(
        "/api/search", operation_id="search", tags=["search"], response_model=SearchOut, responses=problems(422),
        summary="Search in words",
    )  # fmt: skip
    async def search(request: Request, body: Annotated[SearchIn, Body(openapi_examples=SEARCH_EXAMPLES)]) -> Response:
        request.state.query = body.query
        if len(body.query) > limits.query_chars:
            raise ProblemError(422, f"the query has more than {limits.query_chars} characters", "Say it shorter.")
        top = body.top if "top" in body.model_fields_set else usual
        return await answer(
            request, Ask(parse(body.query), top, body.offset, body.kind, body.filter or None, body.rerank)
        )

    @app.post(
        "/api/search/picture",
        operation_id="search_by_picture",
        tags=["search"],
        response_model=SearchOut,
        responses=problems(413, 415, 422),
        summary="Search with a picture",
    )
    async def search_by_picture(
        request: Request,
        file: Annotated[UploadFile, File(description="JPEG, PNG, WebP, GIF, TIFF or HEIC.")],
        top: Annotated[int, Form(ge=1)] = usual,
        offset: Annotated[int, Form(ge=0)] = 0,
        kind: Annotated[KindOption, Form()] = "image",
        filter: Annotated[str | None, Form(max_length=2000)] = None,
    ) -> Response:
        image = await engine.read(_uploaded, engine, file.file, limits, decoders)
        return await answer(request, Ask(Asked.of("picture", image), top, offset, kind, filter or None))

    @app.get(
        "/api/items/{id}/similar",
        operation_id="similar_items",
        tags=["search"],
        response_model=SearchOut,
        responses=problems(404, 422),
        summary="More like this",
    )
    async def similar(
        request: Request,
        id: str,
        top: Annotated[int, Query(ge=1)] = usual,
        offset: Annotated[int, Query(ge=0)] = 0,
        kind: KindOption = "image",
        filter: Annotated[str | None, Query(max_length=2000)] = None,
    ) -> Response:
        ask = Ask(Asked.of("item", id), top, offset, kind, filter or None)
        _check_limits(ask, limits)
        await engine.read(_item, engine, id)
        return await answer(request, ask)

    @app.post(
        "/api/why",
        operation_id="why",
        tags=["search"],
        response_model=WhyOut,
        responses=problems(404, 422),
        summary="What of the query makes an item match",
    )
    async def why(request: Request, body: WhyIn) -> Response:
        request.state.query = body.query
        if len(body.query) > limits.query_chars:
            raise ProblemError(422, f"the query has more than {limits.query_chars} characters", "Say it shorter.")
        await engine.read(_item, engine, body.id)
        found = await engine.encode(engine.searcher.why, parse(body.query), body.id)
        return _json(WhyOut.model_validate(found, from_attributes=True))


def _add_items(app: FastAPI, engine: Engine, limits: Limits, decoders: Decoders) -> None:
    thumbnails = pictures.Thumbnails(limits.thumbnail_bytes, decoders)

    @app.get(
        "/api/items/{id}", operation_id="item", tags=["items"], response_model=ItemOut, responses=problems(404, 422),
        summary="An item, with its captions",
    )  # fmt: skip
    async def item(id: str) -> Response:
        return _json(await engine.read(lambda: shapes.detail(engine.searcher.store, _item(engine, id))))

    @app.get(
        "/api/items/{id}/thumbnail",
        operation_id="thumbnail",
        tags=["items"],
        response_class=Response,
        responses={200: {"content": {"image/jpeg": {}}, "description": "A JPEG."}, **problems(403, 404, 413, 415, 422)},
        summary="A small upright picture",
    )
    async def thumbnail(
        request: Request,
        id: str,
        size: Annotated[int, Query(ge=1, le=1024, description="Of the longer side, in pixels.")] = 256,
        v: Annotated[str | None, Query(description="As in the address that hits carry: lets browsers keep it.")] = None,
    ) -> Response:
        def make() -> tuple[dict[str, str], bytes]:
            opened = _open(engine, id)
            return _cache_headers(opened, v, f"{size}"), thumbnails.get(opened, size)

        headers, made = await engine.read(make)
        return cached(request, headers) or Response(made, media_type="image/jpeg", headers=headers)

    @app.get(
        "/api/items/{id}/picture",
        operation_id="picture",
        tags=["items"],
        response_class=Response,
        responses={
            200: {"content": {"image/*": {}}, "description": "The picture."},
            **problems(403, 404, 413, 415, 422),
        },
        summary="The picture's file; as JPEG where browsers can't show it",
    )
    async def picture(request: Request, id: str, v: str | None = None) -> Response:
        def make() -> tuple[dict[str, str], BinaryIO | bytes, str]:
            opened = _open(engine, id)
            return _cache_headers(opened, v, "picture"), *pictures.for_browser(opened.file, decoders)

        headers, content, media_type = await engine.read(make)
        if isinstance(content, bytes):
            return cached(request, headers) or Response(content, media_type=media_type, headers=headers)
        if (known := cached(request, headers)) is not None:
            content.close()
            return known
        return StreamingResponse(_pieces(engine, content), media_type=media_type, headers=headers)


def _add_server(app: FastAPI, engine: Engine, metrics: Metrics, sessions: Sessions, token: str | None) -> None:
    kept: tuple[float, bytes] = (-STATUS_SECONDS, b"")

    @app.get(
        "/api/status", operation_id="status", tags=["server"], response_model=StatusOut, responses=problems(),
        summary="What is indexed, by which model, and the metadata to filter by",
    )  # fmt: skip
    async def status() -> Response:
        nonlocal kept
        if time.monotonic() - kept[0] >= STATUS_SECONDS:
            kept = (time.monotonic(), (await engine.read(shapes.status, engine.searcher)).model_dump_json().encode())
        return Response(kept[1], media_type="application/json")

    @app.post(
        "/api/session", operation_id="open_session", tags=["server"], status_code=204, responses=problems(422),
        summary="Exchange the token for a cookie",
    )  # fmt: skip
    async def open_session(request: Request, body: SessionIn) -> Response:
        if token is None:
            return Response(status_code=204)
        if not hmac.compare_digest(body.token.encode(), token.encode()):
            raise ProblemError(401, "this is not the server's token", "It is what vse serve --token was given.")
        response = Response(status_code=204)
        secure = request.url.scheme == "https"
        response.set_cookie(COOKIE, sessions.open(), httponly=True, samesite="strict", secure=secure)
        return response

    @app.delete("/api/session", operation_id="close_session", tags=["server"], status_code=204, responses=problems())
    async def close_session(request: Request) -> Response:
        sessions.close(request.headers.get("cookie", ""))
        response = Response(status_code=204)
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return response

    @app.get("/healthz", operation_id="health", tags=["server"], response_model=Health, summary="The process runs")
    async def health() -> Response:
        return _json({"status": "ok"})

    @app.get(
        "/readyz", operation_id="ready", tags=["server"], response_model=Health,
        responses={503: {"model": Health, "description": "Loading, or the index can't be reached."}},
        summary="The model is loaded, and the index is there",
    )  # fmt: skip
    async def ready() -> Response:
        await engine.look()
        return _json({"status": engine.state}, 200 if engine.ready else 503)

    @app.get(
        "/metrics", operation_id="metrics", tags=["server"], response_class=Response,
        responses={200: {"content": {"text/plain": {}}, "description": "For Prometheus."}},
    )  # fmt: skip
    async def read_metrics() -> Response:
        return Response(await engine.read(metrics.text), media_type=CONTENT_TYPE_LATEST)


def _check_limits(ask: Ask, limits: Limits) -> None:
    for name, value, most in (
        ("top", ask.top, limits.top),
        ("offset + top", ask.offset + ask.top, limits.depth),
        ("rerank", ask.rerank, limits.rerank),
    ):
        if value > most:
            raise ProblemError(422, f"{name} is {value}, more than {most}", f"Ask for at most {most}.")


def _uploaded(engine: Engine, file: BinaryIO, limits: Limits, decoders: Decoders) -> Prepared:
    """What the model reads of the uploaded picture, made here so that the encoder's thread need not decode."""
    size = file.seek(0, 2)
    file.seek(0)
    if size > limits.upload_bytes:
        raise ProblemError(413, f"the picture has more than {limits.upload_bytes:,} bytes", "Send a smaller one.")
    model = engine.searcher.model
    try:
        return model.read(decoders.picture(file, model.side), max_pixels=limits.pixels)
    except PictureError as error:
        raise pictures.refused(error) from error


def _item(engine: Engine, id: str) -> Item:
    try:
        return engine.searcher.store.items([id])[0]
    except KeyError:
        raise ProblemError(404, "there is no such item", "Ids are in the answers of a search.") from None


def _open(engine: Engine, id: str) -> pictures.Opened:
    item = _item(engine, id)
    if item.kind == "caption":
        item = _item(engine, item.picture)
    return pictures.open_indexed(item, engine.roots)


def _cache_headers(opened: pictures.Opened, v: str | None, what: str) -> dict[str, str]:
    """For ever at the address that names the content; else to be asked for again."""
    return {
        "ETag": f'"{opened.version}-{what}"',
        "Cache-Control": LATER if opened.fixed and v == opened.version else "private, no-cache",
    }


async def _pieces(engine: Engine, file: BinaryIO) -> AsyncIterator[bytes]:
    with file:
        while piece := await engine.read(file.read, 1 << 20):
            yield piece


def _json(value: Any, status: int = 200) -> Response:
    return Response(to_json(value), status, media_type="application/json")
