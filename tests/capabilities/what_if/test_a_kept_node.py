"""`explain node` on a node whose removal has begun and does not get on."""

from receiver.capabilities.what_if.departure import Departure, departure
from simulator.store import MemoryStore
from tests.core.builders import SECOND
from tests.given import lives, troubles
from tests.given.life import Life, removal_ended, until_cordoned

HELD = "ml/web-0 may not be evicted: The disruption budget keep-web needs 1 healthy pods"


def explained(life: Life, name: str) -> Departure:
    """What `explain node` says, as the API asks for it."""
    facts = life.step().facts
    [state], [node] = facts.pools, [n for n in facts.pools[0].nodes if n.name == name]
    return departure(state, node, facts, life.policy, actions=[stored.action for stored in life.store.actions()])


def test_a_node_names_the_disruption_budget_that_keeps_it_while_it_is_tried_and_afterwards() -> None:
    life = lives.at_zero(MemoryStore())
    node = until_cordoned(life)
    troubles.kept_by_a_disruption_budget(life, node)
    while not any(v.why for v in life.store.actions()[0].action.victims):
        life.world.advance(life.wake_after_step(5 * SECOND))
    meanwhile = explained(life, node)
    assert meanwhile.blocks[0] == f"its removal has begun and waits: {HELD}"
    removal_ended(life)
    afterwards = explained(life, node)
    assert afterwards.blocks[0].endswith(f" UTC: {HELD}")
    assert afterwards.blocks[1:] == ("it is tried again at 13:55:01 UTC, shortly before its next paid hour",)
