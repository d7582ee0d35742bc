"""The page's files, read once into memory: a path that is not one of theirs leads nowhere."""

from __future__ import annotations

import hashlib
import mimetypes
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


def page_routes() -> list[Route]:
    """A route for every file of the page; index.html is at / too."""
    folder = files("vsekit.serve") / "page"
    if not folder.is_dir():
        return []
    routes = []
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if not file.is_file():
            continue
        route = _route(f"/{file.name}", file.read_bytes())
        routes.append(route)
        if file.name == "index.html":
            routes.append(Route("/", route.endpoint))
    return routes


def _route(path: str, content: bytes) -> Route:
    media_type = mimetypes.guess_type(path)[0] or "application/octet-stream"
    headers = {"ETag": f'"{hashlib.sha256(content).hexdigest()[:32]}"', "Cache-Control": "no-cache"}

    async def endpoint(request: Request) -> Response:
        return cached(request, headers) or Response(content, media_type=media_type, headers=headers)

    return Route(path, endpoint)


def cached(request: Request, headers: dict[str, str]) -> Response | None:
    """304 when the client has what the ETag in `headers` names."""
    known = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
    return Response(status_code=304, headers=headers) if headers["ETag"] in known or "*" in known else None
