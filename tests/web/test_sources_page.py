"""The sources' page: who answers, what stops while somebody does not, and how the autoscaler itself does."""

from dataclasses import replace
from datetime import timedelta

import pytest

from receiver.core.model.model import Source
from receiver.core.model.policy import Fallback
from receiver.core.model.signals import HEARTBEAT_ALERT
from receiver.core.notices.concerns import NO_CHANGE, NO_REMOVAL, SOURCES, source_guide
from receiver.core.scaling.assign import assign
from receiver.core.scaling.decide import case_of
from receiver.core.scaling.guardrails import sources_answer
from receiver.metrics.collector import WatchState
from receiver.web.pages.overview import WATCHES
from simulator.store import MemoryStore
from tests.core import builders as core
from tests.metrics.counted import a_message, hear
from tests.web.builders import NOW, a_full_store, a_picture, a_policy, ago, showing
from tests.web.fakes import FakeHealth
from tests.web.seen import page, words
from tests.web.stores import add_messages


def stands_still(source: Source, target: int, fallback: Fallback) -> bool:
    """True when the guardrail lets no change to *target* (of one node) through while *source* alone is silent."""
    policy = core.a_policy(fallback=fallback)
    facts = core.facts(core.a_state(core.a_node()))
    silent = replace(facts.sources[source], up=False)
    facts = replace(facts, sources={**facts.sources, source: silent})
    wanted = assign(facts, policy).pools["l40s-id"]
    case = case_of(facts.pools[0], wanted, facts, policy)
    return sources_answer(target, case) is not None


@pytest.mark.parametrize("fallback", list(Fallback))
@pytest.mark.parametrize("source", list(Source))
def test_what_the_page_says_that_stops_is_what_the_guardrail_stops(source: Source, fallback: Fallback) -> None:
    found = source_guide(source, replace(a_policy(), fallback=fallback))
    needed = (found.stops == NO_CHANGE, found.stops in (NO_CHANGE, NO_REMOVAL))
    assert needed == (
        stands_still(source, 2, fallback),
        stands_still(source, 0, fallback),
    )


def test_every_source_has_a_line() -> None:
    assert set(SOURCES) == set(Source)


def test_a_silent_source_comes_first_with_since_when_what_stops_and_what_to_do() -> None:
    sources = a_picture()["sources"]
    sources[3]["since"] = ago(minutes=6)
    html = page("/sources", showing(sources=sources))
    text = words(html)
    assert "reports whether GPUs are in use silent 6 min ago before 6 min ago no series for l40s" in text
    assert "Pods alone decide whether a node is busy or idle." in text
    assert 'href="/docs/runbooks/GpuTelemetryMissing.md"' in html
    assert text.index("DCGM (GPU telemetry) reports") < text.index("Civo reports")


def test_the_headline_names_who_is_silent() -> None:
    assert "Silent: DCGM (GPU telemetry)." in page("/sources")
    up = [{**s, "up": True} for s in a_picture()["sources"]]
    assert "Every configured source answers." in page("/sources", showing(sources=up))


def test_what_nobody_configured_is_not_called_silent() -> None:
    text = words(page("/sources"))
    assert "Alertmanager reports which alerts fire, and which pools are silenced not configured – –" in text
    assert "Optional; without it, silences are not seen." in text


def test_the_loop_and_who_leads_are_told() -> None:
    assert "leading: this process runs the steps and writes" in page("/sources")
    assert "Leader gpu-autoscaler-0-1-c0ffee term 4" in words(page("/sources"))
    assert "Leader unknown" in words(page("/sources", health=FakeHealth(leader=None)))
    assert "another process leads" in page("/sources", health=FakeHealth(state="waiting"))
    assert "stalled" in page("/sources", health=FakeHealth(beat_age=timedelta(minutes=5)))


@pytest.mark.parametrize("state", list(WatchState))
def test_how_the_watch_of_pods_stands_is_told(state: WatchState) -> None:
    assert f"Pod watch {WATCHES[state]}" in words(page("/sources", watch=state.value))


def test_deliveries_heartbeat_and_messages_are_told() -> None:
    store = a_full_store()
    hear(store, NOW - timedelta(seconds=50), "heartbeat", alertname=HEARTBEAT_ALERT)
    hear(store, NOW - timedelta(minutes=3), "scale_up")
    oldest = a_message("oldest", timedelta(hours=1))
    add_messages(store, replace(oldest, attempts=4, last_error="slack: 404"))
    add_messages(store, *(a_message(f"waits {n}", timedelta(minutes=9)) for n in range(30)))
    add_messages(store, *(a_message(f"sent {n}", timedelta(minutes=9), NOW) for n in range(12)))
    given_up = replace(a_message("", timedelta(minutes=9)), attempts=1, given_up_at=NOW)
    add_messages(store, *(replace(given_up, notice=replace(given_up.notice, topic=t)) for t in ("lost", "too")))
    text = words(page("/sources", store))
    assert "Last delivery from Alertmanager 3 min ago 2 in total Last heartbeat 50 s ago" in text
    assert "31 on the way, 12 delivered, 2 given up; the oldest has waited since 1 h ago" in text
    assert "l40s grew 1 h ago 4 slack: 404" in text
    assert "And 11 more." in text


def test_where_messages_go_and_how_well_is_told() -> None:
    assert "They go to the log only: no destination is set" in page("/sources")
    store = a_full_store()
    for outcome in ("delivered",) * 7 + ("failed",) * 2:
        store.tell({}, "a-digest", ("slack 1a2b", outcome))
    text = words(page("/sources", store, messages_to=("slack 1a2b", "telegram 3c")))
    assert "They go to slack 1a2b (7 delivered, 2 attempts failed )" in text
    assert "telegram 3c (0 delivered, 0 attempts failed )" in text


def test_before_the_first_step_and_with_an_empty_store_it_renders() -> None:
    assert "Unknown until the first step has finished." in page("/sources", MemoryStore())
