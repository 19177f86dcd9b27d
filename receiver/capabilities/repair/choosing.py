"""Repair of sick nodes (`pools[].repair: replace`): which are cordoned until their work ends, then removed."""

from datetime import datetime

from receiver.core.model.actions import VictimStage
from receiver.core.model.model import REPAIR, Node, Stage
from receiver.core.model.policy import Repair
from receiver.core.scaling.capacity import Tally
from receiver.core.scaling.node_holds import Blocks, node_hold
from receiver.core.scaling.sickness import SICK_FOR
from receiver.core.scaling.wanted import Draft

ON_THE_WAY = (VictimStage.CHOSEN, VictimStage.CORDONED)


def under_repair(tally: Tally, draft: Draft) -> frozenset[str]:
    """Return the instances to repair, those begun first: as many as the pool's share, at least one, and as far as the
    budgets cover their replacements. While the pool may not grow, none is begun."""
    pool, state, now = tally.pool, tally.state, draft.facts.at
    if pool.repair is not Repair.REPLACE:
        return frozenset()
    victims = state.open_action.victims if state.open_action else ()
    chosen = {v.instance for v in victims if v.stage in ON_THE_WAY}  # the cordon of a removal replaces that of a repair
    able = [n for n in state.of(Stage.USABLE, Stage.BROKEN) if _may_be_repaired(n, now)]
    in_repair = [n for n in able if n.cordon.action == REPAIR]
    new = [n for n in able if n.health.sick and n not in in_repair and (n.instance in chosen or tally.room != 0)]
    new.sort(key=lambda n: (n.instance not in chosen, n.busy, n.health.since or now, n.name))
    going = sum(n.stage is Stage.DELETING and n.health.since is not None for n in state.nodes)
    repairs_left = max(1, int(pool.repair_share * len(state.living))) - going - len(in_repair)
    covered = [
        n
        for count, n in enumerate(new[: max(0, repairs_left)], 1)
        if n.instance in chosen or draft.allowance.refusing(tally, count, None) is None
    ]
    return frozenset(n.instance for n in (*in_repair, *covered))


def _may_be_repaired(node: Node, now: datetime) -> bool:
    since = node.health.since
    theirs = node.cordon.action == REPAIR and node.cordon.by is None  # a person made it schedulable again
    long = since is not None and now - since >= SICK_FOR
    return long and node.registered and not (theirs or node.keep.lasts(now) or node_hold(node, Blocks.REPLACEMENT))
