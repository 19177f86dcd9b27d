"""The scheduler as second witness: what it leaves beside free room for long needs no node, and no other one."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.core.explain.explain import State, explain
from receiver.core.model.model import CordonedBy, Facts, Source
from receiver.core.model.pods import Pod, PodPhase
from receiver.core.model.policy import Policy
from receiver.core.model.refusals import SchedulerRefusal
from receiver.core.scaling.assign import assign
from receiver.core.scaling.demand import workloads
from receiver.core.scaling.witness import (
    FIRST_WAIT,
    FORGOTTEN_AFTER,
    LONGEST_WAIT,
    MOST_PODS,
    MOST_REQUESTS,
    REFUSED_AFTER,
    REWORDED_AFTER,
    REWORDED_AT_ONCE,
    barred,
    judged,
    moments,
    request_of,
)
from tests.core.builders import (
    GPU,
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    a_busy_node,
    a_due_node,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_state,
    all_up,
    facts,
    rules,
    run,
    with_fields,
)

MIXED = "0/4 nodes are available: 1 node(s) exceed max volume count, 3 Insufficient nvidia.com/gpu."
HUGEPAGES = "0/4 nodes are available: 4 Insufficient hugepages-2Mi, 3 Insufficient nvidia.com/gpu."
MISSING = '0/4 nodes are available: persistentvolumeclaim "data" not found.'
NO_GPU = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
POLICY = a_policy()
EIGHT = a_policy(a_pool(resources={GPU: 8}))


def job(name: str = "train-0", **changes: Any) -> Pod:
    given = {"owner": "Job/train", "owner_uid": "job-1", "scheduler_says": MIXED, "created_at": NOW - HOUR}
    return a_pod(name, **{**given, **changes})


def after(found: Facts, policy: Policy = POLICY) -> tuple[SchedulerRefusal, ...]:
    assignment = assign(found, policy)
    return judged(found, {pool: w.work.rooms for pool, w in assignment.pools.items()}, policy)


def watched(found: Facts, lasts: timedelta, policy: Policy = POLICY, every: timedelta = MINUTE) -> Facts:
    """The facts after steps that saw the same for as long as it *lasts*."""
    end = found.at + lasts
    while found.at < end:
        found = with_fields(found, refusals=after(found, policy), at=found.at + every)
    return found


def refused(*pods: Pod, policy: Policy = POLICY, node: Any = None) -> Facts:
    """The facts a step after the scheduler has refused *pods* beside one node."""
    seen = watched(facts(a_state(node or a_node(idle_since=NOW)), waiting=pods), REFUSED_AFTER + MINUTE, policy)
    assert any(each.refused_at for each in seen.other_work.refusals)
    return seen


def later(found: Facts, by: timedelta, **changes: Any) -> Facts:
    return replace(found, at=found.at + by, **changes)


def without_nodes(found: Facts, *waiting: Pod, by: timedelta = HOUR) -> Facts:
    return later(found, by, pools=(a_state(),), waiting=waiting or found.waiting)


def bought(found: Facts, policy: Policy = POLICY) -> int:
    return run(found, policy)[0].pools["l40s-id"].new_nodes


# --- when it is a refusal


def test_a_pod_beside_a_free_node_is_refused_after_ten_minutes() -> None:
    begun = watched(facts(a_state(a_node()), waiting=[job()]), REFUSED_AFTER)
    assert [each.refused_at for each in begun.other_work.refusals] == [None]
    [refusal] = after(begun)
    assert refusal.refused_at == NOW + REFUSED_AFTER
    assert refusal.until == NOW + REFUSED_AFTER + FIRST_WAIT


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"cordoned_by": CordonedBy.US, "cordoned_for": "an-action"}, id="cordoned by us"),
        pytest.param({"closed_for": "cluster budget 2026-11"}, id="closed by a budget"),
    ],
)
def test_room_that_the_scheduler_may_not_use_proves_nothing(changes: dict[str, Any]) -> None:
    seen = watched(facts(a_state(a_node(**changes)), waiting=[job()]), HOUR)
    assert seen.other_work.refusals == ()


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(job(uid=""), id="announced by a queue"),
        pytest.param(job(phase=PodPhase.OTHER), id="gated"),
        pytest.param(job(terminating=True), id="being deleted"),
        pytest.param(job(pool_hint="l40s-id"), id="as Prometheus knows it"),
    ],
)
def test_a_pod_that_the_scheduler_does_not_judge_is_not_refused(pod: Pod) -> None:
    assert watched(facts(a_state(a_node()), waiting=[pod]), HOUR).other_work.refusals == ()


def test_a_node_on_its_way_is_no_room() -> None:
    assert watched(facts(a_state(required=1), waiting=[job()]), 15 * MINUTE).other_work.refusals == ()


def test_room_that_comes_and_goes_is_no_refusal() -> None:
    found = facts(a_state(a_node()), waiting=[job()])
    for _ in range(5):
        found = watched(found, REFUSED_AFTER - MINUTE)
        found = watched(replace(found, pools=(a_state(a_busy_node()),)), MINUTE)
        found = replace(found, pools=(a_state(a_node()),))
    assert all(each.refused_at is None for each in found.other_work.refusals)


@pytest.mark.parametrize("silent", [Source.KUBERNETES, Source.CIVO])
def test_the_time_of_a_silent_source_does_not_count(silent: Source) -> None:
    begun = watched(facts(a_state(a_node()), waiting=[job()]), 8 * MINUTE)
    blind = watched(replace(begun, sources=all_up(silent)), 30 * MINUTE)
    again = replace(blind, sources=all_up())
    assert all(each.refused_at is None for each in watched(again, 2 * MINUTE).other_work.refusals)
    assert all(each.refused_at is not None for each in watched(again, 4 * MINUTE).other_work.refusals)


def test_the_time_of_a_step_whose_clock_is_not_trusted_does_not_count() -> None:
    begun = watched(facts(a_state(a_node()), waiting=[job()]), REFUSED_AFTER)
    doubted = later(begun, 3 * MINUTE)
    assert [
        each.refused_at
        for each in after(
            with_fields(doubted, refusals=tuple(each.paused(doubted.at) for each in doubted.other_work.refusals))
        )
    ] == [None]


def test_a_refusal_of_a_clock_that_was_ahead_is_forgotten() -> None:
    ahead = refused(job())
    assert barred(replace(ahead, at=NOW), workloads(ahead.waiting)).workloads
    assert all(each.refused_at is None for each in after(replace(ahead, at=NOW)))


def test_an_owner_whose_other_pods_start_meanwhile_is_not_refused() -> None:
    found = facts(a_state(a_node(allocatable={GPU: 8})), waiting=[job()])
    for minute in range(30):
        bound = job("train-1", phase=PodPhase.RUNNING, node="n1", bound_at=NOW + minute // 5 * 5 * MINUTE)
        node = a_node(allocatable={GPU: 8}, pods=(bound,), idle_since=None)
        found = watched(replace(found, pools=(a_state(node),)), MINUTE, EIGHT)
    assert [each.refused_at for each in found.other_work.refusals] == [None]


# --- what follows


def test_what_is_refused_needs_no_node_and_buys_none() -> None:
    seen = refused(job(), node=a_due_node(idle_since=NOW))
    wanted = assign(seen, POLICY).pools["l40s-id"]
    assert (wanted.nodes.needed, wanted.work.placed, wanted.new_nodes, wanted.work.gpus) == (
        frozenset(),
        (),
        0,
        0,
    )
    assert bought(without_nodes(seen)) == 0


def test_the_node_goes_at_its_paid_hour() -> None:
    seen = replace(refused(job()), pools=(a_state(a_due_node(created_at=NOW - 46 * MINUTE)),))
    _, decisions = run(seen, POLICY)
    assert decisions["l40s"].target == 0
    assert "scheduler_refuses" in rules(decisions["l40s"], "notes")


def test_other_work_uses_the_node() -> None:
    seen = refused(job())
    other = job("other", owner="Job/other", owner_uid="job-2")
    wanted = assign(replace(seen, waiting=(*seen.waiting, other)), POLICY).pools["l40s-id"]
    assert wanted.work.placed == (("ml/other", "i-n1"),)
    assert wanted.new_nodes == 0


def test_it_takes_nothing_of_what_the_pool_keeps_ready() -> None:
    policy = a_policy(a_pool(standby_nodes=1))
    assert bought(refused(job(), policy=policy), policy) == 0


def test_it_keeps_nothing_from_being_ready() -> None:
    policy = a_policy(a_pool(standby_nodes=1))
    assert bought(without_nodes(refused(job(), policy=policy)), policy) == 1


def test_eight_pods_of_one_job_are_refused_together() -> None:
    pods = [job(f"train-{n}") for n in range(8)]
    seen = watched(facts(a_state(a_node(idle_since=NOW)), waiting=pods[:1]), REFUSED_AFTER + MINUTE)
    assert bought(without_nodes(seen, *pods)) == 0


def test_pods_that_are_created_again_inherit_the_refusal() -> None:
    seen = refused(job())
    assert bought(without_nodes(seen, job("train-x7k2", uid="another"))) == 0


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"owner_uid": "job-2"}, id="of a new owner"),
        pytest.param({"requests": {GPU: 1}, "node_selector": {"kubernetes.io/os": "linux"}}, id="of another shape"),
        pytest.param({"labels": {"controller-revision-hash": "2"}}, id="of another revision"),
    ],
)
def test_pods_of_another_request_do_not(changes: dict[str, Any]) -> None:
    assert bought(without_nodes(refused(job()), job(**changes))) == 1


def test_another_configuration_of_the_pools_ends_it() -> None:
    policy = a_policy(a_pool(labels={"disk": "fast"}))
    seen = without_nodes(refused(job()))
    assert after(seen, policy) == ()


def test_the_pod_is_explained_with_the_words_of_the_scheduler_first() -> None:
    seen = refused(job())
    assignment, decisions = run(seen, POLICY)
    [pod] = explain(seen, assignment, {"l40s-id": decisions["l40s"]}, POLICY)
    assert (pod.fate.state, pod.fate.rule) == (State.HELD, "scheduler_refuses")
    assert pod.fate.detail.startswith(f"the scheduler says: {MIXED.rstrip('.')}; ")
    assert pod.fate.promise.until == seen.other_work.refusals[0].until


# --- when it ends


@pytest.mark.parametrize("words", [HUGEPAGES, MISSING])
def test_once_the_scheduler_no_longer_names_the_obstacle_it_is_demand_at_once(words: str) -> None:
    seen = without_nodes(refused(job(scheduler_says=words)), job(scheduler_says=NO_GPU))
    assert bought(seen) == 1


@pytest.mark.parametrize(
    "words",
    [
        pytest.param('0/9 nodes are available: persistentvolumeclaim "other" not found.', id="with another name"),
        pytest.param("no nodes available to schedule pods", id="of an empty cluster"),
        pytest.param("", id="not said yet"),
    ],
)
def test_other_words_for_the_same_obstacle_change_nothing(words: str) -> None:
    seen = without_nodes(refused(job(scheduler_says=MISSING)), job(scheduler_says=words))
    assert bought(seen) == 0


def test_a_reason_that_went_with_its_node_changes_nothing() -> None:
    assert bought(without_nodes(refused(job(scheduler_says=MIXED)), job(scheduler_says=NO_GPU))) == 0


def test_words_that_take_turns_buy_twice_at_once_and_then_every_six_hours() -> None:
    found, words = refused(job(scheduler_says=MISSING)), [HUGEPAGES, MISSING] * 3
    for turn, said in enumerate(words):
        asks = without_nodes(found, job(scheduler_says=said), by=MINUTE)
        if turn >= REWORDED_AT_ONCE:
            assert bought(asks) == 0
            asks = without_nodes(found, job(scheduler_says=said), by=REWORDED_AFTER)
        assert bought(asks) == 1
        beside = replace(asks, pools=(a_state(a_node(idle_since=asks.at, created_at=asks.at)),))
        found = watched(beside, REFUSED_AFTER + MINUTE)


def test_after_its_time_one_pod_of_the_request_gets_one_node() -> None:
    seen = without_nodes(refused(job()), *(job(f"train-{n}") for n in range(8)), by=FIRST_WAIT)
    assert bought(seen) == 1


def test_each_refusal_in_a_row_doubles_the_time() -> None:
    found, waits = refused(job()), []
    for _ in range(4):
        [refusal] = found.other_work.refusals
        assert refusal.until is not None
        assert refusal.refused_at is not None
        waits.append(refusal.until - refusal.refused_at)
        found = replace(found, at=refusal.until)
        found = watched(replace(found, pools=(a_state(a_node(idle_since=found.at)),)), REFUSED_AFTER + MINUTE)
    assert waits == [FIRST_WAIT, 2 * FIRST_WAIT, LONGEST_WAIT, LONGEST_WAIT]


def test_where_the_scheduler_looks_at_no_node_the_next_try_is_the_latest() -> None:
    [refusal] = refused(job(scheduler_says=MISSING)).other_work.refusals
    assert refusal.refused_at is not None
    assert refusal.until == refusal.refused_at + LONGEST_WAIT


def test_a_refused_pod_that_starts_ends_it_for_all() -> None:
    seen = refused(job("train-0"), job("train-1"), node=a_node(idle_since=NOW, allocatable={GPU: 8}), policy=EIGHT)
    runs = job("train-0", phase=PodPhase.RUNNING, node="n1", bound_at=seen.at)
    started = replace(seen, pools=(a_state(a_node(pods=(runs,), idle_since=None)),), waiting=(job("train-1"),))
    assert after(started, EIGHT) == ()


def test_a_pod_that_stays_refused_while_others_of_its_owner_start_holds_none_of_them() -> None:
    seen = refused(job("train-0"))
    runs = job("train-1", phase=PodPhase.RUNNING, node="n1", bound_at=seen.at)
    started = later(seen, MINUTE, pools=(a_state(a_node(pods=(runs,), idle_since=None)),))
    going = with_fields(started, refusals=after(started))
    assert bought(later(going, MINUTE, waiting=(job("train-0"), job("train-2")))) == 1
    assert bought(later(going, MINUTE, waiting=(job("train-0"),))) == 0


def test_a_refusal_is_forgotten_a_day_after_its_last_pod() -> None:
    seen = later(refused(job()), MINUTE, waiting=())
    kept = with_fields(seen, refusals=after(seen))
    assert kept.other_work.refusals
    assert after(later(kept, FORGOTTEN_AFTER + MINUTE)) == ()


def test_when_it_can_change_is_a_moment_of_the_decision() -> None:
    seen = without_nodes(refused(job()))
    [refusal] = seen.other_work.refusals
    assert refusal.until in moments(seen.other_work.refusals)
    assert run(seen, POLICY)[1]["l40s"].reconsider_at == refusal.until
    begun = watched(facts(a_state(a_node()), waiting=[job()]), 2 * MINUTE)
    assert moments(begun.other_work.refusals) == [NOW + REFUSED_AFTER]


# --- beside other pods


def beside_another(*pods: Pod) -> Facts:
    """Refused by a node on which another pod runs, which may hold a port or a volume."""
    return refused(*pods, policy=EIGHT, node=a_busy_node(allocatable={GPU: 8}))


def test_what_a_node_with_other_pods_refuses_gets_an_empty_one() -> None:
    seen = beside_another(job())
    assert assign(seen, EIGHT).pools["l40s-id"].nodes.needed == frozenset()
    assert bought(seen, EIGHT) == 1


def test_one_pod_of_a_request_is_tried_at_a_time() -> None:
    assert bought(beside_another(*(job(f"train-{n}") for n in range(3))), EIGHT) == 1


def test_an_empty_node_that_exists_is_tried_first() -> None:
    seen = beside_another(job())
    both = replace(seen, pools=(a_state(a_busy_node(allocatable={GPU: 8}), a_node("n2", allocatable={GPU: 8})),))
    wanted = assign(both, EIGHT).pools["l40s-id"]
    assert (wanted.work.placed, wanted.new_nodes) == ((("ml/train-0", "i-n2"),), 0)


def test_what_the_empty_node_refuses_too_gets_no_third() -> None:
    seen = beside_another(job())
    nodes = a_busy_node(allocatable={GPU: 8}), a_node("n2", allocatable={GPU: 8}, idle_since=seen.at)
    again = watched(replace(seen, pools=(a_state(*nodes),)), REFUSED_AFTER + MINUTE, EIGHT)
    assert bought(again, EIGHT) == 0
    assert assign(again, EIGHT).pools["l40s-id"].nodes.needed == frozenset()


# --- gangs


def ranks(count: int = 2, **changes: Any) -> Sequence[Pod]:
    return [job(f"rank-{n}", gang="ml/train", **changes) for n in range(count)]


def test_a_gang_is_refused_as_a_whole() -> None:
    nodes = [a_node(name, idle_since=NOW) for name in ("n1", "n2")]
    seen = watched(facts(a_state(*nodes), waiting=ranks()), REFUSED_AFTER + MINUTE)
    assert assign(seen, POLICY).pools["l40s-id"].nodes.needed == frozenset()
    assert bought(without_nodes(seen)) == 0
    assert bought(without_nodes(seen, by=FIRST_WAIT)) == 2


def test_a_gang_that_waits_for_one_more_node_is_not() -> None:
    seen = watched(facts(a_state(a_node(), required=2), waiting=ranks()), 15 * MINUTE)
    assert seen.other_work.refusals == ()


# --- sums and bounds


@pytest.mark.parametrize(
    ("node", "hours", "usd"),
    [
        pytest.param(a_node(created_at=NOW - MINUTE, idle_since=NOW, usable_since=NOW), 1, "1.29", id="bought for it"),
        pytest.param(
            a_node(created_at=NOW - 59 * MINUTE, idle_since=NOW, usable_since=NOW), 2, "2.58", id="into its second hour"
        ),
        pytest.param(a_node(created_at=NOW - HOUR, idle_since=NOW, usable_since=NOW - HOUR), 1, "1.29", id="used"),
        pytest.param(a_node(created_at=NOW - 90 * MINUTE, idle_since=NOW, usable_since=NOW - HOUR), 0, "0", id="paid"),
    ],
)  # fmt: skip
def test_the_paid_hours_that_began_while_a_node_stood_idle_count(node: Any, hours: int, usd: str) -> None:
    [refusal] = refused(job(), node=node).other_work.refusals
    assert (refusal.paid, refusal.usd) == (hours * HOUR, Decimal(usd))


def test_without_a_price_the_sum_is_unknown() -> None:
    policy = a_policy(a_pool(price_usd_per_hour=None))
    [refusal] = refused(job(), policy=policy).other_work.refusals
    assert refusal.usd is None


def test_what_is_kept_is_bounded() -> None:
    nodes = [a_node(f"n{n}", idle_since=NOW) for n in range(MOST_REQUESTS + MOST_PODS + 5)]
    pods = [job(f"one-{n}", owner=f"Job/{n}", scheduler_says="x" * 9000) for n in range(MOST_REQUESTS)]
    pods += [job(f"many-{n}", owner="Job/many") for n in range(MOST_PODS + 5)]
    seen = watched(facts(a_state(*nodes), waiting=pods), REFUSED_AFTER + MINUTE, every=5 * MINUTE)
    assert len(seen.other_work.refusals) == MOST_REQUESTS
    assert max(len(each.pods) for each in seen.other_work.refusals) <= MOST_PODS
    assert max(len(each.says) for each in seen.other_work.refusals) <= 300


def test_a_request_has_one_name_whatever_the_order_of_what_it_asks() -> None:
    one, other = job(requests={GPU: 1, "a": 2}), job("train-1", requests={"a": 2, GPU: 1})
    first, second = workloads([one, other])
    assert request_of(first) == request_of(second)


def test_it_is_as_fast_as_before_where_nothing_is_refused() -> None:
    """The evidence of a moment bars nothing."""
    begun = watched(facts(a_state(a_node()), waiting=[job()]), 30 * SECOND, every=10 * SECOND)
    assert begun.other_work.refusals
    assert barred(begun, workloads(begun.waiting)).workloads == {}
