"""What becomes of a pod that waits, and what a person can do for it."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from itertools import islice
from typing import Any

import pytest

from receiver.core.explain.evidence import with_grounds
from receiver.core.explain.explain import (
    MOST,
    MOST_POOLS,
    WHAT_TO_DO,
    Explanation,
    State,
    explain,
    what_to_do,
)
from receiver.core.explain.rules import RULES
from receiver.core.model.actions import Decision
from receiver.core.model.model import Backoff, CordonedBy, Drift, Facts, Node, Source, Spend, Stage
from receiver.core.model.pods import Pod, PodPhase
from receiver.core.model.policy import POOL_LABEL, Budget, Limits, Policy
from receiver.core.model.rights import never_asked
from receiver.core.model.signals import SignalAction
from receiver.core.scaling.assign import assign
from receiver.core.scaling.decide import decide_all
from receiver.core.scaling.guardrails import GUARDRAILS
from tests.core.builders import (
    GPU,
    MINUTE,
    NOW,
    a_growth,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_signal,
    a_silence,
    a_state,
    all_up,
    an_offer,
    facts,
)
from tests.core.pictures import picture_of

BIG = a_pool("big", resources={GPU: 8}, price_usd_per_hour=Decimal(9))


def explained(found: Facts, policy: Policy | None = None, most: int = MOST, **how: Any) -> Mapping[str, Explanation]:
    """Assign, decide and explain as a step does; by the pod's name."""
    policy = policy or a_policy()
    assignment = assign(found, policy)
    decisions = decide_all(found, assignment, policy, explained_by=with_grounds)
    return {e.pod.name: e for e in islice(explain(found, assignment, decisions, policy, **how), most)}


def the_one(found: Facts, policy: Policy | None = None, **how: Any) -> Explanation:
    [only] = explained(found, policy, **how).values()
    return only


def a_gang(count: int, least: int | None = None, **changes: Any) -> list[Pod]:
    return [a_pod(f"rank-{i}", gang="ml/train", gang_min=least, **changes) for i in range(count)]


# --- what becomes of it


def test_a_pod_that_a_usable_node_would_hold_is_told_which_one_and_buys_nothing() -> None:
    fate = the_one(facts(a_state(a_node("n1")), waiting=[a_pod()])).fate
    assert (fate.state, fate.node, fate.pool) == (State.FITS_FREE_NODE, "n1", "l40s-id")
    assert fate.detail == "node n1 of GPU pool l40s is usable and would hold it, as configured"


def test_a_pod_that_fits_a_node_we_had_cordoned_is_told_that_its_removal_was_given_up() -> None:
    node = a_node("n1", cordoned_by=CordonedBy.US)
    assert "its removal was called off" in the_one(facts(a_state(node), waiting=[a_pod()])).fate.detail


def test_a_pod_whose_node_installs_its_driver_is_told_when_that_usually_ends() -> None:
    node = a_node("n1", stage=Stage.INSTALLING, created_at=NOW - 4 * MINUTE, idle_since=None)
    fate = the_one(facts(a_state(node, ready_in=7 * MINUTE), waiting=[a_pod()])).fate
    assert (fate.state, fate.node, fate.promise.starts_p50) == (State.ON_ITS_WAY, "n1", NOW + 3 * MINUTE)
    assert fate.detail == (
        "node n1 of GPU pool l40s installs its GPU driver; nodes are usually usable by about 12:03:00 UTC"
    )


def test_a_node_that_takes_longer_than_usual_is_told_as_such() -> None:
    node = a_node("n1", stage=Stage.BOOTING, created_at=NOW - 9 * MINUTE, idle_since=None)
    fate = the_one(facts(a_state(node, ready_in=7 * MINUTE), waiting=[a_pod()])).fate
    assert fate.detail == "node n1 of GPU pool l40s boots; nodes not usable by 12:11:00 UTC are reported as stuck"


def test_without_experience_the_moment_told_is_the_one_from_which_it_counts_as_stuck() -> None:
    node = a_node("n1", stage=Stage.BOOTING, created_at=NOW - 9 * MINUTE, idle_since=None)
    fate = the_one(facts(a_state(node), waiting=[a_pod()])).fate
    assert fate.promise.starts_p50 == NOW + 11 * MINUTE
    assert "nodes not usable by 12:11:00 UTC are reported as stuck" in fate.detail


def test_a_pod_whose_node_civo_does_not_list_yet_is_told_that_it_is_asked_for() -> None:
    state = a_state(required=1, required_since=NOW - MINUTE, ready_in=5 * MINUTE)
    fate = the_one(facts(state, waiting=[a_pod()])).fate
    assert (fate.state, fate.node, fate.promise.starts_p50) == (State.ON_ITS_WAY, None, NOW + 4 * MINUTE)
    assert fate.detail.startswith("1 node of GPU pool l40s is asked for at Civo; ")


def test_several_nodes_on_their_way_are_counted_and_each_pod_waits_for_its_own() -> None:
    nodes = [a_node(f"n{i}", stage=Stage.BUILDING, created_at=NOW - i * MINUTE, idle_since=None) for i in (1, 2)]
    fates = explained(facts(a_state(*nodes, ready_in=5 * MINUTE), waiting=[a_pod("a"), a_pod("b")]))
    assert fates["b"].fate.detail.startswith("2 nodes of GPU pool l40s are on their way; ")
    assert [fates[name].fate.promise.starts_p50 for name in "ab"] == [NOW + 4 * MINUTE, NOW + 3 * MINUTE]


def test_a_pod_for_which_a_node_is_bought_is_told_how_far_the_pool_grows() -> None:
    fate = the_one(facts(a_state(ready_in=5 * MINUTE), waiting=[a_pod()])).fate
    assert (fate.state, fate.nodes, fate.promise.starts_p50) == (State.BUYING, 1, NOW + 5 * MINUTE)
    assert fate.detail == "GPU pool l40s grows from 0 to 1 node"


def test_pods_that_share_the_new_node_are_bought_for_as_the_first_one_is() -> None:
    waiting = [a_pod(f"p{i}") for i in range(8)]
    found = explained(facts(a_state(pool="big-id"), waiting=waiting), a_policy(BIG))
    assert {e.fate.state for e in found.values()} == {State.BUYING}
    assert {e.fate.nodes for e in found.values()} == {1}


def test_in_observe_mode_nothing_is_bought_and_the_pod_is_told_so() -> None:
    fate = the_one(facts(a_state(ready_in=5 * MINUTE), waiting=[a_pod()]), observing=True).fate
    assert (fate.state, fate.nodes, fate.promise.starts_p50) == (State.BUYING, None, None)
    assert fate.detail == "GPU pool l40s would grow from 0 to 1 node; in observe mode nothing is bought"


def test_a_growth_that_failed_last_time_says_so_and_promises_no_moment() -> None:
    action = a_growth(last_error="no stock")
    fate = the_one(facts(a_state(open_action=action, ready_in=5 * MINUTE), waiting=[a_pod()])).fate
    assert fate.promise.starts_p50 is None
    assert fate.detail.endswith("the last try failed: no stock")


def test_a_pod_that_a_guardrail_holds_is_told_the_pool_the_rule_and_its_sentence() -> None:
    policy = a_policy(budget=Budget(monthly_usd=Decimal(5000)))
    spent = Spend(month="2026-11", usd=Decimal(4010))
    fate = the_one(facts(a_state(), waiting=[a_pod()], spend=spent), policy).fate
    assert (fate.state, fate.rule, fate.pool) == (State.HELD, "within_budget", "l40s-id")
    cause = "the cluster budget is past its hold line"
    assert fate.detail == f"GPU pool l40s does not grow for it: {cause}; held until 1 Dec"


@pytest.mark.parametrize(
    ("rule", "changes", "state"),
    [
        ("within_maximum", {}, {"required": 8, "nodes": tuple(a_node(f"n{i}", allocatable={}) for i in range(8))}),
        ("not_backing_off", {}, {"backoff": Backoff(failures=1, until=NOW + MINUTE, reason="no stock")}),
        ("cooled_down", {}, {"last_grow_at": NOW - timedelta(seconds=5)}),
        ("not_silenced", {}, {"silence": a_silence()}),
        ("not_frozen", {"signals": (a_signal(SignalAction.FREEZE),)}, {}),
        ("growth_is_not_paused", {"signals": (a_signal(SignalAction.PAUSE_SCALE_UP),)}, {}),
        ("sources_answer", {"sources": all_up(Source.CIVO)}, {}),
        ("nodes_may_be_removed", {"rights": never_asked(NOW)}, {}),
    ],
)
def test_each_rule_that_holds_growth_is_named(rule: str, changes: dict[str, Any], state: dict[str, Any]) -> None:
    fate = the_one(facts(a_state(**state), waiting=[a_pod()], **changes)).fate
    assert (fate.state, fate.rule) == (State.HELD, rule)


def test_where_a_limit_leaves_a_part_those_served_first_are_bought_for_and_the_others_held() -> None:
    policy = a_policy(limits=Limits(max_gpus=2))
    waiting = [a_pod(f"p{i}", created_at=NOW - i * MINUTE) for i in range(4)]  # p3 has waited longest
    found = explained(facts(a_state(), waiting=waiting), policy)
    assert [found[f"p{i}"].fate.state for i in (3, 2, 1, 0)] == [State.BUYING, State.BUYING, State.HELD, State.HELD]
    assert found["p0"].fate.rule == "within_limits"
    assert found["p0"].fate.detail.startswith(
        "GPU pool l40s grows only to 2 nodes: limits.max_gpus (2 GPUs) is used up"
    )


def test_where_a_limit_leaves_a_part_pods_that_share_a_bought_node_are_not_held() -> None:
    policy = a_policy(BIG, limits=Limits(max_gpus=8))
    waiting = [a_pod(f"p{i}", 4, created_at=NOW - i * MINUTE) for i in range(3)]
    found = explained(facts(a_state(pool="big-id"), waiting=waiting), policy)
    assert [found[f"p{i}"].fate.state for i in (2, 1, 0)] == [State.BUYING, State.BUYING, State.HELD]


def test_a_rule_that_leaves_nothing_is_named_before_one_that_leaves_a_part() -> None:
    state = a_state(last_grow_at=NOW - timedelta(seconds=5))
    waiting = [a_pod(f"p{i}") for i in range(4)]
    found = explained(facts(state, waiting=waiting), a_policy(limits=Limits(max_gpus=2)))
    assert {(e.fate.state, e.fate.rule) for e in found.values()} == {(State.HELD, "cooled_down")}


# --- gangs


def test_a_gang_that_has_a_part_of_its_room_already_is_not_held_where_a_limit_leaves_the_rest() -> None:
    waiting = [*a_gang(3, created_at=NOW - 9 * MINUTE), a_pod("young")]
    found = explained(facts(a_state(a_node("n1")), waiting=waiting), a_policy(limits=Limits(max_gpus=3)))
    assert {found[f"rank-{i}"].fate.state for i in range(3)} == {State.BUYING}
    assert found["young"].fate.state is State.HELD


def test_a_gang_in_two_pools_is_held_while_one_of_them_does_not_grow() -> None:
    pools = (a_pool(labels={"gpu": "l40s"}), a_pool("a100", labels={"gpu": "a100"}))
    waiting = [a_pod(f"rank-{n}", gang="ml/train", node_selector={"gpu": n}) for n in ("l40s", "a100")]
    resting = a_state(pool="a100-id", last_grow_at=NOW - timedelta(seconds=5))
    found = explained(facts(a_state(), resting, waiting=waiting), a_policy(*pools))
    fates = {(e.fate.state, e.fate.pool, e.fate.rule) for e in found.values()}
    assert fates == {(State.HELD, "a100-id", "cooled_down")}


def test_a_gang_that_lacks_pods_is_told_that_no_node_helps_it() -> None:
    found = explained(facts(a_state(), waiting=a_gang(2, least=4)))
    assert {e.fate.state for e in found.values()} == {State.GANG_INCOMPLETE}
    assert "lacks 2 pods of 4" in found["rank-0"].fate.detail


def test_a_gang_that_may_not_have_all_its_nodes_is_held_whole() -> None:
    found = explained(facts(a_state(), waiting=a_gang(4)), a_policy(limits=Limits(max_gpus=3)))
    assert {(e.fate.state, e.fate.rule) for e in found.values()} == {(State.HELD, "gangs_whole")}


def test_a_gang_for_which_all_nodes_are_bought_is_told_so_for_each_pod() -> None:
    found = explained(facts(a_state(), waiting=a_gang(4)))
    assert {(e.fate.state, e.fate.nodes) for e in found.values()} == {(State.BUYING, 4)}


def test_a_gang_whose_nodes_are_all_usable_waits_for_the_scheduler() -> None:
    found = explained(facts(a_state(a_node("n1"), a_node("n2")), waiting=a_gang(2)))
    assert {e.fate.state for e in found.values()} == {State.FITS_FREE_NODE}


def test_a_gang_of_which_one_node_is_still_on_its_way_waits_for_that_one() -> None:
    coming = a_node("n2", stage=Stage.BOOTING, created_at=NOW - MINUTE, idle_since=None)
    found = explained(facts(a_state(a_node("n1"), coming), waiting=a_gang(2)))
    assert {(e.fate.state, e.fate.node) for e in found.values()} == {(State.ON_ITS_WAY, "n2")}


def an_ending_node(name: str = "n1") -> Node:
    """A node whose pod is gone in half a minute."""
    pod = a_pod(f"on-{name}", phase=PodPhase.RUNNING, node=name, leaves_at=NOW + timedelta(seconds=30))
    return a_node(name, pods=(pod,), idle_since=None)


def test_a_pod_that_waits_for_one_that_is_terminating_is_told_which_and_until_when() -> None:
    only = the_one(facts(a_state(an_ending_node()), waiting=[a_pod()]))
    assert (only.fate.state, only.fate.node) == (State.ROOM_ENDS, "n1")
    assert only.fate.detail == (
        "n1 of GPU pool l40s has room for it when ml/on-n1, which is Terminating, has ended;"
        " starts in 3 min (by 12:02 UTC)"
    )
    assert (only.fate.promise.starts_p50, only.fate.promise.starts_p90) == (
        NOW + timedelta(seconds=30),
        NOW + timedelta(seconds=150),
    )


def test_a_gang_that_waits_for_several_that_are_terminating_is_told_so() -> None:
    found = explained(facts(a_state(an_ending_node("n1"), an_ending_node("n2")), waiting=a_gang(2)))
    assert {(e.fate.state, e.fate.node) for e in found.values()} == {(State.ROOM_ENDS, None)}


def test_a_gang_that_waits_for_a_node_and_for_one_that_is_terminating_waits_for_the_node() -> None:
    coming = a_node("n2", stage=Stage.BOOTING, created_at=NOW - MINUTE, idle_since=None)
    found = explained(facts(a_state(an_ending_node("n1"), coming), waiting=a_gang(2)))
    assert {(e.fate.state, e.fate.node) for e in found.values()} == {(State.ON_ITS_WAY, "n2")}


def test_the_pods_of_a_gang_beyond_its_minimum_are_explained_alone() -> None:
    found = explained(facts(a_state(), waiting=a_gang(3, least=2)))
    gangs = {name: e.workload.gang for name, e in found.items() if e.workload is not None}
    assert sorted(gangs.values()) == [False, True, True]


# --- nowhere, and no demand


def test_a_pod_that_no_pool_fits_has_the_reason_of_each_pool() -> None:
    pools = (a_pool(labels={"gpu": "l40s"}), a_pool("a100", resources={GPU: 8}, labels={"gpu": "a100"}))
    waiting = [a_pod(gpus=16, node_selector={"gpu": "h100"})]
    only = the_one(facts(a_state(), a_state(pool="a100-id"), waiting=waiting), a_policy(*pools))
    assert (only.fate.state, only.fate.pool) == (State.FITS_NOWHERE, None)
    assert [(f.name, f.why) for f in only.fits] == [
        ("l40s", f"it asks for 16 {GPU}, a node offers 1"),
        ("a100", f"it asks for 16 {GPU}, a node offers 8"),
    ]


def test_a_pool_that_fits_stands_beside_one_that_does_not() -> None:
    pools = (a_pool(labels={"gpu": "l40s"}), a_pool("a100", labels={"gpu": "a100"}))
    waiting = [a_pod(node_selector={"gpu": "l40s"})]
    only = the_one(facts(a_state(), a_state(pool="a100-id"), waiting=waiting), a_policy(*pools))
    assert [(f.name, f.why) for f in only.fits] == [
        ("l40s", None),
        ("a100", "its node selector wants gpu=l40s, nodes carry gpu=a100"),
    ]


def test_a_pool_whose_node_came_otherwise_than_configured_is_not_said_to_fit() -> None:
    pool, node = a_pool(labels={"gpu": "l40s"}), a_node("n1", labels={"gpu": "rtx"})
    state = a_state(node, offer=an_offer(pool, node="n1", labels={"gpu": "rtx"}))
    only = the_one(facts(state, waiting=[a_pod(node_selector={"gpu": "l40s"})]), a_policy(pool))
    assert only.fate.state is State.FITS_NOWHERE
    assert "node n1 shows otherwise than configured" in str(only.fits[0].why)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"daemon": True}, "DaemonSet"),
        ({"terminating": True}, "being deleted"),
        ({"namespace": "gpu-operator"}, "GPU operator"),
    ],
)
def test_a_pod_that_is_no_demand_is_told_why(changes: dict[str, Any], said: str) -> None:
    only = the_one(facts(a_state(), waiting=[a_pod(**changes)]))
    assert (only.fate.state, only.workload) == (State.NOT_DEMAND, None)
    assert said in only.fate.detail


# --- how many


def test_the_first_in_the_order_of_service_are_kept_and_no_demand_comes_last() -> None:
    waiting = [
        a_pod("daemon", daemon=True, created_at=NOW - 90 * MINUTE),
        a_pod("young"),
        a_pod("old", created_at=NOW - 9 * MINUTE),
        a_pod("urgent", priority=7),
    ]
    found = facts(a_state(), waiting=waiting)
    assert list(explained(found)) == ["urgent", "old", "young", "daemon"]
    assert list(explained(found, most=2)) == ["urgent", "old"]
    assert list(explained(found, most=4)) == ["urgent", "old", "young", "daemon"]


def test_a_gang_does_not_exceed_the_number_that_is_kept() -> None:
    assert len(explained(facts(a_state(), waiting=a_gang(5)), most=3)) == 3


def shown(found: Facts, policy: Policy | None = None, mode: str = "act") -> dict[str, Any]:
    """The picture of a step."""
    policy = policy or a_policy()
    assignment = assign(found, policy)
    decisions: Mapping[str, Decision] = decide_all(found, assignment, policy, explained_by=with_grounds)
    return picture_of(found, assignment, decisions, policy, mode)


def test_the_picture_keeps_at_most_so_many_and_counts_them_all() -> None:
    seen = shown(facts(a_state(), waiting=[a_pod(f"p{i}") for i in range(MOST + 1)]))
    assert (len(seen["waiting"]), seen["waiting_total"]) == (MOST, MOST + 1)


def test_the_picture_tells_all_there_is_about_a_waiting_pod() -> None:
    pod = a_pod("train-0", owner="Job/train", priority=5, scheduler_says="0/3 nodes are available")
    [entry] = shown(facts(a_state(ready_in=5 * MINUTE), waiting=[pod]))["waiting"]
    assert entry == {
        "namespace": "ml",
        "name": "train-0",
        "owner": "Job/train",
        "workload": "ml/train-0",
        "gang": None,
        "gpus": 1,
        "resources": {GPU: 1},
        "since": "2026-11-20T11:59:50+00:00",
        "priority": 5,
        "state": "buying",
        "detail": "GPU pool l40s grows from 0 to 1 node",
        "pool": "l40s-id",
        "rule": None,
        "decision": 42,
        "node": None,
        "nodes": 1,
        "expected_at": "2026-11-20T12:05:00+00:00",
        "expected_by": "2026-11-20T12:20:00+00:00",
        "held_until": None,
        "promised_at": None,
        "promised_by": None,
        "scheduler_says": "0/3 nodes are available",
        "fits": [{"pool": "l40s-id", "name": "l40s", "why_not": None}],
    }


def test_the_picture_has_the_remedy_of_a_rolling_update_that_waits_for_itself() -> None:
    """What the guardrail advises, to wait for a free GPU, does not help it."""
    old, new = (
        a_pod(v, owner=f"ReplicaSet/serve-{v}", labels={"pod-template-hash": v}, created_at=NOW - MINUTE)
        for v in ("old", "new")
    )
    busy = a_node("n1", pods=(replace(old, node="n1", phase=PodPhase.RUNNING),), idle_since=None)
    [entry] = shown(facts(a_state(busy), waiting=[new]), a_policy(a_pool(max_nodes=1)))["waiting"]
    assert entry["what_to_do"].startswith("let it take an old pod away first: kubectl -n ml patch deployment serve ")


def test_the_picture_tells_how_large_a_gang_is_and_how_much_of_it_runs() -> None:
    found = facts(a_state(), waiting=a_gang(3, least=4), bound_gangs={"ml/train": 1})
    assert shown(found)["waiting"][0]["gang"] == {"waiting": 3, "least": 4, "bound": 1}


def test_the_picture_says_what_observe_mode_would_do() -> None:
    [entry] = shown(facts(a_state(), waiting=[a_pod()]), mode="observe")["waiting"]
    assert "in observe mode nothing is bought" in entry["detail"]


def test_the_picture_of_a_pool_tells_its_experience_and_what_others_did_to_it() -> None:
    state = a_state(
        ready_in=timedelta(minutes=7, seconds=30),
        uncounted=2,
        provisioning=Backoff(failures=3, until=NOW + MINUTE, reason="n1 never became usable"),
        drifts=(Drift(at=NOW, from_count=1, to_count=4),),
    )
    [pool] = shown(facts(state))["pools"]
    assert (pool["ready_in_seconds"], pool["uncounted"], pool["drifts"]) == (450.0, 2, 1)
    until = "2026-11-20T12:01:00+00:00"
    assert pool["provisioning"] == {"until": until, "reason": "n1 never became usable", "failures": 3}


def test_the_picture_of_a_pool_tells_since_when_it_waits_for_a_node_unless_civo_is_silent() -> None:
    state = a_state(a_node("n0", stage=Stage.BOOTING, created_at=NOW - 5 * MINUTE))
    [pool] = shown(facts(state))["pools"]
    [unseen] = shown(facts(state, sources=all_up(Source.CIVO)))["pools"]
    assert (pool["awaited_since"], unseen["awaited_since"]) == ("2026-11-20T11:55:00+00:00", None)


def test_what_a_pool_has_no_experience_of_is_null() -> None:
    [pool] = shown(facts(a_state()))["pools"]
    assert (pool["ready_in_seconds"], pool["provisioning"], pool["drifts"]) == (None, None, 0)


# --- what to do


def test_every_state_has_a_line_on_what_to_do() -> None:
    assert set(WHAT_TO_DO) == set(State)


def test_every_guardrail_that_can_hold_growth_has_a_line_on_what_to_do() -> None:
    only_removal = {"above_the_floor", "removal_is_not_snoozed"}
    assert {g.name for g in GUARDRAILS} - only_removal - {name for name in RULES if RULES[name].advice} == set()


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize("rule", [None, "a_rule_of_tomorrow", *RULES])
def test_what_to_do_is_one_line_without_a_gap(state: State, rule: str | None) -> None:
    line = what_to_do(state, rule, namespace="ml", pod="train-0")
    assert line
    assert "\n" not in line
    assert "{" not in line


def test_the_line_of_a_held_pod_is_that_of_its_rule() -> None:
    line = what_to_do("held", "within_maximum", namespace="ml", pod="train-0")
    assert line == RULES["within_maximum"].advice


def test_the_line_names_the_command_for_this_very_pod() -> None:
    line = what_to_do("fits_free_node", None, namespace="ml", pod="train-0")
    assert "`kubectl describe pod -n ml train-0`" in str(line)


def test_an_observed_purchase_is_not_something_to_wait_for() -> None:
    bought, observed = (
        str(what_to_do("buying", None, namespace="ml", pod="p", observing=mode)) for mode in (False, True)
    )
    assert bought.startswith("nothing")
    assert "mode: act" in observed


def test_observe_mode_changes_nothing_about_what_helps_a_held_pod() -> None:
    assert (
        what_to_do("held", "within_maximum", namespace="ml", pod="p", observing=True) == RULES["within_maximum"].advice
    )


def test_a_state_of_another_version_has_no_line() -> None:
    assert what_to_do("teleported", None, namespace="ml", pod="p") is None


def test_of_many_pools_those_that_fit_are_named_and_the_first_others() -> None:
    pools = [replace(a_pool(f"p{n:03}"), id=f"pool-{n:03}") for n in range(100)]
    pod = a_pod(node_selector={POOL_LABEL: "pool-077"})
    found = facts(*(a_state(pool=pool.id) for pool in pools), waiting=[pod])
    fits = explained(found, a_policy(*pools))[pod.name].fits
    assert len(fits) == MOST_POOLS
    assert [fit.pool for fit in fits if fit.why is None] == ["pool-077"]
    assert [fit.pool for fit in fits][:2] == ["pool-000", "pool-001"]
