"""not_backing_off: what failed is not tried again until its back-off ends; growth and removal back off apart."""

from datetime import timedelta

import pytest

from receiver.core.model.model import Backoff
from tests.core.builders import NOW, a_due_node, a_policy, a_state, facts, growing, outcome, remedies, run, shrinking

FAILED = Backoff(failures=2, until=NOW + timedelta(minutes=9), reason="Civo is out of stock")
REMOVAL_FAILED = Backoff(failures=1, until=NOW + timedelta(minutes=5), reason="http_403")


def test_growth_that_failed_waits_for_the_end_of_its_back_off() -> None:
    held = growing(state=a_state(backoff=FAILED))
    assert outcome(held) == ("not_backing_off", 0)
    assert held.deciding.until == FAILED.until


@pytest.mark.parametrize(("seconds", "grows"), [(1, False), (0, True), (-1, True)])
def test_the_back_off_ends_at_its_very_second(seconds: int, grows: bool) -> None:
    backoff = Backoff(failures=1, until=NOW + timedelta(seconds=seconds), reason="Civo is out of stock")
    assert (growing(state=a_state(backoff=backoff)).target == 1) is grows


def test_growth_that_failed_does_not_stop_removal() -> None:
    assert outcome(shrinking(state={"backoff": FAILED})) == ("idle_nodes", -1)


def test_removal_that_failed_waits_and_does_not_stop_growth() -> None:
    assert outcome(shrinking(state={"removal_backoff": REMOVAL_FAILED})) == ("not_backing_off", 0)
    assert outcome(growing(state=a_state(removal_backoff=REMOVAL_FAILED))) == ("demand", 1)


def test_a_node_that_refused_its_removal_stays_and_the_others_go() -> None:
    refused = Backoff(failures=1, until=NOW + timedelta(minutes=5), reason="ml/web is protected", instances=("i-n1",))
    state = a_state(a_due_node("n1"), a_due_node("n2"), removal_backoff=refused)
    assert run(facts(state), a_policy())[1]["l40s"].candidates == ("i-n2",)


def test_the_remedy_is_the_next_try_with_the_last_error() -> None:
    found = remedies(growing(state=a_state(backoff=FAILED)), "not_backing_off")
    said = "the next try at 2026-11-20 12:09:00 UTC; the last error: Civo is out of stock"
    assert any(said in text and at == FAILED.until for text, at in found)
