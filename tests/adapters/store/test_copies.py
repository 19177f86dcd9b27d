"""What the store keeps is its own: neither who handed a value over nor who read it can change it."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from receiver.core.model.memory import Control, SourceTurn
from receiver.core.model.model import Offer, Source
from receiver.core.model.policy import CommittedNodes
from receiver.ports import Store
from tests.adapters.store.builders import NOW, POOL, after, alert, decision, delivery

OTHER = {"other": "value"}


def _alert(store: Store, mapping: dict[str, Any]) -> Callable[[], Any]:
    store.remember(delivery(alert(labels=mapping)), NOW)
    return lambda: store.remembered_alerts(after(hours=-1))[0].labels


def _arrival(store: Store, mapping: dict[str, Any]) -> Callable[[], Any]:
    store.remember(delivery(alert(annotations=mapping)), NOW)
    return lambda: store.arrivals(NOW, NOW)[0].alert.annotations


def _decision(store: Store, mapping: dict[str, Any]) -> Callable[[], Any]:
    number = store.decided(decision(evidence={"nodes": [mapping]}))

    def evidence() -> Any:
        stored = store.decision(number)
        assert stored is not None
        return stored.decision.evidence["nodes"][0]

    return evidence


def _report(store: Store, mapping: dict[str, Any]) -> Callable[[], Any]:
    store.close_report("2026-11", "all", {"lines": [mapping]}, NOW)

    def line() -> Any:
        document = store.closed_report("2026-11", "all", NOW)
        assert document is not None
        return document["lines"][0]

    return line


def _offer(store: Store, mapping: dict[str, Any]) -> Callable[[], Any]:
    before = Offer(node="n-0", at=NOW, configured="c", allocatable={}, labels=mapping)
    offer = Offer(node="n-1", at=NOW, configured="c", allocatable={}, labels={}, others=(before,))
    store.saw([], {POOL: 1}, NOW, offers={POOL: offer})

    def labels() -> Any:
        known = store.memory(NOW, NOW).pools[POOL].offer
        assert known is not None
        return known.others[0].labels

    return labels


@pytest.mark.parametrize("keep", [_alert, _arrival, _decision, _report, _offer])
def test_a_mapping_is_not_shared_with_who_handed_it_over_or_read_it(
    store: Store, keep: Callable[[Store, dict[str, Any]], Callable[[], Any]]
) -> None:
    mapping = {"name": "value"}
    read = keep(store, mapping)
    mapping |= OTHER
    assert read() == {"name": "value"}
    read().update(OTHER)
    assert read() == {"name": "value"}


def test_the_control_state_is_not_shared_either(store: Store) -> None:
    turn = SourceTurn(up=True, since=NOW)
    sources, numbers, kept_out = {Source.CIVO: turn}, {POOL: 1}, {"budget": NOW}
    term = CommittedNodes(pool=POOL, size="l40s", nodes=2, usd_per_hour=Decimal("1.09"), until=NOW)
    store.keep_control(Control(at=NOW, sources=sources, decisions=numbers, kept_out=kept_out, committed=(term,)))
    sources[Source.KUBERNETES], numbers["other"], kept_out["other"] = turn, 2, NOW
    expected = Control(
        at=NOW, sources={Source.CIVO: turn}, decisions={POOL: 1}, kept_out={"budget": NOW}, committed=(term,)
    )
    found: Any = store.control()
    assert found == expected
    found.sources.clear()
    found.decisions.clear()
    found.kept_out.clear()
    assert store.control() == expected
