"""Repair of sick nodes (`pools[].repair: replace`): which are cordoned until their work ends, then removed; and how a
pool slows down whose nodes fall sick one after the other."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from receiver.core.model.actions import VictimStage
from receiver.core.model.memory import NodeLife
from receiver.core.model.model import REPAIR, Backoff, Node, Stage
from receiver.core.model.policy import Repair
from receiver.core.scaling.capacity import Allowance, Tally
from receiver.core.scaling.node_holds import Blocks, node_hold
from receiver.core.scaling.waits import FIRST_BACKOFF_BESIDE_WORKING_NODES, IN_A_DAY, LONGEST_BACKOFF

SICK_FOR = timedelta(minutes=10)  # until then a sickness may pass by itself
WELL_FOR = timedelta(minutes=30)  # a new node that works as long shows that the next one may work too
ON_THE_WAY = (VictimStage.CHOSEN, VictimStage.CORDONED)


def under_repair(tally: Tally, allowance: Allowance, now: datetime) -> frozenset[str]:
    """Return the instances to repair, those begun first: as many as the pool's share, at least one, and as far as the
    budgets cover their replacements. While the pool may not grow, none is begun."""
    pool, state = tally.pool, tally.state
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
        if n.instance in chosen or allowance.refusing(tally, count, None) is None
    ]
    return frozenset(n.instance for n in (*in_repair, *covered))


def _may_be_repaired(node: Node, now: datetime) -> bool:
    since = node.health.since
    theirs = node.cordon.action == REPAIR and node.cordon.by is None  # a person made it schedulable again
    long = since is not None and now - since >= SICK_FOR
    return long and node.registered and not (theirs or node.keep.lasts(now) or node_hold(node, Blocks.REPLACEMENT))


def falling_sick(lives: Iterable[NodeLife], pool: str, now: datetime) -> Backoff | None:
    """The pool's back-off when its newest nodes fell sick in a row, two or more within a day: a replacement would too.

    Each one more doubles it, from 5 minutes up to a day. After that one node at a time is tried until one stays well.
    """
    usable = [(life.usable_at, life) for life in lives if life.pool == pool and life.usable_at is not None]
    row: list[tuple[datetime, NodeLife]] = []
    for since, life in sorted(usable, key=lambda pair: pair[0], reverse=True):
        if life.sick_since is not None:
            row.append((life.sick_since, life))
        elif life.gone_at is not None or now - since >= WELL_FOR:
            break
    row = [(since, life) for since, life in row if timedelta(0) <= now - since < IN_A_DAY]
    if len(row) < 2:
        return None
    wait = min(FIRST_BACKOFF_BESIDE_WORKING_NODES * 2 ** min(len(row) - 2, 10), LONGEST_BACKOFF)
    names = ", ".join(sorted(life.name for _, life in row))
    return Backoff(failures=len(row), until=max(since for since, _ in row) + wait, reason=f"{names} fell sick")
