"""What is seen from outside becomes one line per thing, with its own time."""

import pytest

from demo.timeline import Timeline, deciding, growth_calls, moment, shortened
from tests.demo.seen import (
    NODE,
    POOL,
    alert,
    at,
    decision,
    delivery,
    instance,
    notice,
    pod,
    put,
    reason,
    seen,
    text,
)


@pytest.fixture
def timeline() -> Timeline:
    return Timeline(pools={POOL: "l40s"})


def test_a_pod_that_waits_is_told_once(timeline: Timeline) -> None:
    first = timeline.observe(seen(0.3, pods=[pod()]))
    again = timeline.observe(seen(0.6, pods=[pod()]))

    assert [(e.at, e.kind) for e in first] == [(at(0.3), "pod")]
    assert again == []


def test_a_pod_that_the_scheduler_has_not_tried_does_not_wait(timeline: Timeline) -> None:
    assert timeline.observe(seen(0.1, pods=[pod(scheduled=None)])) == []


def test_a_pod_without_gpus_is_left_out(timeline: Timeline) -> None:
    assert timeline.observe(seen(pods=[pod(requests={})])) == []


def test_a_job_that_runs_names_its_node_in_short(timeline: Timeline) -> None:
    (event,) = timeline.observe(seen(pods=[pod(phase="Running", scheduled=True, node=NODE)]))

    assert event.text == "demo/train-0 started on node 81e74"


def test_an_alert_has_the_time_that_prometheus_dates_it(timeline: Timeline) -> None:
    (event,) = timeline.observe(seen(9, alerts=[alert(1.5)]))

    assert (event.at, event.text) == (at(1.5), "GpuPodsPending fires for l40s")


def test_an_alert_that_gains_a_label_is_not_told_again(timeline: Timeline) -> None:
    timeline.observe(seen(2, alerts=[alert(1)]))

    assert timeline.observe(seen(3, alerts=[alert(2.5, pool_name="l40s"), alert(1)])) == []


def test_an_alert_that_fires_anew_is_told_anew(timeline: Timeline) -> None:
    timeline.observe(seen(2, alerts=[alert(1)]))
    timeline.observe(seen(3))

    assert [e.at for e in timeline.observe(seen(9, alerts=[alert(8)]))] == [at(8)]


def test_the_heartbeat_and_alerts_of_others_are_no_alerts_of_the_timeline(timeline: Timeline) -> None:
    others = [alert(component="someone-else"), alert(action="heartbeat", alertname="GpuAutoscalerHeartbeat")]

    assert timeline.observe(seen(alerts=others)) == []


def test_a_delivery_names_the_group_that_came(timeline: Timeline) -> None:
    events = timeline.observe(seen(3, alerts=[alert(1)], log=[delivery(7, 2)]))

    assert events[1].text == "delivery 7: GpuPodsPending of l40s"
    assert timeline.deliveries[7] == {"alertname": "GpuPodsPending", "pool": POOL}


def test_a_delivery_of_what_no_longer_fires_is_called_resolved(timeline: Timeline) -> None:
    (event,) = timeline.observe(seen(3, log=[delivery(7, 2)]))

    assert event.text == "delivery 7: GpuPodsPending of l40s (resolved)"


def test_a_notice_keeps_its_body_with_short_names(timeline: Timeline) -> None:
    (event,) = timeline.observe(seen(log=[notice("GPU pool l40s: 0 -> 1 nodes")]))

    assert (event.kind, event.text, event.more) == ("notice", "GPU pool l40s: 0 -> 1 nodes", ("Of node 81e74.",))


def test_a_growth_names_rule_and_deliveries(timeline: Timeline) -> None:
    (event,) = timeline.observe(seen(decisions=[decision(3, 0, 1, woken_by=(7, 8))]))

    assert event.text == "l40s 0 -> 1 by demand: 1 GPU waits (woken by delivery 7, 8)"


def test_a_decision_without_a_delivery_says_that_the_loop_looked_by_itself(timeline: Timeline) -> None:
    (event,) = timeline.observe(seen(decisions=[decision(3, 1, 0, reason("idle_nodes", "wants", f"{NODE}: idle"))]))

    assert event.text == "l40s 1 -> 0 by idle_nodes: node 81e74: idle (looked again by itself)"


def test_a_held_wish_is_told_with_the_rule_that_held_it(timeline: Timeline) -> None:
    held = decision(3, 1, 1, reason("demand", "wants"), reason("within_budget", "holds", "budget hold"))

    (event,) = timeline.observe(seen(decisions=[held]))

    assert event.text.startswith("l40s stays at 1 by within_budget: budget hold")


def test_a_decision_that_wanted_nothing_is_left_out(timeline: Timeline) -> None:
    assert timeline.observe(seen(decisions=[decision(3, 1, 1, reason("nothing_wanted", "notes", "calm"))])) == []


def test_a_decision_stored_anew_with_the_same_sentence_is_not_told_again(timeline: Timeline) -> None:
    timeline.observe(seen(decisions=[decision(3, 0, 1, woken_by=(7,))]))

    assert timeline.observe(seen(decisions=[decision(4, 0, 1), decision(3, 0, 1)])) == []


def test_a_call_under_way_is_told_when_it_was_answered(timeline: Timeline) -> None:
    before = timeline.observe(seen(calls=[put(1, status=None)]))
    (event,) = timeline.observe(seen(calls=[put(1, status=200)]))

    assert before == []
    assert (event.at, event.kind, event.text) == (at(1), "civo", "PUT pool l40s: 1 nodes, answer 200")


def test_a_usable_node_says_how_long_it_took(timeline: Timeline) -> None:
    (event,) = timeline.observe(seen(9, pools=[{"id": POOL, "required": 1, "instances": [instance()]}]))

    assert (event.at, event.text) == (at(8), "node 81e74 of l40s is usable, 8.0 s after it was asked for")


def test_an_instance_that_is_no_longer_listed_is_gone(timeline: Timeline) -> None:
    timeline.observe(seen(9, pools=[{"id": POOL, "required": 1, "instances": [instance()]}]))

    (event,) = timeline.observe(seen(60, pools=[{"id": POOL, "required": 0, "instances": []}]))

    assert (event.at, event.text) == (at(60), "node 81e74 is gone")


def test_events_of_one_round_come_in_order_of_their_times(timeline: Timeline) -> None:
    round_ = seen(3, pods=[pod()], alerts=[alert(1)], log=[delivery(7, 1.2)], calls=[put(1.3)])

    assert [e.kind for e in timeline.observe(round_)] == ["alert", "webhook", "civo", "pod"]


def test_only_accepted_resizes_count_as_growth_calls() -> None:
    calls = [put(1, seq=1), put(2, status=503, seq=2), {**put(3, seq=3), "method": "DELETE"}]

    assert [(moment_, pool) for moment_, pool, _ in growth_calls(calls)] == [(at(1), POOL)]


def test_the_first_reason_that_holds_settles_a_decision() -> None:
    reasons = [reason("demand", "wants"), reason("not_frozen", "holds"), reason("cooled_down", "holds")]

    assert deciding({"reasons": reasons})["rule"] == "not_frozen"


def test_nanoseconds_and_z_are_understood() -> None:
    assert moment("2026-09-01T12:00:01.500000123Z") == at(1.5) == moment(text(1.5))


def test_other_words_are_not_shortened() -> None:
    assert shortened("pool l40s, node-pool of k3s") == "pool l40s, node-pool of k3s"
