"""The HTTP API over a searcher, with the page at /. `vsekit.serve.run.serve` runs it; see docs/serve.md."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Annotated, BinaryIO, Literal

from fastapi import Body, FastAPI, File, Form, Query, Request, UploadFile
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST

from vsekit.data.decoding import PictureError
from vsekit.search.base import Prepared
from vsekit.search.query import Query as Asked
from vsekit.search.query import parse
from vsekit.search.searcher import Ask, Searcher
from vsekit.search.stacks import NEAR
from vsekit.serve import pictures, shapes
from vsekit.serve.archive import add_archive
from vsekit.serve.browsing import add_browsing
from vsekit.serve.decoders import Decoders
from vsekit.serve.description import describe, problems
from vsekit.serve.engine import Engine
from vsekit.serve.gate import LOG, Gate
from vsekit.serve.indexer import Indexer, add_indexing
from vsekit.serve.items import add_items, json_answer, known_item
from vsekit.serve.limits import Limits
from vsekit.serve.metrics import Metrics
from vsekit.serve.problems import ProblemError, handle_problems
from vsekit.serve.routes import JsonRoute
from vsekit.serve.schemas import (
    TOP,
    Health,
    SearchIn,
    SearchOut,
    SessionIn,
    StatusOut,
    WhyIn,
    WhyOut,
)
from vsekit.serve.sessions import COOKIE, Sessions
from vsekit.serve.static import page_routes
from vsekit.version import __version__

KindOption = Literal["image", "caption"]
STATUS_SECONDS = 5.0
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
    indexer: Indexer | None = None,
    failed: Callable[[Exception], object] = lambda error: LOG.error("can't load", exc_info=error),
) -> FastAPI:
    """The app. See `Engine` for load and failed, `Gate` for token, hosts and log."""
    limits, indexer = limits or Limits(), indexer or Indexer("")
    metrics = Metrics(lambda: shapes.sizes(engine.searcher.store) if engine.ready else {})
    engine, sessions = Engine(load, limits, metrics, failed), Sessions()
    decoders = Decoders(limits.pixels)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        loading = asyncio.create_task(engine.start())
        engine.soon(decoders.warm)  # the first answer has thumbnails
        indexer.start()
        yield
        await asyncio.to_thread(indexer.close)
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
    _add_why(app, engine, limits)
    add_items(app, engine, limits, decoders)
    add_browsing(app, engine, limits)
    add_archive(app, engine, limits, decoders)
    add_indexing(app, engine, indexer)
    _add_server(app, engine, metrics, sessions, token)
    app.router.routes.extend(page_routes())
    describe(app, limits, token=token is not None)
    return app


def _add_search(app: FastAPI, engine: Engine, limits: Limits, metrics: Metrics, decoders: Decoders) -> None:
    usual = min(TOP, limits.top)

    async def answer(request: Request, ask: Ask, stack: bool = False) -> Response:
        _check_limits(ask, limits)
        store = engine.searcher.store
        # A hit may be in the stack of one on the page before.
        before = min(ask.offset, NEAR) if stack and ask.kind == "image" else 0
        found = await engine.answer(replace(ask, offset=ask.offset - before, top=ask.top + before) if before else ask)
        stacks = None
        if stack and ask.kind == "image":
            stacks = await engine.read(shapes.with_stacks, store, [hit.item for hit in found.hits], before)
            found = replace(found, hits=found.hits[before:])
        if decoders.cold:  # they ended for lack of work
            engine.soon(decoders.warm)
        encode, search = found.timing.encode, found.timing.search
        total = 1e3 * (time.perf_counter() - request.state.start)
        metrics.encode.observe(encode / 1e3)
        metrics.search.observe(search / 1e3)
        metrics.rest.observe(max(0.0, total - encode - search) / 1e3)
        return json_answer(shapes.answer(found, encode, search, total, stacks))

    async def search(request: Request, body: Annotated[SearchIn, Body(openapi_examples=SEARCH_EXAMPLES)]) -> Response:
        _check_query(request, body.query, limits)
        top = body.top if "top" in body.model_fields_set else usual
        ask = Ask(parse(body.query), top, body.offset, body.kind, body.filter or None, body.rerank)
        return await answer(request, ask, body.stack)

    app.router.add_api_route(
        "/api/search", search, methods=["POST"], operation_id="search", tags=["search"], response_model=SearchOut,
        responses=problems(413, 422), summary="Search in words", route_class_override=JsonRoute,
    )  # fmt: skip

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
        filter: Annotated[str, Form(max_length=2000)] = "",
        stack: Annotated[bool, Form()] = False,
    ) -> Response:
        image = await engine.upload(_uploaded, engine, file.file, limits, decoders)
        return await answer(request, Ask(Asked.of("picture", image), top, offset, kind, filter or None), stack)

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
        filter: Annotated[str, Query(max_length=2000)] = "",
        stack: bool = False,
    ) -> Response:
        ask = Ask(Asked.of("item", id), top, offset, kind, filter or None)
        _check_limits(ask, limits)
        await engine.read(known_item, engine, id)
        return await answer(request, ask, stack)


def _add_why(app: FastAPI, engine: Engine, limits: Limits) -> None:
    @app.post(
        "/api/why",
        operation_id="why",
        tags=["search"],
        response_model=WhyOut,
        responses=problems(404, 413, 422),
        summary="What of the query makes an item match",
    )
    async def why(request: Request, body: WhyIn) -> Response:
        _check_query(request, body.query, limits)
        await engine.read(known_item, engine, body.id)
        query, model = parse(body.query), engine.searcher.model
        if sum(len(model.words(text)) for text in query.texts) > limits.why_words:
            raise ProblemError(422, f"the query has more than {limits.why_words} words", "Say it in fewer.")
        found = await engine.encode(engine.searcher.why, query, body.id)
        return json_answer(WhyOut.model_validate(found, from_attributes=True))


def _check_query(request: Request, query: str, limits: Limits) -> None:
    """Notes the query for the log; ProblemError where it is too long."""
    request.state.query = query
    if len(query) > limits.query_chars:
        raise ProblemError(422, f"the query has more than {limits.query_chars} characters", "Say it shorter.")


def _add_server(app: FastAPI, engine: Engine, metrics: Metrics, sessions: Sessions, token: str | None) -> None:
    kept: tuple[float, bytes] = (-STATUS_SECONDS, b"")

    @app.get(
        "/api/status", operation_id="status", tags=["server"], response_model=StatusOut, responses=problems(),
        summary="What is indexed, by which model, and the metadata to filter by",
    )  # fmt: skip
    async def status() -> Response:
        nonlocal kept
        if time.monotonic() - kept[0] >= STATUS_SECONDS:
            kept = (
                time.monotonic(),
                (await engine.read(shapes.status, engine.searcher)).model_dump_json().encode(),
            )
        return Response(kept[1], media_type="application/json")

    @app.post(
        "/api/session", operation_id="open_session", tags=["server"], status_code=204, responses=problems(413, 422),
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
        return json_answer({"status": "ok"})

    @app.get(
        "/readyz", operation_id="ready", tags=["server"], response_model=Health,
        responses={503: {"model": Health, "description": "Loading, or the index can't be reached."}},
        summary="The model is loaded, and the index is there",
    )  # fmt: skip
    async def ready() -> Response:
        await engine.look()
        return json_answer({"status": engine.state}, 200 if engine.ready else 503)

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
        return model.read(decoders.picture(file, model.side, model.view), max_pixels=limits.pixels)
    except PictureError as error:
        raise pictures.refused(error) from error
