"""A collection in Milvus, the marker that says which of its rows count, and expressions about them; see `store`."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from vsekit.errors import UserError
from vsekit.search.items import Item
from vsekit.search.stores.base import UnreachableError
from vsekit.search.stores.milvus import indexes
from vsekit.search.stores.milvus.client import Client
from vsekit.search.stores.milvus.lease import writer
from vsekit.search.stores.rows import KINDS, from_doc
from vsekit.search.words import VERSION

Result = TypeVar("Result")

PAGE = 1000  # rows or ids in one request
MOST = 16384  # hits that Milvus gives
SEEN = 120.0  # seconds until rows of an import are there
MARKER = "vsekit.marker"
NEW = {
    "generation": 0,
    "time": 0,
    "gone": [],
    "header": {},
    "effort": {},
    "fields": None,
    "words": VERSION,
    "index": "FLAT",
}


class Collection:
    """name: of the collection. client: that reaches it."""

    def __init__(self, client: Client, name: str) -> None:
        self.client, self.name = client, name

    def create(self, dim: int, **properties: str) -> None:
        from pymilvus import DataType

        schema = self.client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("key", DataType.VARCHAR, is_primary=True, max_length=4096)
        schema.add_field("id", DataType.VARCHAR, max_length=4000)
        schema.add_field("kind", DataType.VARCHAR, max_length=16)
        schema.add_field("generation", DataType.INT64)
        schema.add_field("doc", DataType.VARCHAR, max_length=65535)
        schema.add_field("meta", DataType.JSON)
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dim)
        self.client.create_collection(self.name, schema=schema, properties={MARKER: json.dumps(NEW), **properties})

    def complete(self) -> None:
        """What a collection needs beside itself; a kill may have come between them."""
        for kind in KINDS:
            if not self.client.has_partition(self.name, kind):
                self.client.create_partition(self.name, kind)
        present = self.client.list_indexes(self.name)
        if "vector" not in present:
            indexes.create(self, indexes.of(self.marker()))
        if "id" not in present:
            settings = self.client.prepare_index_params()
            settings.add_index("id", index_type="Trie")
            self.client.create_index(self.name, settings)
        self.client.load_collection(self.name)

    def replace(self, dim: int, **properties: str) -> None:
        """Makes the collection anew, for vectors of `dim`. The old one stays until the new one is whole, and then gets
        another name, from which `take_back` brings it back where a kill comes before the new one has its."""
        new, old = self._beside("new"), self._beside("old")
        self.clear()
        marker = {**NEW, "generation": self.marker()["generation"] + 1}  # so that readers notice
        new.create(dim, **{MARKER: json.dumps(marker), **properties})
        new.complete()
        self.client.rename_collection(self.name, old.name)
        self.client.rename_collection(new.name, self.name)
        self.client.drop_collection(old.name)

    def take_back(self) -> None:
        """Gives the collection its name again where a process was killed while it replaced it."""
        old = self._beside("old")
        if (
            not self.client.has_collection(self.name)
            and self.client.has_collection(old.name)
            and writer(old.properties()) is None
        ):
            self.client.rename_collection(old.name, self.name)

    def rest(self) -> None:
        """Until no writer loads the collection anew, which loading it here would disturb."""
        while _paused(self.properties()):
            time.sleep(0.2)

    def clear(self) -> None:
        """Drops what a process that was killed while it replaced the collection has left."""
        for left in (self._beside("new"), self._beside("old")):
            if self.client.has_collection(left.name):
                self.client.drop_collection(left.name)

    def _beside(self, what: str) -> Collection:
        return Collection(self.client, f"{self.name}_vsekit_{what}")

    def properties(self) -> dict[str, str]:
        properties: dict[str, str] = self.client.describe_collection(self.name)["properties"]
        return properties

    def identity(self) -> str:
        """UnreachableError until it can be searched: a server that was started again knows it before it has loaded it."""
        described = self.client.describe_collection(self.name)
        try:
            self.patient(self._ask)
        except UnreachableError:
            self.client.load_collection(self.name)
            self._ask()
        return f"{described['collection_id']} {dim_of(described)}"

    def _ask(self) -> None:
        self.client.query(self.name, filter="", limit=1, output_fields=["id"], consistency_level="Eventually")

    def check_size(self, dim: int) -> None:
        now = dim_of(self.client.describe_collection(self.name))
        if now != dim:
            raise UserError(
                f"the index in '{self.name}' was made anew: it holds vectors of {now} now, not of {dim}",
                remedy="Open it again, with its new model.",
            )

    def marker(self) -> dict[str, Any]:
        marker: dict[str, Any] = json.loads(self.properties()[MARKER])
        return marker

    def set_marker(self, marker: Mapping[str, Any]) -> None:
        self.client.alter_collection_properties(self.name, {MARKER: json.dumps(marker)})

    def whole(self, read: Callable[[dict[str, Any]], Result]) -> Result:
        """What `read` finds while the marker stays the same."""
        for _ in range(20):
            marker = self.marker()
            result, now = self._settled(lambda marker=marker: read(marker))  # type: ignore[misc]
            if now["generation"] == marker["generation"]:
                return result
        raise UserError(f"the index in '{self.name}' changes faster than it can be read")

    def patient(self, ask: Callable[[], Result]) -> Result:
        """What `ask` finds. While a writer has the collection loaded anew it is asked again: Milvus then refuses, or finds what
        is loaded so far."""
        return self._settled(ask)[0]

    def _settled(self, ask: Callable[[], Result]) -> tuple[Result, dict[str, Any]]:
        """As `patient`, with the marker after it."""
        while True:
            try:
                found = ask()
            except UnreachableError:
                if time.time() >= self.marker().get("paused", 0):
                    raise
            else:
                properties = self.properties()
                if not _paused(properties):
                    return found, json.loads(properties[MARKER])
            time.sleep(0.2)

    def query(
        self, marker: Mapping[str, Any], condition: str, fields: list[str], kind: str | None = None, limit: int = MOST
    ) -> list[dict[str, Any]]:
        found = self.client.query(
            self.name,
            filter=both(counts(marker), condition),
            output_fields=fields,
            partition_names=[kind] if kind else list(KINDS),
            limit=limit,
            **fresh(marker),
        )
        return list(found)

    def rows(self, marker: Mapping[str, Any], ids: Sequence[str], fields: list[str]) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for start in range(0, len(ids), PAGE):
            rows = self.query(marker, among(map(to_hex, ids[start : start + PAGE])), ["id", *fields])
            found.update((from_hex(row["id"]), row) for row in rows)
        return found

    def pages(
        self, marker: Callable[[], Mapping[str, Any]], condition: str, fields: list[str], kind: str
    ) -> Iterator[list[dict[str, Any]]]:
        last = ""

        def page() -> list[dict[str, Any]]:
            return self.query(marker(), both(f'id > "{last}"', condition), ["id", *fields], kind, PAGE)

        while rows := self.patient(page):
            rows.sort(key=lambda row: row["id"])
            yield rows
            last = rows[-1]["id"]

    def strong(self, condition: str) -> list[str]:
        """Keys of rows, of those that don't count too, after every write before now."""
        rows = self.client.query(
            self.name, filter=condition, output_fields=["key"], limit=MOST, consistency_level="Strong"
        )
        return [row["key"] for row in rows]

    def await_rows(self, generation: int, count: int) -> None:
        """Until as many rows of a generation can be seen, which an import brought."""
        until = time.monotonic() + SEEN
        while True:
            found = self.client.query(
                self.name,
                filter=f"generation == {generation}",
                output_fields=["count(*)"],
                consistency_level="Strong",
            )
            if int(found[0]["count(*)"]) == count:
                return
            if time.monotonic() > until:
                raise UnreachableError(
                    f"{found[0]['count(*)']} of {count} rows that Milvus took can be seen after {SEEN:.0f} seconds",
                    remedy="Has the server room? What was written before is whole; the same command goes on.",
                )
            time.sleep(0.2)

    def remove(self, keys: Sequence[str]) -> None:
        for start in range(0, len(keys), PAGE):
            self.client.delete(self.name, filter=among(keys[start : start + PAGE], "key"))


def reach(location: str) -> Collection:
    """Whether or not it is there yet."""
    from pymilvus import MilvusClient
    from pymilvus.exceptions import MilvusException

    address, name = split(location)
    try:
        return Collection(Client(MilvusClient(**address, timeout=30)), name)
    except MilvusException as error:
        raise UnreachableError(
            f"can't reach Milvus at {address['uri']}: {error.message}",
            remedy="Is the server running, and the address right?",
        ) from None


def _paused(properties: Mapping[str, str]) -> bool:
    """Whether a writer loads the collection anew (`indexes.change`)."""
    return time.time() < json.loads(properties[MARKER]).get("paused", 0) and writer(properties) is not None


def split(location: str) -> tuple[dict[str, str], str]:
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


def dim_of(description: Mapping[str, Any]) -> int:
    return next(int(field["params"]["dim"]) for field in description["fields"] if field["name"] == "vector")


def to_hex(id: str) -> str:
    return id.encode().hex()


def from_hex(id: str) -> str:
    return bytes.fromhex(id).decode()


def item_of(row: Mapping[str, Any]) -> Item:
    return from_doc(from_hex(row["id"]), row["kind"], row["doc"])


def among(values: Iterable[str], field: str = "id") -> str:
    return f"{field} in {json.dumps(list(values))}"


def both(*conditions: str) -> str:
    return " and ".join(f"({condition})" for condition in conditions if condition)


def counts(marker: Mapping[str, Any]) -> str:
    gone = f"not ({among(marker['gone'], 'key')})" if marker["gone"] else ""
    return both(f"generation <= {marker['generation']}", gone)


def fresh(marker: Mapping[str, Any]) -> dict[str, Any]:
    """Asks for a state not older than the marker; Milvus' clock counts milliseconds in its upper 46 bits."""
    return {"consistency_level": "Customized", "guarantee_timestamp": max(1, marker["time"] << 18)}
