"""Headroom: GPUs kept free for work to come, estimated from recent requests and current use without refused work."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from receiver.core.model.model import Facts, Source
from receiver.core.model.pods import Pod, Workload
from receiver.core.model.policy import Policy
from receiver.core.model.text import lasting
from receiver.core.scaling.capacity import RULES, Allowance, Tally, grows_unasked
from receiver.core.scaling.market import Matching, siblings, stays_warm


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedWork:
    """The keys of refused pods and of their gangs, and the ids of the *pools* whose nodes they could start on."""

    pods: frozenset[str] = frozenset()
    gangs: frozenset[str] = frozenset()
    pools: frozenset[str] = frozenset()

    def holds(self, pod: Pod) -> bool:
        """True for a refused pod, and for a pod of a refused gang that got a node anyway."""
        return pod.gang in self.gangs if pod.node is not None else pod.key in self.pods


def refused(
    waiting: Sequence[Workload],
    tallies: Mapping[str, Tally],
    facts: Facts,
    pairs: Collection[tuple[str, str]] = (),
) -> RefusedWork:
    """Return what of *waiting* has no usable room in the assignment so far. *pairs* as in `Matching`."""
    served: set[str] = set()
    short: set[str] = set()
    for tally in tallies.values():
        unanswered = _unanswered(tally, facts)
        for given in tally.given:
            whole = given.whole and not any(id(room) in unanswered for room in given.rooms)
            (served if whole else short).add(given.workload.key)
    found = [w for w in waiting if w.key not in served or w.key in short]
    matching = Matching(tuple(tallies.values()), pairs)
    pods = [pod for workload in found for pod in workload.pods]
    return RefusedWork(
        pods=frozenset(pod.key for pod in pods),
        gangs=frozenset(w.key for w in found if w.gang),
        pools=frozenset(tally.pool.id for pod in pods for tally in matching.fitting(pod)),
    )


def _unanswered(tally: Tally, facts: Facts) -> Iterable[int]:
    """The new nodes (by identity) that wait for an approval."""
    target = tally.state.required + tally.within[-1]
    left = grows_unasked(target, tally.pool, tally.state, tally.bounds, facts.questions, facts.at)
    if left == target:
        return frozenset()
    bought = [room for room in tally.bins if room.bought and room.allowed]
    return frozenset(id(room) for room in bought[max(0, left - tally.state.required) :])


ASKED_WITHIN = timedelta(minutes=10)
PERCENT_OF_ASKED = 70
PERCENT_OF_HELD = 5
ENOUGH_PERCENT = 50  # of the headroom: nothing is bought, and no idle node goes, while less would be left


@dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """What a pool keeps warm: *gpus*, because *asked* were requested within `ASKED_WITHIN` and *held* are in use.

    *spare_nodes* is how many of the pool's nodes may go and leave enough, *falls_at* when the headroom next shrinks
    unless more work comes.
    """

    gpus: int
    asked: int
    held: int
    spare_nodes: int
    falls_at: datetime | None = None

    def __str__(self) -> str:
        """Say what is kept warm and why."""
        came = f"{self.asked} asked for within {lasting(ASKED_WITHIN)}, {self.held} in use"
        return f"{self.gpus} GPU{'' if self.gpus == 1 else 's'} kept warm ({came})"


def keep_warm(
    tallies: Mapping[str, Tally], facts: Facts, policy: Policy, allowance: Allowance, out: RefusedWork
) -> Mapping[str, Headroom]:
    """Open nodes where less than enough of a pool's headroom is free; return the headroom by pool id.

    It requests nothing that budget, maximum or limits refuse. There is none while one of these refuses waiting work,
    while a budget holds, or while Kubernetes is silent: then idle nodes make room, and new work is unknown. Work that
    was refused for any reason (*out*) does not count, and no node is opened where it could start.
    """
    warm = [x for x in tallies.values() if _may_keep(x) and stays_warm(x.pool, policy)]
    refused = any(_refuses(x) for x in tallies.values())
    if not warm or refused or allowance.budgets.holding or not facts.up(Source.KUBERNETES):
        return {}
    at_home = _at_home(facts, tuple(tallies.values()), out)
    found: dict[str, Headroom] = {}
    for tally in warm:
        fitting = [tallies[pool.id] for pool in siblings(tally.pool, policy) if pool.id in tallies]
        found[tally.pool.id] = _open(tally, fitting, at_home.get(tally.pool.id, ()), facts, allowance, out)
    return found


def _refuses(tally: Tally) -> bool:
    """True if budget, maximum or limits refuse a workload in the pool, alone or as a gang."""
    return tally.counts["demand"] > tally.within[-1] or any(held.rule == "gangs_whole" for held in tally.held)


def _may_keep(tally: Tally) -> bool:
    """False where a guardrail would hold new nodes, and where there are more nodes than the bounds allow."""
    return not tally.blocked and tally.state.required <= tally.bounds.max_nodes


def _may_open(tally: Tally, facts: Facts, allowance: Allowance, out: RefusedWork) -> bool:
    """True if another node may be opened: no rule holds it, no refused work could start on it, and it does not make
    other growth need an approval."""
    if tally.blocked or tally.pool.id in out.pools or allowance.passes(tally, 1) < len(RULES):
        return False
    if tally.within[-1] == tally.counts["headroom"]:
        return True
    target = tally.state.required + tally.within[-1] + 1
    return grows_unasked(target, tally.pool, tally.state, tally.bounds, facts.questions, facts.at) == target


def _at_home(facts: Facts, tallies: Sequence[Tally], out: RefusedWork) -> Mapping[str, Sequence[Pod]]:
    """The pods that wait or hold GPUs, by the pool in which a node for each alone would be bought; without *out*."""
    matching = Matching(tallies)
    homes: dict[str, list[Pod]] = {}
    for pod in _pods(facts):
        if not out.holds(pod) and matching.fitting(pod):
            homes.setdefault(matching.market(pod).order(pod)[0].pool.id, []).append(pod)
    return homes


def _pods(facts: Facts) -> Iterable[Pod]:
    yield from (pod for pod in facts.waiting if not pod.daemon and pod.gpus)
    for state in facts.pools:
        for node in state.nodes:
            yield from (pod for pod in node.pods if not pod.daemon and pod.gpus)


def _open(
    tally: Tally,
    fitting: Sequence[Tally],
    pods: Sequence[Pod],
    facts: Facts,
    allowance: Allowance,
    out: RefusedWork,
) -> Headroom:
    recent = [pod for pod in pods if timedelta(0) <= facts.at - pod.created_at < ASKED_WITHIN]
    asked = sum(pod.gpus for pod in recent)
    held = sum(pod.gpus for pod in pods if pod.node is not None)
    gpus = (PERCENT_OF_ASKED * asked + PERCENT_OF_HELD * held) // 100
    unit = max((pod.gpus for pod in recent), default=1)  # the rest of a node helps only pods that fit into it
    free = sum(room.gpus // unit * unit for x in fitting for room in x.bins if room.allowed)
    per_node = tally.pool.gpus_per_node
    if free * 100 < ENOUGH_PERCENT * gpus:
        for _ in range(-(-(gpus - free) // per_node)):
            if not _may_open(tally, facts, allowance, out):
                break
            allowance.open(tally, "headroom")
            free += per_node
    enough = -(-ENOUGH_PERCENT * gpus // 100)
    return Headroom(
        gpus=gpus,
        asked=asked,
        held=held,
        spare_nodes=max(0, free - enough) // per_node,
        falls_at=min(pod.created_at for pod in recent) + ASKED_WITHIN if recent else None,
    )
