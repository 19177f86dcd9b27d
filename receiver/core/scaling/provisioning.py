"""Nodes on their way: which never came, which broke, and how many may be tried after that."""

from datetime import datetime, timedelta

from receiver.core.model.model import ON_ITS_WAY, Node, PoolState, Stage
from receiver.core.model.policy import Pool
from receiver.core.model.text import some

LONGEST_PROVISIONING_BACKOFF = timedelta(hours=27)


def unlisted_too_long(pool: Pool, state: PoolState, now: datetime) -> bool:
    """True when Civo was asked for nodes longer than the provision timeout ago and still lists fewer."""
    since = state.required_since
    return state.unlisted > 0 and since is not None and now - since > pool.provision_timeout


def stuck_nodes(pool: Pool, state: PoolState, now: datetime) -> tuple[Node, ...]:
    """The nodes that did not become usable in time, or came up broken."""
    new = (n for n in state.living if not n.was_usable)
    late = pool.provision_timeout
    return tuple(
        n
        for n in new
        if (n.stage is Stage.BROKEN and not n.vanished)
        or ((n.stage in ON_ITS_WAY or n.vanished) and now - n.created_at > late)
    )


def dead_nodes(pool: Pool, state: PoolState, now: datetime) -> tuple[Node, ...]:
    """The nodes that had their time and are not usable, by nobody's doubt: a node that Kubernetes does not know is
    not dead while it knows nodes that belong to no instance. One that is gone from Kubernetes needs no time."""
    stuck = [n for n in stuck_nodes(pool, state, now) if not n.vanished]
    new = [n for n in stuck if now - n.watched_since > pool.provision_timeout]
    new += [n for n in state.living if n.vanished]
    return tuple(n for n in (*new, *lost_nodes(pool, state, now)) if n.registered or not state.unjoined)


def lost_nodes(pool: Pool, state: PoolState, now: datetime) -> tuple[Node, ...]:
    """The nodes that were usable, broke, and did not come back in the time that a new one may take."""
    broken = (n for n in state.living if n.was_usable and n.stage is Stage.BROKEN)
    return tuple(n for n in broken if n.lost_at is not None and now - n.lost_at > pool.provision_timeout)


def awaited_since(state: PoolState) -> datetime | None:
    """Since when the pool waits for its oldest node on the way, or for nodes that Civo does not list; None for none."""
    coming = [n for n in state.living if not n.was_usable and (n.stage in ON_ITS_WAY or n.stage is Stage.BROKEN)]
    since = [n.watched_since for n in coming]
    if state.unlisted > 0 and state.required_since is not None:
        since.append(state.required_since)
    return min(since, default=None)


def stuck_on_the_way(pool: Pool, state: PoolState, now: datetime) -> tuple[str, ...]:
    """Names of the nodes that did not become usable in time, or came up broken, and the ones Civo never built."""
    late = [n.name for n in stuck_nodes(pool, state, now)]
    missing = [f"{some(state.unlisted, 'node')} that Civo does not list"] if unlisted_too_long(pool, state, now) else []
    return (*late, *missing)


def probes_left(state: PoolState, now: datetime) -> int | None:
    """New nodes that a pool may ask for after nodes that never became usable; None when all is well.

    While it backs off from provisioning: none. After that one node on trial, until one becomes usable: a pool
    whose GPUs never come would otherwise cost a whole paid unit per waiting node, again and again.
    """
    if state.provisioning is None:
        return None
    if state.provisioning.holds(now, LONGEST_PROVISIONING_BACKOFF):
        return 0
    return max(0, 1 - len(state.coming) - state.unlisted)
