"""Growth that was sent and not answered: Civo may have taken it on all the same, so what it costs is nobody else's."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from decimal import Decimal

from receiver.core.model.actions import Action, ActionKind, Outcome, OutcomeKind
from receiver.core.model.model import Facts, PoolState, Stage

UNSURE_FOR = timedelta(minutes=5)  # a growth that was sent and not answered shows by then, or never arrived
ANSWERED = (OutcomeKind.CONFIRMED, OutcomeKind.OBSERVED)


def may_have_landed(action: Action, outcome: Outcome) -> bool:
    """True when *action* is a growth that ended without anybody knowing whether Civo took it on.

    One that Civo refused in the step that opened it, with no try before, did not land. One that lived longer may have
    been sent: a crash can come between the PUT and the note of it.
    """
    unsure = action.attempts > 0 or outcome.at > action.opened_at
    return action.kind is ActionKind.GROW and outcome.kind not in ANSWERED and unsure


def unseen(facts: Facts) -> Mapping[str, int]:
    """Nodes by pool id, of the pools in *facts*, that unanswered growth may still bring and no look has shown."""
    most: dict[str, int] = {}
    for action in _all(facts):
        most[action.pool] = max(action.to_count, most.get(action.pool, 0))  # counts are absolute: they do not add up
    found = {s.pool: most.get(s.pool, 0) - nodes_of(s) for s in facts.pools}
    return {pool: nodes for pool, nodes in found.items() if nodes > 0}


def kept_elsewhere(facts: Facts) -> Decimal:
    """USD that unanswered growth of pools which left the configuration may still cost: nobody looks at them."""
    ours = {s.pool for s in facts.pools}
    most: dict[str, Decimal] = {}
    for action in _all(facts):
        if action.pool not in ours:
            most[action.pool] = max(action.reserved_usd, most.get(action.pool, Decimal(0)))
    return sum(most.values(), Decimal(0))


def nodes_of(state: PoolState) -> int:
    """The nodes of a pool that will cost a next unit, present or asked for."""
    going = len(state.of(Stage.DELETING))
    return max(state.required, len(state.nodes) - going)


def highest(actions: Iterable[Action], pool: str) -> int:
    """The highest count that one of *actions* asked for in *pool*, 0 for none."""
    return max((a.to_count for a in actions if a.pool == pool), default=0)


def _all(facts: Facts) -> Iterator[Action]:
    """Those that ended without an answer, and the open ones: what is open when a step begins was not answered."""
    yield from facts.unanswered
    for state in facts.pools:
        if state.open_action is not None and state.open_action.kind is ActionKind.GROW:
            yield state.open_action
