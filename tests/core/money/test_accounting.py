"""Who held the GPUs since the last accounting: slices of pods, months, and what nobody saw.

The second part is what changes under way: labels, names, slices, the configuration, the clock, Civo's list.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from time import process_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from receiver.core.model.memory import NodeLife
from receiver.core.model.pods import Pod, PodPhase
from receiver.core.model.policy import Attribution, Billing
from receiver.core.model.usage import (
    Accounted,
    Accounting,
    EndedPod,
    GpuHolding,
    Owner,
    Sample,
    Unwatched,
    Usage,
    WorkloadLife,
)
from receiver.core.money.accounting import StepSight, account, ended_in, is_due
from receiver.core.money.attribution import MonthToDate, Part, attribute
from tests.core.builders import HOUR, MINUTE, NOW, SECOND, a_node, a_pod, a_policy, a_pool
from tests.core.money.builders import (
    EIGHT_GPU_POLICY,
    NOVEMBER,
    RESTING,
    WORKING,
    a_big_life,
    a_bound_pod,
    a_step_sight,
)


def standing(*pods: Pod, at: datetime = NOW - MINUTE) -> Accounted:
    """An account in which *pods* hold GPUs and their workloads run."""
    held = tuple(GpuHolding(uid=p.uid, instance="i-n1", workload=f"ml/{p.owner}", gpus=p.gpus) for p in pods)
    lives = {
        f"ml/{p.owner}": WorkloadLife(
            workload=f"ml/{p.owner}", namespace="ml", created_at=p.created_at, gpus=p.gpus, bound_at=p.times.bound_at
        )
        for p in pods
    }
    return Accounted(at=at, holdings=held, running=tuple(lives.values()))


def held(accounting: Accounting) -> dict[str, float]:
    """GPU-seconds by workload."""
    found: Counter[str] = Counter()
    for row in accounting.usage:
        found[row.workload.rpartition("/")[2]] += row.held  # type: ignore[assignment]  # a Counter holds floats too
    return {name: round(seconds, 6) for name, seconds in found.items()}


# --- slices


def test_a_pod_that_stays_held_its_gpus_since_the_last_accounting() -> None:
    pod = a_bound_pod(gpus=2)
    assert held(account(standing(pod), a_step_sight(pod), EIGHT_GPU_POLICY)) == {"train": 120.0}


def test_a_pod_holds_nothing_before_it_was_bound() -> None:
    pod = a_bound_pod(at=NOW - 20 * SECOND)
    assert held(account(standing(), a_step_sight(pod), EIGHT_GPU_POLICY)) == {"train": 20.0}


def test_a_pod_that_was_bound_before_the_last_accounting_is_not_counted_twice() -> None:
    pod = a_bound_pod(at=NOW - HOUR)
    assert held(account(standing(), a_step_sight(pod), EIGHT_GPU_POLICY)) == {"train": 60.0}


def test_without_a_time_of_binding_the_start_of_its_containers_counts() -> None:
    runs = a_bound_pod(bound_at=None, running_since=NOW - 5 * SECOND)
    pulls = a_bound_pod("pulls", bound_at=None, phase=PodPhase.STARTING)
    assert held(account(standing(), a_step_sight(runs, pulls), EIGHT_GPU_POLICY)) == {"train": 5.0}


def test_a_pod_that_vanished_held_its_gpus_until_now() -> None:
    assert held(account(standing(a_bound_pod()), a_step_sight(), EIGHT_GPU_POLICY)) == {"train": 60.0}


def test_kubernetes_word_on_the_end_of_a_pod_is_taken() -> None:
    done = EndedPod(uid="uid-train", workload="ml/Job/train", succeeded=True, at=NOW - 50 * SECOND)
    assert held(account(standing(a_bound_pod()), a_step_sight(ended=(done,)), EIGHT_GPU_POLICY)) == {"train": 10.0}


def test_a_pod_that_vanished_held_nothing_after_another_took_its_place() -> None:
    heir = a_bound_pod("heir", at=NOW - 15 * SECOND)
    assert held(account(standing(a_bound_pod()), a_step_sight(heir), EIGHT_GPU_POLICY)) == {"train": 45.0, "heir": 15.0}


def test_another_pod_of_the_same_name_is_another_pod() -> None:
    old, new = a_bound_pod(), a_bound_pod(uid="another", at=NOW - 10 * SECOND)
    found = account(standing(old), a_step_sight(new), EIGHT_GPU_POLICY)
    assert held(found) == {"train": 60.0}
    assert [h.uid for h in found.holdings] == ["another"]


def test_a_pod_that_waits_and_one_on_a_node_that_is_not_ours_hold_nothing() -> None:
    elsewhere = a_bound_pod("elsewhere", node="cpu-1")
    found = account(standing(), a_step_sight(a_pod("waits"), elsewhere), EIGHT_GPU_POLICY)
    assert (found.usage, found.holdings) == ((), ())


# --- pauses


def test_over_a_pause_only_pods_that_are_still_there_are_counted() -> None:
    stays, went = a_bound_pod("stays"), a_bound_pod("went")
    found = account(standing(stays, went, at=NOW - HOUR), a_step_sight(stays), EIGHT_GPU_POLICY)
    assert held(found) == {"stays": 3600.0}


def test_a_pod_that_was_bound_in_a_pause_is_counted_from_then_on() -> None:
    pod = a_bound_pod(at=NOW - HOUR / 2)
    assert held(account(standing(at=NOW - HOUR), a_step_sight(pod), EIGHT_GPU_POLICY)) == {"train": 1800.0}


def test_what_could_have_been_held_in_a_pause_is_unwatched() -> None:
    stays = a_bound_pod(gpus=2)
    found = account(standing(stays, at=NOW - HOUR), a_step_sight(stays), EIGHT_GPU_POLICY)
    assert [round(u.seconds) for u in found.unwatched] == [6 * 3600]


def test_a_node_that_went_in_a_pause_was_unwatched_until_it_went() -> None:
    gone = a_big_life(gone_at=NOW - HOUR / 2)
    found = account(standing(a_bound_pod(), at=NOW - HOUR), a_step_sight(life=gone, nodes=()), EIGHT_GPU_POLICY)
    assert (found.usage, [u.seconds for u in found.unwatched]) == ((), [8 * 1800.0])


def test_nothing_is_unwatched_while_we_look_every_minute() -> None:
    assert account(standing(), a_step_sight(), EIGHT_GPU_POLICY).unwatched == ()


def test_a_node_without_usable_gpus_is_not_unwatched() -> None:
    assert (
        account(standing(at=NOW - HOUR), a_step_sight(life=a_big_life(usable_at=None)), EIGHT_GPU_POLICY).unwatched
        == ()
    )


def test_a_node_that_was_there_before_us_was_unwatched_but_for_the_pods_that_are_still_there() -> None:
    old = a_big_life(seen_at=NOW, usable_at=NOW)
    found = account(Accounted(), a_step_sight(a_bound_pod(gpus=4), life=old), EIGHT_GPU_POLICY)
    assert held(found) == {"train": 4 * 3600.0}
    assert [u.seconds for u in found.unwatched] == [8 * 7200.0 - 4 * 3600.0]


def test_a_pool_that_is_configured_later_is_counted_from_the_binding_of_its_pods() -> None:
    old = a_big_life(seen_at=NOW - 10 * SECOND, usable_at=NOW - 10 * SECOND)
    found = account(standing(), a_step_sight(a_bound_pod(), life=old), EIGHT_GPU_POLICY)
    assert held(found) == {"train": 3600.0}
    assert [u.seconds for u in found.unwatched] == [8 * 7200.0 - 3600.0]


def test_nobody_watches_the_nodes_of_a_pool_that_left_the_configuration() -> None:
    found = account(standing(), a_step_sight(life=a_big_life(pool="left"), nodes=()), EIGHT_GPU_POLICY)
    assert [u.seconds for u in found.unwatched] == [8 * 60.0]


def test_nothing_from_before_this_month_is_counted_for_a_new_ledger() -> None:
    early = a_big_life(created_at=NOW - 60 * 24 * HOUR, seen_at=NOW, usable_at=NOW)
    found = account(Accounted(), a_step_sight(a_bound_pod(at=NOW - 50 * 24 * HOUR), life=early), EIGHT_GPU_POLICY)
    month = datetime(2026, 11, 1, tzinfo=UTC)
    assert held(found) == {"train": (NOW - month).total_seconds()}


# --- months


@pytest.mark.parametrize("granularity, november", [(HOUR, 1800.0), (SECOND, 900.0)])
def test_a_slice_over_the_months_border_is_split_where_a_paid_unit_begins(
    granularity: timedelta, november: float
) -> None:
    """Created at 23:15, the node pays its first hour until 00:15 of the next month."""
    midnight = datetime(2026, 12, 1, tzinfo=UTC)
    life = a_big_life(created_at=midnight - 45 * MINUTE)
    pod = a_bound_pod(at=midnight - 15 * MINUTE)
    policy = a_policy(a_pool(), billing=Billing(granularity=granularity))
    before = standing(pod, at=midnight - 15 * MINUTE)
    found = account(before, a_step_sight(pod, at=midnight + 45 * MINUTE, life=life), policy)
    assert {row.month: row.held for row in found.usage} == {"2026-11": november, "2026-12": 3600.0 - november}


def test_what_is_held_after_midnight_in_an_hour_of_the_old_month_is_the_old_months() -> None:
    midnight = datetime(2026, 12, 1, tzinfo=UTC)
    life, pod = a_big_life(created_at=midnight - 45 * MINUTE), a_bound_pod(at=midnight - 15 * MINUTE)
    before = standing(pod, at=midnight + 5 * MINUTE)
    found = account(before, a_step_sight(pod, at=midnight + 6 * MINUTE, life=life), EIGHT_GPU_POLICY)
    assert {row.month: row.held for row in found.usage} == {"2026-11": 60.0}


# --- what the GPUs did


def measured(*samples: Sample, gpus: int = 2, pause: timedelta = MINUTE) -> tuple[float, ...]:
    pod = a_bound_pod(gpus=gpus)
    found = account(
        standing(pod, at=NOW - pause), a_step_sight(pod, samples={"ml/train": samples}), EIGHT_GPU_POLICY
    ).usage[0]
    return tuple(round(v, 3) for v in (found.measured, found.idle, found.busy, found.memory))


def test_what_gpus_did_is_weighed_by_the_time_that_they_were_held() -> None:
    assert measured(WORKING, WORKING) == (120.0, 0.0, 96.0, 60.0)


def test_one_of_two_gpus_that_rests_is_half_of_the_time_idle() -> None:
    assert measured(WORKING, RESTING) == (120.0, 60.0, 48.6, 48.0)


def test_a_gpu_without_samples_is_not_measured_and_never_idle() -> None:
    assert measured(RESTING) == (60.0, 60.0, 0.6, 18.0)
    assert measured() == (0.0, 0.0, 0.0, 0.0)
    assert measured(Sample(engine=0.0)) == (0.0, 0.0, 0.0, 0.0)


def test_a_model_that_is_being_loaded_is_not_at_rest() -> None:
    assert measured(Sample(engine=0.0, memory=0.2, peak_memory=0.4, least_memory=0.0), gpus=1)[1] == 0.0


def test_a_sample_does_not_speak_for_a_pause() -> None:
    assert measured(RESTING, gpus=1, pause=HOUR)[:2] == (120.0, 120.0)


def test_the_highest_peaks_are_kept() -> None:
    pod = a_bound_pod(gpus=2)
    found = account(standing(pod), a_step_sight(pod, samples={"ml/train": (WORKING, RESTING)}), EIGHT_GPU_POLICY).usage[
        0
    ]
    assert (found.peak_engine, found.peak_memory) == (0.8, 0.6)


def test_a_pod_that_vanished_is_held_and_not_measured() -> None:
    found = account(standing(a_bound_pod()), a_step_sight(samples={"ml/train": (WORKING,)}), EIGHT_GPU_POLICY).usage[0]
    assert (found.held, found.measured, found.peak_engine) == (60.0, 0.0, None)


# --- workloads


def lives(accounting: Accounting) -> dict[str, WorkloadLife]:
    return {x.workload: x for x in accounting.lives}


def test_a_workload_is_as_old_as_its_oldest_pod_and_is_whose_its_labels_say() -> None:
    labels = {"team": "vision", "example.com/cc": "42"}
    policy = a_policy(a_pool(), attribution=Attribution(cost_center="example.com/cc"))
    pods = [
        a_pod(f"train-{n}", gpus=2, owner="Job/train", labels=labels, created_at=NOW - n * MINUTE) for n in (1, 3, 2)
    ]
    found = lives(account(standing(), a_step_sight(*pods), policy))["ml/Job/train"]
    assert (found.created_at, found.gpus, found.bound_at) == (NOW - 3 * MINUTE, 6, None)
    assert found.owner == Owner(team="vision", cost_center="42")


def test_a_workload_is_bound_when_its_first_pod_is() -> None:
    waits = a_bound_pod("b", owner="Job/train", node=None, bound_at=None, phase=PodPhase.WAITING)
    found = lives(account(standing(), a_step_sight(a_bound_pod(), waits), EIGHT_GPU_POLICY))["ml/Job/train"]
    assert found.bound_at == NOW - HOUR


def test_a_workload_that_goes_on_is_not_written_again() -> None:
    assert account(standing(a_bound_pod()), a_step_sight(a_bound_pod()), EIGHT_GPU_POLICY).lives == ()


@pytest.mark.parametrize("succeeded", [True, False])
def test_a_workload_ends_as_its_last_pod_did(succeeded: bool) -> None:
    ends = (
        EndedPod(uid="1", workload="ml/Job/train", succeeded=not succeeded, at=NOW - 40 * SECOND),
        EndedPod(uid="2", workload="ml/Job/train", succeeded=succeeded, at=NOW - 20 * SECOND),
        EndedPod(uid="3", workload="ml/Job/other", succeeded=not succeeded, at=NOW),
        EndedPod(uid="4", workload="ml/Job/train", succeeded=not succeeded, at=NOW - 30 * HOUR),
    )
    found = lives(account(standing(a_bound_pod()), a_step_sight(ended=ends), EIGHT_GPU_POLICY))["ml/Job/train"]
    assert (found.ended_at, found.completed) == (NOW - 20 * SECOND, succeeded)


def test_how_a_workload_ended_is_unknown_when_nobody_saw_it() -> None:
    found = lives(account(standing(a_bound_pod()), a_step_sight(), EIGHT_GPU_POLICY))["ml/Job/train"]
    assert (found.ended_at, found.completed) == (NOW, None)


def test_a_workload_that_went_in_a_pause_ended_when_it_was_seen_last() -> None:
    found = lives(account(standing(a_bound_pod(), at=NOW - HOUR), a_step_sight(), EIGHT_GPU_POLICY))["ml/Job/train"]
    assert found.ended_at == NOW - HOUR


def test_a_workload_that_comes_back_under_its_name_is_another_one() -> None:
    again = a_bound_pod(uid="new", at=NOW - SECOND)
    found = lives(account(standing(), a_step_sight(again), EIGHT_GPU_POLICY))["ml/Job/train"]
    assert (found.created_at, found.ended_at) == (NOW - SECOND - MINUTE, None)


def test_a_pod_of_a_daemon_set_that_waits_and_one_that_is_only_announced_are_no_workloads() -> None:
    found = account(standing(), a_step_sight(a_pod("agent", daemon=True), a_pod("announced", uid="")), EIGHT_GPU_POLICY)
    assert found.lives == ()


def test_a_pod_without_a_controller_is_a_workload_of_its_own() -> None:
    assert list(lives(account(standing(), a_step_sight(a_pod("lone")), EIGHT_GPU_POLICY))) == ["ml/Pod/lone"]


# --- when


@pytest.mark.parametrize(
    "before, due",
    [
        (Accounted(), True),
        (standing(a_bound_pod(), at=NOW - 59 * SECOND), False),
        (standing(a_bound_pod(), at=NOW - MINUTE), True),
        (standing(at=NOW - SECOND), True),
        (standing(a_bound_pod(), a_bound_pod("gone"), at=NOW - SECOND), True),
        (standing(at=NOW), False),
        (standing(at=NOW + MINUTE), False),
        (standing(at=NOW + 4 * MINUTE), True),
    ],
    ids=["never", "lately", "a minute ago", "a new pod", "a pod less", "just now", "clock set back", "wrong clock"],
)
def test_when_it_is_time_to_account(before: Accounted, due: bool) -> None:
    assert is_due(before, a_step_sight(a_bound_pod())) is due


def test_kubernetes_is_asked_only_where_something_ended() -> None:
    assert ended_in(standing(a_bound_pod()), a_step_sight(a_bound_pod())) == frozenset()
    assert ended_in(standing(a_bound_pod(), a_bound_pod("b", owner="Job/train")), a_step_sight(a_bound_pod())) == {"ml"}
    waited = WorkloadLife(workload="nlp/Job/w", namespace="nlp", created_at=NOW)
    assert ended_in(Accounted(at=NOW, running=(waited,)), a_step_sight()) == {"nlp"}


# --- laws


@st.composite
def days(draw: st.DrawFn) -> tuple[list[tuple[Pod, datetime]], list[timedelta]]:
    """Pods of one GPU each that come and go on a node of eight, at most eight at once, and moments to look at."""
    pods = []
    for slot in range(8):
        at = timedelta(0)
        for n in range(draw(st.integers(0, 3))):
            at += draw(st.integers(0, 900)) * SECOND
            until = at + draw(st.integers(1, 900)) * SECOND
            pods.append((a_bound_pod(f"p{slot}-{n}", at=NOW + at), NOW + until))
            at = until
    steps = draw(st.lists(st.integers(10, 90), min_size=1, max_size=20))
    return pods, [s * SECOND for s in steps]


def counted(pods: list[tuple[Pod, datetime]], moments: list[datetime]) -> dict[str, float]:
    """GPU-seconds by workload when usage is accounted for at *moments*; ends are told by Kubernetes."""
    life = a_big_life(created_at=NOW, seen_at=NOW, usable_at=NOW + SECOND)
    before, total = Accounted(at=NOW), Counter[str]()
    running: dict[str, WorkloadLife] = {}
    for at in moments:
        here = [p for p, until in pods if p.times.bound_at is not None and p.times.bound_at <= at < until]
        told = tuple(EndedPod(uid=p.uid, workload=f"ml/{p.owner}", succeeded=True, at=u) for p, u in pods if u <= at)
        found = account(before, a_step_sight(*here, at=at, life=life, ended=told), EIGHT_GPU_POLICY)
        for row in found.usage:
            total[row.workload] += row.held  # type: ignore[assignment]  # a Counter holds floats too
        running |= {x.workload: x for x in found.lives}
        going = tuple(x for x in running.values() if x.ended_at is None)
        before = Accounted(at=at, holdings=found.holdings, running=going)
    return {name: round(seconds, 3) for name, seconds in total.items() if round(seconds, 3)}


@given(days())
@settings(max_examples=40, deadline=None)
def test_other_lengths_of_step_count_the_same_seconds(day: Any) -> None:
    """Pods that live for less than a step are never seen, so those are left out."""
    pods, steps = day
    end = NOW + 2 * HOUR
    at = NOW
    moments: list[datetime] = []
    while at < end:
        at += steps[len(moments) % len(steps)]
        moments.append(min(at, end))
    lasting = [(p, u) for p, u in pods if any(p.times.bound_at <= m < u for m in moments)]
    regular = [NOW + n * MINUTE / 2 for n in range(1, 241)]
    assert counted(lasting, moments) == {
        f"ml/{p.owner}": (u - p.times.bound_at).total_seconds() for p, u in lasting if p.times.bound_at is not None
    }
    seen_by_both = [(p, u) for p, u in lasting if any(p.times.bound_at <= m < u for m in regular)]
    assert counted(seen_by_both, regular) == counted(seen_by_both, moments)


@given(days(), st.booleans())
@settings(max_examples=40, deadline=None)
def test_pods_together_never_hold_more_than_the_node_has(day: Any, told: bool) -> None:
    pods, steps = day
    life = a_big_life(created_at=NOW, seen_at=NOW, usable_at=NOW + SECOND)
    before, at = Accounted(at=NOW), NOW
    running: dict[str, WorkloadLife] = {}
    while at < NOW + HOUR:
        since, at = at, at + steps[0]
        here = [p for p, until in pods if p.times.bound_at <= at < until]
        ends = tuple(EndedPod(uid=p.uid, workload=f"ml/{p.owner}", succeeded=True, at=u) for p, u in pods if u <= at)
        found = account(before, a_step_sight(*here, at=at, life=life, ended=ends if told else ()), EIGHT_GPU_POLICY)
        assert sum(row.held for row in found.usage) <= 8 * (at - since).total_seconds() + 1e-6
        assert all(0 <= row.idle <= row.measured <= row.held for row in found.usage)
        running |= {x.workload: x for x in found.lives}
        going = tuple(x for x in running.values() if x.ended_at is None)
        before = Accounted(at=at, holdings=found.holdings, running=going)


# --- scale


def test_two_thousand_nodes_of_eight_gpus_are_counted_in_a_moment(figure: Callable[[str], None]) -> None:
    names = [f"n{n}" for n in range(2000)]
    lives = tuple(a_big_life(instance=f"i-{name}", name=name) for name in names)
    pods = tuple(a_bound_pod(f"{name}-{slot}", node=name) for name in names for slot in range(8))
    nodes = tuple(a_node(name, pods=pods[n * 8 : n * 8 + 8]) for n, name in enumerate(names))
    held = tuple(GpuHolding(uid=p.uid, instance=f"i-{p.node}", workload=f"ml/{p.owner}", gpus=1) for p in pods)
    running = tuple(WorkloadLife(workload=h.workload, namespace="ml", created_at=NOW, gpus=1) for h in held)
    before = Accounted(at=NOW - MINUTE, holdings=held, running=running)
    found = StepSight(at=NOW, lives=lives, nodes=nodes, pods=pods, samples={p.key: (WORKING,) for p in pods})
    began = process_time()
    is_due(replace(before, at=NOW - SECOND), found)
    looked = process_time()
    made = account(before, found, EIGHT_GPU_POLICY)
    counted = process_time()
    figure(
        f"16,000 pods on 2,000 nodes: {(looked - began) * 1000:.0f} ms to see whether it is time, "
        f"{(counted - looked) * 1000:.0f} ms to account for a minute"
    )
    assert sum(row.held for row in made.usage) == 16_000 * 60.0
    assert counted - looked < timedelta(seconds=20).total_seconds()


class Ledger:
    """An account that goes on: what was added up, and where it stands."""

    def __init__(self, at: Any = NOW) -> None:
        self.before = Accounted(at=at)
        self.usage: list[Usage] = []
        self.unwatched: list[Unwatched] = []

    def take(self, what: StepSight, policy: Any = EIGHT_GPU_POLICY) -> Accounting:
        """Account for what is seen."""
        found = account(self.before, what, policy)
        self.usage += found.usage
        self.unwatched += found.unwatched
        running = {(x.workload, x.life): x for x in (*self.before.running, *found.lives)}
        going = tuple(x for x in running.values() if x.ended_at is None)
        self.before = Accounted(at=what.at, holdings=found.holdings, running=going)
        return found

    def held(self, key: Any = lambda row: row.owner.team) -> dict[str, float]:
        """GPU-seconds."""
        found: Counter[str] = Counter()
        for row in self.usage:
            found[key(row)] += row.held  # type: ignore[assignment]  # a Counter holds floats too
        return {name: round(seconds, 6) for name, seconds in found.items() if round(seconds, 6)}

    def shared(self, life: NodeLife, now: Any) -> dict[tuple[Part, str], Decimal]:
        """USD of *life* by part and team."""
        found: dict[tuple[Part, str], Decimal] = {}
        for share in attribute(
            [life], merged(self.usage), (), MonthToDate(NOVEMBER, now, Billing(granularity=SECOND))
        ).shares:
            key = (share.part, share.usage.owner.team if share.usage else "")
            found[key] = round(found.get(key, Decimal(0)) + share.usd, 4)
        return found


def merged(usage: list[Usage]) -> list[Usage]:
    """Rows added up as the store does it."""
    found: dict[Any, Usage] = {}
    for row in usage:
        key = (row.month, row.instance, row.workload, row.life, row.owner)
        old = found.get(key)
        parts = None if old is None else (old.node_seconds or 0.0) + (row.node_seconds or 0.0)
        found[key] = row if old is None else replace(old, held=old.held + row.held, node_seconds=parts)
    return list(found.values())


# --- labels


def labelled(team: str, uid: str = "p", **changes: Any) -> Pod:
    return a_bound_pod(
        f"web-{uid}", owner="StatefulSet/web", owner_uid="set", labels={"team": team}, uid=uid, **changes
    )


def test_from_the_change_of_a_team_label_on_the_new_team_pays() -> None:
    ledger = Ledger()
    ledger.take(a_step_sight(labelled("vision", at=NOW), at=NOW + MINUTE))
    ledger.take(a_step_sight(labelled("nlp", at=NOW), at=NOW + 2 * MINUTE))
    ledger.take(a_step_sight(labelled("nlp", at=NOW), at=NOW + 3 * MINUTE))
    assert ledger.held() == {"vision": 60.0, "nlp": 120.0}


def test_during_a_rollout_each_pod_is_paid_for_by_its_own_team() -> None:
    ledger = Ledger()
    old, new = labelled("vision", at=NOW), labelled("nlp", "q", at=NOW, created_at=NOW)
    ledger.take(a_step_sight(old, new, at=NOW + MINUTE))
    assert ledger.held() == {"vision": 60.0, "nlp": 60.0}


def test_a_workload_is_whose_its_newest_pod_says() -> None:
    ledger = Ledger()
    old, new = labelled("vision"), labelled("nlp", "q", created_at=NOW)
    ledger.take(a_step_sight(old, at=NOW + MINUTE))
    [life] = ledger.take(a_step_sight(old, new, at=NOW + 2 * MINUTE)).lives
    assert (life.owner.team, life.created_at) == ("nlp", old.created_at)


def test_a_pod_that_vanished_is_paid_for_by_who_it_was_of() -> None:
    ledger = Ledger()
    ledger.take(a_step_sight(labelled("vision", at=NOW), at=NOW + MINUTE))
    ledger.take(a_step_sight(at=NOW + 2 * MINUTE))
    assert ledger.held() == {"vision": 120.0}


# --- names


def test_who_uses_a_name_again_within_a_minute_is_another_workload() -> None:
    ledger = Ledger()
    first = a_bound_pod(owner_uid="one", at=NOW)
    again = a_bound_pod(owner_uid="two", uid="another", at=NOW + 90 * SECOND)
    ledger.take(a_step_sight(first, at=NOW + MINUTE))
    done = EndedPod(uid=first.uid, workload="ml/Job/train", succeeded=True, at=NOW + 80 * SECOND, life="one")
    found = ledger.take(a_step_sight(again, at=NOW + 2 * MINUTE, ended=(done,)))
    assert {x.life: (x.ended_at, x.completed) for x in found.lives} == {
        "one": (NOW + 80 * SECOND, True),
        "two": (None, None),
    }
    assert ledger.held(lambda row: row.life) == {"one": 80.0, "two": 30.0}


def test_how_another_of_the_same_name_ended_says_nothing() -> None:
    ledger = Ledger()
    ledger.take(a_step_sight(a_bound_pod(owner_uid="two", at=NOW), at=NOW + MINUTE))
    done = EndedPod(uid="x", workload="ml/Job/train", succeeded=False, at=NOW + 70 * SECOND, life="one")
    [life] = ledger.take(a_step_sight(at=NOW + 2 * MINUTE, ended=(done,))).lives
    assert (life.completed, life.ended_at) == (None, NOW + 2 * MINUTE)


# --- slices and shares


def a_gpu(**changes: Any) -> NodeLife:
    """A node of one GPU at USD 7 an hour, created now."""
    said = {"created_at": NOW, "seen_at": NOW, "usable_at": NOW, "gpus": 1.0, "price_usd_per_hour": Decimal(7)}
    return a_big_life(**{**said, **changes})


def watched(*pods: Pod, life: NodeLife, labels: dict[str, str] | None = None) -> Ledger:
    """A ledger of an hour of *pods* on one node."""
    ledger = Ledger()
    node = a_node(pods=pods, labels=labels or {})
    for minute in range(1, 61):
        ledger.take(StepSight(at=NOW + minute * MINUTE, lives=(life,), nodes=(node,), pods=pods))
    return ledger


def sliced(team: str, resource: str, count: int = 1) -> Pod:
    return a_bound_pod(team, at=NOW, labels={"team": team}, requests={resource: count})


def test_slices_of_a_gpu_pay_by_their_compute_slices_and_the_rest_is_nobodys() -> None:
    life = a_gpu()
    pods = (sliced("vision", "nvidia.com/mig-3g.20gb"), sliced("nlp", "nvidia.com/mig-1g.5gb"))
    ledger = watched(*pods, life=life)
    assert ledger.shared(replace(life, gone_at=NOW + HOUR), NOW + HOUR) == {
        (Part.HELD, "vision"): Decimal(3),
        (Part.HELD, "nlp"): Decimal(1),
        (Part.UNALLOCATED, ""): Decimal(3),
    }


def test_replicas_of_a_gpu_pay_their_share_of_it() -> None:
    life, labels = a_gpu(), {"nvidia.com/gpu.replicas": "4"}
    ledger = watched(sliced("vision", "nvidia.com/gpu.shared"), life=life, labels=labels)
    assert ledger.held() == {"vision": 900.0}
    assert ledger.shared(replace(life, gone_at=NOW + HOUR), NOW + HOUR) == {
        (Part.HELD, "vision"): Decimal("1.75"),
        (Part.UNALLOCATED, ""): Decimal("5.25"),
    }


# --- the configuration


def test_what_is_learned_of_a_node_later_does_not_change_what_was() -> None:
    """Four GPUs were configured for an hour, eight are from then on: one of them is held all the time."""
    life, pod = a_gpu(gpus=4.0), sliced("vision", "nvidia.com/gpu")
    ledger = watched(pod, life=life)
    corrected = replace(life, gpus=8.0)
    node = a_node(pods=(pod,))
    for minute in range(61, 121):
        ledger.take(StepSight(at=NOW + minute * MINUTE, lives=(corrected,), nodes=(node,), pods=(pod,)))
    found = ledger.shared(replace(corrected, gone_at=NOW + 2 * HOUR), NOW + 2 * HOUR)
    assert found[Part.HELD, "vision"] == Decimal("1.75") + Decimal("0.875")
    assert sum(found.values()) == 14


# --- the clock


def test_what_a_wrong_clock_counted_ahead_is_taken_back() -> None:
    pod, ledger = a_bound_pod(at=NOW - HOUR), Ledger()
    ledger.take(a_step_sight(pod, at=NOW + MINUTE))
    ledger.take(a_step_sight(pod, at=NOW + 3 * HOUR))
    ledger.take(a_step_sight(pod, at=NOW + 2 * MINUTE))
    for minute in range(3, 31):
        ledger.take(a_step_sight(pod, at=NOW + minute * MINUTE))
    assert ledger.held() == {"": 30 * 60.0}
    assert sum(row.node_seconds or 0 for row in ledger.unwatched) == pytest.approx(60 * 7 / 8)


def test_what_a_clock_that_was_a_month_ahead_counted_there_is_nothing() -> None:
    pod, ledger = a_bound_pod(at=NOW - HOUR), Ledger()
    ledger.take(a_step_sight(pod, at=NOW + 40 * 24 * HOUR))
    ledger.take(a_step_sight(pod, at=NOW + MINUTE))
    assert ledger.held(lambda row: row.month) == {"2026-11": 60.0}


# --- Civo's list


def test_an_instance_that_civo_leaves_out_for_a_while_is_held_without_a_hole_and_not_twice() -> None:
    life, pod, ledger = a_big_life(), a_bound_pod(at=NOW), Ledger()
    for minute in range(1, 31):
        missing = 10 <= minute < 20
        now = replace(life, gone_at=NOW + 10 * MINUTE) if missing else life
        nodes = () if missing else (a_node(pods=(pod,)),)
        found = ledger.take(StepSight(at=NOW + minute * MINUTE, lives=(now,), nodes=nodes, pods=(pod,)))
        assert all(x.ended_at is None for x in found.lives)
        if minute == 19:
            assert ledger.held() == {"": 600.0}
    assert ledger.held() == {"": 1800.0}


def test_a_pod_that_was_bound_while_its_node_was_left_out_is_counted_from_then() -> None:
    life, pod, ledger = a_big_life(), a_bound_pod(at=NOW + 90 * SECOND), Ledger()
    missing = replace(life, gone_at=NOW + MINUTE)
    ledger.take(StepSight(at=NOW + MINUTE, lives=(missing,), nodes=(), pods=()))
    ledger.take(StepSight(at=NOW + 2 * MINUTE, lives=(missing,), nodes=(), pods=(pod,)))
    ledger.take(a_step_sight(pod, at=NOW + 3 * MINUTE))
    assert ledger.held() == {"": 90.0}


def test_a_node_that_is_gone_for_good_is_held_until_it_went() -> None:
    life, pod, ledger = a_big_life(), a_bound_pod(at=NOW), Ledger()
    ledger.take(a_step_sight(pod, at=NOW + MINUTE))
    gone = replace(life, gone_at=NOW + 2 * MINUTE)
    for minute in range(2, 80):
        ledger.take(StepSight(at=NOW + minute * MINUTE, lives=(gone,), nodes=(), pods=(pod,)))
    assert ledger.held() == {"": 120.0}
    assert (ledger.before.holdings, ledger.before.running) == ((), ())
