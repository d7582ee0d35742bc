"""What all stores do to items and vectors on their way in and out."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from vsekit.search.filters import clean_text, number
from vsekit.search.items import MARKS, Item, Kind, Value

KINDS: tuple[Kind, ...] = ("image", "caption")
#: Of an item after id and kind, and before its metadata.
COLUMNS = ("path", "text", "picture", "width", "height", "content", "size", "mtime_ns")
_DECODER = json.JSONDecoder()


def clean_meta(meta: Mapping[str, Value]) -> dict[str, Value]:
    """Metadata as every store holds it: see `clean_text` and `number`; numbers that are not finite are left out."""
    result: dict[str, Value] = {}
    for name, value in meta.items():
        if isinstance(value, str):
            result[clean_text(name)] = clean_text(value)
        elif isinstance(value, bool):
            result[clean_text(name)] = value
        elif math.isfinite(value):
            result[clean_text(name)] = number(value)
    return result


def marked(meta: Mapping[str, Value], before: Mapping[str, Value]) -> dict[str, Value]:
    """Metadata to be written for an item that is there: its marks stay as they are, whatever the writer knew of them."""
    others = {name: value for name, value in meta.items() if name not in MARKS}
    return others | {name: before[name] for name in MARKS if name in before}


def to_doc(item: Item, meta: Mapping[str, Value]) -> str:
    """An item but for its id and kind. ASCII: file names may hold what UTF-8 can't."""
    return json.dumps([*(getattr(item, name) for name in COLUMNS), meta], separators=(",", ":"))


def from_doc(id: str, kind: str, doc: str) -> Item:
    return Item(id, cast(Kind, kind), *_DECODER.raw_decode(doc)[0])


def checked(items: Sequence[Item], vectors: np.ndarray, dim: int) -> tuple[list[Item], np.ndarray]:
    """Items and vectors of one write: the last of each id, vectors contiguous float32."""
    vectors = np.ascontiguousarray(vectors, dtype=np.float32)
    if len(items) and vectors.shape != (len(items), dim):
        raise ValueError(f"{len(items)} items of dimension {dim} came with vectors of shape {vectors.shape}")
    if not np.isfinite(vectors).all():
        raise ValueError("a vector is not finite")
    last = {item.id: i for i, item in enumerate(items)}
    if len(last) < len(items):
        items, vectors = [items[i] for i in last.values()], vectors[list(last.values())]
    return list(items), vectors


def scores(query: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """(n,) float32 inner products of (dim,) with (n, dim), summed in double precision: equal vectors score equally wherever
    they stand, which a blocked product in single precision does not promise."""
    return (vectors.astype(np.float64) * query.astype(np.float64)).sum(axis=1).astype(np.float32)


def ranked(ids: Sequence[str], values: np.ndarray, top: int) -> tuple[list[str], np.ndarray]:
    """The best `top`, best first, ties by id."""
    plain = values.tolist()
    order = sorted(range(len(ids)), key=lambda i: (-plain[i], ids[i]))[:top]
    return [ids[i] for i in order], values[order]


def summary(metas: Iterable[Mapping[str, Value]]) -> dict[str, dict[str, Any]]:
    """`Store.fields` of pictures with this metadata. Where a field's types are mixed, the commonest is described."""
    tallies: dict[str, dict[str, Counter[Any]]] = {}
    for meta in metas:
        for name, value in meta.items():
            kind = "boolean" if isinstance(value, bool) else "text" if isinstance(value, str) else "number"
            tallies.setdefault(name, {}).setdefault(kind, Counter())[value] += 1
    fields: dict[str, dict[str, Any]] = {}
    for name, types in sorted(tallies.items()):
        kind, tally = max(types.items(), key=lambda entry: entry[1].total())
        fields[name] = {"type": kind, "count": sum(entry.total() for entry in types.values())}
        if kind == "number":
            fields[name].update(min=min(tally), max=max(tally))
        else:
            common = sorted(tally.items(), key=lambda entry: (-entry[1], entry[0]))[:50]
            fields[name]["values"] = [list(entry) for entry in common]
    return fields
