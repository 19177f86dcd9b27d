"""A what-if question over a real store and a living world changes nothing: no row, no write, no message, no metric."""

from collections.abc import Iterator
from typing import Any, cast

import pytest
from prometheus_client import generate_latest
from sqlalchemy import event, select

from receiver.adapters.store import SqlStore, open_in_memory
from receiver.adapters.store.schema import metadata
from receiver.config.settings import load_text
from receiver.ports import TryLater
from receiver.web import LastStep
from tests.clocks import FixedClock
from tests.given import lives
from tests.given.life import HOUR, Life, a_job
from tests.metrics.scrapes import a_registry
from tests.web.builders import Bench

YAML = """\
mode: act
pools:
  - name: l40s
    civo_pool_id: l40s-id
    size: an.g1.l40s.kube.x1
    resources: {nvidia.com/gpu: 1}
    max_nodes: 8
    price_usd_per_hour: 1.29
"""


def never() -> None:
    raise AssertionError("the loop was woken")


@pytest.fixture
def life() -> Iterator[Life]:
    """A pool with a busy node and work that waits."""
    store = open_in_memory()
    found = lives.waiting(store, a_job("one", duration=2 * HOUR))
    found.run(HOUR / 6)
    found.submit(*(a_job(name) for name in ("two", "three")))
    found.step()
    yield found
    store.close()


def rows(store: SqlStore) -> dict[str, list[Any]]:
    with store._database.engine.connect() as connection:
        return {table.name: list(connection.execute(select(table))) for table in metadata.sorted_tables}


@pytest.mark.parametrize(
    ("method", "path", "body", "reads"),
    [
        ("POST", "/api/v1/what-if", YAML.replace("max_nodes: 8", "max_nodes: 1"), []),
        ("POST", "/api/v1/what-if?as=changes", "budget.monthly_usd: 1", []),
        ("POST", "/api/v1/what-if?as=changes", "pools.l40s: {approval: {growth_above_usd_per_hour: 1}}", []),
        ("GET", "/api/v1/nodes/{node}/what-if", None, ["SELECT actions"]),  # what its last removal failed on
    ],
)
def test_nothing_is_written(life: Life, method: str, path: str, body: str | None, reads: list[str]) -> None:
    store, stepped, said = cast("SqlStore", life.store), life.steps[-1], []
    registry = a_registry(store, life.policy)
    last = LastStep(facts=stepped.facts, settings=load_text(YAML), mode="act")
    bench = Bench(store=store, policy=life.policy, clock=FixedClock(life.now), last_step=last, wake=never)
    client, before, scraped, done = bench.client(), rows(store), generate_latest(registry), life.writes()
    for port in (life.cloud, life.cluster, life.telemetry, life.alarms, life.accounts):
        port.fail_always(TryLater("a port was called", code="test"))
    event.listen(store._database.engine, "before_cursor_execute", lambda *args: said.append(args[2]))
    address = path.format(node=stepped.facts.pools[0].nodes[0].name)
    answer = client.open(address, method=method, data=body)
    assert answer.status_code == 200, answer.text
    assert [statement.partition(".")[0] for statement in said] == reads
    assert rows(store) == before
    assert life.writes() == done
    assert generate_latest(registry) == scraped
