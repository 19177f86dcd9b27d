"""What is stored with a decision: enough to explain it later, and bounded."""

import json
from dataclasses import replace
from datetime import timedelta

from receiver.core.explain.evidence import NODES, SIGNALS, WORKLOADS
from receiver.core.model.actions import Decision
from receiver.core.model.model import Source, SourceState, Stage
from receiver.core.model.signals import Alert, SignalAction, numbered
from tests.core.builders import NOW, a_node, a_pod, a_policy, a_pool, a_signal, a_silence, a_state, all_up, facts, run

LARGEST = 32_000  # bytes of JSON: the store may hold hundreds of thousands of decisions


def test_who_asks_is_kept_with_owner_team_and_since() -> None:
    pod = a_pod(owner="Job/train", labels={"team": "vision"}, priority=3, priority_class="urgent")
    decision = run(facts(a_state(), waiting=[pod]), a_policy())[1]["l40s"]
    assert decision.evidence["workloads"] == [
        {
            "workload": "ml/train",
            "owner": "Job/train",
            "team": "vision",
            "pods": 1,
            "gpus": 1,
            "since": (NOW - timedelta(seconds=10)).isoformat(),
            "priority": 3,
            "priority_class": "urgent",
        }
    ]


def test_the_pool_is_kept_by_name_size_and_price_with_the_bounds_in_force() -> None:
    decision = run(facts(a_state()), a_policy(a_pool(min_nodes=0, max_nodes=5)))[1]["l40s"]
    pool, bounds = decision.evidence["pool"], decision.evidence["bounds"]
    assert (pool["name"], pool["size"], pool["price_usd_per_hour"]) == ("l40s", "an.g1.l40s.kube.x1", "1.29")
    assert (bounds["min_nodes"], bounds["max_nodes"], bounds["windows"]) == (0, 5, [])


def test_a_source_is_kept_with_its_age_at_that_time_and_since_when_it_was_so() -> None:
    since = NOW - timedelta(minutes=5)
    silent = SourceState(source=Source.DCGM, up=False, at=NOW - timedelta(seconds=7), since=since, detail="no series")
    decision = run(facts(a_state(), sources={**all_up(), Source.DCGM: silent}), a_policy())[1]["l40s"]
    found = decision.evidence["sources"]["dcgm"]
    assert (found["up"], found["age_seconds"], found["since"], found["detail"]) == (
        False,
        7.0,
        since.isoformat(),
        "no series",
    )


def test_a_silence_is_kept_with_who_until_and_its_id() -> None:
    decision = run(facts(a_state(silence=a_silence())), a_policy())[1]["l40s"]
    kept, silence = decision.evidence["silence"], a_silence()
    assert (kept["by"], kept["until"], kept["id"]) == (silence.by, silence.until.isoformat(), silence.id)


def test_an_alert_is_kept_with_fingerprint_start_and_the_delivery_that_brought_it() -> None:
    signal = a_signal(SignalAction.SCALE_UP, delivery=117)
    decision = run(facts(a_state(), signals=(signal,)), a_policy())[1]["l40s"]
    kept = decision.evidence["signals"][0]
    assert (kept["alertname"], kept["fingerprint"]) == ("Gpu-scale_up", "f-scale_up")
    assert (kept["starts_at"], kept["delivery"]) == (NOW.isoformat(), 117)


def test_an_alert_gets_the_number_of_the_delivery_that_brought_the_same_firing() -> None:
    asked = Alert(fingerprint="f", labels={}, starts_at=NOW)
    before = replace(asked, starts_at=NOW - timedelta(hours=1), delivery=3)
    assert [a.delivery for a in numbered([asked], [before])] == [None]
    assert [a.delivery for a in numbered([asked], [before, replace(asked, delivery=4)])] == [4]


def test_an_idle_node_is_kept_with_its_stage_and_since_when() -> None:
    decision = run(facts(a_state(a_node())), a_policy())[1]["l40s"]
    kept = decision.evidence["nodes"][0]
    assert (kept["name"], kept["stage"], kept["gpu_pods"]) == ("n1", "usable", 0)
    assert kept["idle_since"] == (NOW - timedelta(minutes=15)).isoformat()


def a_crowd() -> Decision:
    nodes = [a_node(f"node-with-a-long-name-{n:04}", stage=Stage.USABLE) for n in range(300)]
    signals = tuple(a_signal(SignalAction.SCALE_UP, fingerprint=f"{n:016x}") for n in range(60))
    waiting = [a_pod(f"pod-with-a-long-name-{n:04}", gpus=9, owner="Job/of-a-long-name") for n in range(400)]
    waiting += [a_pod(f"fits-{n:04}", owner="Job/of-a-long-name") for n in range(400)]
    state = a_state(*nodes)
    return run(facts(state, waiting=waiting, signals=signals, deliveries=tuple(range(90))), a_policy())[1]["l40s"]


def test_a_crowd_is_cut_and_what_was_cut_is_counted() -> None:
    evidence = a_crowd().evidence
    assert (len(evidence["workloads"]), len(evidence["signals"]), len(evidence["nodes"])) == (
        WORKLOADS,
        SIGNALS,
        NODES,
    )
    assert evidence["left_out"] == {"woken_by": 70, "asking": 80, "signals": 40, "nodes": 250}


def test_the_evidence_of_a_crowd_stays_small() -> None:
    assert len(json.dumps(a_crowd().evidence)) < LARGEST


def test_a_flood_of_alerts_of_one_name_is_one_note_and_no_other_decision_than_one_alert() -> None:
    one = a_signal(SignalAction.SCALE_UP)
    many = tuple(a_signal(SignalAction.SCALE_UP, fingerprint=f"{n}") for n in range(1000))
    alone = run(facts(a_state(), signals=(one,)), a_policy())[1]["l40s"]
    crowd = run(facts(a_state(), signals=many), a_policy())[1]["l40s"]
    assert crowd.verdicts == alone.verdicts
    assert crowd.reasons[0].detail == "Gpu-scale_up (1000 alerts): look for growth"
    assert alone.reasons[0].detail == "Gpu-scale_up: look for growth"


def test_the_sentences_are_stored_as_they_were_said() -> None:
    decision = run(facts(a_state(), waiting=[a_pod()]), a_policy())[1]["l40s"]
    assert decision.evidence["because"] == "ml/train waits for 1 GPU: 1 more node"
    assert decision.evidence["what_would_change"][0]["rule"] == "demand"
