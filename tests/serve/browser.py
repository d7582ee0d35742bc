"""A browser and a server for the tests of the page: generated pictures behind the real HTTP schemas.

Answers are a fixed shuffle of the pictures for each query, so a test knows that another query gives another order without
any model. What the page must live through (slow answers, refusals, a server that goes away) is switched on from outside.
"""

from __future__ import annotations

import io
import re
import shutil
import socket
import threading
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from PIL import Image

import vsekit.serve
from vsekit.serve.schemas import (
    FacetsOut,
    FieldOut,
    HitOut,
    ItemOut,
    ItemsOut,
    SearchIn,
    SearchOut,
    StatusOut,
    Timing,
    WhyIn,
    WhyOut,
    WordWeight,
)

PAGE = Path(vsekit.serve.__file__).parent / "page"
POLICY = "default-src 'self'; img-src 'self' blob: data:"
SHAPES = [(640, 480), (480, 640), (800, 450), (500, 500), (1200, 400), (360, 720), (600, 400)]
CAMERAS = ["X100", "Z6", "Pixel 8", "EOS R5"]
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium() -> str | None:
    """Where a Chromium is, if there is one."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((found for name in names if (found := shutil.which(name))), None)


@lru_cache(maxsize=4096)
def png(width: int, height: int, seed: int) -> bytes:
    """A quiet gradient with a disc, different for every seed."""
    hue = seed * 47 % 256
    image = Image.linear_gradient("L").resize((width, height))
    colours = Image.merge(
        "HSV",
        [image.point(lambda v: (hue + v // 6) % 256), image.point(lambda v: 90), image.point(lambda v: 150 + v // 3)],
    )
    disc = Image.radial_gradient("L").resize((min(width, height) // 2,) * 2).point(lambda v: 255 if v < 120 else 0)
    place = (seed * 31 % max(1, width - disc.width), seed * 17 % max(1, height - disc.height))
    colours.paste(((hue + 128) % 256, 70, 235), (*place, place[0] + disc.width, place[1] + disc.height), disc)
    out = io.BytesIO()
    colours.convert("RGB").save(out, "PNG")
    return out.getvalue()


class Refusal(Exception):
    """An error the server answers with."""

    def __init__(
        self, status: int, error: str, remedy: str | None = None, headers: dict[str, str] | None = None
    ) -> None:
        self.status, self.error, self.remedy, self.headers = status, error, remedy, headers


class Fake:
    """What is behind the page.

    pictures, captions: how many there are. delays: seconds a query takes. token: what a session needs. refusals: raised by
    the next searches, one each. log: the searches that came in. verdicts: sentences for queries. boxes: of why.
    """

    def __init__(self, pictures: int = 300, captions: int = 300, fields: bool = True) -> None:
        self.pictures, self.captions, self.has_fields = pictures, captions, fields
        self.delays: dict[str, float] = {}
        self.verdicts: dict[str, str] = {}
        self.refusals: list[Refusal] = []
        self.log: list[dict[str, Any]] = []
        self.boxes: dict[str, list[tuple[float, float, float, float, float]]] = {}
        self.token: str | None = None
        self.largest_upload = 1_000_000
        self.app = self.routes()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def with_policy(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"].append((b"content-security-policy", POLICY.encode()))
            await send(message)

        request = Request(scope)
        private = request.url.path.startswith("/api/") and request.url.path != "/api/session"
        refused = self.token and private and request.cookies.get("session") != self.token
        app = JSONResponse({"error": "a token is needed"}, 401) if refused else self.app
        await app(scope, receive, with_policy)

    def meta(self, i: int) -> dict[str, str | int | float | bool]:
        if not self.has_fields:
            return {}
        at = 12 * 2024 + 11 - i // 10  # ten a month, backwards
        own = {"year": 2010 + i % 15, "camera": CAMERAS[i % 4], "flash": i % 3 == 0, "name": f"photo-{i:05}.jpg"}
        return {**own, "dated": f"{at // 12}-{at % 12 + 1:02}-{28 - i % 10:02} 12:00:00", "folder": f"album/{i % 3}"}

    def item(self, i: int) -> dict[str, Any]:
        width, height = SHAPES[zlib.crc32(b"%d" % i) % len(SHAPES)]
        captions = [f"A disc of colour number {i} in front of a soft sky."] if i < self.captions else []
        return {
            "id": f"p{i}",
            "kind": "image",
            "picture": f"p{i}",
            "name": f"photo-{i:05}.jpg",
            "width": width,
            "height": height,
            "meta": self.meta(i),
            "captions": captions,
            "thumbnail": f"/api/items/p{i}/thumbnail?v={i:x}",
            "picture_url": f"/api/items/p{i}/picture?v={i:x}",
        }

    def number(self, item_id: str) -> int:
        match = re.fullmatch(r"p(\d+)", item_id)
        if match is None or int(match[1]) >= self.pictures:
            raise Refusal(404, f"no item '{item_id}'")
        return int(match[1])

    def passing(self, expression: str | None) -> list[int]:
        """The pictures that pass a filter; a crude reading of the language, enough to see that the page writes it well."""
        if not expression:
            return list(range(self.pictures))
        try:
            python = re.sub(
                r'(\w+) contains ("(?:[^"\\]|\\.)*")', r"\2 in \1", re.sub(r"(?<![<>!=])=(?!=)", "==", expression)
            )
            code = compile(python, "filter", "eval")
            return [
                i
                for i in range(self.pictures)
                if eval(code, {"__builtins__": {}, "true": True, "false": False}, self.meta(i))
            ]
        except (SyntaxError, NameError, TypeError):
            raise Refusal(
                400, f"can't read the filter: {expression}", 'Write it like: year >= 2020 and camera = "X100"'
            ) from None

    def answer(self, query: str, top: int, offset: int, kind: str, expression: str | None) -> SearchOut:
        self.log.append({"query": query, "top": top, "offset": offset, "kind": kind, "filter": expression})
        if self.refusals:
            raise self.refusals.pop(0)
        time.sleep(self.delays.get(query, 0))
        found = self.passing(expression)
        n, seed = len(found), zlib.crc32(query.encode())
        step = next(s for s in range(1 + seed % 9973, 20000) if n < 2 or _coprime(s, n))
        total = n if kind == "image" else min(self.captions, 20, n)
        hits = []
        for rank in range(offset, min(offset + top, total)):
            i = found[(seed + rank * step) % n]
            standing = max(0.0, 1 - (rank / 120) ** 2) if query not in self.verdicts else 0.3
            match = (
                "strong" if standing > 0.98 else "likely" if standing > 0.9 else "weak" if standing > 0.6 else "none"
            )
            item = self.item(i)
            if kind == "caption":
                item |= {
                    "id": f"p{i}%230",
                    "kind": "caption",
                    "text": item["captions"][0] if item["captions"] else f"Caption {i}.",
                }
            hits.append(HitOut(**item, score=0.6 - rank * 0.002, standing=standing, match=match))  # type: ignore[arg-type]
        verdict = self.verdicts.get(query)
        return SearchOut(
            hits=hits, verdict=verdict, more=offset + top < total, timing=Timing(encode=3, search=1, total=5)
        )

    def status(self) -> StatusOut:
        fields = {}
        if self.has_fields and self.pictures:
            cameras = Counter(CAMERAS[i % 4] for i in range(self.pictures))
            fields = {
                "year": FieldOut(type="number", count=self.pictures, min=2010, max=2024),
                "camera": FieldOut(type="text", count=self.pictures, values=list(cameras.items())),
                "flash": FieldOut(type="boolean", count=self.pictures, values=[(True, 1), (False, 2)]),
                "name": FieldOut(
                    type="text", count=self.pictures, values=[(f"photo-{i:05}.jpg", 1) for i in range(50)]
                ),
            }
        return StatusOut(
            pictures=self.pictures,
            captions=self.captions,
            model="starter",
            model_fingerprint="0123456789abcdef",
            dim=256,
            store="photos.index",
            fields=fields,
            indexed="2026-01-01T12:00:00Z",
        )

    def routes(self) -> FastAPI:
        app = FastAPI()

        @app.exception_handler(Refusal)
        def refuse(_: Request, refusal: Refusal) -> Response:
            content = {"error": refusal.error, "remedy": refusal.remedy}
            return JSONResponse(content, refusal.status, headers=refusal.headers)

        @app.post("/api/session")
        async def session(request: Request) -> Response:
            token = (await request.json())["token"]
            if token != self.token:
                raise Refusal(401, "this is not the token")
            response = Response(status_code=204)
            response.set_cookie("session", token, httponly=True, samesite="strict")
            return response

        @app.get("/api/status")
        def status() -> StatusOut:
            return self.status()

        @app.post("/api/search")
        def search(body: SearchIn) -> SearchOut:
            return self.answer(body.query, body.top, body.offset, body.kind, body.filter)

        @app.post("/api/search/picture")
        async def by_picture(request: Request) -> SearchOut:
            form = await request.form()
            upload = form["file"]
            assert not isinstance(upload, str)
            data = await upload.read()
            if len(data) > self.largest_upload:
                raise Refusal(413, "the picture has 2.1 MB; at most 1.0 MB are taken", "Send a smaller one.")
            top, offset = int(str(form.get("top", 60))), int(str(form.get("offset", 0)))
            return self.answer(
                f"picture:{zlib.crc32(data)}", top, offset, str(form.get("kind", "image")), form.get("filter")
            )  # type: ignore[arg-type]

        @app.get("/api/items")
        def items(top: int = 60, after: str = "", filter: str | None = None) -> ItemsOut:
            if self.refusals:
                raise self.refusals.pop(0)
            found, start = self.passing(filter), int(after or 0)
            shown = [ItemOut(**self.item(i)) for i in found[start : start + top]]
            return ItemsOut(items=shown, after=str(start + top) if start + top < len(found) else None)

        @app.get("/api/facets")
        def facets() -> FacetsOut:
            metas = [self.meta(i) for i in range(self.pictures)] if self.has_fields else []
            months = Counter(str(meta["dated"])[:7] for meta in metas)
            folders = Counter(str(meta["folder"]) for meta in metas)
            return FacetsOut(months=sorted(months.items(), reverse=True), folders=sorted(folders.items()))

        @app.get("/api/examples")
        def examples() -> list[str]:
            return ["a disc of colour", "a soft sky"]

        @app.get("/api/items/{item_id}")
        def item(item_id: str) -> ItemOut:
            return ItemOut(**self.item(self.number(item_id)))

        @app.get("/api/items/{item_id}/similar")
        def similar(
            item_id: str, top: int = 60, offset: int = 0, kind: str = "image", filter: str | None = None
        ) -> SearchOut:
            self.number(item_id)
            return self.answer(f"item:{item_id}", top, offset, kind, filter)

        @app.get("/api/items/{item_id}/thumbnail")
        async def thumbnail(item_id: str, size: int = 256) -> Response:
            return self.picture(self.number(item_id), size)

        @app.get("/api/items/{item_id}/picture")
        def picture(item_id: str) -> Response:
            return self.picture(self.number(item_id), 1200)

        @app.post("/api/why")
        def why(body: WhyIn) -> WhyOut:
            words = body.query.split()
            weights = [WordWeight(word=w, weight=(zlib.crc32(w.encode()) % 100 - 15) / 1000) for w in words]
            return WhyOut(score=0.4, words=weights, boxes=self.boxes)

        app.mount("/", StaticFiles(directory=PAGE, html=True))
        return app

    def picture(self, i: int, size: int) -> Response:
        width, height = self.item(i)["width"], self.item(i)["height"]
        scale = min(1, size / max(width, height))
        data = png(max(1, round(width * scale)), max(1, round(height * scale)), i % 16)
        return Response(data, media_type="image/png", headers={"Cache-Control": "max-age=3600"})


def _coprime(a: int, b: int) -> bool:
    while b:
        a, b = b, a % b
    return a == 1


class Serving:
    """A server on loopback that can go away and come back at the same address, with the same or another app behind it."""

    def __init__(self, fake: Fake) -> None:
        self.behind(fake)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        self.start()

    def behind(self, fake: Fake) -> None:
        self.fake = fake

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.fake(scope, receive, send)

    def start(self) -> None:
        config = uvicorn.Config(self, port=self.port, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        while not self.server.started:
            if not self.thread.is_alive():
                raise RuntimeError("the server did not start")
            time.sleep(0.01)

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join()


@contextmanager
def serving(fake: Fake) -> Iterator[Serving]:
    server = Serving(fake)
    try:
        yield server
    finally:
        server.stop()
