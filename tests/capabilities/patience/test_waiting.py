"""Work that may wait: no node is bought before its time, and the gate goes when there is room that is paid for."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from receiver.capabilities.patience import waiting
from receiver.capabilities.patience.waiting import LEAD_MARGIN, MOST_AT_ONCE, SLOWER, Admissions, lead
from receiver.core.model.model import CordonedBy, Node, PoolState
from receiver.core.model.pods import Pod, PodPhase
from receiver.core.model.policy import Patience, Policy, Pool
from receiver.core.scaling.demand import may_wait
from receiver.core.scaling.failures import Failures
from receiver.core.scaling.packing import SOFT_TAINTS, Survival
from receiver.core.scaling.rooms import Bin
from tests.core.builders import (
    GPU,
    HOUR,
    MINUTE,
    NOW,
    a_busy_node,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_state,
    assigned,
    facts,
    run,
    with_fields,
)

FOUR_HOURS = 4 * HOUR
USUAL = 4 * MINUTE
WIDE = a_pool("wide", resources={GPU: 8}, price_usd_per_hour=8 * Decimal("1.29"))
LONG_AGO = NOW - 2 * HOUR


def patient(name: str = "train", gpus: int = 1, **changes: Any) -> Pod:
    return a_pod(name, gpus, **{"may_wait": FOUR_HOURS, **changes})


def gated(name: str = "train", gpus: int = 1, **changes: Any) -> Pod:
    return patient(name, gpus, **{"phase": PodPhase.DEFERRED, **changes})


def admitted(
    *deferred: Pod,
    nodes: Sequence[Node] = (),
    policy: Policy | None = None,
    states: Sequence[PoolState] | None = None,
    waiting_gpus: int = 0,
    survival: Survival | None = None,
    going: Sequence[str] = (),
    buffered_gpus: int = 0,
) -> list[str]:
    """The names of the pods whose gate is removed now."""
    policy = policy or a_policy()
    states = states or (a_state(*nodes, ready_in=USUAL),)
    found = facts(*states, deferred=deferred)
    waits = {policy.pools[0].id: waiting_gpus}
    ready, _ = Admissions(found, policy, waits, going, survival or Survival(), buffered_gpus).admit()
    return [p.name for work in ready for p in work.pods]


def bought(*waiting: Pod, policy: Policy | None = None, state: PoolState | None = None) -> int:
    """How many nodes the pool grows by."""
    decision = run(facts(state or a_state(ready_in=USUAL), waiting=waiting), policy or a_policy())[1]["l40s"]
    return decision.target - decision.present


def test_no_node_is_bought_for_work_that_may_wait() -> None:
    assert bought(patient()) == 0
    assert bought(a_pod()) == 1


def test_a_node_is_bought_so_long_before_the_deadline_as_a_slow_start_takes() -> None:
    early = SLOWER * USUAL + LEAD_MARGIN
    almost = patient(created_at=NOW + early - FOUR_HOURS + MINUTE)
    due = patient(created_at=NOW + early - FOUR_HOURS)
    assert (bought(almost), bought(due)) == (0, 1)


def test_before_the_first_node_the_provision_timeout_counts_as_start_up_time() -> None:
    pool = a_pool()
    assert lead(pool, a_state()) == pool.provision_timeout
    assert lead(pool, a_state(ready_in=USUAL)) == SLOWER * USUAL + LEAD_MARGIN


def test_once_enough_nodes_have_started_nine_of_ten_must_be_in_time() -> None:
    assert lead(a_pool(), a_state(ready_in=USUAL, ready_within=9 * MINUTE)) == 9 * MINUTE + LEAD_MARGIN


def test_the_decision_names_the_moment_at_which_a_node_is_bought() -> None:
    found = facts(a_state(ready_in=USUAL), waiting=[patient(created_at=NOW)])
    assignment, decisions = run(found, a_policy())
    (work,) = assignment.patient
    assert work.buys_at == NOW + FOUR_HOURS - SLOWER * USUAL - LEAD_MARGIN
    assert decisions["l40s"].reconsider_at == work.buys_at


def test_urgent_work_does_not_wait_for_patient_work() -> None:
    assert bought(patient("old", created_at=LONG_AGO, priority=9), a_pod("urgent")) == 1


def test_patient_work_takes_what_a_coming_node_has_left() -> None:
    wide = a_policy(replace(WIDE, name="l40s", id="l40s-id"))
    found = facts(a_state(required=1, ready_in=USUAL), waiting=[a_pod("urgent", 6), patient("a"), patient("b", 4)])
    wanted = assigned(found, wide)
    assert [w.workload.key for w in wanted.patient] == ["ml/b"]
    assert wanted.pools["l40s-id"].work.settled == ("ml/urgent", "ml/a")


def test_a_gang_is_as_patient_as_its_least_patient_pod() -> None:
    gang = [patient("g0", gang="ml/g", created_at=LONG_AGO), a_pod("g1", gang="ml/g", created_at=LONG_AGO)]
    assert bought(*gang) == 2
    assert bought(*(patient(p.name, gang="ml/g", created_at=LONG_AGO) for p in gang)) == 0


@pytest.mark.parametrize(
    ("pod", "hours"),
    [
        pytest.param(a_pod(), 0, id="nothing is said"),
        pytest.param(a_pod(priority_class="batch", labels={"team": "nlp"}, namespace="night"), 1, id="priority class"),
        pytest.param(a_pod(labels={"team": "nlp"}, namespace="night"), 2, id="team"),
        pytest.param(a_pod(namespace="night"), 3, id="namespace"),
        pytest.param(patient(priority_class="batch"), 4, id="its own word"),
        pytest.param(patient(may_wait=90 * HOUR), 48, id="longer than the longest"),
    ],
)
def test_the_first_of_annotation_class_team_and_namespace_counts(pod: Pod, hours: int) -> None:
    known = Patience(
        priority_classes={"batch": HOUR}, teams={"nlp": 2 * HOUR}, namespaces={"night": 3 * HOUR}, longest=48 * HOUR
    )
    assert may_wait(pod, a_policy(patience=known)) == hours * HOUR


def test_no_node_is_ever_bought_below_the_lowest_priority() -> None:
    low = a_pod(priority=-11, created_at=NOW - 900 * HOUR)
    (work,) = assigned(facts(a_state(), waiting=[low]), a_policy()).patient
    assert (bought(low), work.buys_at) == (0, None)
    assert bought(a_pod(priority=-10)) == 1


@pytest.mark.parametrize("sizes", [(16,), (1, 16)], ids=["a pod", "a gang of which a pod fits"])
def test_work_of_a_low_priority_that_no_pool_can_hold_waits_for_no_room(sizes: Sequence[int]) -> None:
    pods = [a_pod(f"g{n}", gpus, priority=-11, gang="ml/g") for n, gpus in enumerate(sizes)]
    assignment = assigned(facts(a_state(), waiting=pods), a_policy())
    assert (assignment.patient, len(assignment.misfits)) == ((), 1)


def test_an_annotation_buys_no_node_below_the_lowest_priority() -> None:
    (work,) = assigned(facts(a_state(), waiting=[patient(priority=-11, created_at=NOW)]), a_policy()).patient
    assert (work.starts_by, work.buys_at) == (None, None)


def test_the_slowest_pool_that_a_gang_needs_decides_when_nodes_are_bought() -> None:
    gang = [patient("g0", gang="ml/g", created_at=NOW), patient("g1", 8, gang="ml/g", created_at=NOW)]
    states = (a_state(ready_in=USUAL), a_state(pool="wide-id", ready_within=12 * MINUTE))
    only_small = with_fields(gang[0], node_selector={"gpu": "small"})
    policy = a_policy(a_pool(labels={"gpu": "small"}), WIDE)
    (work,) = assigned(facts(*states, waiting=[only_small, gang[1]]), policy).patient
    assert work.buys_at == NOW + FOUR_HOURS - 12 * MINUTE - LEAD_MARGIN


def test_of_several_pools_that_fit_the_slowest_decides_when_a_node_is_bought() -> None:
    states = (a_state(ready_within=USUAL), a_state(pool="wide-id", ready_within=12 * MINUTE))
    (work,) = assigned(facts(*states, waiting=[patient(created_at=NOW)]), a_policy(*SMALL_AND_WIDE)).patient
    assert work.buys_at == NOW + FOUR_HOURS - 12 * MINUTE - LEAD_MARGIN


def test_a_pool_that_may_have_no_nodes_does_not_hasten_a_purchase() -> None:
    states = (a_state(ready_within=USUAL), a_state(pool="closed-id"))
    policy = a_policy(a_pool(), a_pool("closed", max_nodes=0))
    (work,) = assigned(facts(*states, waiting=[patient(created_at=NOW)]), policy).patient
    assert work.buys_at == NOW + FOUR_HOURS - USUAL - LEAD_MARGIN


def test_the_decision_is_looked_at_again_for_the_first_purchase() -> None:
    pods = [patient("later", created_at=NOW), patient("first", created_at=NOW - HOUR), a_pod("never", priority=-11)]
    wanted = assigned(facts(a_state(ready_within=USUAL), waiting=pods), a_policy()).pools["l40s-id"]
    assert wanted.buys_at == NOW - HOUR + FOUR_HOURS - USUAL - LEAD_MARGIN


@pytest.mark.parametrize(
    ("hours", "said"),
    [
        (4, "and may wait until 16:00 UTC; if none is free by 15:55 UTC, a node is bought for it"),
        (
            20,
            "and may wait until 2026-11-21 08:00 UTC; if none is free by 2026-11-21 07:55 UTC, a node is bought for it",
        ),
        (None, "no node is bought for work of its priority"),
    ],
)
def test_work_is_told_until_when_it_may_wait(hours: int | None, said: str) -> None:
    pod = a_pod(priority=-11) if hours is None else patient(may_wait=hours * HOUR, created_at=NOW)
    (work,) = assigned(facts(a_state(ready_within=USUAL), waiting=[pod]), a_policy()).patient
    assert work.why.endswith(said)


def test_gated_work_stays_gated_while_there_is_no_room() -> None:
    assert admitted(gated()) == []
    assert admitted(gated(), nodes=[a_busy_node()]) == []


def test_gated_work_is_admitted_when_a_node_is_free() -> None:
    assert admitted(gated(created_at=LONG_AGO), nodes=[a_node()]) == ["train"]


def test_gated_work_is_admitted_when_its_time_has_come() -> None:
    assert admitted(gated(created_at=NOW - FOUR_HOURS)) == ["train"]
    found = facts(a_state(ready_in=USUAL), deferred=[gated(created_at=NOW)])
    admissions = Admissions(found, a_policy(), {}, (), Survival())
    assert admissions.admit() == ((), NOW + FOUR_HOURS - SLOWER * USUAL - LEAD_MARGIN)


def test_the_next_admission_is_due_when_the_first_node_must_be_bought() -> None:
    pods = [
        gated("soon", created_at=NOW - HOUR),
        gated("late", created_at=NOW),
        gated("never", priority=-11, created_at=NOW),
    ]
    found = facts(a_state(ready_within=USUAL), deferred=pods)
    admissions = Admissions(found, a_policy(), {}, (), Survival())
    assert admissions.admit() == ((), NOW - HOUR + FOUR_HOURS - USUAL - LEAD_MARGIN)


def test_gated_work_of_a_low_priority_is_admitted_to_free_room_alone() -> None:
    low = gated(priority=-11, created_at=NOW - 900 * HOUR)
    assert admitted(low) == []
    assert admitted(low, nodes=[a_node()]) == ["train"]


def test_while_urgent_work_waits_no_room_is_given_away() -> None:
    assert admitted(gated(created_at=LONG_AGO), nodes=[a_node()], waiting_gpus=1) == []


def test_a_cordoned_node_is_no_room() -> None:
    cordoned = a_node(cordoned_by=CordonedBy.SOMEONE)
    assert admitted(gated(created_at=LONG_AGO), nodes=[cordoned]) == []


def test_room_of_buffers_stays_free() -> None:
    pods = [gated(f"p{n}", created_at=LONG_AGO) for n in range(3)]
    assert admitted(*pods, nodes=[a_node(f"f{n}") for n in range(3)], buffered_gpus=2) == ["p0"]


def test_a_node_that_is_about_to_go_is_no_room() -> None:
    assert admitted(gated(created_at=LONG_AGO), nodes=[a_node()], going=["i-n1"]) == []


def test_what_urgent_work_asked_for_lately_stays_free() -> None:
    recent = [a_busy_node(f"b{n}", pods=(a_pod(f"r{n}", created_at=NOW - MINUTE, node=f"b{n}"),)) for n in range(10)]
    free = [a_node(f"f{n}") for n in range(9)]
    names = [f"p{n}" for n in range(9)]
    pods = [gated(name, created_at=LONG_AGO) for name in names]
    assert admitted(*pods, nodes=[*recent, *free]) == ["p0", "p1"]  # 70 % of ten asked for stay free


def test_spare_nodes_stay_free() -> None:
    policy = a_policy(a_pool(standby_nodes=2))
    pods = [gated(f"p{n}", created_at=LONG_AGO) for n in range(3)]
    assert admitted(*pods, nodes=[a_node(f"f{n}") for n in range(3)], policy=policy) == ["p0"]


def a_wide_node(name: str = "w", hours: float = 1, **changes: Any) -> Node:
    """A node of eight GPUs, one of which is in use since so many *hours*."""
    pod = a_pod(f"on-{name}", node=name, created_at=NOW - hours * HOUR, phase=PodPhase.RUNNING)
    given = {"allocatable": {GPU: 8}, "created_at": NOW - 2 * HOUR, "pods": (pod,), "idle_since": None}
    return a_node(name, **{**given, **changes})


SMALL_AND_WIDE: Sequence[Pool] = (a_pool(), WIDE)
GOES_ON = Survival.of([HOUR * 200] * 300)


def on_wide(*nodes: Node, survival: Survival = GOES_ON) -> list[str]:
    states = (a_state(ready_in=USUAL), a_state(*nodes, pool="wide-id", ready_in=USUAL))
    pod = gated(created_at=LONG_AGO)
    return admitted(pod, policy=a_policy(*SMALL_AND_WIDE), states=states, survival=survival)


def test_patient_work_keeps_no_node_that_is_wider_than_it_needs() -> None:
    assert on_wide(a_wide_node(pods=(), idle_since=NOW - MINUTE)) == []
    assert on_wide(a_wide_node(), survival=Survival.of([HOUR] * 300)) == []


def test_patient_work_may_share_a_wide_node_whose_work_goes_on() -> None:
    assert on_wide(a_wide_node()) == ["train"]


def test_the_scheduler_could_choose_another_node_that_is_not_right() -> None:
    """It prefers the node with fewer soft taints."""
    right = a_wide_node("right", taints=SOFT_TAINTS[:1])
    wrong = a_wide_node("wrong", pods=(), idle_since=NOW - MINUTE)
    assert on_wide(right, wrong) == []


def test_the_scheduler_prefers_the_node_with_fewer_soft_taints() -> None:
    right = a_wide_node("right")
    wrong = a_wide_node("wrong", pods=(), idle_since=NOW - MINUTE, taints=SOFT_TAINTS)
    assert on_wide(right, wrong) == ["train"]


def test_a_node_that_is_not_right_stands_against_one_that_is_as_likely() -> None:
    assert on_wide(a_wide_node("right"), a_wide_node("wrong", pods=(), idle_since=NOW - MINUTE)) == []


def test_a_wide_node_is_right_for_what_fits_no_smaller_one() -> None:
    states = (a_state(ready_in=USUAL), a_state(a_wide_node(pods=(), idle_since=NOW), pool="wide-id", ready_in=USUAL))
    large = gated(gpus=8, created_at=LONG_AGO)
    assert admitted(large, policy=a_policy(*SMALL_AND_WIDE), states=states) == ["train"]


def test_a_pool_that_may_have_no_nodes_makes_no_other_too_wide() -> None:
    states = (a_state(ready_in=USUAL), a_state(a_wide_node(pods=(), idle_since=NOW), pool="wide-id", ready_in=USUAL))
    policy = a_policy(a_pool(max_nodes=0), WIDE)
    assert admitted(gated(created_at=LONG_AGO), policy=policy, states=states) == ["train"]


def in_two_pools(*pods: Pod, free: Sequence[str] = ("a", "b")) -> list[str]:
    """Which of *pods* are admitted where two pools have a node each; those that are not *free* are busy."""
    policy = a_policy(*(a_pool(name, labels={"gpu": name}) for name in ("a", "b")))
    nodes = {name: a_node(name) if name in free else a_busy_node(name) for name in ("a", "b")}
    states = [a_state(node, pool=f"{name}-id", ready_in=USUAL) for name, node in nodes.items()]
    return admitted(*pods, policy=policy, states=states)


def selecting(name: str, pool: str, **changes: Any) -> Pod:
    return gated(name, node_selector={"gpu": pool}, created_at=LONG_AGO, **changes)


def test_room_in_a_pool_that_the_pod_does_not_select_does_not_count() -> None:
    assert in_two_pools(selecting("p", "a"), free=["b"]) == []
    assert in_two_pools(selecting("p", "a"), free=["a"]) == ["p"]


def test_room_that_one_pod_gets_is_not_given_to_another() -> None:
    assert in_two_pools(selecting("p0", "a"), selecting("p1", "a")) == ["p0"]


def test_a_gang_without_room_for_all_leaves_its_room_to_others() -> None:
    gang = [selecting(f"g{n}", "a", gang="ml/g", priority=1) for n in range(2)]
    assert in_two_pools(*gang, selecting("single", "a")) == ["single"]


def test_a_gang_is_admitted_whole() -> None:
    gang = [gated(f"g{n}", gang="ml/g", created_at=LONG_AGO) for n in range(2)]
    assert admitted(*gang, nodes=[a_node()]) == []
    assert sorted(admitted(*gang, nodes=[a_node("a"), a_node("b")])) == ["g0", "g1"]


@given(
    waits=st.lists(st.integers(0, 300), max_size=12),
    free=st.integers(0, 6),
    ages=st.lists(st.integers(0, 300), min_size=12, max_size=12),
)
@settings(max_examples=60, deadline=None)
def test_admitted_work_has_room_or_is_due(waits: Sequence[int], free: int, ages: Sequence[int]) -> None:
    nodes = [a_node(f"f{n}") for n in range(free)]
    pods = [
        gated(f"p{n:02}", may_wait=wait * MINUTE + timedelta(seconds=1), created_at=NOW - age * MINUTE)
        for n, (wait, age) in enumerate(zip(waits, ages, strict=False))
    ]
    early = SLOWER * USUAL + LEAD_MARGIN
    due = {p.name for p in pods if p.wishes.may_wait is not None and p.created_at + p.wishes.may_wait - early <= NOW}
    found = set(admitted(*pods, nodes=nodes))
    assert due <= found
    assert len(found - due) <= free


def test_work_that_fits_no_pool_does_not_wait_for_one() -> None:
    big = patient("big", gpus=99)
    assignment = assigned(facts(a_state(ready_in=USUAL), waiting=[big]), a_policy())
    assert ([m.workload.key for m in assignment.misfits], assignment.patient) == (["ml/big"], ())
    assert admitted(gated("big", gpus=99)) == ["big"]
    vast = patient("vast", compute={"cpu": 10**9})
    sized = a_state(ready_in=USUAL, compute={"cpu": 8000})
    assert [m.workload.key for m in assigned(facts(sized, waiting=[vast]), a_policy()).misfits] == ["ml/vast"]


def test_a_gang_waits_until_all_its_pods_exist() -> None:
    gang = [gated(f"g{n}", gang="ml/g", gang_min=3, created_at=LONG_AGO) for n in range(3)]
    free = [a_node(f"f{n}") for n in range(3)]
    assert admitted(*gang[:2], nodes=free) == []
    assert len(admitted(*gang, nodes=free)) == 3


@pytest.mark.parametrize("passed", ["waiting", "bound"])
def test_the_rest_of_a_gang_follows_those_that_were_admitted(passed: str) -> None:
    """They hold GPUs, or wait, for its sake."""
    rest = gated("g1", gang="ml/g", gang_min=2, created_at=NOW)
    waiting = [patient("g0", gang="ml/g", gang_min=2, created_at=NOW)] if passed == "waiting" else []
    bound = {"ml/g": 1} if passed == "bound" else {}
    found = facts(a_state(ready_in=USUAL), deferred=(rest,), waiting=waiting, bound_gangs=bound)
    ready, _ = Admissions(found, a_policy(), {"l40s-id": 1}, (), Survival()).admit()
    assert [p.name for work in ready for p in work.pods] == ["g1"]


@pytest.mark.parametrize("odd", [{"daemon": True}, {"requests": {}}, {"namespace": "gpu-operator"}], ids=str)
def test_what_is_no_demand_has_nothing_to_wait_for(odd: dict[str, Any]) -> None:
    assert admitted(gated(**odd)) == ["train"]
    assert admitted(gated(**odd, terminating=True)) == []


def test_work_behind_the_gate_whose_patience_cannot_be_read_holds_up_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(pod: Pod, policy: Policy) -> timedelta:
        if pod.name == "bad":
            raise ValueError("a bug")
        return may_wait(pod, policy)

    monkeypatch.setattr("receiver.capabilities.patience.waiting.may_wait", fails)
    found = facts(a_state(ready_in=USUAL), waiting=[a_pod("good")], deferred=(gated("bad"), gated("fine")))
    assignment = assigned(found, a_policy(), Failures())
    assert assignment.pools["l40s-id"].for_demand == 1
    assert [work.workload.key for work in assignment.patient] == ["ml/fine"]


def states_of_five_pools(in_use: int) -> tuple[Policy, list[PoolState]]:
    """Two hundred nodes of eight GPUs, so many of each *in_use*."""
    pods = tuple(a_pod(f"r{n}", node="n", created_at=LONG_AGO) for n in range(in_use))
    nodes = [[a_node(f"n{p}-{n}", allocatable={GPU: 8}, pods=pods) for n in range(40)] for p in range(5)]
    states = [a_state(*nodes[p], pool=f"p{p}-id", ready_in=USUAL) for p in range(5)]
    return a_policy(*(a_pool(f"p{n}", resources={GPU: 8}) for n in range(5))), states


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[None]:
    """One entry for each call of *owner*'s function *name* from now on."""
    calls, called = list[None](), getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *args: calls.append(None) or called(*args))  # type: ignore[func-returns-value]
    return calls


def test_patient_pods_that_fit_nowhere_yet_are_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, states = states_of_five_pools(in_use=7)
    copies = counted(monkeypatch, Bin, "copy")
    assert len(assigned(facts(*states, waiting=[patient(f"w{n}", 8) for n in range(500)]), policy).patient) == 500
    assert len(copies) <= 2 * 200


def test_a_step_finds_room_for_no_more_gated_pods_than_it_admits(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, states = states_of_five_pools(in_use=0)
    reads = counted(monkeypatch, waiting, "refusal")
    gates = [gated(f"w{n:03}", created_at=LONG_AGO) for n in range(500)]
    due = [gated(f"x{n}", created_at=NOW - FOUR_HOURS) for n in range(2)]
    assert len(admitted(*gates, *due, policy=policy, states=states)) == MOST_AT_ONCE + 2
    assert len(reads) <= 5
