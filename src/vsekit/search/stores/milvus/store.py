"""The Milvus store, for clusters: a collection with a partition for each kind of item.

    milvus://[user:password@]host:port/collection[?secure=true]

    key          id and generation, the primary key      doc          the item as JSON
    id, kind     of the item                             meta         its metadata, for filters (`filter.stored`)
    generation   of the write that brought it            vector       indexed with HNSW

Ids and metadata are hexadecimal there, since Milvus' expressions can't quote every text; `doc` has them as they are.

Milvus has no transactions and readers see rows as they come. What makes a write one is a *marker* among the collection's
properties, which are set at once: the generation that counts, and the rows that don't any more. A write
1. inserts its rows under the next generation, which nobody looks at yet,
2. reads, with strong consistency, which rows they replace: then the new ones can be seen everywhere,
3. sets the marker: from now on the new rows count and the replaced ones don't,
4. deletes the replaced ones.
Killed before 3 it leaves rows that don't count, killed after it rows that are marked; the next writer removes both. A
reader looks at the marker before and after and reads again if it has changed. What Milvus can't give: a write of more than
`WHOLE` items is several; `all_items` sees each page of items whole, but what is written meanwhile may show in later pages;
and the lock against a second writer is a lease that two could take in the same few milliseconds.
"""

from __future__ import annotations

import heapq
import json
import os
import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

import numpy as np

from vsekit.errors import UserError
from vsekit.search.filters import Filter
from vsekit.search.items import Item, Kind
from vsekit.search.stores import approximate
from vsekit.search.stores.base import Found, Store
from vsekit.search.stores.milvus.filter import condition as expression
from vsekit.search.stores.milvus.filter import stored
from vsekit.search.stores.rows import KINDS, checked, clean_meta, from_doc, ranked, scores, summary, to_doc

Result = TypeVar("Result")

PAGE = 1000  # rows or ids in one request
WHOLE = 5000  # items or deletions in one write: the marker names those replaced, and must stay below 1 MB
MOST = 16384  # hits that Milvus gives
SLACK = 16
LEASE = 120.0  # seconds
LEAST_EFFORT, EFFORTS, TRUTH = 256, (256, 512, 1024, 2048, 4096), 16384  # of HNSW's ef
MARKER, WRITER = "vsekit.marker", "vsekit.writer"
NEW = {"generation": 0, "time": 0, "gone": [], "header": {}, "effort": {}, "fields": None}


class MilvusStore(Store):
    """See the module.

    Args:
        location: the address.
        create: the size of the vectors, to make the collection where there is none.
        rebuild: forget what is there, whatever the size of its vectors.
        approximate_above: with more vectors of a kind than this, the effort of HNSW is measured when writing ends.
    """

    def __init__(
        self, location: str, create: int | None = None, *, rebuild: bool = False, approximate_above: int = 200_000
    ) -> None:
        from pymilvus import MilvusClient
        from pymilvus.exceptions import MilvusException

        self.location = location
        self.approximate_above = approximate_above
        self._token = ""
        self._leased = 0.0
        address, self.collection = _split(location)
        try:
            self._client = MilvusClient(**address, timeout=30)
        except MilvusException as error:
            raise UserError(
                f"can't reach Milvus at {address['uri']}: {error.message}",
                remedy="Is the server running, and the address right?",
            ) from None
        if not self._client.has_collection(self.collection):
            if create is None:
                raise UserError(
                    f"there is no index in the collection '{self.collection}'",
                    remedy="Make one: vse index MODEL FOLDER --store milvus://host:port/NAME",
                )
            self._create(create)
        description = self._client.describe_collection(self.collection)
        if MARKER not in description["properties"]:
            raise UserError(
                f"the collection '{self.collection}' was not made by vsekit",
                remedy="Choose another name for the index.",
            )
        self.dim = _dim(description)
        if rebuild and create is not None:
            self.rebuild(create)
        elif create not in (None, self.dim):
            raise UserError(
                f"the index in '{self.collection}' holds vectors of {self.dim}, not of {create}",
                remedy="It was made with another model. Use that one, or another collection.",
            )
        self._complete()

    def _create(self, dim: int, **properties: str) -> None:
        from pymilvus import DataType

        schema = self._client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("key", DataType.VARCHAR, is_primary=True, max_length=4096)
        schema.add_field("id", DataType.VARCHAR, max_length=4000)
        schema.add_field("kind", DataType.VARCHAR, max_length=16)
        schema.add_field("generation", DataType.INT64)
        schema.add_field("doc", DataType.VARCHAR, max_length=65535)
        schema.add_field("meta", DataType.JSON)
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dim)
        self._client.create_collection(
            self.collection, schema=schema, properties={MARKER: json.dumps(NEW), **properties}
        )

    def _complete(self) -> None:
        """What a collection needs beside itself; a kill may have come between them."""
        for kind in KINDS:
            if not self._client.has_partition(self.collection, kind):
                self._client.create_partition(self.collection, kind)
        present = self._client.list_indexes(self.collection)
        hnsw = {"index_type": "HNSW", "metric_type": "IP", "params": {"M": 24, "efConstruction": 200}}
        wanted: dict[str, dict[str, Any]] = {"vector": hnsw, "id": {"index_type": "Trie"}}
        for field, settings in wanted.items():
            if field not in present:
                indexes = self._client.prepare_index_params()
                indexes.add_index(field, **settings)
                self._client.create_index(self.collection, indexes)
        self._client.load_collection(self.collection)

    # The marker, and reading what counts

    def _properties(self) -> dict[str, str]:
        properties: dict[str, str] = self._client.describe_collection(self.collection)["properties"]
        return properties

    def _marker(self) -> dict[str, Any]:
        marker: dict[str, Any] = json.loads(self._properties()[MARKER])
        return marker

    def _set_marker(self, marker: Mapping[str, Any]) -> None:
        self._client.alter_collection_properties(self.collection, {MARKER: json.dumps(marker)})

    def _whole(self, read: Callable[[dict[str, Any]], Result]) -> Result:
        """What `read` finds while the marker stays the same."""
        for _ in range(20):
            marker = self._marker()
            result = read(marker)
            if self._marker()["generation"] == marker["generation"]:
                return result
        raise UserError(f"the index in '{self.collection}' changes faster than it can be read")

    def _query(
        self, marker: Mapping[str, Any], condition: str, fields: list[str], kind: str | None = None, limit: int = MOST
    ) -> list[dict[str, Any]]:
        found = self._client.query(
            self.collection,
            filter=_and(_counts(marker), condition),
            output_fields=fields,
            partition_names=[kind] if kind else list(KINDS),
            limit=limit,
            **_fresh(marker),
        )
        return list(found)

    def _rows(self, marker: Mapping[str, Any], ids: Sequence[str], fields: list[str]) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for start in range(0, len(ids), PAGE):
            rows = self._query(marker, _among(map(_hex, ids[start : start + PAGE])), ["id", *fields])
            found.update((_unhex(row["id"]), row) for row in rows)
        return found

    def _pages(
        self, marker: Callable[[], Mapping[str, Any]], condition: str, fields: list[str], kind: str
    ) -> Iterator[list[dict[str, Any]]]:
        last = ""
        while rows := self._query(marker(), _and(f'id > "{last}"', condition), ["id", *fields], kind, PAGE):
            rows.sort(key=lambda row: row["id"])
            yield rows
            last = rows[-1]["id"]

    # Writing

    @property
    def header(self) -> dict[str, Any]:
        header: dict[str, Any] = self._marker()["header"]
        return header

    def set_header(self, header: Mapping[str, Any]) -> None:
        marker = self._writing()
        self._set_marker({**marker, "header": dict(header)})

    def lock(self) -> None:
        self._writing()
        dim = _dim(self._client.describe_collection(self.collection))
        if dim != self.dim:
            raise UserError(
                f"the index in '{self.collection}' was made anew: it holds vectors of {dim} now, not of {self.dim}",
                remedy="Open it again, with its new model.",
            )

    def rebuild(self, dim: int) -> None:
        """The collection is dropped and made again, with this writer's lease; Milvus can't do both at once."""
        self._writing()
        self._client.drop_collection(self.collection)
        self._create(dim, **{WRITER: f"{self._token} {self._leased}"})
        self._complete()
        self.dim = dim

    def _writing(self) -> dict[str, Any]:
        """Takes or renews the lease; on taking it, removes what a killed writer left. Gives the marker."""
        if self._token and time.time() < self._leased - LEASE / 2:
            return self._marker()
        host, _, rest = self._properties().get(WRITER, "").partition(" ")
        process, _, until = rest.partition(" ")
        mine = f"{host} {process}" == self._token
        if host and not mine and time.time() < float(until) and not _dead(host, process):
            raise UserError(
                f"another process ({process.partition('-')[0]} on {host}) is writing to the index in '{self.collection}'",
                remedy="Wait until it has finished; searching goes on meanwhile.",
            )
        first = not self._token
        self._token = self._token or f"{socket.gethostname()} {os.getpid()}-{os.urandom(4).hex()}"
        self._leased = time.time() + LEASE
        self._client.alter_collection_properties(self.collection, {WRITER: f"{self._token} {self._leased}"})
        marker = self._marker()
        if first:
            self._remove(marker["gone"])
            while left := self._strong(f"generation > {marker['generation']}"):
                self._remove(left)
            if marker["gone"]:
                self._set_marker(marker := {**marker, "gone": []})
        return marker

    def _strong(self, condition: str) -> list[str]:
        """Keys of rows, of those that don't count too, after every write before now."""
        rows = self._client.query(
            self.collection, filter=condition, output_fields=["key"], limit=MOST, consistency_level="Strong"
        )
        return [row["key"] for row in rows]

    def _remove(self, keys: Sequence[str]) -> None:
        for start in range(0, len(keys), PAGE):
            self._client.delete(self.collection, filter=_among(keys[start : start + PAGE], "key"))

    def write(self, items: Sequence[Item], vectors: np.ndarray, deleted: Sequence[str] = ()) -> None:
        items, vectors = checked(items, vectors, self.dim)
        gone = sorted(set(deleted) - {item.id for item in items})
        for start in range(0, max(len(items), len(gone), 1), WHOLE):
            part = slice(start, start + WHOLE)
            self._write(items[part], vectors[part], gone[part])

    def _write(self, items: Sequence[Item], vectors: np.ndarray, deleted: Sequence[str]) -> None:
        marker = self._writing()
        generation = marker["generation"] + 1
        rows: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
        for item, vector in zip(items, vectors):
            meta = clean_meta(item.meta)
            rows[item.kind].append(
                {
                    "key": f"{_hex(item.id)}.{generation}",
                    "id": _hex(item.id),
                    "kind": item.kind,
                    "generation": generation,
                    "doc": to_doc(item, meta),
                    "meta": stored(meta),
                    "vector": vector.tolist(),
                }
            )
        for kind, new in rows.items():
            for start in range(0, len(new), PAGE):
                self._client.insert(self.collection, new[start : start + PAGE], partition_name=kind)
        ids = [_hex(id) for id in (*deleted, *(item.id for item in items))]
        replaced = []
        for start in range(0, max(len(ids), 1), PAGE):
            condition = _and(_among(ids[start : start + PAGE]), f"generation < {generation}")
            replaced += self._strong(condition)
        # What the last write marked was deleted before this read, so it needs no mark any more.
        replaced = sorted(set(replaced) - set(marker["gone"]))
        now = int(1000 * time.time())
        self._set_marker({**marker, "generation": generation, "time": now, "gone": replaced})
        self._remove(replaced)

    def update(self, items: Sequence[Item]) -> None:
        marker = self._marker()
        items = list({item.id: item for item in items}.values())
        rows = self._rows(marker, [item.id for item in items], ["kind", "vector"])
        for item in items:
            if item.id not in rows or rows[item.id]["kind"] != item.kind:
                raise KeyError(item.id)
        vectors = [rows[item.id]["vector"] for item in items]
        self.write(items, np.array(vectors, dtype=np.float32).reshape(len(items), self.dim))

    # Reading

    def items(self, ids: Sequence[str]) -> list[Item]:
        rows = self._whole(lambda marker: self._rows(marker, ids, ["kind", "doc"]))
        return [_item(rows[id]) for id in ids]

    def vectors(self, ids: Sequence[str]) -> np.ndarray:
        rows = self._whole(lambda marker: self._rows(marker, ids, ["vector"]))
        return np.array([rows[id]["vector"] for id in ids], dtype=np.float32).reshape(len(ids), self.dim)

    def all_items(self, kind: Kind | None = None) -> Iterator[Item]:
        streams = [
            (_item(row) for rows in self._pages(self._marker, "", ["kind", "doc"], k) for row in rows)
            for k in KINDS
            if kind in (None, k)
        ]
        yield from heapq.merge(*streams, key=lambda item: item.id)

    def _passing(self, marker: Mapping[str, Any], kind: Kind, filter: Filter) -> list[str]:
        """The ids, as Milvus has them, of items that pass a filter which Milvus can't express."""
        pages = self._pages(lambda: marker, "", ["kind", "doc"], kind)
        return [row["id"] for rows in pages for row in rows if filter.matches(_item(row).meta)]

    def count(self, kind: Kind | None = None, filter: Filter | None = None) -> int:
        kinds = [k for k in KINDS if kind in (None, k)]
        condition = "" if filter is None else expression(filter)
        if filter is not None and condition is None:
            return self._whole(lambda marker: sum(len(self._passing(marker, k, filter)) for k in kinds))

        def count(marker: dict[str, Any]) -> int:
            rows = self._client.query(
                self.collection,
                filter=_and(_counts(marker), condition or ""),
                output_fields=["count(*)"],
                partition_names=kinds,
                **_fresh(marker),
            )
            return int(rows[0]["count(*)"])

        return self._whole(count)

    def fields(self) -> dict[str, dict[str, Any]]:
        return self._whole(self._described)

    def _described(self, marker: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        if marker["fields"] is None or marker["fields"][0] != marker["generation"]:
            pages = self._pages(lambda: marker, "", ["kind", "doc"], "image")
            return summary(_item(row).meta for rows in pages for row in rows)
        described: dict[str, dict[str, Any]] = marker["fields"][1]
        return described

    # Searching

    def search(self, queries: np.ndarray, top: int, *, kind: Kind, filter: Filter | None = None) -> list[Found]:
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        if queries.ndim != 2 or queries.shape[1] != self.dim:
            raise ValueError(f"queries of shape {queries.shape} for vectors of {self.dim}")
        if top < 1 or not len(queries):
            return [Found([], np.empty(0, dtype=np.float32)) for _ in queries]

        def look(marker: dict[str, Any]) -> list[Found]:
            condition = "" if filter is None else expression(filter)
            effort = marker["effort"].get(kind, LEAST_EFFORT)
            if filter is None or condition is not None:
                return self._search(marker, queries, top, kind, condition or "", effort)
            ids = self._passing(marker, kind, filter)
            parts = [
                self._search(marker, queries, top, kind, _among(ids[start : start + WHOLE]), effort)
                for start in range(0, len(ids), WHOLE)
            ]
            merged = []
            for i in range(len(queries)):
                values = [part[i].scores for part in parts] or [np.empty(0, dtype=np.float32)]
                merged.append(Found(*ranked([id for part in parts for id in part[i].ids], np.concatenate(values), top)))
            return merged

        return self._whole(look)

    def _search(
        self, marker: Mapping[str, Any], queries: np.ndarray, top: int, kind: Kind, condition: str, effort: int
    ) -> list[Found]:
        limit = min(top + SLACK, MOST)
        while True:
            answers = self._client.search(
                self.collection,
                data=list(queries),
                filter=_and(_counts(marker), condition),
                limit=limit,
                output_fields=["id", "vector"],
                partition_names=[kind],
                search_params={"metric_type": "IP", "params": {"ef": min(max(effort, 2 * limit), 2 * MOST)}},
                **_fresh(marker),
            )
            found = []
            cut = False
            for query, hits in zip(queries, answers):
                rows = [hit["entity"] for hit in hits]
                vectors = np.array([row["vector"] for row in rows], dtype=np.float32).reshape(len(rows), self.dim)
                values = scores(query, vectors)
                # Milvus knows no ties: where the last one found ties with the last one wanted, others might.
                cut |= len(rows) == limit and np.sort(values)[-top] <= values.min()
                found.append(Found(*ranked([_unhex(row["id"]) for row in rows], values, top)))
            if not cut or limit == MOST:
                return found
            limit = min(4 * limit, MOST)

    def _measure_effort(self, marker: Mapping[str, Any], kind: Kind) -> int:
        """The least of `EFFORTS` with which queries from outside find `approximate.TARGET` of what the greatest finds."""
        vectors = {
            k: np.array([row["vector"] for row in self._query(marker, "", ["vector"], k, 4096)], dtype=np.float32)
            for k in KINDS
        }
        other = next(vectors[k] for k in KINDS if k != kind)
        queries = approximate.sample_queries(vectors[kind], np.arange(len(vectors[kind])), other, marker["header"])[:64]
        top = approximate.TOP
        truth = [set(found.ids) for found in self._search(marker, queries, top, kind, "", TRUTH)]
        for effort in EFFORTS:
            found = [found.ids for found in self._search(marker, queries, top, kind, "", effort)]
            if sum(len(t & set(f)) for t, f in zip(truth, found)) >= approximate.TARGET * top * len(queries):
                return effort
        return TRUTH

    def close(self) -> None:
        """After writing: measures the effort where it is due, and gives the lease back."""
        if self._token:
            marker = self._writing()
            self._strong("generation < 0")  # until the last deletion can be seen everywhere
            large = [kind for kind in KINDS if self.count(kind) > self.approximate_above]
            if large:
                self._client.flush(self.collection)
            effort = {kind: self._measure_effort(marker, kind) for kind in large}
            fields = [marker["generation"], self._described(marker)]
            self._set_marker({**marker, "gone": [], "effort": effort, "fields": fields})
            self._client.alter_collection_properties(self.collection, {WRITER: ""})
            self._token = ""
        self._client.close()


def _split(location: str) -> tuple[dict[str, str], str]:
    """What the client takes, and the collection."""
    parts = urlsplit(location)
    name = parts.path.strip("/")
    if not parts.hostname or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,200}", name):
        raise UserError(
            f"can't read '{location}'", remedy="Write milvus://host:port/collection: letters, digits and underscores."
        )
    scheme = "https" if dict(parse_qsl(parts.query)).get("secure") == "true" else "http"
    address = {"uri": f"{scheme}://{parts.hostname}:{parts.port or 19530}"}
    if parts.username:
        address |= {"user": unquote(parts.username), "password": unquote(parts.password or "")}
    return address, name


def _dim(description: Mapping[str, Any]) -> int:
    return next(int(field["params"]["dim"]) for field in description["fields"] if field["name"] == "vector")


def _hex(id: str) -> str:
    return id.encode().hex()


def _unhex(id: str) -> str:
    return bytes.fromhex(id).decode()


def _item(row: Mapping[str, Any]) -> Item:
    return from_doc(_unhex(row["id"]), row["kind"], row["doc"])


def _among(values: Iterable[str], field: str = "id") -> str:
    return f"{field} in {json.dumps(list(values))}"


def _and(*conditions: str) -> str:
    return " and ".join(f"({condition})" for condition in conditions if condition)


def _counts(marker: Mapping[str, Any]) -> str:
    gone = f"not ({_among(marker['gone'], 'key')})" if marker["gone"] else ""
    return _and(f"generation <= {marker['generation']}", gone)


def _fresh(marker: Mapping[str, Any]) -> dict[str, Any]:
    """Asks for a state not older than the marker; Milvus' clock counts milliseconds in its upper 46 bits."""
    return {"consistency_level": "Customized", "guarantee_timestamp": max(1, marker["time"] << 18)}


def _dead(host: str, process: str) -> bool:
    """Whether a process of this machine has ended."""
    if host != socket.gethostname():
        return False
    try:
        os.kill(int(process.partition("-")[0]), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False
