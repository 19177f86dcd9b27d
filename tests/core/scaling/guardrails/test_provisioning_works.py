"""provisioning_works: while a node is stuck on its way, none is bought; after one was, one at a time on trial."""

from datetime import timedelta

from receiver.core.model.model import Backoff, Stage
from tests.core.builders import NOW, a_busy_node, a_node, a_state, growing, outcome, remedies, rules, shrinking

LATE = a_node("n9", stage=Stage.INSTALLING, created_at=NOW - timedelta(minutes=30), seen_since=NOW, idle_since=None)
ON_ITS_WAY = a_node(
    "n9", stage=Stage.INSTALLING, created_at=NOW - timedelta(minutes=5), seen_since=NOW, idle_since=None
)
FAILED = Backoff(failures=2, until=NOW + timedelta(minutes=9), reason="n9 never became usable")
OVER = Backoff(failures=2, until=NOW, reason="n9 never became usable")


def test_a_node_that_is_stuck_on_its_way_stops_growth() -> None:
    held = growing(state=a_state(LATE), pods=2)
    assert outcome(held) == ("provisioning_works", 0)
    assert "n9" in held.deciding.detail


def test_a_node_that_civo_counts_and_never_listed_is_stuck_too() -> None:
    unlisted = a_state(required=1, required_since=NOW - timedelta(minutes=21))
    assert outcome(growing(state=unlisted)) == ("provisioning_works", 0)


def test_a_node_that_is_on_its_way_in_time_stops_nothing() -> None:
    assert outcome(growing(state=a_state(ON_ITS_WAY), pods=2)) == ("demand", 1)


def test_after_a_stuck_node_growth_waits_for_the_end_of_the_back_off() -> None:
    held = growing(state=a_state(provisioning=FAILED))
    assert outcome(held) == ("provisioning_works", 0)
    assert held.deciding.until == FAILED.until


def test_then_one_node_is_bought_on_trial() -> None:
    trial = growing(state=a_state(a_busy_node(), provisioning=OVER), pods=4)
    assert trial.target == 2
    assert rules(trial, "limits") == ["provisioning_works"]


def test_removal_is_none_of_its_business() -> None:
    assert outcome(shrinking(state={"provisioning": FAILED})) == ("idle_nodes", -1)


def test_the_remedy_names_the_stuck_node_or_the_moment_of_the_trial() -> None:
    [(stuck, _), *_] = remedies(growing(state=a_state(LATE), pods=2), "provisioning_works")
    assert "once it becomes usable or is gone: n9" in stuck
    waits = remedies(growing(state=a_state(provisioning=FAILED)), "provisioning_works")
    assert any("one node on trial at 2026-11-20 12:09:00 UTC" in t and at == FAILED.until for t, at in waits)
