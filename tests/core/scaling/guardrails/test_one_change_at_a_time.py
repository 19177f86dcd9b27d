"""one_change_at_a_time: an open change is finished before one the other way, or one that Civo would misread."""

from dataclasses import replace

import pytest

from tests.core.builders import a_growth, a_removal, a_state, growing, remedies, shrinking
from tests.core.scaling.guardrails.cases import IDLE, held

RETIRES, GROWS = a_removal("n1"), a_growth()
SINCE = "open since 2026-11-20 12:00:00 UTC"


def test_an_open_removal_holds_growth_and_an_open_growth_removal() -> None:
    growth, removal = growing(state=a_state(open_action=RETIRES)), shrinking(state=a_state(IDLE, open_action=GROWS))
    for decision, name in ((growth, "retire-1"), (removal, "grow-1")):
        said = held(decision, "one_change_at_a_time")
        assert (said.detail, said.until) == (f"action {name} is open", None)
        assert remedies(decision, "one_change_at_a_time") == {f"wait until action {name} ends, {SINCE}": None}


def test_an_action_that_fails_is_named_with_its_last_error() -> None:
    failing = replace(RETIRES, last_error="http_500")
    said = remedies(growing(state=a_state(open_action=failing)), "one_change_at_a_time")
    assert said == {f"wait until action retire-1 ends, {SINCE}; its last error: http_500": None}


def test_more_of_the_same_goes_on() -> None:
    assert growing(state=a_state(open_action=GROWS), pods=2).target == 2
    assert shrinking(state=a_state(IDLE, open_action=RETIRES)).target == 0


@pytest.mark.parametrize("pods", [1, 2, 3])
def test_no_count_is_asked_for_while_one_is_still_to_fall(pods: int) -> None:
    """Two removed nodes are still counted. A lower count lets Civo choose a node at once, and an equal or higher one
    once its own count falls."""
    decision = growing(state=a_state(uncounted=2), pods=pods)
    assert decision.target == 0
    nodes = "1 node" if pods == 1 else f"{pods} nodes"
    detail = f"Civo still counts 2 removed nodes: the pool grows to {nodes} once its count has fallen"
    assert held(decision, "one_change_at_a_time").detail == detail
    assert any("no longer counts the removed nodes" in remedy for remedy in remedies(decision, "one_change_at_a_time"))


def test_a_removal_goes_on_while_civo_counts_removed_nodes() -> None:
    assert shrinking(state=a_state(IDLE, uncounted=2)).target == 0
