"""Nodes beyond those that work asks for: floors, standby nodes, and headroom, which is how many GPUs are kept free for
work to come, by recent requests and current use without refused work."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from math import sqrt

from receiver.core.model.model import Source, Stage
from receiver.core.model.pods import Pod, owner_of
from receiver.core.scaling.capacity import RULES, Tally
from receiver.core.scaling.failures import blame
from receiver.core.scaling.market import alike, is_small, is_wide_beside, stays_warm
from receiver.core.scaling.rooms import Bin
from receiver.core.scaling.terminations import leaving_soon
from receiver.core.scaling.wanted import ASKED_WITHIN, USED_WITHIN, Draft, Headroom, RefusedWork

SHARE_OF_ASKED = 0.2  # (0-1): the share of `ASKED_WITHIN` that a node takes to start, about
DEVIATIONS = 2  # standard deviations of as many independent requests: square-root staffing


def hold_floors(draft: Draft) -> None:
    """Open nodes up to each floor, each checked by itself; nodes that the checks leave out do not count."""
    for pool, tally in draft.served.items():
        with blame(pool=pool):
            for _ in range(tally.bounds.min_nodes - tally.state.required - tally.within[-1]):
                draft.allowance.open(tally, "floor")
                tally.shelves.add(tally.empty_bin())


def refused(draft: Draft) -> RefusedWork:
    """Return what of the waiting work has no usable room so far. What the scheduler refuses could start on no pool's
    nodes."""
    tallies = draft.served
    served: set[str] = set()
    short: set[str] = set()
    for pool, tally in tallies.items():
        with blame(pool=pool):
            target = tally.state.required + tally.within[-1]
            most = draft.grows_to(target, tally)
            bought = [room for room in tally.shelves.bins if room.bought and room.allowed] if most < target else []
            held = set(bought[max(0, most - tally.state.required) :])  # new nodes that wait for an answer
            for placement in tally.given:
                whole = placement.whole and not any(room in held for room in placement.rooms)
                (served if whole else short).add(placement.workload.key)
    unserved = [w for w in draft.waiting if w.key not in served or w.key in short]
    matching = draft.matching(tuple(tallies.values()))
    pods = [pod for workload in unserved for pod in workload.pods]
    could_start = [pod for w in unserved if w.key not in draft.barred.workloads for pod in w.pods]
    pools: set[str] = set()
    with blame() as blamed:
        for pod in could_start:
            blamed.owner = owner_of(pod)
            pools.update(tally.pool.id for tally in matching.fitting(pod))
    return RefusedWork(
        pods=frozenset(pod.key for pod in pods),
        gangs=frozenset(w.key for w in unserved if w.gang),
        pools=frozenset(pools),
    )


def keep_standby(draft: Draft) -> None:
    """Open nodes until enough have no work. One that all of its pods are about to leave has none."""
    for pool, tally in draft.served.items():
        with blame(pool=pool):
            if not tally.bounds.standby_nodes or pool in draft.refused.pools:
                continue
            nodes, state, at = tally.state.nodes, tally.state, draft.facts.at
            busy = {n.instance for n in nodes if len(n.pods) > len(leaving_soon(n, state, at))}
            spare = len([b for b in tally.shelves.bins if not (b.used or b.closed or b.instance in busy)])
            for _ in range(tally.bounds.standby_nodes - spare):
                draft.allowance.open(tally, "standby")


def keep_warm(draft: Draft) -> None:
    """Open nodes where less than enough of a pool's headroom is free.

    There is none while budget, maximum or limits refuse waiting work, while a budget holds, or while Kubernetes is
    silent: then idle nodes make room, and new work is unknown. Nor has a pool any while a guardrail would hold new
    nodes. Refused work does not count, and no node is opened where it could start.
    """
    facts, policy, tallies = draft.facts, draft.policy, draft.served
    warm = []
    for pool, tally in tallies.items():
        with blame(pool=pool):
            if tally.counts["demand"] > tally.within[-1] or any(held.rule == "gangs_whole" for held in tally.held):
                return
            if not tally.blocked and tally.state.required <= tally.bounds.max_nodes and stays_warm(tally.pool, policy):
                warm.append(tally)
    if not warm or draft.allowance.budgets.holding or not facts.up(Source.KUBERNETES):
        return
    # The pods that wait or hold GPUs, by the pool in which a node for each alone would be bought.
    matching = draft.matching(tuple(tallies.values()))
    homes: dict[str, list[Pod]] = {}
    running = [(pod, pool) for pool, tally in tallies.items() for node in tally.state.nodes for pod in node.pods]
    for pod, its in (*((pod, "") for pod in (*facts.waiting, *facts.other_work.deferred)), *running):
        if pod.daemon or not pod.gpus or draft.refused.holds(pod):
            continue
        if pod.claiming.words and its:  # it holds GPUs that others may have without serving its claim
            homes.setdefault(its, []).append(pod)
            continue
        with blame(pool=its or None, owner=owner_of(pod)):
            if matching.fitting(pod):
                homes.setdefault(matching.market(pod).order(pod)[0].pool.id, []).append(pod)
    headrooms: dict[str, Headroom] = {}
    for tally in warm:
        with blame(pool=tally.pool.id):
            small = is_small(tally.pool, policy)
            siblings = [x for x in tallies.values() if alike(tally.pool, x.pool)]
            # A small pod on a wide node would keep all of it, so room there is no headroom.
            rooms = [
                room for x in siblings if not (small and is_wide_beside(tally.pool, x.pool)) for room in x.shelves.bins
            ]
            least = tally.pool.gpus_per_node if small else 0
            warmth = _warmth(tally, homes.get(tally.pool.id, ()), facts.at, least=least)
            headrooms[tally.pool.id] = _open(tally, warmth, rooms, draft)
    draft.headroom = headrooms


def may_open(tally: Tally, draft: Draft) -> bool:
    """True if another node may be opened: no rule holds it, no refused work could start on it, and no other growth is
    held because of it."""
    if tally.blocked or tally.pool.id in draft.refused.pools or draft.allowance.passes(tally, 1) < len(RULES):
        return False
    if tally.within[-1] == tally.counts["headroom"] + tally.counts["buffer"]:
        return True
    target = tally.state.required + tally.within[-1] + 1
    return draft.grows_to(target, tally) == target


def _warmth(tally: Tally, pods: Sequence[Pod], now: datetime, *, least: int) -> Headroom:
    """The headroom for work like *pods*: the mean and `DEVIATIONS` of what comes while a node starts, if as much comes
    as in the last minutes; for some hours after the last pod at *least* so many GPUs."""
    recent = [pod for pod in pods if timedelta(0) <= now - pod.created_at < ASKED_WITHIN]
    requested_gpus = sum(pod.gpus for pod in recent)
    deviation = sqrt(SHARE_OF_ASKED * sum(pod.gpus**2 for pod in recent))
    gpus = int(SHARE_OF_ASKED * requested_gpus + DEVIATIONS * deviation)
    falls_at = [min(pod.created_at for pod in recent) + ASKED_WITHIN] if recent else []
    idle_since = (node.idle_since for node in tally.state.of(Stage.USABLE) if not node.busy)
    used_at = max((at for at in (*idle_since, *(pod.created_at for pod in pods)) if at is not None), default=None)
    if least and used_at is not None and now - used_at < USED_WITHIN:
        gpus = max(gpus, least)
        falls_at.append(used_at + USED_WITHIN)
    unit = max((pod.gpus for pod in recent), default=max(1, least))
    return Headroom(gpus=gpus, asked=requested_gpus, unit=unit, falls_at=min(falls_at, default=None))


def _open(tally: Tally, warmth: Headroom, rooms: Sequence[Bin], draft: Draft) -> Headroom:
    """Open nodes until the GPUs of *warmth* are free in *rooms*; return it with the nodes to spare."""
    free = sum(room.gpus // warmth.unit * warmth.unit for room in rooms if room.allowed and not room.closed)
    per_node = tally.pool.gpus_per_node
    for _ in range(-(-(warmth.gpus - free) // per_node)):
        if not may_open(tally, draft):
            break
        draft.allowance.open(tally, "headroom")
        free += per_node
    return replace(warmth, spare_nodes=max(0, free - warmth.gpus) // per_node)
