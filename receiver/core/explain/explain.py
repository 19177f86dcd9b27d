"""Say of every pod that waits what becomes of it: where it fits, what it waits for, which rule holds it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from receiver.core.explain.pod_outlook import Fate, Place, State
from receiver.core.model.actions import Decision
from receiver.core.model.model import Facts
from receiver.core.model.pods import Pod, Workload
from receiver.core.model.policy import Policy
from receiver.core.model.text import cut
from receiver.core.scaling.assign import Assignment
from receiver.core.scaling.demand import IGNORED_NAMESPACES, LONGEST_NAMED, refusal, workloads
from receiver.core.scaling.market import Kind, shape

CLAIMS_NAMED = 3
MOST = 500  # pods that are explained in one step: the picture is kept at every step and must stay small


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Whether a pool's nodes can hold a pod; *why* not, None when they can."""

    pool: str
    name: str
    why: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One waiting pod, the workload it belongs to (None when it is no demand), its fate and where it would fit."""

    pod: Pod
    workload: Workload | None
    fate: Fate
    fits: tuple[Fit, ...]


def explain(
    facts: Facts,
    assignment: Assignment,
    decisions: Mapping[str, Decision],
    policy: Policy,
    *,
    observing: bool = False,
    most: int = MOST,
) -> tuple[Explanation, ...]:
    """Explain the first *most* waiting pods in the order of service (priority, then age), those that are no
    demand after all others. *decisions* are by pool id; *observing* is True where nothing is written."""
    fitting = _Fitting(facts, policy)
    found: list[Explanation] = []
    for workload, fate in fates(facts, assignment, decisions, policy, observing=observing):
        if len(found) >= most:
            return tuple(found[:most])
        found += [Explanation(pod=p, workload=workload, fate=fate, fits=fitting.of(p)) for p in workload.pods]
    demand = {p.key for w in workloads(facts.waiting, facts.bound_gangs) for p in w.pods}
    others = [p for p in facts.waiting if p.key not in demand]
    found += [
        Explanation(pod=p, workload=None, fate=_no_demand(p), fits=() if p.claims else fitting.of(p))
        for p in others[:most]
    ]
    return tuple(found[:most])


def fates(
    facts: Facts,
    assignment: Assignment,
    decisions: Mapping[str, Decision],
    policy: Policy,
    *,
    observing: bool = False,
) -> Iterator[tuple[Workload, Fate]]:
    """Yield what becomes of each waiting workload, in the order of service; the arguments are those of `explain`."""
    found = _Fates(facts, assignment, decisions, policy, observing)
    return ((workload, found.of(workload)) for workload in workloads(facts.waiting, facts.bound_gangs))


def by_claim(pod: Pod) -> str:
    """Why no node is bought for *pod*, which asks for devices by Dynamic Resource Allocation."""
    more = f" and {len(pod.claims) - CLAIMS_NAMED} more" if len(pod.claims) > CLAIMS_NAMED else ""
    asked = ", ".join(cut(name, LONGEST_NAMED) for name in pod.claims[:CLAIMS_NAMED])
    return (
        f"it asks for {asked}{more} by Dynamic Resource Allocation (ResourceClaim, DeviceClass), which is not supported"
        " as demand yet: no node is bought for it. A node on which it runs is kept. To get a node, ask for a resource"
        " of a pool, such as nvidia.com/gpu"
    )


def _no_demand(pod: Pod) -> Fate:
    if pod.daemon:
        why = "a DaemonSet's pod comes with every node, so no node is bought for it"
    elif pod.terminating:
        why = "it is being deleted"
    elif pod.namespace in IGNORED_NAMESPACES:
        why = f"pods of namespace {pod.namespace} belong to the GPU operator, so no node is bought for them"
    elif pod.claims:
        why = by_claim(pod)
    else:
        why = "the last step did not count it as demand"
    return Fate(state=State.NOT_DEMAND, detail=why)


class _Fitting:
    """Which pools fit a pod; pods of one shape are matched once."""

    def __init__(self, facts: Facts, policy: Policy) -> None:
        self._pools = [(p, facts.pool(p.id)) for p in policy.pools]
        self._known: dict[Kind, tuple[Fit, ...]] = {}

    def of(self, pod: Pod) -> tuple[Fit, ...]:
        """Say of each pool whether *pod* fits, as the assignment judges it."""
        kind = shape(pod)
        if kind not in self._known:
            self._known[kind] = tuple(
                Fit(pool=pool.id, name=pool.name, why=refusal(pod, pool, state)) for pool, state in self._pools
            )
        return self._known[kind]


class _Fates:
    """What becomes of each workload, asked in the order of service."""

    def __init__(
        self,
        facts: Facts,
        assignment: Assignment,
        decisions: Mapping[str, Decision],
        policy: Policy,
        observing: bool,
    ) -> None:
        places = [Place(p, facts, assignment.pools[p.id], decisions[p.id], observing) for p in policy.pools]
        self._misfits = {m.workload.key: m.detail for m in assignment.misfits}
        self._held = {h.workload: (x, h) for x in places for h in x.wanted.held}
        self._asking: dict[str, list[Place]] = {}
        self._placed = {key: (x, instance) for x in places for key, instance in x.wanted.placed}
        self._settled: dict[str, list[Place]] = {}
        for place in places:
            for workload in place.wanted.asking:
                self._asking.setdefault(workload.key, []).append(place)
            for key in place.wanted.settled:
                self._settled.setdefault(key, []).append(place)

    def of(self, workload: Workload) -> Fate:
        """Return what becomes of *workload*."""
        key = workload.key
        if key in self._misfits:
            detail = self._misfits[key] if workload.gang else "no GPU pool can hold it"  # `fits` has each pool's reason
            return Fate(state=State.FITS_NOWHERE, detail=detail)
        if key in self._held:
            place, held = self._held[key]
            return place.held(held)
        if key in self._asking:
            fates = [place.asked(workload) for place in self._asking[key]]  # a gang may ask several pools
            return next((f for f in fates if f.state is State.HELD), fates[0])
        if key in self._placed:
            place, instance = self._placed[key]
            return place.free(instance)
        if key in self._settled:
            return _settled(workload, self._settled[key])
        return Fate(state=State.NOT_DEMAND, detail="the last step did not count it as demand")


def _settled(workload: Workload, places: Sequence[Place]) -> Fate:
    """A gang may have room in usable nodes alone, and in several pools; a single pod that has is `placed`."""
    coming = [x for x in places if x.coming or x.state.unlisted]
    if coming or not workload.gang:
        return (coming or places)[0].on_its_way
    return places[0].free(None)
