"""The PostgreSQL store's address, and statements that need no state of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from vsekit.errors import UserError
from vsekit.search.filters import Filter
from vsekit.search.items import Kind
from vsekit.search.stores.base import UnreachableError
from vsekit.search.stores.postgres.filter import condition
from vsekit.search.stores.rows import KINDS

if TYPE_CHECKING:
    from psycopg import Connection


def split(location: str) -> tuple[str, str]:
    """The address libpq takes, and the table."""
    parts = urlsplit(location)
    params = parse_qsl(parts.query, keep_blank_values=True)
    table = dict(params).get("table", "vsekit")
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,40}", table):
        raise UserError(
            f"'{table}' can't be the name of the table", remedy="Use up to 41 letters, digits and underscores."
        )
    query = urlencode([(key, value) for key, value in params if key != "table"])
    return f"postgresql://{parts.netloc}{parts.path}" + f"?{query}" * bool(query), table


def connect(address: str) -> Connection[Any]:
    import psycopg

    try:
        return psycopg.connect(address)
    except psycopg.OperationalError as error:
        raise UnreachableError(
            f"can't reach PostgreSQL: {str(error).strip()}", remedy="Is the server running, and the address right?"
        ) from None


def where(table: str, kind: Kind | None, filter: Filter | None) -> tuple[str, list[object]]:
    # The kind stands in the text, since the planner must see it to choose the index of that kind.
    kinds = f"kind = '{kind}'" if kind in KINDS else "true"
    if filter is None:
        return kinds, []
    sql, params = condition(filter, table)
    return f"{kinds} and {sql}", params


def set_effort(connection: Connection[Any], effort: int) -> None:
    """For this transaction. With an effort, only the HNSW index gives rows in order without a sort; an iterative scan goes
    on, as long as it takes, where a filter leaves too few."""
    settings = {"enable_indexscan": "off", "enable_sort": "on"}
    if effort:
        settings = {"enable_indexscan": "on", "enable_sort": "off", "hnsw.ef_search": str(effort)}
        settings |= {"hnsw.iterative_scan": "strict_order", "hnsw.max_scan_tuples": str(2**31 - 1)}
    for name, value in settings.items():
        connection.execute("select set_config(%s, %s, true)", [name, value])


def fields(connection: Connection[Any], table: str) -> dict[str, dict[str, Any]]:
    """See `Store.fields`. Where a field's types are mixed, the commonest is described."""
    types = {"number": "number", "string": "text", "boolean": "boolean"}
    values = f"""from "{table}", jsonb_each(meta) as entry (field, value) where kind = 'image'"""
    groups = f"""select field, jsonb_typeof(value), count(*),
        min(case when jsonb_typeof(value) = 'number' then value::numeric end),
        max(case when jsonb_typeof(value) = 'number' then value::numeric end) {values} group by 1, 2"""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for field, *entry in connection.execute(groups):
        found.setdefault(field, []).append(tuple(entry))
    commonest = f"""select value, n from (select value, count(*) as n {values} and field = %s and jsonb_typeof(value) = %s
        group by 1) as counted order by n desc, value #>> '{{}}' collate "C" limit 50"""
    described: dict[str, dict[str, Any]] = {}
    for field, entries in sorted(found.items()):
        type, _, low, high = max(entries, key=lambda entry: entry[1])
        described[field] = {"type": types[type], "count": sum(entry[1] for entry in entries)}
        if type == "number":
            described[field].update(min=_plain(low), max=_plain(high))
        else:
            described[field]["values"] = [[value, n] for value, n in connection.execute(commonest, [field, type])]
    return described


def _plain(number: Any) -> int | float:
    return int(number) if number == int(number) else float(number)
