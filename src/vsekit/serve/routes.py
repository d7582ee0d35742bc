"""A route that reads its JSON body at once.

FastAPI's own way, which would serve any signature, takes about as long as the search of ten thousand vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import HTTPException, Request, Response
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.requests import ClientDisconnect


class JsonRoute(APIRoute):
    """For endpoints (request, body), where body is a model. What is not plainly right is left to FastAPI, so that it is
    read or refused as everywhere else."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        usual, endpoint = super().get_route_handler(), self.endpoint
        assert self.body_field is not None
        model: Any = self.body_field.field_info.annotation

        async def handler(request: Request) -> Response:
            if request.headers.get("content-type") == "application/json":
                try:
                    body = model.model_validate_json(await request.body())
                except ValidationError:
                    return await usual(request)
                except ClientDisconnect:
                    raise HTTPException(400, "the body broke off") from None
                answer: Response = await endpoint(request, body)
                return answer
            return await usual(request)

        return handler
