"""sources_answer: a change needs its sources, and which must answer differs for growth and removal."""

import pytest

from receiver.core.model.model import Source, SourceState
from receiver.core.model.policy import Fallback
from tests.core.builders import NOW, a_policy, all_up, growing, outcome, remedies, shrinking

# The table of docs/guardrails.md: what a pool still does while one source is silent.
SILENT = [
    # source, grows, shrinks
    (Source.CIVO, False, False),
    (Source.STORE, False, False),
    (Source.KUBERNETES, True, False),
    (Source.DCGM, True, True),
    (Source.PROMETHEUS, False, False),
    (Source.HEARTBEAT, True, False),
    (Source.ALERTMANAGER, True, False),
]
BY_PODS = a_policy(fallback=Fallback.KUBERNETES)


@pytest.mark.parametrize(("source", "grows", "shrinks"), SILENT, ids=[row[0].value for row in SILENT])
def test_while_one_source_is_silent_a_pool_does_what_the_table_says(source: Source, grows: bool, shrinks: bool) -> None:
    growth, removal = growing(sources=all_up(source)), shrinking(sources=all_up(source))
    assert outcome(growth) == (("demand", 1) if grows else ("sources_answer", 0))
    assert outcome(removal) == (("idle_nodes", -1) if shrinks else ("sources_answer", 0))


def test_with_fallback_kubernetes_pools_grow_while_prometheus_is_silent() -> None:
    assert outcome(growing(BY_PODS, sources=all_up(Source.PROMETHEUS))) == ("demand", 1)


def test_with_fallback_kubernetes_nothing_grows_while_both_are_silent() -> None:
    blind = growing(BY_PODS, sources=all_up(Source.PROMETHEUS, Source.KUBERNETES))
    assert outcome(blind) == ("sources_answer", 0)
    assert "neither Kubernetes nor Prometheus" in blind.deciding.detail


def test_an_alertmanager_that_is_not_configured_does_not_stop_removal() -> None:
    absent = SourceState(source=Source.ALERTMANAGER, up=False, at=NOW, configured=False)
    assert outcome(shrinking(sources={**all_up(), Source.ALERTMANAGER: absent})) == ("idle_nodes", -1)


def test_a_source_that_was_never_asked_counts_as_silent() -> None:
    known = {source: state for source, state in all_up().items() if source is not Source.HEARTBEAT}
    assert outcome(shrinking(sources=known)) == ("sources_answer", 0)


def test_the_remedy_names_the_source_and_what_it_said_last() -> None:
    held = growing(sources=all_up(Source.PROMETHEUS))
    assert remedies(held, "sources_answer")[0] == ("the first step in which it answers again: prometheus (down)", None)
