"""provisioning_works: while nodes do not become usable none is bought, then one on trial until one works."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from receiver.core.model.model import Backoff, Node, Stage
from tests.core.builders import HOUR, MINUTE, NOW, a_node, a_pod, a_state, decision_on, growing, remedies, shrinking
from tests.core.scaling.guardrails.cases import AN_INSTANT, IDLE, cut, held
from tests.core.worlds import LAWS

FAILED = Backoff(failures=2, until=NOW + MINUTE, reason="n0 never became usable")
OVER = replace(FAILED, until=NOW)
ON_TRIAL = (
    "wait until 2026-11-20 12:01:00 UTC, when the next single node is"
    " tried, or for any node of the pool that becomes usable"
)


def coming(minutes: float, name: str = "n9") -> Node:
    """A protected node that has been on its way for so many *minutes*."""
    created = NOW - minutes * MINUTE
    return a_node(name, stage=Stage.INSTALLING, created_at=created, idle_since=None, allocatable={}, protected=True)


def test_nothing_is_bought_while_a_node_that_may_not_go_is_stuck() -> None:
    decision = growing(state=a_state(coming(21)), pods=2)
    said = held(decision, "provisioning_works")
    assert (said.detail, said.until) == ("not usable after 20m: n9", None)
    assert remedies(decision, "provisioning_works") == {"wait until this is usable or gone: n9": None}
    assert growing(state=a_state(coming(20)), pods=2).target == 2


def test_a_stuck_node_is_named_with_the_back_off_behind_it() -> None:
    decision = growing(state=a_state(coming(21), provisioning=FAILED), pods=2)
    assert remedies(decision, "provisioning_works") == {
        "wait until this is usable or gone: n9": None,
        ON_TRIAL: FAILED.until,
    }


def test_nothing_is_bought_while_civo_does_not_list_what_was_asked_for_long_ago() -> None:
    decision = growing(state=a_state(required=1, required_since=NOW - 20 * MINUTE - AN_INSTANT), pods=2)
    assert held(decision, "provisioning_works").detail == "not usable after 20m: 1 node that Civo does not list"
    assert growing(state=a_state(required=1, required_since=NOW - 20 * MINUTE), pods=2).target == 2


def test_nothing_is_bought_while_the_pool_backs_off_from_provisioning() -> None:
    decision = growing(state=a_state(provisioning=FAILED))
    said = held(decision, "provisioning_works")
    assert said.detail == "n0 never became usable (2 failures in a row): no other node before 2026-11-20 12:01:00 UTC"
    assert said.until == decision.reconsider_at == FAILED.until
    assert remedies(decision, "provisioning_works") == {ON_TRIAL: FAILED.until}


def test_after_the_back_off_one_node_is_bought_on_trial_and_no_other_while_it_is_on_its_way() -> None:
    trial = growing(state=a_state(provisioning=OVER), pods=3)
    waits = growing(state=a_state(coming(1), provisioning=OVER), pods=3)
    assert (trial.target, waits.target) == (1, 1)
    for decision, said in ((trial, cut(trial, "provisioning_works")), (waits, held(waits, "provisioning_works"))):
        assert (
            said.detail
            == "n0 never became usable (2 failures in a row): one node at a time is tried until one becomes usable"
        )
        assert said.until is None
        usable = "wait for the test node: once it is usable, all wanted nodes are bought"
        assert remedies(decision, "provisioning_works") == {usable: None}


@LAWS
@given(
    waiting=st.integers(0, 5),
    seconds=st.integers(-2, 2),
    on_the_way=st.integers(0, 2),
    unlisted=st.integers(0, 2),
    gang=st.sampled_from([None, "ml/train"]),
)
def test_a_pool_on_trial_has_at_most_one_node_on_its_way_that_was_bought_during_it(
    waiting: int, seconds: int, on_the_way: int, unlisted: int, gang: str | None
) -> None:
    """A focused law: nothing but the pool's failures holds it back."""
    state = a_state(
        *(coming(1, f"c{n}") for n in range(on_the_way)),
        required=on_the_way + unlisted,
        provisioning=replace(FAILED, until=NOW + timedelta(seconds=seconds)),
    )
    decision = decision_on(state, waiting=[a_pod(f"p{n}", gang=gang) for n in range(waiting)])
    wanted = max(0, waiting - on_the_way - unlisted)
    allowed = 1 if seconds <= 0 and not on_the_way + unlisted else 0
    assert decision.target - decision.present == min(wanted, allowed)


def test_a_back_off_that_a_wrong_clock_set_is_not_believed() -> None:
    assert growing(state=a_state(provisioning=replace(FAILED, until=NOW + 28 * HOUR))).target == 1


def test_a_back_off_from_provisioning_stops_no_removal() -> None:
    assert shrinking(state=a_state(IDLE, provisioning=FAILED)).target == 0
    assert shrinking(state=a_state(IDLE, coming(21))).target == 1
