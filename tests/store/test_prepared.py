"""Statements that the driver runs itself behave as if SQLAlchemy did."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import bindparam, func, select

from receiver.adapters.store import SqlStore, open_store
from receiver.adapters.store.database import put
from receiver.adapters.store.prepared import Prepared, Query
from receiver.adapters.store.schema import node_lives, pools
from receiver.ports import TryLater
from tests.store.builders import NOW, POOL, PostgresServer

OFFER = {"node": "gpu-1", "allocatable": {"nvidia.com/gpu": 8}, "at": NOW, "taints": [["a", "b%c", "NoSchedule"]]}
A_POOL: dict[str, Any] = {"pool": POOL, "required_since": NOW, "ready_in": timedelta(minutes=4), "offer": OFFER}
A_LIFE: dict[str, Any] = {
    "instance": "i-1",
    "pool": POOL,
    "name": "gpu-1",
    "size": "an.g1.small",
    "created_at": NOW,
    "price_usd_per_hour": Decimal("1.290"),
    "kept_for": "100 % of a test",
    "gpus": 8,
    "changed_at": NOW,
}
LIVES = Query(select(node_lives).where(node_lives.c.pool == bindparam("of_pool")))


def test_what_is_prepared_reads_what_sqlalchemy_reads(store: SqlStore) -> None:
    with store._database.write() as connection:
        put(connection, pools, A_POOL, required=2)
        put(connection, node_lives, A_LIFE)
    with store._database.read() as connection:
        for table in (pools, node_lives):
            found = [dict(row) for row in connection.execute(select(table)).mappings()]
            assert Query(select(table)).rows(connection) == found
        first = LIVES.first(connection, of_pool=POOL)
        assert LIVES.first(connection, of_pool="another") is None
    assert first is not None
    assert {name: first[name] for name in A_LIFE} == A_LIFE


def test_what_is_put_for_a_new_row_only_leaves_an_old_one_as_it_is(store: SqlStore) -> None:
    with store._database.write() as connection:
        put(connection, pools, A_POOL, required=2)
        put(connection, pools, {"pool": POOL, "watched_since": NOW}, required=5)
        assert Query(select(pools.c.required, pools.c.watched_since)).tuples(connection) == [[2, NOW]]


def test_what_is_prepared_sees_one_state_of_the_store(store: SqlStore) -> None:
    with store._database.read() as connection:
        before = LIVES.rows(connection, of_pool=POOL)
        with store._database.write() as other:
            put(other, node_lives, A_LIFE)
        assert LIVES.rows(connection, of_pool=POOL) == before == []


def test_a_server_that_ends_a_session_under_what_is_prepared_is_quoted(postgres: PostgresServer) -> None:
    store = open_store(postgres.url)
    with pytest.raises(TryLater, match="terminating connection due to administrator command"):
        end_our_own_session(store)
    store.close()


def end_our_own_session(store: SqlStore) -> None:
    with store._database.read() as connection:
        Query(select(func.pg_terminate_backend(func.pg_backend_pid()))).scalar(connection)


def test_a_list_that_grows_with_its_values_cannot_be_prepared(store: SqlStore) -> None:
    one_of = select(pools).where(pools.c.pool.in_(bindparam("any_of", expanding=True)))
    with pytest.raises(AssertionError, match="IN"):
        Prepared(store._database.engine.dialect, one_of)
