from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.search.stores.reference import DIM, Reference, picture, vectors
from tests.search.stores.test_embedded import IMAGES, TEXTS, cones
from tests.search.stores.test_stores import whole

from vsekit.errors import UserError
from vsekit.search.filters import parse
from vsekit.search.stores import open_store
from vsekit.search.stores.base import UnreachableError
from vsekit.search.stores.postgres import PostgresStore, statements
from vsekit.search.stores.postgres import store as postgres
from vsekit.search.stores.postgres.statements import split

COUNT = 3000


def test_an_address_is_split_into_libpqs_own_and_the_table() -> None:
    assert split("postgresql://me:pw@host:5433/db?table=photos&sslmode=require") == (
        "postgresql://me:pw@host:5433/db?sslmode=require",
        "photos",
    )
    assert split("postgresql:///db") == ("postgresql:///db", "vsekit")
    for wrong in ("a;drop table b", "a-b", "", "ä", '"', "x" * 60):
        with pytest.raises(UserError, match="name of the table"):
            split(f"postgresql://h/d?table={wrong}")


def test_a_server_that_is_not_there_is_a_mistake_with_a_remedy() -> None:
    with pytest.raises(UserError, match="can't reach PostgreSQL"):
        open_store("postgresql://nobody@127.0.0.1:1/none?connect_timeout=2")


def test_above_the_threshold_text_queries_find_99_percent_of_the_true_best(
    place_of: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "FEW", 500)
    place = place_of("postgres")
    with PostgresStore(place, 64, approximate_above=2000) as store:
        store.set_header({"sample_queries": TEXTS[300:400].tolist()})
        store.write([picture(i, half=i % 2, rare=i % 50 == 0) for i in range(COUNT)], IMAGES[:COUNT])
    with PostgresStore(place) as store:
        effort = int(store._about("effort image", "0"))
        assert effort > 0
        assert "hnsw" in _plan(store, effort)
        assert "hnsw" not in _plan(store, 0)
        numbers = np.arange(COUNT)
        tests = {"half = 1": numbers % 2 == 1, "rare = true": numbers % 50 == 0, "has half": numbers >= 0}
        for filter, allowed in [(None, numbers >= 0), *((parse(text), passing) for text, passing in tests.items())]:
            found = store.search(TEXTS[:60], 10, kind="image", filter=filter)
            scores = np.where(allowed, TEXTS[:60] @ IMAGES[:COUNT].T, -np.inf)
            truth = [{f"p{i:04d}" for i in row} for row in np.argsort(-scores, axis=1)[:, :10]]
            assert np.mean([len(true & set(answer.ids)) / 10 for true, answer in zip(truth, found)]) >= 0.99
            assert all(len(answer.ids) == 10 for answer in found)


def _plan(store: PostgresStore, effort: int) -> str:
    def look(connection: Any) -> str:
        statements.set_effort(connection, effort)
        explain = f"explain select id from \"{store.table}\" where kind = 'image' order by vector <#> %s, id limit 10"
        return "\n".join(row[0] for row in connection.execute(explain, [TEXTS[0]]))

    return store._connections.read(look)


def test_an_error_inside_a_write_leaves_the_state_before(place_of: Callable[[str], str]) -> None:
    reference = Reference()
    with PostgresStore(place_of("postgres"), DIM) as store:
        for target in (store, reference):
            target.write([picture(i, n=i) for i in range(9)], vectors(9))
        with pytest.raises(KeyError):
            store.update([picture(1, n=50), picture(99)])
        whole(store, reference)


def test_two_indexes_share_a_database(place_of: Callable[[str], str]) -> None:
    with open_store(place_of("postgres"), create=DIM) as one, open_store(place_of("postgres"), create=4) as two:
        one.write([picture(1)], vectors(1))
        two.write([picture(1), picture(2)], vectors(2, dim=4))
        assert (one.count(), two.count()) == (1, 2)


def test_the_writers_lock_goes_with_its_connection(place_of: Callable[[str], str]) -> None:
    place = place_of("postgres")
    killed = PostgresStore(place, DIM)
    killed.write([picture(1)], vectors(1))
    killed._connections.writer.close()  # type: ignore[union-attr]  # as a kill would
    with open_store(place) as store:
        store.write([picture(2)], vectors(1))
        assert store.count() == 2
        assert set(store.fields()) == set()


def end_backends(place: str) -> None:
    """All but this one, as an administrator or a restart does."""
    with statements.connect(split(place)[0]) as connection:
        connection.execute("select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()")


def test_reading_goes_on_when_the_backends_end(place_of: Callable[[str], str]) -> None:
    place = place_of("postgres")
    reference = Reference()
    with PostgresStore(place, DIM) as store:
        for target in (store, reference):
            target.write([picture(i, n=i) for i in range(9)], vectors(9))
    with PostgresStore(place) as store:
        for _ in range(3):
            end_backends(place)
            whole(store, reference)


def test_a_backend_that_ends_while_writing_is_no_traceback_and_loses_nothing(place_of: Callable[[str], str]) -> None:
    place = place_of("postgres")
    reference = Reference()
    with PostgresStore(place, DIM) as store:
        for target in (store, reference):
            target.write([picture(i, n=i) for i in range(9)], vectors(9))
        end_backends(place)
        for _ in range(2):  # nor does it write without its lock afterwards
            with pytest.raises(UnreachableError, match=r"does not answer[\s\S]*same command goes on"):
                store.write([picture(20)], vectors(1))
    with PostgresStore(place, DIM) as store:
        whole(store, reference)
        store.write([picture(20)], vectors(1))


def test_an_index_that_is_dropped_or_made_again_is_another_one(place_of: Callable[[str], str]) -> None:
    place = place_of("postgres")
    with PostgresStore(place, DIM) as store:
        before = store.identity()
        store.write([picture(1)], vectors(1))
        assert store.identity() == before
        with statements.connect(split(place)[0]) as connection:
            connection.execute(f'drop table "{store.table}", "{store.table}_about"')
        with pytest.raises(UnreachableError, match="gone"):
            store.identity()
        with pytest.raises(UnreachableError, match="gone"):
            store.search(vectors(1), 3, kind="image")
        PostgresStore(place, DIM).close()
        assert store.identity() != before


def test_cones_are_apart() -> None:
    images, texts = cones(500, 500)
    assert (images @ images.T).mean() > (images @ texts.T).mean() + 0.2


def test_a_rebuild_counts_on_so_that_readers_notice_it(place_of: Callable[[str], str]) -> None:
    with open_store(place_of("postgres"), create=DIM) as store:
        assert isinstance(store, PostgresStore)
        store.write([picture(1)], vectors(1))
        before = int(store._about("generation", "0"))
        store.set_header({"model": "m"})
        store.rebuild(DIM)
        assert int(store._about("generation", "0")) > before
        assert store.header == {}
