"""sources_answer: a change needs its sources, and growth other ones than removal."""

from collections.abc import Mapping

import pytest

from receiver.core.model.model import Source, SourceState
from receiver.core.model.policy import Fallback
from tests.core.builders import a_policy, all_up, growing, remedies, shrinking
from tests.core.scaling.guardrails.cases import held
from tests.core.scaling.tables import SILENT_SOURCES

BY_KUBERNETES = a_policy(fallback=Fallback.KUBERNETES)


def without(source: Source) -> Mapping[Source, SourceState]:
    """Every source answers but *source*, which was never asked."""
    return {s: state for s, state in all_up().items() if s is not source}


@pytest.mark.parametrize(("source", "grows", "shrinks"), SILENT_SOURCES, ids=[s[0].value for s in SILENT_SOURCES])
def test_a_silent_source_stops_what_the_table_says(source: Source, grows: bool, shrinks: bool) -> None:
    for sources in (all_up(source), without(source)):
        growth, removal = growing(sources=sources), shrinking(sources=sources)
        assert (growth.target == 1, removal.target == 0) == (grows, shrinks)
        for decision, happens in ((growth, grows), (removal, shrinks)):
            if not happens:
                assert held(decision, "sources_answer").until is None  # when a source answers again is not known


def test_with_fallback_kubernetes_pools_grow_while_prometheus_is_silent() -> None:
    assert growing(BY_KUBERNETES, sources=all_up(Source.PROMETHEUS)).target == 1
    blind = growing(BY_KUBERNETES, sources=all_up(Source.PROMETHEUS, Source.KUBERNETES))
    assert (
        held(blind, "sources_answer").detail == "no growth while neither Kubernetes nor Prometheus reports the demand"
    )


def test_an_alertmanager_that_was_not_configured_does_not_stop_removal() -> None:
    absent = SourceState(source=Source.ALERTMANAGER, up=False, configured=False)
    assert shrinking(sources={**all_up(), Source.ALERTMANAGER: absent}).target == 0


@pytest.mark.parametrize("source", [Source.KUBERNETES, Source.PROMETHEUS, Source.HEARTBEAT])
def test_no_other_source_may_be_left_out_of_the_configuration(source: Source) -> None:
    absent = SourceState(source=source, up=False, configured=False)
    held(shrinking(sources={**all_up(), source: absent}), "sources_answer")


def test_the_reason_names_the_source_and_what_it_answered() -> None:
    assert held(growing(sources=all_up(Source.CIVO)), "sources_answer").detail == "no change while civo: down"
    assert (
        held(shrinking(sources=all_up(Source.KUBERNETES)), "sources_answer").detail
        == "no removal while kubernetes: down"
    )
    unasked = "no removal while heartbeat: never asked"
    assert held(shrinking(sources=without(Source.HEARTBEAT)), "sources_answer").detail == unasked


def test_growth_goes_on_when_the_source_answers_or_with_the_fallback() -> None:
    decision = growing(sources=all_up(Source.PROMETHEUS))
    assert (
        held(decision, "sources_answer").detail
        == "no growth while prometheus: down (fallback: kubernetes would allow it)"
    )
    assert remedies(decision, "sources_answer") == {
        "wait until it answers again: prometheus (down)": None,
        "set fallback: kubernetes in the configuration to let it grow without Prometheus": None,
    }
