"""A store that was restored from an old copy, or a server that was away for long, in the midst of a removal."""

from dataclasses import replace
from datetime import timedelta

import pytest

from receiver.core.explain.staying import UNKNOWN
from receiver.core.model.actions import Action, ActionKind, OutcomeKind, Victim, VictimStage
from receiver.core.model.model import PoolState
from receiver.ports import Store
from receiver.step.carry_out import Keeps, carry_out
from tests.core.builders import MINUTE
from tests.given import lives
from tests.given.life import Life

NO_WISH = Keeps(reasons={"i-1": UNKNOWN})


@pytest.mark.parametrize(
    ("minutes", "outcome"),
    [
        pytest.param(29, OutcomeKind.CONFIRMED, id="a crash came between the DELETE and its note"),
        pytest.param(31, OutcomeKind.WITHDRAWN, id="nobody looked for long"),
    ],
)
def test_a_node_that_went_while_nobody_looked_is_no_removal_that_civo_answered_with_others(
    minutes: int, outcome: OutcomeKind, store: Store
) -> None:
    """Else six nodes in place of the three that it left would stop the pool's removals for a day."""
    life = lives.at_zero(store)
    action = a_removal(life, minutes * MINUTE)
    progress = carry_out(action, PoolState(pool="l40s-id", required=4), NO_WISH, life.hands, life.now)
    assert progress.outcome is not None
    assert progress.outcome.kind is outcome
    assert (progress.late is None) is (outcome is OutcomeKind.WITHDRAWN)


def test_a_ready_node_that_civo_does_not_list_is_not_taken_for_deleted(store: Store) -> None:
    """Civo's list may be an old one: the node would stay, cordoned, and read as one that replaced it."""
    life = lives.at_zero(store)
    action = a_removal(life, MINUTE)
    ready = PoolState(pool="l40s-id", required=4, unjoined=("n1",))
    progress = carry_out(action, ready, NO_WISH, life.hands, life.now)
    assert progress.outcome is None
    gone = carry_out(progress.action, replace(ready, unjoined=()), NO_WISH, life.hands, life.now)
    assert gone.outcome is not None
    assert gone.outcome.kind is OutcomeKind.CONFIRMED
    long_ago = carry_out(a_removal(life, 31 * MINUTE), ready, NO_WISH, life.hands, life.now)
    assert long_ago.outcome is not None
    assert long_ago.outcome.kind is OutcomeKind.WITHDRAWN


def a_removal(life: Life, ago: timedelta) -> Action:
    """A removal of one node, which was cordoned so long *ago*."""
    return Action(
        id="retire-1",
        pool="l40s-id",
        kind=ActionKind.RETIRE,
        opened_at=life.now - ago,
        from_count=4,
        to_count=3,
        victims=(Victim(instance="i-1", node="n1", stage=VictimStage.CORDONED, since=life.now - ago),),
    )
