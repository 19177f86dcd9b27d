"""one_change_at_a_time: an open removal ends before the pool grows; no count between two that Civo may show."""

from receiver.core.model.actions import Action, ActionKind, Victim, VictimStage
from tests.core.builders import NOW, a_busy_node, a_state, growing, outcome, remedies

GOING = Victim(instance="i-gone", node="gone", stage=VictimStage.DELETED, since=NOW)
RETIRES = Action(
    id="retire-1", pool="l40s-id", kind=ActionKind.RETIRE, opened_at=NOW, from_count=1, to_count=0, victims=(GOING,)
)
GROWS = Action(id="grow-1", pool="l40s-id", kind=ActionKind.GROW, opened_at=NOW, from_count=0, to_count=1)


def test_a_pool_does_not_grow_while_a_removal_is_open() -> None:
    assert outcome(growing(state=a_state(open_action=RETIRES))) == ("one_change_at_a_time", 0)


def test_growth_that_is_open_already_goes_on() -> None:
    assert outcome(growing(state=a_state(open_action=GROWS))) == ("demand", 1)


def test_no_count_is_asked_for_that_is_lower_than_the_one_civo_shows() -> None:
    shown = a_state(a_busy_node(), required=1, uncounted=2)  # two removed nodes that Civo still counts
    held = growing(state=shown)
    assert outcome(held) == ("one_change_at_a_time", 0)
    assert outcome(growing(state=shown, pods=2)) == ("demand", 2)


def test_the_remedy_is_the_end_of_the_action() -> None:
    found = remedies(growing(state=a_state(open_action=RETIRES)), "one_change_at_a_time")
    assert any("the end of action retire-1, open since 2026-11-20 12:00:00 UTC" in text for text, _ in found)
