"""Work that may wait: when a node is bought for it at the latest, and when our scheduling gate is removed from it.

The scheduler knows nothing of patience: it gives a node that was bought for urgent work to an older pod that may wait.
So work that may wait also carries a scheduling gate (Pod Scheduling Readiness, KEP-3521), which is removed when there
is room for it that is paid for and that urgent work will probably not need, or when its time has come.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from receiver.core.model.model import Facts, Node, PoolState, Stage
from receiver.core.model.pods import Pod, Workload, owner_of, too_much
from receiver.core.model.policy import Policy, Pool
from receiver.core.scaling.demand import deferred, may_wait, misfit, missing_pods, refusal, take
from receiver.core.scaling.failures import blame
from receiver.core.scaling.gangs import try_gang
from receiver.core.scaling.neighbours import Neighbours
from receiver.core.scaling.node_holds import Blocks, node_hold
from receiver.core.scaling.packing import SOFT_TAINTS, Survival, free_gpus
from receiver.core.scaling.rooms import Bin, Kind, shape, site_of
from receiver.core.scaling.wanted import ASKED_WITHIN, Draft, PatientWork

LEAD_MARGIN = timedelta(minutes=1)  # a step, Civo's answer, the scheduler
SLOWER = 1.5  # times the usual start-up, before enough nodes have shown how long slow ones take
MOST_AT_ONCE = 50  # pods for which a step finds room: each takes two calls, and the others follow in the next step
KIND = "patience"
FOR_ROOM = "it waits for a GPU that is paid for already"
NEVER_BOUGHT = f"{FOR_ROOM}; no node is bought for work of its priority"
GOES_ON = 0.9  # the chance (0-1) from which work on a wide node outlives what is put beside it
PERCENT_OF_ASKED, PERCENT_OF_HELD = 70, 5  # kept free of what urgent work asked for lately, and of what is in use


def lead(pool: Pool, state: PoolState) -> timedelta:
    """How long before the deadline of work a node of *pool* is bought for it."""
    usual, slow = state.startup.usual, state.startup.slow
    if slow is not None:
        return min(slow, pool.provision_timeout) + LEAD_MARGIN
    if usual is None:
        return pool.provision_timeout
    return min(SLOWER * usual + LEAD_MARGIN, max(usual, pool.provision_timeout))


class Deadlines:
    """When nodes are bought for work that may wait, by what *facts* show of the pools that it fits, without those that
    are set *aside*."""

    def __init__(self, facts: Facts, policy: Policy, aside: Collection[str] = ()) -> None:
        self._facts, self._policy = facts, policy
        self._pools = [pool for pool in policy.pools if pool.id not in aside]
        self._leads: dict[Kind, timedelta | None] = {}

    def patient(self, waiting: Iterable[Workload], *, gated: bool = False) -> Iterator[PatientWork]:
        """Yield those of *waiting* for which no node is bought yet. What no pool can hold waits for none."""
        for workload in waiting:
            with blame(owner=owner_of(workload.pods[0])):
                work = self._patient(workload, gated=gated)
            if work is not None:
                yield work

    def _patient(self, workload: Workload, *, gated: bool) -> PatientWork | None:
        if workload.priority < self._policy.patience.lowest_priority:
            placeable = all(self._lead(pod) is not None for pod in workload.pods)
            return PatientWork(workload=workload, why=NEVER_BOUGHT, gated=gated) if placeable else None
        by = min(pod.created_at + may_wait(pod, self._policy) for pod in workload.pods)
        if by <= self._facts.at:
            return None
        leads = [lead for pod in workload.pods if (lead := self._lead(pod)) is not None]
        if len(leads) < len(workload.pods) or by - max(leads) <= self._facts.at:
            return None
        buys_at = by - max(leads)
        why = waits_for(by, buys_at, self._facts.at)
        return PatientWork(workload=workload, why=why, starts_by=by, buys_at=buys_at, gated=gated)

    def _lead(self, pod: Pod) -> timedelta | None:
        """How long before its deadline a node is bought for *pod*; None where no pool can hold it."""
        kind = shape(pod)
        if kind not in self._leads:
            leads: list[timedelta] = []  # of the pools that fit, without those that cannot grow
            with blame() as blamed:
                for pool in self._pools:
                    blamed.pool = pool.id
                    state = self._facts.pool(pool.id)
                    if misfit(pod, pool, state.offer) is None and not too_much(pod.compute, state.next_node.compute):
                        leads.append(lead(pool, state) if pool.max_nodes else timedelta(0))
            self._leads[kind] = max(leads, default=None)
        return self._leads[kind]


def waits_for(starts_by: datetime, buys_at: datetime, now: datetime) -> str:
    """What work waits for that may wait until *starts_by*, in a sentence."""
    by, at = (f"{m:%H:%M} UTC" if m.date() == now.date() else f"{m:%Y-%m-%d %H:%M} UTC" for m in (starts_by, buys_at))
    return f"{FOR_ROOM}, and may wait until {by}; if none is free by {at}, a node is bought for it"


def postpone(workloads: Iterable[Workload], draft: Draft) -> Iterator[PatientWork]:
    """Yield those of *workloads* for which no node is bought yet."""
    return Deadlines(draft.facts, draft.policy, draft.aside).patient(workloads)


def serve_patient(draft: Draft) -> None:
    """Give work that may still wait what room is left that exists or is on its way, and no new node. What finds none
    stays in the draft, with what is behind our scheduling gate."""
    found_none = tuple(_without_room(draft)) if draft.patient else ()
    behind = deferred(draft.facts) if draft.facts.other_work.deferred else ()
    deadlines = Deadlines(draft.facts, draft.policy, draft.aside)
    draft.patient = (*found_none, *deadlines.patient(behind, gated=True))


def _without_room(draft: Draft) -> Iterator[PatientWork]:
    matching = draft.matching(tuple(draft.served.values()))
    full: set[tuple[str, object]] = set()  # room only shrinks, so what a pool did not hold is not tried again
    for work in draft.patient:
        first = work.workload.pods[0]
        with blame(owner=owner_of(first)) as blamed:
            fitting = [x for x in matching.fitting(first) if all(x in matching.fitting(p) for p in work.workload.pods)]
            for tally in fitting:
                blamed.pool = tally.pool.id
                place = tally.pool.id, tuple(map(tally.shelves.kind, work.workload.pods))
                if place in full:
                    continue
                if try_gang(work.workload, tally, draft.allowance, most=0, begin=True):
                    break
                full.add(place)
            else:
                yield work


@dataclass(slots=True)
class _Room:
    node: Node
    pool: Pool
    bin: Bin
    soft: int  # soft taints of ours: the scheduler prefers nodes with fewer


class Admissions:
    """Which workloads behind the gate may be scheduled now, and when the next one must be.

    Those whose time has come always may, and so does the rest of a gang that is past the gate. The others may once room
    is free that is paid for anyway: beside what urgent work asked for lately and what the pool keeps ready, on nodes no
    wider than they need, or on nodes whose work goes on. While urgent work waits for a pool, none of its room is given
    away. *waiting_gpus* is what waits, by pool id; the instances *going* are about to be removed. *kept_gpus* stand
    free for requests.
    """

    def __init__(
        self,
        facts: Facts,
        policy: Policy,
        waiting_gpus: Mapping[str, int],
        going: Collection[str],
        survival: Survival,
        kept_gpus: int = 0,
    ) -> None:
        self._facts, self._policy, self._survival = facts, policy, survival
        self._neighbours = Neighbours.of(facts, {pool.id: pool.offered_labels for pool in policy.pools})
        self._rooms = [
            _Room(node, pool, self._bin(node, pool), sum(taint in SOFT_TAINTS for taint in node.taints))
            for pool in policy.pools
            if not waiting_gpus.get(pool.id)
            for node in facts.pool(pool.id).of(Stage.USABLE)
            if node.instance not in going and not node_hold(node, Blocks.PODS)
        ]
        self._rooms.sort(key=lambda room: (room.soft, room.node.created_at, room.node.name))
        self._kept = self._to_keep() + kept_gpus
        self._free = sum(free_gpus(room.bin.free, room.pool) for room in self._rooms if not room.bin.closed)
        self._chances: dict[str, float] = {}
        self._takes: dict[tuple[str, Kind], bool] = {}  # by pool and shape
        self._smallest: dict[Kind, int] = {}

    def _bin(self, node: Node, pool: Pool) -> Bin:
        site = site_of(node, pool, self._facts.pool(pool.id).offer, self._facts.at)
        return Bin(pool.id, node.instance, dict(node.free), usable=True, site=site, neighbours=self._neighbours)

    def admit(self) -> tuple[tuple[Workload, ...], datetime | None]:
        """Return the workloads whose gates are to be removed now, and when the next one's are at the latest. Room is
        found for `MOST_AT_ONCE` pods, and for gangs whole."""
        facts = self._facts
        everything = deferred(facts)
        demand = {pod.key for workload in everything for pod in workload.pods}
        others = (p for p in facts.other_work.deferred if p.key not in demand and not p.terminating)
        ready = [Workload(key=pod.key, pods=(pod,)) for pod in others]  # nothing that is bought would help them
        next_at: datetime | None = None
        full: set[tuple[Kind, ...]] = set()  # what did not fit does not fit again: room only shrinks
        started_gangs = {
            pod.gang for pod in facts.waiting if pod.gang is not None
        } | facts.other_work.bound_gangs.keys()
        patient = {p.workload.key: p for p in Deadlines(facts, self._policy).patient(everything, gated=True)}
        placed = 0
        for workload in everything:
            waits = patient.get(workload.key)
            if waits is None or (workload.gang and workload.key in started_gangs):
                ready.append(workload)
                continue
            kinds = tuple((*shape(pod), pod.scheduling.host_rules, pod.namespace) for pod in workload.pods)
            if placed < MOST_AT_ONCE and not missing_pods(workload) and kinds not in full:
                if self._fits(workload):
                    placed += len(workload.pods)
                    ready.append(workload)
                    continue
                full.add(kinds)
            if waits.buys_at is not None:
                next_at = waits.buys_at if next_at is None else min(next_at, waits.buys_at)
        return tuple(ready), next_at

    def _to_keep(self) -> int:
        """GPUs that stay free for urgent work: by what was asked for lately and is in use, and spare nodes."""
        facts = self._facts
        pods = [pod for state in facts.pools for node in state.nodes for pod in node.pods]
        recent = [
            p for p in (*facts.waiting, *facts.other_work.deferred, *pods) if facts.at - p.created_at < ASKED_WITHIN
        ]
        recent_gpus, held = sum(p.gpus for p in recent), sum(p.gpus for p in pods)
        spare = sum(pool.standby_nodes * pool.gpus_per_node for pool in self._policy.pools)
        return max(spare, (PERCENT_OF_ASKED * recent_gpus + PERCENT_OF_HELD * held) // 100)

    def _fits(self, workload: Workload) -> bool:
        """Put *workload* into free room where that is right; change nothing otherwise."""
        if self._free - workload.gpus < self._kept:
            return False
        taken: list[tuple[_Room, dict[str, int]]] = []
        mark = self._neighbours.mark() if self._neighbours is not None else 0
        for pod in workload.pods:
            room = self._choice(pod)
            if room is None:
                for used, before in reversed(taken):
                    used.bin.free = before
                if self._neighbours is not None:
                    self._neighbours.return_to(mark)
                return False
            taken.append((room, dict(room.bin.free)))
            room.bin.put(pod, pod.asks)
        self._free -= workload.gpus
        return True

    def _choice(self, pod: Pod) -> _Room | None:
        """The node on which the scheduler would put *pod*, if each that it could choose is right for it."""
        fitting = [r for r in self._rooms if self._holds(r, pod)]
        likely = [r for r in fitting if r.soft == fitting[0].soft]
        return fitting[0] if fitting and all(self._is_right(r, pod) for r in likely) else None

    def _holds(self, room: _Room, pod: Pod) -> bool:
        key = room.pool.id, shape(pod)
        if key not in self._takes:
            self._takes[key] = refusal(pod, room.pool, self._facts.pool(room.pool.id)) is None
        return self._takes[key] and room.bin.admits(pod) and take(dict(room.bin.free), pod.asks)

    def _is_right(self, room: _Room, pod: Pod) -> bool:
        """True unless *pod* would keep a node that is wider than it needs: one of the smallest pool that it fits, or
        one whose work goes on anyway."""
        kind = shape(pod)
        if kind not in self._smallest:
            pools = [(p, self._facts.pool(p.id).offer) for p in self._policy.pools if p.max_nodes]
            sizes = (p.gpus_per_node for p, offer in pools if misfit(pod, p, offer) is None)
            self._smallest[kind] = min(sizes, default=0)
        if room.pool.gpus_per_node == self._smallest[kind]:
            return True
        node = room.node
        if node.instance not in self._chances:
            self._chances[node.instance] = self._survival.goes_on(node.pods, self._facts.at) if node.pods else 0.0
        return self._chances[node.instance] >= GOES_ON
