"""What the searcher gives, in the shapes of `vsekit.serve.schemas`: as plain values, which cost the least to write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from vsekit.search.hubs import plain
from vsekit.search.items import Item
from vsekit.search.searcher import Answer, Searcher
from vsekit.search.stacks import stacked
from vsekit.search.stores.base import Store
from vsekit.search.words import WRITTEN
from vsekit.serve.schemas import StatusOut

#: Where things lie on this machine is nobody's business.
PRIVATE = frozenset({"collection"})
#: Long texts of which no two are alike: nothing to choose from.
LONG = frozenset({"title", "description", "keywords", "comment", WRITTEN})


def name_of(item: Item) -> str:
    """Of its file."""
    return item.path.rpartition("/")[2] or item.id


def shown(item: Item) -> dict[str, Any]:
    picture = item.picture or item.id
    thumbnail = picture_url = None
    if item.path:
        address = f"/api/items/{_quoted(picture)}"
        version = f"?v={_quoted(item.content)}" if item.content else ""
        thumbnail, picture_url = f"{address}/thumbnail{version}", f"{address}/picture{version}"
    return {
        "id": item.id,
        "kind": item.kind,
        "picture": picture,
        "name": name_of(item),
        "text": item.text,
        "width": item.width,
        "height": item.height,
        "meta": {name: value for name, value in item.meta.items() if name not in PRIVATE},
        "captions": [],
        "stack": None,
        "thumbnail": thumbnail,
        "picture_url": picture_url,
    }


def _quoted(text: str) -> str:
    """For a URL. What indexing makes is letters and digits, which need no quoting, and that takes its time."""
    return text if text.isascii() and text.isalnum() else quote(text, safe="")


def detail(store: Store, item: Item) -> dict[str, Any]:
    """With the captions of its picture."""
    captions: list[str] = []
    while True:  # a caption's id is its picture's with its number
        try:
            captions.append(store.items([f"{item.picture or item.id}#{len(captions)}"])[0].text)
        except KeyError:
            return shown(item) | {"captions": captions}


def with_stacks(store: Store, items: Sequence[Item], skip: int = 0) -> list[dict[str, Any]]:
    """Items but for the first `skip`, each with the stack it is in; those may be the first of one."""
    try:
        places = stacked(items, plain(store, store.vectors([item.id for item in items]))) if items else []
    except KeyError:  # one was removed since it was found
        places = list(range(len(items)))
    return [
        shown(item) | {"stack": items[place].id if place != i else None}
        for i, (item, place) in enumerate(zip(items, places))
    ][skip:]


def answer(
    found: Answer, encode: float, search: float, total: float, stacks: Sequence[dict[str, Any]] | None = None
) -> dict[str, Any]:
    """stacks: the items of the hits, where they are stacked."""
    items = [shown(hit.item) for hit in found.hits] if stacks is None else stacks
    for item, hit in zip(items, found.hits):
        item["score"], item["standing"], item["match"] = hit.score, hit.standing, hit.match
        item["said"] = [one._asdict() for one in hit.said]
    return {
        "hits": list(items),
        "verdict": found.verdict,
        "more": found.more,
        "timing": {"encode": encode, "search": search, "total": total},
    }


def sizes(store: Store) -> dict[str, int]:
    return {"image": store.count("image"), "caption": store.count("caption")}


def status(searcher: Searcher) -> StatusOut:
    counts, header, model = sizes(searcher.store), searcher.store.header, searcher.model
    return StatusOut(
        pictures=counts["image"],
        captions=counts["caption"],
        model=model.name,
        model_fingerprint=model.fingerprint,
        dim=searcher.model.dim,
        store=type(searcher.store).__name__.removesuffix("Store").lower(),
        reranker=getattr(searcher.reranker, "name", None),
        fields={name: field for name, field in searcher.store.fields().items() if name not in PRIVATE | LONG},  # type: ignore[misc]
        indexed=header.get("indexed"),
    )
