"""Say of every pod that waits what becomes of it: where it fits, what it waits for, which rule holds it, what to do."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from itertools import islice

from receiver.core.explain.rules import RULES
from receiver.core.model.actions import ActionKind, Decision, Reason, Verdict
from receiver.core.model.model import CordonedBy, Facts, Stage
from receiver.core.model.pods import Pod, Workload
from receiver.core.model.policy import Policy, Pool
from receiver.core.model.text import cut, some
from receiver.core.money.budget import Refusal
from receiver.core.scaling.assign import Assignment, Wanted
from receiver.core.scaling.capacity import HeldWorkload
from receiver.core.scaling.demand import IGNORED_NAMESPACES, LONGEST_NAMED, new_node, refusal, take, workloads
from receiver.core.scaling.market import Kind, LabelIndex, shape

STAGES = {
    Stage.BUILDING: "is being built",
    Stage.BOOTING: "boots",
    Stage.INSTALLING: "installs its GPU driver",
    Stage.BROKEN: "lost its GPUs a moment ago",
    Stage.UNKNOWN: "was built, and Kubernetes does not answer about it",
}


class State(StrEnum):
    """What becomes of a pod that waits."""

    FITS_FREE_NODE = "fits_free_node"  # a usable node would hold it, but the scheduler has not put it there
    ON_ITS_WAY = "on_its_way"  # a node that is being provisioned is meant for it
    BUYING = "buying"  # new nodes are asked for
    HELD = "held"  # wanted, and a rule holds it back
    GANG_INCOMPLETE = "gang_incomplete"  # pods of its gang do not exist yet
    FITS_NOWHERE = "fits_nowhere"  # no pool can ever hold it
    NOT_DEMAND = "not_demand"  # no node is bought for a pod like this


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What becomes of a workload: its *state*, one sentence, and the pool (an id), rule and node that it is about.

    *nodes* is how many nodes the pool buys, *expected_at* when the nodes it waits for should be usable.
    """

    state: State
    detail: str
    pool: str | None = None
    rule: str | None = None
    node: str | None = None
    nodes: int | None = None
    expected_at: datetime | None = None


class Place:
    """One pool as those who wait for it see it: its state, what it was asked for and what was decided.

    *coming* are the nodes on their way that waiting work would use; *observing* is True where nothing is written.
    """

    def __init__(self, pool: Pool, facts: Facts, wanted: Wanted, decision: Decision, observing: bool) -> None:
        self.pool, self.state, self.wanted, self.decision = pool, facts.pool(pool.id), wanted, decision
        self._now, self._observing = facts.at, observing
        self._nodes = {n.instance: n for n in self.state.nodes}
        self.coming = tuple(n for n in self.state.living if n.stage is not Stage.USABLE and n.instance in wanted.needed)
        self._bought: list[dict[str, int]] = []  # new nodes that were handed out so far, and what is free in each

    def free(self, instance: str | None) -> Fate:
        """There is room in the usable node *instance*; None: in several, for a gang."""
        node = self._nodes.get(instance) if instance else None
        if node is None:
            detail = f"usable nodes of GPU pool {self.pool.name} have room for all of it, as configured"
        else:
            detail = f"node {node.name} of GPU pool {self.pool.name} is usable and would hold it, as configured"
            detail += "; its removal was called off for that" if node.cordoned_by is CordonedBy.US else ""
        return Fate(state=State.FITS_FREE_NODE, detail=detail, pool=self.pool.id, node=node.name if node else None)

    @cached_property
    def on_its_way(self) -> Fate:
        """What becomes of all who were given room in nodes that are being provisioned."""
        nodes, unlisted = self.coming, self.state.unlisted
        moments = [self._usable_at(n.created_at) for n in nodes]
        moments += [self._usable_at(self.state.required_since or self._now)] if unlisted else []
        where = f"GPU pool {self.pool.name}"
        if len(nodes) == 1 and not unlisted:
            doing = nodes[0].note or STAGES.get(nodes[0].stage, "is on its way")
            said = f"node {nodes[0].name} of {where} {doing}"
        elif nodes:
            said = f"{some(len(nodes) + unlisted, 'node')} of {where} are on their way"
        else:
            said = f"{some(unlisted, 'node')} of {where} {'is' if unlisted == 1 else 'are'} asked for at Civo"
        last = max(moments, default=None)
        return Fate(
            state=State.ON_ITS_WAY,
            detail=f"{said}; {self._when(last)}" if last else said,
            pool=self.pool.id,
            node=nodes[0].name if len(nodes) == 1 and not unlisted else None,
            expected_at=last,
        )

    def asked(self, workload: Workload) -> Fate:
        """New nodes are wanted for *workload*: they are bought, or a rule holds them."""
        refusal = self.wanted.refused.get(workload.key)
        if refusal is not None:
            return self._uncovered(refusal)
        if not self._buys_for(workload):
            return self._refused()
        before, after = self.decision.present, self.decision.target
        change = f"from {before} to {some(after, 'node')}"
        if self._observing:
            detail = f"GPU pool {self.pool.name} would grow {change}; in observe mode nothing is bought"
            return Fate(state=State.BUYING, detail=detail, pool=self.pool.id)
        action = self.state.open_action
        failing = action is not None and action.kind is ActionKind.GROW and action.last_error
        tried = f"; the last try failed: {action.last_error}" if action is not None and failing else ""
        usual = self.state.ready_in
        return Fate(
            state=State.BUYING,
            detail=f"GPU pool {self.pool.name} grows {change}{tried}",
            pool=self.pool.id,
            nodes=after - before,
            expected_at=None if usual is None or failing else self._now + usual,
        )

    def held(self, held: HeldWorkload) -> Fate:
        """The assignment itself held it, with a sentence."""
        state = State.GANG_INCOMPLETE if held.rule == "gang_is_complete" else State.HELD
        return Fate(state=state, detail=held.detail, pool=self.pool.id, rule=held.rule)

    def _buys_for(self, workload: Workload) -> bool:
        """True when the nodes that the decision leaves reach *workload*; asked in the order of service.

        A gang asks only if every check leaves it all its nodes; what is left of them goes to those behind it.
        """
        bought = max(0, self.decision.target - self.decision.present)
        if bought == 0 or bought >= self.wanted.for_demand:
            return bought > 0
        reached = [self._hand_out(pod, bought) for pod in workload.pods]
        return workload.gang or all(reached)

    def _hand_out(self, pod: Pod, bought: int) -> bool:
        asks = pod.asks
        if any(take(free, asks) for free in self._bought):
            return True
        if len(self._bought) >= bought:
            return False
        self._bought.append(new_node(self.pool, self.state))
        return take(self._bought[-1], asks)

    def _uncovered(self, refusal: Refusal) -> Fate:
        detail = f"GPU pool {self.pool.name} does not grow for it: {refusal.rule}: {refusal.why}"
        return Fate(state=State.HELD, detail=detail, pool=self.pool.id, rule=refusal.rule)

    def _refused(self) -> Fate:
        reason, grows = _in_the_way(self.decision), self.decision.target > self.decision.present
        how_far = f"grows to {some(self.decision.target, 'node')} only" if grows else "does not grow"
        return Fate(
            state=State.HELD,
            detail=f"GPU pool {self.pool.name} {how_far}: {reason.rule}: {reason.detail}",
            pool=self.pool.id,
            rule=reason.rule,
        )

    def _usable_at(self, begun: datetime) -> datetime:
        usual = self.state.ready_in
        return begun + (self.pool.provision_timeout if usual is None else usual)

    def _when(self, moment: datetime) -> str:
        if self.state.ready_in is None:
            return f"nodes not usable by {moment:%H:%M:%S} UTC are reported as stuck"
        said = "should have been usable" if moment < self._now else "usually usable"
        return f"{said} about {moment:%H:%M:%S} UTC"


def _in_the_way(decision: Decision) -> Reason:
    """The reason that holds growth: the first that left nothing of it, else the first that left a part."""
    for verdict in (Verdict.HOLDS, Verdict.LIMITS):
        for reason in decision.reasons:
            if reason.verdict is verdict:
                return reason
    return decision.deciding


# {pod} is its name and {namespace} its namespace.
WHAT_TO_DO = {
    State.FITS_FREE_NODE: (
        "compare `kubectl describe pod -n {namespace} {pod}` with the node: volumes, pod affinity, topology "
        "spread, labels, taints; another node like it would not help, so none is bought"
    ),
    State.ON_ITS_WAY: (
        "nothing: it starts once the node's GPUs are allocatable; if that takes too long, look at the instance at "
        "Civo and at the GPU operator's pods on the node"
    ),
    State.BUYING: "nothing: in a minute this says which node is on its way",
    State.HELD: "read about the rule in docs/guardrails.md",
    State.GANG_INCOMPLETE: (
        "see why the gang's other pods do not exist: its controller, its queue, a quota of namespace {namespace}"
    ),
    State.FITS_NOWHERE: "change the pod, or configure a pool that offers what it asks for; each pool's line says why",
    State.NOT_DEMAND: "nothing: no pool grows for a pod like this",
}
OBSERVED = "set mode: act and restart, or grow the pool by hand: in observe mode nothing is bought"


def what_to_do(state: str, rule: str | None, *, namespace: str, pod: str, observing: bool = False) -> str | None:
    """One line for the owner of *pod* that waits in *state*, held by *rule* (None: by none); None for a state that
    is not known here. *observing* is True where nothing is written."""
    if state not in set(State):
        return None
    if state == State.BUYING and observing:
        return OBSERVED
    line = WHAT_TO_DO[State(state)]
    if state == State.HELD and rule is not None:
        line = (rule in RULES and RULES[rule].advice) or line
    return line.format(namespace=namespace, pod=pod)


CLAIMS_NAMED = 3
MOST = 500  # pods that are explained in one step: the picture is kept at every step and must stay small
MOST_POOLS = 30  # of which it says whether a pod fits


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
        why = "a DaemonSet puts a pod on every node, so no node is bought for it"
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
        self._facts, self._policy = facts, policy
        self._by_label: LabelIndex[Pool] = LabelIndex(policy.pools, lambda pool: pool)
        self._known: dict[Kind, tuple[Fit, ...]] = {}

    def of(self, pod: Pod) -> tuple[Fit, ...]:
        """Say of each pool whether *pod* fits, as the assignment judges it; of more than `MOST_POOLS` pools those that
        fit, and the first others."""
        kind = shape(pod)
        if kind not in self._known:
            self._known[kind] = tuple(self._fits(pod))
        return self._known[kind]

    def _fits(self, pod: Pod) -> Iterator[Fit]:
        pools = self._policy.pools
        if len(pools) > MOST_POOLS:
            fitting = (pool for pool in self._by_label.selected(pod) if self._why(pod, pool) is None)
            named = {pool.id for pool in islice(fitting, MOST_POOLS)}
            named |= {pool.id for pool in pools[: MOST_POOLS - len(named)]}
            pools = tuple(pool for pool in pools if pool.id in named)
        return (Fit(pool=pool.id, name=pool.name, why=self._why(pod, pool)) for pool in pools)

    def _why(self, pod: Pod, pool: Pool) -> str | None:
        return refusal(pod, pool, self._facts.pool(pool.id))


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
