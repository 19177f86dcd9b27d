"""What may still happen while a source is silent: the table of docs/guardrails.md, row by row, on the real step.

The rows are those of `tests.core.scaling.tables.SILENT_SOURCES`, which a test compares with the page; here each is
lived through, in every way in which its source can be silent.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from receiver.core.model.actions import Change
from receiver.core.model.model import Source
from receiver.core.model.policy import Fallback, Policy
from receiver.ports import Store, TryLater
from tests.core.builders import MINUTE, SECOND, a_pool
from tests.core.scaling.tables import SILENT_SOURCES as SOURCES
from tests.expect import living
from tests.given import lives, troubles
from tests.given.life import POOL, START, Life, Wrapped, a_job, a_policy
from tests.given.pods import bound


def _no_store(life: Life) -> None:
    def down(*_: Any, **__: Any) -> Any:
        raise TryLater("store: database is locked", code="store")

    life.store = Wrapped(life.store, memory=down)


def _not_configured(port: str) -> Callable[[Life], None]:
    return lambda life: setattr(life, port, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One way in which *source* is silent, and what the table allows then."""

    source: Source
    how: str
    silence: Callable[[Life], None]
    grows: bool
    shrinks: bool
    policy: Policy

    def __str__(self) -> str:
        return f"{self.source.value} {self.how}"


WAYS: dict[Source, dict[str, Callable[[Life], None]]] = {
    Source.CIVO: {"does not answer": troubles.civo_down},
    Source.STORE: {"cannot be read": _no_store},
    Source.KUBERNETES: {"does not answer": troubles.kubernetes_down, "is disabled": _not_configured("cluster")},
    Source.DCGM: {"reports nothing": troubles.dcgm_gone},
    Source.PROMETHEUS: {
        "does not answer": troubles.prometheus_down,
        "is not configured": _not_configured("telemetry"),
        "evaluates no rules": troubles.rules_dead,
    },
    Source.HEARTBEAT: {"comes no more": troubles.no_heartbeat},
    Source.ALERTMANAGER: {"does not answer": troubles.alertmanager_down},
}
FROM_THE_TABLE = [
    Row(source=source, how=how, silence=silence, grows=grows, shrinks=shrinks, policy=a_policy())
    for source, grows, shrinks in SOURCES
    for how, silence in WAYS[source].items()
]
# What the page says in words below its table.
BESIDE_THE_TABLE = [
    Row(
        source=Source.PROMETHEUS,
        how="does not answer, with fallback: kubernetes",
        silence=troubles.prometheus_down,
        grows=True,
        shrinks=False,
        policy=a_policy(fallback=Fallback.KUBERNETES),
    ),
    Row(
        source=Source.ALERTMANAGER,
        how="is not configured",
        silence=_not_configured("alarms"),
        grows=True,
        shrinks=True,
        policy=a_policy(),
    ),
]
ROWS = [*FROM_THE_TABLE, *BESIDE_THE_TABLE]


def runs(life: Life, row: Row) -> None:
    """Four minutes under the silence; where the store is silent no step comes to its end."""
    steps = len(life.steps)
    life.run(4 * MINUTE)
    assert (len(life.steps) == steps) is (row.source is Source.STORE)


def names_its_source(life: Life, row: Row) -> bool:
    """True when the evidence of the decision says that the source is silent, and what was used instead."""
    decisions = [s.decisions[POOL] for s in life.steps]
    evidence = next((d for d in decisions if d.change is not Change.HOLD), decisions[-1]).evidence
    activity = "pod counts" if row.source is Source.DCGM else evidence["activity"]
    counted_by = "kube-state-metrics" if row.source is Source.KUBERNETES else "kubernetes"
    return (
        evidence["sources"][row.source.value]["up"] is False
        and evidence["activity"] == activity
        and evidence["counted_by"] == counted_by
    )


def test_every_row_of_the_table_is_lived_through() -> None:
    assert {row.source for row in FROM_THE_TABLE} == {source for source, _, _ in SOURCES} == set(Source)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_growth_while_a_source_is_silent(store: Store, row: Row) -> None:
    life = lives.idle_nodes(store, policy=row.policy)
    life.world.add_pod(bound("works", life.world.lives[0].hostname))
    life.world.advance(START + 40 * MINUTE)  # GPU activity of a new node is not missed
    life.step()
    row.silence(life)
    life.pass_time(4 * MINUTE)  # one that was heard a moment ago is still believed
    life.submit(a_job())
    runs(life, row)
    assert life.required() == (2 if row.grows else 1)
    assert row.source is Source.STORE or names_its_source(life, row)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_removal_while_a_source_is_silent(store: Store, row: Row) -> None:
    life = lives.idle_nodes(store, policy=row.policy)
    life.world.advance(START + 50 * MINUTE)
    life.step()
    row.silence(life)
    life.pass_time(5 * MINUTE - SECOND)
    runs(life, row)
    assert len(living(life)) == (0 if row.shrinks else 1)
    assert not any(node.unschedulable for node in life.world.nodes.values())  # not even cordoned
    assert row.source is Source.STORE or names_its_source(life, row)


def test_an_unknown_price_stops_growth_and_lets_an_idle_node_go(store: Store) -> None:
    """A price is no source that can fall silent: it is missing or it is not. Removal never costs money."""
    life = lives.idle_nodes(store, 1, a_pool(price_usd_per_hour=None))
    life.world.advance(START + 50 * MINUTE)
    life.run(8 * MINUTE)
    assert living(life) == []
    life.submit(a_job())
    life.run(4 * MINUTE)
    assert life.required() == 0
    [held] = [r for r in life.steps[-1].decisions[POOL].reasons if r.rule == "price_is_known"]
    assert held.verdict.value == "holds"


def test_with_kubernetes_and_prometheus_both_silent_nothing_grows_whatever_the_fallback(store: Store) -> None:
    life = lives.at_zero(store, fallback=Fallback.KUBERNETES)
    life.step()
    troubles.kubernetes_down(life)
    troubles.prometheus_down(life)
    life.submit(a_job())
    life.run(10 * MINUTE)
    assert life.required() == 0


def test_demand_is_not_counted_twice_when_kubernetes_falls_silent_while_its_node_comes_up(store: Store) -> None:
    """The two ways of counting overlap: what was bought on the word of one is not bought again on the other's."""
    life = lives.waiting(store)
    life.run(30 * SECOND)
    troubles.kubernetes_down(life)
    life.run(30 * MINUTE, tick=20 * SECOND)
    assert len(life.writes("resize")) == 1


@pytest.mark.parametrize(
    "job", [{"node_selector": {"tier": "none"}}, {"pods": 9, "gang": True}], ids=["node selector", "gang"]
)
def test_a_pod_that_no_pool_can_hold_buys_nothing_when_kubernetes_falls_silent(
    store: Store, job: dict[str, Any]
) -> None:
    """kube-state-metrics shows neither its node selector nor its gang."""
    life = lives.waiting(store, a_job(**job))
    life.run(30 * SECOND)
    troubles.kubernetes_down(life)
    life.run(10 * MINUTE)
    assert life.steps[-1].facts.waiting
    assert life.required() == 0


def test_pods_that_wait_no_more_are_forgotten(store: Store) -> None:
    life = lives.waiting(store)
    life.step()
    assert life.waited
    life.run(20 * MINUTE)
    assert life.waited == {}
