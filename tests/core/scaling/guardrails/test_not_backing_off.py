"""not_backing_off: what failed is not tried again until its back-off ends; growth and removal back off apart."""

from dataclasses import replace

from receiver.core.model.model import Backoff
from tests.core.builders import HOUR_ENDS_SOON, MINUTE, NOW, a_node, a_state, growing, remedies, shrinking
from tests.core.scaling.guardrails.cases import AN_INSTANT, IDLE, cut, held

FAILED = Backoff(failures=2, until=NOW + MINUTE, reason="Civo is out of stock")


def test_what_failed_waits_and_the_reason_has_the_error_and_the_next_try() -> None:
    for decision in (
        growing(state=a_state(backoff=FAILED)),
        shrinking(state=a_state(IDLE, removal_backoff=FAILED)),
    ):
        said = held(decision, "not_backing_off")
        assert said.detail == "backing off until 2026-11-20 12:01:00 UTC after 2 failures: Civo is out of stock"
        assert said.until == NOW + MINUTE
        tried = "wait for the next attempt at 2026-11-20 12:01:00 UTC; the last error: Civo is out of stock"
        assert remedies(decision, "not_backing_off") == {tried: NOW + MINUTE}


def test_it_is_tried_again_when_the_back_off_ends() -> None:
    for at, tried in ((NOW + MINUTE - AN_INSTANT, False), (NOW + MINUTE, True)):
        assert (growing(state=a_state(backoff=FAILED), at=at).target == 1) is tried
        assert (shrinking(state=a_state(IDLE, removal_backoff=FAILED), at=at).target == 0) is tried


def test_growth_and_removal_back_off_apart() -> None:
    assert growing(state=a_state(removal_backoff=FAILED)).target == 1
    assert shrinking(state=a_state(IDLE, backoff=FAILED)).target == 0


def test_a_node_that_refused_its_removal_stays_for_a_while_and_the_others_go() -> None:
    refused = replace(FAILED, reason="ml/web is protected", instances=("i-n1",))
    nodes = (a_node("n1", created_at=HOUR_ENDS_SOON), a_node("n2", created_at=HOUR_ENDS_SOON))
    assert shrinking(state=a_state(*nodes, removal_backoff=refused)).candidates == ("i-n2",)


def test_after_a_refusal_for_lack_of_stock_fewer_are_requested_at_once() -> None:
    decision = growing(state=a_state(refused=4, backoff=FAILED), pods=4)
    assert decision.target == 2
    said = cut(decision, "not_backing_off")
    assert said.detail == "Civo has just refused 4 nodes, so fewer are requested: Civo is out of stock"
    assert said.until == NOW + MINUTE
    held(growing(state=a_state(refused=1, backoff=FAILED), pods=4), "not_backing_off")
