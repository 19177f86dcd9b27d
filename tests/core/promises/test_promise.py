"""When waiting work is promised to start."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.core.explain.explain import Fate, State, fates
from receiver.core.model.memory import NodeLife
from receiver.core.model.model import CordonedBy, Facts, Node, Stage
from receiver.core.model.pods import Pod, PodPhase
from receiver.core.model.policy import Budget, Policy, Taint
from receiver.core.promises.promise import Promise, Promises
from receiver.core.promises.startup import learn
from receiver.core.scaling.packing import Survival
from receiver.core.scaling.terminations import STUCK_AFTER
from tests.core.builders import (
    DAY,
    GPU,
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    a_life,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_state,
    facts,
    run,
)
from tests.core.promises.past import a_past_node, nine_nodes


def fates_of(found: Facts, policy: Policy | None = None, lasted: tuple[timedelta, ...] = (), **how: Any) -> list[Fate]:
    """Assign, decide and promise as a step does; in the order of service."""
    policy = policy or a_policy()
    assignment, by_name = run(found, policy)
    decisions = {pool.id: by_name[pool.name] for pool in policy.pools}
    lives = [*nine_nodes(), *(a_life(n.instance, created_at=n.created_at) for s in found.pools for n in s.nodes)]
    learnt = learn(lives, lasted)
    return [fate for _, fate in fates(found, assignment, decisions, policy, learnt=learnt, **how)]


def seconds(fate: Fate) -> tuple[float, float]:
    promise = fate.promise
    assert promise.learnt
    assert promise.starts_p50 is not None
    assert promise.starts_p90 is not None
    return (promise.starts_p50 - NOW).total_seconds(), (promise.starts_p90 - NOW).total_seconds()


def test_a_pod_for_which_a_node_is_bought_starts_when_half_and_nine_in_ten_of_the_past_nodes_were_usable() -> None:
    (fate,) = fates_of(facts(a_state(), waiting=[a_pod()]))
    assert seconds(fate) == pytest.approx((140, 180))
    assert fate.detail == "GPU pool l40s grows from 0 to 1 node; starts in 2 to 3 min (by 12:03 UTC)"


def test_a_node_that_is_being_built_has_less_left() -> None:
    node = a_node("n1", stage=Stage.BUILDING, created_at=NOW - 30 * SECOND, idle_since=None)
    (fate,) = fates_of(facts(a_state(node), waiting=[a_pod()]))
    assert seconds(fate) == pytest.approx((110, 150))
    assert fate.detail == "node n1 of GPU pool l40s is being built; starts in 1 to 3 min (by 12:02 UTC)"


def test_a_gang_starts_when_the_slowest_of_its_nodes_is_usable() -> None:
    waiting = [a_pod(f"rank-{n}", gang="ml/train", gang_min=2) for n in range(2)]
    found = fates_of(facts(a_state(), waiting=waiting))
    # Both are usable by 164.7 s with a chance of a half: the square root of it, 0.71, lies at 160.7 s of one node.
    assert seconds(found[0])[0] == pytest.approx(100 + 10 * (0.5**0.5 * 10 - 1), abs=1)
    assert seconds(found[0])[1] == pytest.approx(100 + 10 * (0.9**0.5 * 10 - 1), abs=1)


@pytest.mark.parametrize("coming", [(), ("slow",), ("fast", "slow")])
@pytest.mark.parametrize("names", [("fast", "slow"), ("slow", "fast")])
def test_a_gang_in_two_pools_starts_with_the_slower_one(names: tuple[str, str], coming: tuple[str, ...]) -> None:
    pools = [a_pool(name, labels={"of": name}) for name in names]
    slow = [a_past_node(50 + n, usable=1_000 + 10 * n, pool="slow-id") for n in range(9)]
    past = [*(replace(life, pool="fast-id") for life in nine_nodes()), *slow]
    gang = [a_pod(f"rank-{n}", gang="ml/train", gang_min=2, node_selector={"of": n}) for n in names]
    states = []
    for name in names:
        node = a_node(name, stage=Stage.BUILDING, created_at=NOW, idle_since=None)
        states.append(a_state(*([node] if name in coming else []), pool=f"{name}-id"))
    policy = a_policy(*pools)
    found = facts(*states, waiting=gang)
    assignment, by_name = run(found, policy)
    decisions = {pool.id: by_name[pool.name] for pool in pools}
    [(_, fate)] = fates(found, assignment, decisions, policy, learnt=learn(past))
    assert seconds(fate) == pytest.approx((1_040, 1_080), abs=1)


def test_while_the_pool_cools_down_the_time_until_then_is_added() -> None:
    (fate,) = fates_of(facts(a_state(last_grow_at=NOW - 10 * SECOND), waiting=[a_pod()]))
    assert (fate.state, fate.rule) == (State.HELD, "cooled_down")
    assert seconds(fate) == pytest.approx((160, 200))
    assert fate.promise.until == NOW + 20 * SECOND


def test_in_observe_mode_no_start_is_promised_after_a_cooldown_since_nothing_is_bought_then() -> None:
    (fate,) = fates_of(facts(a_state(last_grow_at=NOW - 10 * SECOND), waiting=[a_pod()]), observing=True)
    assert (fate.rule, fate.promise.starts_p90, fate.promise.until) == ("cooled_down", None, NOW + 20 * SECOND)
    assert "starts in" not in fate.detail


@pytest.mark.parametrize(
    ("observing", "said"),
    [
        (False, "it may wait no longer: its scheduling gate is being removed"),
        (True, "it may wait no longer: its scheduling gate stays in observe mode"),
    ],
)
def test_a_gate_stays_in_observe_mode(observing: bool, said: str) -> None:
    late = a_pod(phase=PodPhase.DEFERRED, may_wait=HOUR, created_at=NOW - 2 * HOUR)
    (fate,) = fates_of(facts(a_state(), deferred=(late,)), observing=observing)
    assert (fate.state, fate.detail) == (State.MAY_WAIT, said)


def test_running_work_that_will_probably_end_brings_the_promise_forward() -> None:
    busy = [a_node(f"n{n}", pods=(a_pod(f"run-{n}", bound_at=NOW - 10 * SECOND),), idle_since=None) for n in range(4)]
    minutes = tuple(timedelta(minutes=1) for _ in range(200))
    (fate,) = fates_of(facts(a_state(*busy), waiting=[a_pod()]), lasted=minutes)
    assert seconds(fate)[0] < 60


def test_those_behind_in_the_queue_get_less_of_the_room_that_ends() -> None:
    busy = [a_node("n1", pods=(a_pod("run", bound_at=NOW - 10 * SECOND),), idle_since=None)]
    minutes = tuple(timedelta(minutes=1) for _ in range(200))
    first, second = fates_of(facts(a_state(*busy), waiting=[a_pod("a"), a_pod("b")]), lasted=minutes)
    assert seconds(first)[0] < seconds(second)[0]


def test_work_that_a_budget_refuses_has_no_time_but_the_day_on_which_the_month_ends_where_the_budget_is() -> None:
    policy = a_policy(budget=Budget(monthly_usd=Decimal(1), timezone="America/New_York"))
    (fate,) = fates_of(facts(a_state(), waiting=[a_pod()]), policy)
    assert (fate.promise.starts_p50, fate.promise.starts_p90) == (None, None)
    assert fate.detail.endswith("; held until 1 Dec")


def test_before_enough_nodes_have_shown_it_the_promise_is_a_guess() -> None:
    found = facts(a_state(pool="big-id"), waiting=[a_pod()])
    (fate,) = fates_of(found, a_policy(a_pool("big", resources={GPU: 8}, provision_timeout=20 * MINUTE)))
    assert not fate.promise.learnt
    assert fate.promise.starts_p90 == NOW + 20 * MINUTE


def test_room_on_a_usable_node_is_there_now() -> None:
    (fate,) = fates_of(facts(a_state(a_node("n1")), waiting=[a_pod()]))
    assert fate.promise.starts_p90 == NOW


def test_work_without_room_in_a_pool_has_no_promise_there_and_work_with_free_room_starts_now() -> None:
    found, policy = facts(a_state(a_node("n1")), waiting=[a_pod()]), a_policy()
    assignment, decisions = run(found, policy)
    [pool], wanted = policy.pools, assignment.pools["l40s-id"]
    promises = Promises(pool, found.pool(pool.id), wanted, decisions["l40s"], learn(nine_nodes()), NOW)
    [given] = wanted.work.rooms
    assert promises.of(given.workload) == Promise(starts_p50=NOW, starts_p90=NOW, learnt=True)
    assert promises.of(replace(given.workload, key="ml/other")) == Promise()


BY_ELEVEN = Promise(starts_p50=NOW + 5 * MINUTE, starts_p90=NOW + 11 * MINUTE, learnt=True)


@pytest.mark.parametrize(
    ("minutes", "moved"), [(11, False), (13, False), (14, True), (9, False), (8, True)], ids=lambda value: str(value)
)
def test_people_hear_of_a_promise_that_moved_by_more_than_two_minutes(minutes: int, moved: bool) -> None:
    assert replace(BY_ELEVEN, starts_p90=NOW + minutes * MINUTE).moved(NOW + 11 * MINUTE, NOW + 4 * MINUTE) is moved


def test_of_a_longer_wait_a_quarter_may_move_unheard() -> None:
    assert not BY_ELEVEN.moved(NOW + 14 * MINUTE, NOW - HOUR)
    assert BY_ELEVEN.moved(None, NOW)
    assert Promise().moved(NOW + 11 * MINUTE, NOW)
    assert not Promise().moved(None, NOW)


@pytest.mark.parametrize(
    ("p50", "p90", "said"),
    [
        (4, 7, "starts in 4 to 7 min (by 12:07 UTC)"),
        (4, 4, "starts in 4 min (by 12:04 UTC)"),
        (0.5, 0.9, "starts in 1 min (by 12:00 UTC)"),
        (0, 0, "starts in 1 min (by 12:00 UTC)"),
    ],
)
def test_the_promise_in_words(p50: float, p90: float, said: str) -> None:
    assert Promise(starts_p50=NOW + p50 * MINUTE, starts_p90=NOW + p90 * MINUTE, learnt=True).sentence(NOW) == said


def test_work_that_may_start_at_any_time_before_its_deadline_is_told_the_latest() -> None:
    assert Promise(starts_p90=NOW + 2 * HOUR).sentence(NOW) == "starts by 14:00 UTC at the latest"


def test_a_guess_speaks_of_the_nodes_and_not_of_the_start() -> None:
    usual, latest = NOW + 4 * MINUTE, NOW + 15 * MINUTE
    assert (
        Promise(starts_p50=usual, starts_p90=latest).sentence(NOW) == "nodes are usually usable by about 12:04:00 UTC"
    )
    stuck = "nodes not usable by 12:15:00 UTC are reported as stuck"
    assert Promise(starts_p50=latest, starts_p90=latest).sentence(NOW) == stuck


@pytest.mark.parametrize(
    ("one", "other", "after"), [(5, 4, True), (4, 4, False), (4, 5, False), (None, 4, True), (4, None, False)]
)
def test_a_promise_that_is_not_known_is_after_every_other(one: int | None, other: int | None, after: bool) -> None:
    first, second = (Promise(starts_p90=None if n is None else NOW + n * MINUTE) for n in (one, other))
    assert first.after(second) is after
    assert not Promise().after(Promise())


# --- nodes that are on their way


def a_coming_node(name: str, seconds_ago: int) -> Node:
    return a_node(name, stage=Stage.BUILDING, created_at=NOW - seconds_ago * SECOND, idle_since=None)


def a_gang(pods: int) -> list[Pod]:
    return [a_pod(f"rank-{n}", gang="ml/train", gang_min=pods) for n in range(pods)]


def test_a_gang_on_a_coming_and_a_new_node_starts_when_both_are_usable() -> None:
    (fate,) = fates_of(facts(a_state(a_coming_node("n1", 30)), waiting=a_gang(2)))
    # The chances are (t - 60) / 100 and (t - 90) / 100: their product is a half at 147.3 s, nine tenths at 180.
    assert seconds(fate) == pytest.approx((147.3, 180), abs=1)


def test_a_gang_of_which_one_node_takes_longer_than_all_before_has_a_guess() -> None:
    (fate,) = fates_of(facts(a_state(a_coming_node("n1", 300)), waiting=a_gang(2)))
    assert fate.promise == Promise(starts_p50=NOW + 20 * MINUTE, starts_p90=NOW + 20 * MINUTE)


@pytest.mark.parametrize("seconds_ago", [30, 0])
def test_work_for_a_node_that_is_coming_does_not_wait_for_the_cooldown(seconds_ago: int) -> None:
    state = a_state(a_coming_node("n1", seconds_ago), last_grow_at=NOW - 10 * SECOND)
    coming, new = fates_of(facts(state, waiting=[a_pod("a"), a_pod("b")]))
    assert (coming.promise.until, new.promise.until) == (None, NOW + 20 * SECOND)


def test_a_gang_with_one_node_still_to_be_bought_waits_for_the_cooldown() -> None:
    state = a_state(a_coming_node("n1", 30), last_grow_at=NOW - 10 * SECOND)
    (fate,) = fates_of(facts(state, waiting=a_gang(2)))
    assert fate.promise.until == NOW + 20 * SECOND


def test_a_cooldown_that_is_longer_than_nodes_take_delays_the_start_by_itself() -> None:
    policy = a_policy(a_pool(grow_cooldown=HOUR))
    (fate,) = fates_of(facts(a_state(last_grow_at=NOW), waiting=[a_pod()]), policy)
    assert seconds(fate) == pytest.approx((3_740, 3_780))


@pytest.mark.parametrize(
    ("state", "p50", "p90"),
    [
        ({}, 10, 10),
        ({"ready_in": 8 * MINUTE}, 3, 10),
        ({"ready_in": 5 * MINUTE}, 10, 10),
        ({"ready_in": 20 * MINUTE}, 10, 10),
        ({"nodes": (), "required": 1, "required_since": NOW - 10 * MINUTE}, 5, 5),
        ({"nodes": (), "required": 1}, 15, 15),
    ],
    ids=[
        "no usual time",
        "usual time",
        "usual time is over",
        "beyond the limit",
        "unlisted",
        "unlisted, new",
    ],
)
def test_a_guess_is_the_usual_time_and_at_most_the_limit_since_the_node_was_asked_for(
    state: dict[str, Any], p50: int, p90: int
) -> None:
    found = facts(a_state(**{"nodes": (a_coming_node("n1", 300),), "required": 1, "pool": "new-id", **state}))
    (fate,) = fates_of(replace(found, waiting=(a_pod(),)), a_policy(a_pool("new", provision_timeout=15 * MINUTE)))
    assert fate.promise == Promise(starts_p50=NOW + p50 * MINUTE, starts_p90=NOW + p90 * MINUTE)


def leaving(name: str, seconds_left: int) -> Node:
    """A node whose pod is Terminating and has so many seconds left."""
    pod = a_pod(f"on-{name}", phase=PodPhase.RUNNING, node=name, leaves_at=NOW + seconds_left * SECOND)
    return a_node(name, pods=(pod,), idle_since=None)


def test_work_that_gets_the_room_of_terminating_pods_starts_when_the_last_of_them_has_left() -> None:
    (fate,) = fates_of(facts(a_state(leaving("n1", 20), leaving("n2", 40)), waiting=a_gang(2)))
    vacant = NOW + 40 * SECOND
    assert fate.promise == Promise(starts_p50=vacant, starts_p90=vacant + STUCK_AFTER, learnt=True)


def test_a_gang_that_needs_a_new_node_too_starts_with_that() -> None:
    (fate,) = fates_of(facts(a_state(leaving("n1", 20)), waiting=a_gang(2)))
    assert seconds(fate) == pytest.approx((140, 180))


# --- running work that ends

LASTED = tuple(n * 6 * SECOND for n in range(100, 2_001))  # ten minutes at least
SLOW = [a_past_node(n, usable=1_000 + n) for n in range(9)]
LAST = a_pod("the-last")
SINCE = NOW - 10 * MINUTE


def promised(*nodes: Node, waiting: Sequence[Pod] = (LAST,), past: Sequence[NodeLife] = SLOW, **pool: Any) -> Promise:
    """The promise to the last of *waiting* beside running work; new nodes take a quarter of an hour, as in *past*."""
    the_pool = a_pool(**{"max_nodes": 200, **pool})
    policy, found = a_policy(the_pool), facts(a_state(*nodes), waiting=waiting)
    assignment, by_name = run(found, policy)
    told = fates(found, assignment, {the_pool.id: by_name["l40s"]}, policy, learnt=learn(past, LASTED))
    return next(fate.promise for workload, fate in told if workload.pods[-1] == waiting[-1])


def at_work(count: int = 100, node: Mapping[str, Any] | None = None, **pod: Any) -> list[Node]:
    """Nodes whose GPU a pod has held for ten minutes."""
    pods = [a_pod(f"run-{n}", phase=PodPhase.RUNNING, node=f"n{n}", **{"bound_at": SINCE, **pod}) for n in range(count)]
    return [a_node(f"n{n}", idle_since=None, pods=(pod,), **(node or {})) for n, pod in enumerate(pods)]


def ended_by(moment: datetime | None, count: int = 100) -> float:
    """How many of so many pods, which have run for ten minutes, are likely to have ended by then."""
    assert moment is not None
    [goes_on] = Survival.of(LASTED).chances(600, [(moment - NOW).total_seconds()])
    return count * (1 - goes_on)


def queue(ahead: int) -> list[Pod]:
    return [*(a_pod(f"p{n:02}") for n in range(ahead)), LAST]


@pytest.mark.parametrize(
    "since",
    [
        {"running_since": NOW - MINUTE, "created_at": NOW - HOUR},
        {"bound_at": None, "running_since": SINCE, "created_at": NOW - HOUR},
        {"bound_at": None, "created_at": SINCE},
    ],
    ids=["bound", "running", "created"],
)
@pytest.mark.parametrize(("ahead", "means"), [(0, (0.693, 2.303)), (1, (1.678, 3.890))])
def test_work_starts_when_more_work_has_probably_ended_than_stands_before_it(
    ahead: int, means: tuple[float, float], since: dict[str, Any]
) -> None:
    """A Poisson number is at most 0, or 1, with a chance of a half and of a tenth at these means."""
    promise = promised(*at_work(**since), waiting=queue(ahead))
    assert (ended_by(promise.starts_p50), ended_by(promise.starts_p90)) == pytest.approx(means, rel=0.05)


def test_work_far_behind_in_the_queue_and_gangs_wait_for_their_own_nodes() -> None:
    own = promised()
    assert promised(*at_work(), waiting=queue(19)) != own
    assert promised(*at_work(), waiting=queue(20)) == own
    assert promised(*at_work(), waiting=[a_pod(gang="ml/train")]) == own


@pytest.mark.parametrize(
    ("node", "first"),
    [
        ([a_node("free")], a_pod("first")),
        ([leaving("left", 60)], a_pod("first")),
        ([], a_pod("first", gang="ml/first")),
    ],
    ids=["has room", "gets the room of terminating pods", "is a gang"],
)
def test_work_that_waits_for_no_end_takes_no_room_from_those_behind(node: list[Node], first: Pod) -> None:
    promise = promised(*at_work(), *node, waiting=[first, LAST])
    assert ended_by(promise.starts_p50) == pytest.approx(0.693, rel=0.1)


@pytest.mark.parametrize(
    "node",
    [{"cordoned_by": CordonedBy.SOMEONE}, {"taints": (Taint(key="dedicated", effect="NoSchedule"),)}],
    ids=["closed", "taint"],
)
def test_work_that_ends_on_a_node_that_takes_no_pods_leaves_no_room(node: dict[str, Any]) -> None:
    assert promised(*at_work(node=node)) == promised()


def halves(**pod: Any) -> Node:
    """A node of eight GPUs of which two pods hold four each, one of them for ten minutes."""
    pods = [
        a_pod(f"half-{n}", 4, phase=PodPhase.RUNNING, node="n1", bound_at=NOW - minutes * MINUTE, **pod)
        for n, minutes in enumerate((10, 1))
    ]
    return a_node("n1", pods=tuple(pods), idle_since=None, allocatable={GPU: 8})


def test_only_the_end_of_work_that_leaves_room_enough_brings_a_start_forward() -> None:
    whole, half = [a_pod(gpus=8)], [a_pod(gpus=4)]
    own = promised(waiting=whole, resources={GPU: 8})
    assert promised(halves(), waiting=whole, resources={GPU: 8}) == own
    assert promised(halves(), waiting=half, resources={GPU: 8}).starts_p50 < own.starts_p50  # type: ignore[operator]


def test_room_must_be_enough_in_every_resource() -> None:
    needs = {GPU: 1, "rdma/hca": 1}
    waiting = [a_pod(requests=needs)]
    own = promised(waiting=waiting, resources=needs)
    assert promised(*at_work(), waiting=waiting, resources=needs) == own


def test_a_gang_ends_as_a_whole_and_is_as_old_as_its_oldest_pod() -> None:
    waiting = [a_pod(gpus=8)]
    whole = a_pod("whole", 8, phase=PodPhase.RUNNING, node="n1", bound_at=SINCE)
    single = a_node("n1", pods=(whole,), idle_since=None, allocatable={GPU: 8})
    gang = promised(halves(gang="ml/g"), waiting=waiting, resources={GPU: 8})
    assert gang == promised(single, waiting=waiting, resources={GPU: 8})
    assert gang != promised(waiting=waiting, resources={GPU: 8})


def test_ends_of_work_count_for_as_long_as_the_slowest_past_node_took() -> None:
    once_fast = [a_past_node(0, usable=300), *SLOW[1:]]
    start = promised(*at_work(20), waiting=queue(1), past=once_fast).starts_p50
    assert start is not None
    assert start < NOW + 15 * MINUTE


def test_the_image_pull_is_part_of_the_time_that_a_node_takes() -> None:
    pulled = [a_past_node(n, usable=100, running_at=NOW - DAY + n * MINUTE + (1_000 + n) * SECOND) for n in range(9)]
    promise = promised(*at_work(), past=pulled)
    assert ended_by(promise.starts_p50) == pytest.approx(0.693, rel=0.05)


def huge(name: str) -> Pod:
    """A waiting pod whose image takes eight minutes to pull on nodes that take two."""
    return a_pod(name, image="huge")


def pulled_nodes() -> list[NodeLife]:
    """Past nodes that took two minutes, of which half pulled that image."""
    nodes = [a_past_node(n, usable=120 + n, image="huge" if n % 2 else "small") for n in range(12)]
    lasts = {"huge": 480, "small": 5}
    return [replace(n, running_at=n.bound_at + lasts[n.image or ""] * SECOND) for n in nodes if n.bound_at is not None]


def test_a_pod_is_promised_its_start_after_the_pull_of_its_own_image() -> None:
    slow = promised(waiting=[huge("a")], past=pulled_nodes())
    quick = promised(waiting=[a_pod("b", image="small")], past=pulled_nodes())
    assert slow.starts_p50 is not None
    assert quick.starts_p50 is not None
    assert slow.starts_p50 - quick.starts_p50 == pytest.approx(475 * SECOND, abs=3 * SECOND)


def test_room_that_running_work_leaves_is_of_use_once_the_image_is_pulled_there() -> None:
    slow_nodes = [replace(n, image="huge", running_at=n.bound_at + 480 * SECOND) for n in SLOW if n.bound_at]
    there, pulled = (promised(*at_work(), waiting=[pod], past=slow_nodes) for pod in (a_pod("a"), huge("b")))
    assert there.starts_p50 is not None
    assert pulled.starts_p50 is not None
    assert pulled.starts_p50 > there.starts_p50 + 5 * MINUTE


def test_a_gang_starts_when_its_slowest_image_is_pulled() -> None:
    gang = [replace(huge("a"), gang="g"), a_pod("b", gang="g", image="small")]
    assert promised(waiting=gang, past=pulled_nodes()).pull == 480 * SECOND


def test_a_pull_that_takes_most_of_the_wait_is_named_with_what_to_do() -> None:
    found = facts(a_state(), waiting=[huge("a")])
    assignment, by_name = run(found, a_policy())
    decisions = {pool.id: by_name[pool.name] for pool in a_policy().pools}
    [(_, fate)] = fates(found, assignment, decisions, a_policy(), learnt=learn(pulled_nodes()))
    assert "starts in 10 to 11 min (by 12:10 UTC), 8m of it to pull its image" in fate.detail
    assert "pre-pull" in fate.todo


def test_a_short_pull_is_not_named() -> None:
    quick = promised(waiting=[a_pod("b", image="small")], past=pulled_nodes())
    assert "image" not in quick.sentence(NOW)


SOON, LATER = NOW + timedelta(minutes=4), NOW + timedelta(minutes=7)


@pytest.mark.parametrize(
    ("promise", "tells"),
    [
        (Promise(starts_p50=SOON, starts_p90=LATER, learnt=True), True),
        (Promise(starts_p90=LATER), True),
        (Promise(starts_p50=SOON, starts_p90=LATER), False),
        (Promise(starts_p50=LATER, starts_p90=LATER), False),
        (Promise(), False),
    ],
)
def test_a_promise_tells_the_start_exactly_when_its_sentence_does(promise: Promise, tells: bool) -> None:
    assert promise.tells_start is tells
    assert promise.sentence(NOW).startswith("starts ") is tells


@pytest.mark.parametrize(
    ("pull", "wait", "most"),
    [(60, 120, True), (59, 100, False), (120, 240, True), (120, 241, False), (None, 240, False)],
)
def test_a_pull_is_most_of_a_wait_from_half_of_it_and_from_a_minute_on(pull: int | None, wait: int, most: bool) -> None:
    start = NOW + wait * SECOND
    promise = Promise(starts_p50=start, starts_p90=start, learnt=True, pull=None if pull is None else pull * SECOND)
    assert promise.pulls_most(NOW) is most
