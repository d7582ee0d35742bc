"""What every request passes: the host's name, the rate, the token, the size of its body; and what every answer carries."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import math
import time
from collections.abc import Collection, Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vsekit.serve.limits import Limits, TokenBuckets, client_of
from vsekit.serve.metrics import Metrics
from vsekit.serve.problems import ProblemError, busy, problem
from vsekit.serve.sessions import Sessions

LOG = logging.getLogger("vsekit.serve")
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
HEALTH = frozenset({"/healthz", "/readyz"})
#: Nothing may be fetched from elsewhere, and no other site may show, embed or read what is here.
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' blob: data:; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_OURS = {name.lower().encode(): value.encode() for name, value in HEADERS.items()}
BODY = 64 * 1024  # bytes of a request without a picture, and of what is around one
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
THUMBNAIL_COST = 0.05
SLOWEST = 16 * 1024  # bytes a second of a body that keeps coming


class Gate:
    """ASGI middleware.

    Args:
        token: what API and metrics ask for, as a bearer token or a session's cookie; None for nothing.
        sessions: the open ones.
        hosts: names the server may be called by; None for any. On loopback this is what keeps a foreign site whose name
            is made to point here (DNS rebinding) from reading the index.
        log: "off", "requests" for one line each, or "queries" for the words asked for, too.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: Limits,
        metrics: Metrics,
        sessions: Sessions,
        token: str | None = None,
        hosts: Collection[str] | None = None,
        log: str = "off",
    ) -> None:
        self.app, self.limits, self.metrics, self.log = app, limits, metrics, log
        self.hosts = None if hosts is None else frozenset(host.lower() for host in hosts)
        self._bearer = token.encode() if token else None
        self._sessions = sessions
        self._buckets = TokenBuckets(limits.rate, limits.burst) if limits.rate else None
        self._in_flight = self._waiting = 0  # of those in flight, the ones that wait for their client
        metrics.in_flight.set_function(lambda: self._in_flight)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        start, status, began = time.perf_counter(), 500, False
        scope.setdefault("state", {})["start"] = start

        async def answer(message: Message) -> None:
            nonlocal status, began
            if message["type"] == "http.response.start":
                status, began = message["status"], True
                message["headers"] = _with_ours(message["headers"])
            self._waiting += 1
            try:
                await send(message)
            finally:
                self._waiting -= 1

        self._in_flight += 1
        try:
            refused = self._refusal(scope)
            if refused is None:
                await self.app(scope, self._bounded(scope, receive), answer)
            else:
                await refused(scope, receive, answer)
        except asyncio.CancelledError:  # the server stops, and its patience has ended
            LOG.warning("%s %r was cut off by the server's end", scope["method"], scope["path"])
            if not began:
                await problem(503, "the server is stopping", "Ask again later.", {"Retry-After": "5"})(
                    scope, receive, answer
                )
        except Exception:
            LOG.exception("%s %r failed", scope["method"], scope["path"])
            if not began:
                await problem(500, "something went wrong in the server", "Its log says what.")(scope, receive, answer)
        finally:
            self._in_flight -= 1
            self._record(scope, status, time.perf_counter() - start)

    def _refusal(self, scope: Scope) -> Response | None:
        path: str = scope["path"]
        if path in HEALTH:
            return None
        headers = Headers(scope=scope)
        if self.hosts is not None and _hostname(headers.get("host", "")) not in self.hosts:
            return problem(421, "this server is not known by that name", "Name it with vse serve --allow-host.")
        if scope["method"] not in SAFE and _from_elsewhere(headers):
            return problem(403, "another site may not ask this", "Use the server's own page, or a program.")
        # Who still sends its request, or reads its answer, holds nobody else up.
        if self._in_flight - self._waiting > self.limits.concurrent:
            return busy()
        if self._buckets and path.startswith("/api/"):
            client = client_of(scope["client"][0]) if scope.get("client") else ""
            wait = self._buckets.wait(client, THUMBNAIL_COST if path.endswith("/thumbnail") else 1.0)
            if wait:
                retry = {"Retry-After": str(math.ceil(wait))}
                return problem(429, "too many requests", f"Ask again in {math.ceil(wait)} s.", retry)
        guarded = (path.startswith("/api/") and path != "/api/session") or path == "/metrics"
        if guarded and self._bearer is not None and not self._known(headers):
            remedy = "Send the header Authorization: Bearer TOKEN."
            return problem(401, "this needs the server's token", remedy, {"WWW-Authenticate": "Bearer"})
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > self._body_limit(path):
            return self._too_large(path).response()
        return None

    def _known(self, headers: Headers) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self._bearer or b""):
            return True
        return self._sessions.known(headers.get("cookie", ""))

    def _body_limit(self, path: str) -> int:
        return BODY + (self.limits.upload_bytes if path == "/api/search/picture" else 0)

    def _too_large(self, path: str) -> ProblemError:
        return ProblemError(413, f"the request has more than {self._body_limit(path):,} bytes", "Send less.")

    def _bounded(self, scope: Scope, receive: Receive) -> Receive:
        """`receive` that counts the body as it comes, and does not wait for ever for the rest of it, however it drips."""
        limit, got, ended = self._body_limit(scope["path"]), 0, False
        start = asyncio.get_running_loop().time()

        async def bounded() -> Message:
            nonlocal got, ended
            if ended:
                return await receive()
            self._waiting += 1
            try:
                async with asyncio.timeout_at(start + self.limits.body_seconds + got / SLOWEST):
                    message = await receive()
            except TimeoutError:
                raise ProblemError(408, "the rest of the request did not come", "Send it in one go.") from None
            finally:
                self._waiting -= 1
            got += len(message.get("body", b""))
            ended = not message.get("more_body", False)
            if got > limit:
                raise self._too_large(scope["path"])
            return message

        return bounded

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        # The route's pattern, not the path: as many series as there are routes, and no ids in them.
        route = getattr(scope.get("route"), "path", "none")
        method = scope["method"] if scope["method"] in METHODS else "other"
        self.metrics.requests.labels(method, route, status).inc()
        self.metrics.seconds.labels(route).observe(seconds)
        if self.log != "off":
            client = scope["client"][0] if scope.get("client") else "-"
            asked = scope["state"].get("query") if self.log == "queries" else None
            words = f" {json.dumps(asked, ensure_ascii=False)}" if asked is not None else ""
            path = json.dumps(scope["path"], ensure_ascii=False)[1:-1]  # no line breaks in a line
            LOG.info("%s %s %s %d %.1f ms%s", client, scope["method"], path, status, 1e3 * seconds, words)


def _with_ours(headers: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers of an answer, with `HEADERS` in place of any of theirs; not to be kept, unless it says otherwise."""
    own = [header for header in headers if header[0] not in _OURS]
    kept = any(name == b"cache-control" for name, _ in own)
    return [*own, *_OURS.items(), *([] if kept else [(b"cache-control", b"no-store")])]


def _from_elsewhere(headers: Headers) -> bool:
    """Whether a browser sends this for a page of another site. Browsers say so, and programs say nothing."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and site not in ("same-origin", "none"):
        return True
    if origin is None:
        return False
    try:
        at = urlsplit(origin)
        there = (at.hostname, at.port or {"http": 80, "https": 443}.get(at.scheme))
        here = urlsplit(f"//{headers.get('host', '')}")
        return there != (here.hostname, here.port or {"http": 80, "https": 443}.get(at.scheme))
    except ValueError:  # a port that is no number
        return True


def _hostname(host: str) -> str:
    """Without the port; [::1]:8000 → ::1."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
