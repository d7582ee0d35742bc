"""Looking through an index over HTTP: the newest pictures, what there is to choose from, and what people say of pictures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any

from fastapi import FastAPI, Query
from fastapi.responses import Response

from vsekit.search.examples import examples
from vsekit.search.filters import Filter, Has, parse
from vsekit.search.items import Item
from vsekit.search.searcher import Searcher
from vsekit.search.stores.base import Store
from vsekit.serve import shapes
from vsekit.serve.description import problems
from vsekit.serve.engine import Engine
from vsekit.serve.items import json_answer
from vsekit.serve.limits import Limits
from vsekit.serve.problems import ProblemError
from vsekit.serve.schemas import TOP, FacetsOut, ItemsOut, MarksIn, MarksOut, PlaceOut

EXAMPLES_SECONDS = 300.0
PLACES, CELL = 24, 0.1  # shown at most; degrees, about 10 km


class Kept:
    """The last few answers, each as long as the index stays as it is."""

    def __init__(self, most: int = 16) -> None:
        self._most = most
        self._kept: dict[str, tuple[Store, str | None, Any]] = {}

    def get(self, store: Store, key: str, make: Callable[[], Any]) -> Any:
        version = store.version()
        if version is not None and key in self._kept and self._kept[key][:2] == (store, version):
            return self._kept[key][2]
        answer = make()
        self._kept[key] = (store, version, answer)
        while len(self._kept) > self._most:
            with suppress(KeyError, StopIteration, RuntimeError):  # other threads may be here, too
                del self._kept[next(iter(self._kept))]
        return answer


def add_browsing(app: FastAPI, engine: Engine, limits: Limits) -> None:
    facets_kept, places_kept = Kept(), Kept()
    example_search: tuple[float, Searcher, asyncio.Future[list[str]]] | None = None

    @app.get(
        "/api/items", operation_id="items", tags=["browse"], response_model=ItemsOut, responses=problems(422),
        summary="Pictures, the newest first",
    )  # fmt: skip
    async def items(
        top: Annotated[int, Query(ge=1)] = min(TOP, limits.top),
        after: Annotated[str, Query(max_length=300, description="As the page before it gave.")] = "",
        filter: Annotated[str, Query(max_length=2000)] = "",
        stack: bool = False,
    ) -> Response:
        if top > limits.top:
            raise ProblemError(422, f"top is {top}, more than {limits.top}", f"Ask for at most {limits.top}.")
        return json_answer(await engine.read(_latest, engine.searcher, top, after, filter, stack))

    @app.get(
        "/api/facets", operation_id="facets", tags=["browse"], response_model=FacetsOut, responses=problems(422),
        summary="Months and folders, with how many pictures each has",
    )  # fmt: skip
    async def facets(filter: Annotated[str, Query(max_length=2000)] = "") -> Response:
        def look() -> FacetsOut:
            store, passing = engine.searcher.store, _filter(engine.searcher, filter)
            return facets_kept.get(store, repr(passing), lambda: _facets(store, passing))

        return json_answer(await engine.read(look))

    @app.get(
        "/api/places", operation_id="places", tags=["browse"], response_model=list[PlaceOut], responses=problems(),
        summary="Where most pictures were taken",
    )  # fmt: skip
    async def places() -> Response:
        searcher = engine.searcher
        return json_answer(await engine.read(places_kept.get, searcher.store, "", lambda: _places(searcher)))

    @app.get(
        "/api/examples", operation_id="examples", tags=["browse"], response_model=list[str], responses=problems(),
        summary="Sentences that this index has pictures for",
    )  # fmt: skip
    async def some_examples() -> Response:
        nonlocal example_search
        searcher = engine.searcher
        if example_search is None or _stale(example_search, searcher):
            example_search = (time.monotonic(), searcher, asyncio.ensure_future(_examples(engine, searcher)))
        return json_answer(await asyncio.shield(example_search[2]))

    @app.post(
        "/api/marks", operation_id="mark", tags=["items"], response_model=MarksOut, responses=problems(404, 413, 422),
        summary="Favourite or hide pictures, or take that back",
    )  # fmt: skip
    async def mark(body: MarksIn) -> Response:
        wanted = {name: on for name in ("favourite", "hidden") if (on := getattr(body, name)) is not None}
        if not wanted:
            raise ProblemError(422, "nothing is said of these pictures", "Send favourite or hidden, true or false.")
        return json_answer({"changed": await engine.read(_mark, engine.searcher.store, body.ids, wanted)})


def _stale(search: tuple[float, Searcher, asyncio.Future[list[str]]], searcher: Searcher) -> bool:
    since, of, future = search
    failed = future.done() and (future.cancelled() or future.exception() is not None)
    return failed or of is not searcher or time.monotonic() - since > EXAMPLES_SECONDS


async def _examples(engine: Engine, searcher: Searcher) -> list[str]:
    """Between the steps the encoder is free for whoever searches."""
    steps, found = examples(searcher), list[str]()
    while (some := await engine.encode(next, steps, None)) is not None:
        found = some
    return found


def _filter(searcher: Searcher, text: str | None) -> Filter | None:
    return searcher.hiding.without(parse(text) if text else None)


def _latest(searcher: Searcher, top: int, after: str, filter: str, stack: bool) -> dict[str, Any]:
    dated, comma, id = after.partition(",")
    if after and (not comma or "\0" in after):
        raise ProblemError(422, "after is no place in the order", "Send what the page before it gave.")
    store = searcher.store
    found = store.latest(top + 1, after=(dated, id) if comma else None, filter=_filter(searcher, filter))
    shown, more = found[:top], len(found) > top
    items = shapes.with_stacks(store, shown) if stack else [shapes.shown(item) for item in shown]
    return {"items": items, "after": ",".join(shown[-1].place) if more else None}


def _facets(store: Store, filter: Filter | None) -> FacetsOut:
    months = store.tally("dated", filter=filter, cut=7)
    return FacetsOut(months=months[::-1], folders=store.tally("folder", filter=filter))


def _places(searcher: Searcher) -> list[dict[str, Any]]:
    """Cells of a grid, those with most pictures first."""
    store, filter = searcher.store, _filter(searcher, None)
    located = Has("lat")
    if not store.count("image", located):
        return []
    cells: dict[tuple[int, int], list[Item]] = {}
    for item in store.all_items("image"):
        lat, lon = item.meta.get("lat"), item.meta.get("lon")
        if (
            isinstance(lat, int | float)
            and isinstance(lon, int | float)
            and (filter is None or filter.matches(item.meta))
        ):
            cells.setdefault((round(lat / CELL), round(lon / CELL)), []).append(item)
    largest = sorted(cells.values(), key=lambda cell: (-len(cell), cell[0].id))[:PLACES]
    return [
        {
            "lat": round(sum(float(item.meta["lat"]) for item in cell) / len(cell), 4),
            "lon": round(sum(float(item.meta["lon"]) for item in cell) / len(cell), 4),
            "count": len(cell),
            "item": shapes.shown(max(cell, key=lambda item: item.place)),
        }
        for cell in largest
    ]


def _mark(store: Store, ids: list[str], wanted: dict[str, bool]) -> list[str]:
    try:
        items = store.items(list(dict.fromkeys(ids)))
        changed = [item.id for item in items if any((item.meta.get(name) is True) != on for name, on in wanted.items())]
        if any(item.kind != "image" for item in items):
            raise ProblemError(422, "only pictures can be marked", "Send the ids of pictures.")
        if changed:
            store.mark(changed, wanted)
    except KeyError:
        raise ProblemError(404, "there is no such item", "Ids are in the answers of a search.") from None
    return changed
