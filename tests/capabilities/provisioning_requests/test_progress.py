"""How far ProvisioningRequests are, and what is bought and kept for them."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.capabilities.provisioning_requests.progress import BookingStage, progress
from receiver.core.model.model import Node, Stage
from receiver.core.model.pods import PodPhase
from receiver.core.model.policy import Budget, Limits, Policy
from receiver.core.model.room_requests import RoomAnswer, RoomRequest
from tests.core.builders import (
    MINUTE,
    NOW,
    a_busy_node,
    a_due_node,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_state,
    facts,
    run,
)
from tests.given.requests import booking_of

ACCEPTED, PROVISIONED = BookingStage.ACCEPTED, BookingStage.PROVISIONED
EXPIRED, FAILED = BookingStage.EXPIRED, BookingStage.FAILED


OWN = ("created_at", "provisioned_at", "consumed", "valid_for", "problem")


def a_booking(pods: int = 2, **said: Any) -> RoomRequest:
    """A request ml/r for that many pods of one GPU; *said* is what it says itself, or fields of its pods."""
    own = {name: said.pop(name) for name in list(said) if name in OWN}
    members = tuple(a_pod(f"r/0-{n}", uid="", gang="ml/r", **said) for n in range(pods))
    return booking_of("ml/r", members, **own)


def judged(booking: RoomRequest, *nodes: Node, policy: Policy | None = None, **known: Any) -> RoomAnswer:
    policy = policy or a_policy()
    waiting = (*known.pop("waiting", ()), *booking.pods)
    found = facts(a_state(*nodes), waiting=waiting, requests=(booking,), **known)
    return progress(booking, run(found, policy)[0], policy, NOW, lambda key: f"eta of {key}")


def test_a_request_waits_for_the_nodes_of_all_its_pods() -> None:
    found = judged(a_booking())
    assert (found.state, found.reason) == (ACCEPTED, "NodesAreComing")
    assert found.message == "nodes for 2 pods in pool l40s, eta of ml/r"


def test_a_request_is_bought_for_whole_or_not_at_all() -> None:
    policy, booking = a_policy(limits=Limits(max_gpus=1)), a_booking()
    found = facts(a_state(), waiting=booking.pods, requests=(booking,))
    assert run(found, policy)[0].pools["l40s-id"].allowed.limits == 0
    assert judged(booking, policy=policy).state == ACCEPTED


def test_a_request_is_provisioned_once_all_its_nodes_are_usable() -> None:
    coming = a_node("n2", stage=Stage.BUILDING, created_at=NOW - MINUTE, idle_since=None)
    assert judged(a_booking(), a_node("n1"), coming).state == ACCEPTED
    found = judged(a_booking(), a_node("n1"), a_node("n2"))
    assert (found.state, found.message) == (PROVISIONED, "booked for ten minutes: room for 2 pods in pool l40s")


def test_booked_nodes_are_kept() -> None:
    booking = a_booking(1, provisioned_at=NOW - 5 * MINUTE)
    with_it = facts(a_state(a_due_node()), waiting=booking.pods, requests=(booking,))
    _, decisions = run(with_it, a_policy())
    assert decisions["l40s"].target == 1
    _, decisions = run(facts(a_state(a_due_node())), a_policy())
    assert decisions["l40s"].target == 0


def test_room_that_is_booked_is_not_given_to_work_that_comes_later() -> None:
    booking = a_booking(1, provisioned_at=NOW - 5 * MINUTE)
    later = a_pod("later", created_at=NOW)
    found = facts(a_state(a_node()), waiting=(later, *booking.pods), requests=(booking,))
    assert run(found, a_policy())[0].pools["l40s-id"].for_demand == 1


@pytest.mark.parametrize(("minutes", "stage"), [(9, PROVISIONED), (10, EXPIRED)])
def test_a_booking_ends_after_ten_minutes(minutes: int, stage: BookingStage) -> None:
    found = judged(a_booking(provisioned_at=NOW - minutes * MINUTE), a_node("n1"), a_node("n2"))
    assert found.state == stage


def test_a_booking_ends_when_all_its_pods_run() -> None:
    found = judged(a_booking(0, provisioned_at=NOW - MINUTE, consumed=True))
    assert (found.state, found.reason) == (EXPIRED, "CapacityBookingConsumed")


def test_a_request_that_the_budget_does_not_cover_fails_with_the_figures() -> None:
    found = judged(a_booking(), policy=a_policy(budget=Budget(monthly_usd=Decimal(2))))
    assert (found.state, found.reason) == (FAILED, "CapacityIsNotFound")
    assert "cluster budget: $0.00 of $2.00 spent" in found.message


def test_a_request_beyond_the_maximum_fails() -> None:
    busy = [a_busy_node(f"n{n}") for n in range(7)]
    found = judged(a_booking(), *busy)
    assert (found.state, "within_maximum" in found.message) == (FAILED, True)


def test_a_request_that_no_pool_can_hold_fails() -> None:
    found = judged(a_booking(node_selector={"gpu": "h100"}))
    assert (found.state, found.message.startswith("No GPU pool can hold")) == (FAILED, True)


def test_a_request_whose_own_pods_wait_for_nodes_is_not_provisioned() -> None:
    assert judged(a_booking(0)).state == ACCEPTED
    found = judged(a_booking(0, consumed=True))
    assert (found.state, found.message) == (PROVISIONED, "booked for ten minutes: room for all of its pods")


def test_a_request_that_cannot_be_read_fails_with_the_reason() -> None:
    found = judged(a_booking(0, problem="PodTemplate ppt is not there"))
    assert (found.state, found.reason, found.message) == (FAILED, "FailedToCreatePods", "PodTemplate ppt is not there")


@pytest.mark.parametrize(
    ("since", "valid", "stage"),
    [
        (timedelta(days=6), None, ACCEPTED),
        (timedelta(days=7), None, FAILED),
        (timedelta(hours=1), timedelta(hours=2), ACCEPTED),
        (timedelta(hours=2), timedelta(hours=2), FAILED),
    ],
    ids=str,
)
def test_a_request_waits_a_week_or_as_long_as_it_says(
    since: timedelta, valid: timedelta | None, stage: BookingStage
) -> None:
    assert judged(a_booking(created_at=NOW - since, valid_for=valid)).state == stage


def test_a_request_whose_parts_fit_different_pools_names_both() -> None:
    pools = (a_pool(labels={"kind": "a"}), a_pool("l4", labels={"kind": "b"}))
    pods = tuple(a_pod(f"r/{kind}", uid="", gang="ml/r", node_selector={"kind": kind}) for kind in "ab")
    booking, policy = replace(a_booking(), pods=pods), a_policy(*pools)
    states = (a_state(a_node("n1")), a_state(a_node("n2"), pool="l4-id"))
    found = run(facts(*states, waiting=pods, requests=(booking,)), policy)[0]
    said = progress(booking, found, policy, NOW, lambda _: "")
    assert said.message == "booked for ten minutes: room for 1 pod in pool l40s, 1 pod in pool l4"


def test_other_work_that_is_refused_or_waits_changes_nothing() -> None:
    gang = [a_pod(f"big-{n}", gang="ml/big") for n in range(9)]
    others = [
        *gang,
        a_pod("odd", node_selector={"gpu": "h100"}),
        a_pod("r", created_at=NOW),
        a_pod("late", created_at=NOW),
    ]
    found = judged(a_booking(), a_node("n1"), a_node("n2"), waiting=others)
    assert (found.state, found.message) == (PROVISIONED, "booked for ten minutes: room for 2 pods in pool l40s")


def test_another_gang_that_gets_nodes_is_not_its_own() -> None:
    gang = [a_pod(f"gang-{n}", gang="ml/gang", created_at=NOW) for n in range(2)]
    found = judged(a_booking(), a_node("n1"), a_node("n2"), waiting=gang)
    assert (found.state, found.message) == (PROVISIONED, "booked for ten minutes: room for 2 pods in pool l40s")


def test_a_request_that_was_not_assigned_waits() -> None:
    booking, policy = a_booking(), a_policy()
    found = run(facts(a_state(), requests=(booking,)), policy)[0]
    said = progress(booking, found, policy, NOW, lambda _: "")
    assert (said.state, said.message) == (ACCEPTED, "it has no room yet")


def test_without_an_estimate_only_the_nodes_are_named() -> None:
    booking, policy = a_booking(), a_policy()
    found = run(facts(a_state(), waiting=booking.pods, requests=(booking,)), policy)[0]
    assert progress(booking, found, policy, NOW, lambda _: "").message == "nodes for 2 pods in pool l40s"


def test_a_booking_is_not_provisioned_before_a_pod_that_is_leaving_has_gone() -> None:
    leaving = a_pod("ending", phase=PodPhase.RUNNING, node="n1", leaves_at=NOW + MINUTE)
    node = a_node("n1", pods=(leaving,), idle_since=None)
    assert judged(a_booking(1), node).state == ACCEPTED
