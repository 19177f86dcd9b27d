"""Who held what when things change under way: labels, names, slices, the configuration, the clock, Civo's list."""

from collections import Counter
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from receiver.core.model.memory import NodeLife
from receiver.core.model.pods import Pod
from receiver.core.model.policy import Billing
from receiver.core.model.usage import Accounted, Accounting, EndedPod, Unwatched, Usage
from receiver.core.money.accounting import StepSight, account
from receiver.core.money.attribution import Part, attribute
from tests.core.builders import HOUR, MINUTE, NOW, SECOND, a_node
from tests.core.money.builders import EIGHT_GPU_POLICY, NOVEMBER, a_big_life, a_bound_pod, a_step_sight


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
        for share in attribute([life], merged(self.usage), (), NOVEMBER, now, Billing(granularity=SECOND)).shares:
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
