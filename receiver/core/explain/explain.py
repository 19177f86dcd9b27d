"""Say of every pod that waits what becomes of it: where it fits, what it waits for, which rule holds it, what to do."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from enum import StrEnum
from itertools import islice
from zoneinfo import ZoneInfo

from receiver.core.explain.rollouts import Rollouts
from receiver.core.explain.rules import RULES, binding, cause_of, cause_of_gang, plainly, why_refused
from receiver.core.model.actions import ActionKind, Decision
from receiver.core.model.devices import NO_SUCH_GPU
from receiver.core.model.model import CordonedBy, Facts, Stage
from receiver.core.model.pods import Pod, PodPhase, Workload
from receiver.core.model.policy import Policy, Pool
from receiver.core.model.text import cut, listed, some
from receiver.core.promises.promise import UNKNOWN, Promise, Promises
from receiver.core.promises.startup import NOTHING_LEARNT, Learnt
from receiver.core.scaling.capacity import HeldWorkload
from receiver.core.scaling.demand import IGNORED_NAMESPACES, MOST_NAMED, deferred, refusal, workloads
from receiver.core.scaling.guardrails.limits import WITHIN_MAXIMUM
from receiver.core.scaling.guardrails.waiting import COOLED_DOWN
from receiver.core.scaling.market import LabelIndex
from receiver.core.scaling.nominations import in_words
from receiver.core.scaling.rooms import Kind, shape
from receiver.core.scaling.template import NextLabels
from receiver.core.scaling.terminations import leaving_soon
from receiver.core.scaling.wanted import Assignment, PatientWork, Wanted

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
    ROOM_ENDS = "room_ends"  # pods that are Terminating leave their room to it
    ON_ITS_WAY = "on_its_way"  # a node that is being provisioned is meant for it
    BUYING = "buying"  # new nodes are asked for
    MAY_WAIT = "may_wait"  # its deadline leaves time to wait for a GPU that is paid for
    HELD = "held"  # wanted, and a rule holds it back
    GANG_INCOMPLETE = "gang_incomplete"  # pods of its gang do not exist yet
    FITS_NOWHERE = "fits_nowhere"  # no pool can ever hold it
    NOT_DEMAND = "not_demand"  # no node is bought for a pod like this


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What becomes of a workload: its *state*, one sentence, and the pool (an id), rule and node that it is about.

    *nodes* is how many nodes the pool buys, *promise* when it will probably start. *todo* is what a person can do where
    that is not what the rule advises.
    """

    state: State
    detail: str
    pool: str | None = None
    rule: str | None = None
    node: str | None = None
    nodes: int | None = None
    promise: Promise = UNKNOWN
    todo: str = ""


class Place:
    """One pool as waiting pods see it. *coming* are the nodes on their way that waiting work would use; *observing* is
    True where nothing is written, *zone* that of the budgets."""

    def __init__(
        self, facts: Facts, wanted: Wanted, decision: Decision, promises: Promises, zone: tzinfo, observing: bool
    ) -> None:
        self.pool, self.state, self.wanted, self.decision = promises.pool, promises.state, wanted, decision
        self._now, self._zone, self._observing = facts.at, zone, observing
        self._promises = promises
        self._nodes = {n.instance: n for n in self.state.nodes}
        self.coming = tuple(
            n for n in self.state.living if n.stage is not Stage.USABLE and n.instance in wanted.nodes.needed
        )
        self._rollouts = Rollouts(self.state.nodes, facts.at)
        self._new: dict[int, int] = {}  # new nodes that work was given, in the order of service, by their identity
        for room in (room for placement in wanted.work.rooms for room in placement.rooms if room.bought):
            self._new.setdefault(id(room), len(self._new))

    def free(self, instance: str | None) -> Fate:
        """There is room in the usable node *instance*; None: in several, for a gang."""
        node = self._nodes.get(instance) if instance else None
        where = f"GPU pool {self.pool.name}"
        detail = f"usable nodes of {where} have room for all of it, as configured"
        if node is not None:
            detail = f"node {node.name} of {where} is usable and would hold it, as configured"
            detail += "; its removal was called off for that" if node.cordon.by is CordonedBy.US else ""
        name, promise = node.name if node else None, Promise(starts_p50=self._now, starts_p90=self._now)
        return Fate(state=State.FITS_FREE_NODE, detail=detail, pool=self.pool.id, node=name, promise=promise)

    def leaves_room(self, workload: Workload) -> bool:
        """True when *workload* waits for nothing but pods that are Terminating."""
        awaited = self._promises.awaited(workload)
        return bool(awaited) and all(room.vacant_at is not None for room in awaited)

    def _room_ends(self, workload: Workload) -> Fate:
        """What becomes of *workload*, to which pods that are Terminating leave their room."""
        nodes = [self._nodes[room.instance or ""] for room in self._promises.awaited(workload)]
        names = listed([pod.key for n in nodes for pod in leaving_soon(n, self.state, self._now)], MOST_NAMED)
        promise = self._promises.of(workload)
        detail = f"{listed([n.name for n in nodes], MOST_NAMED)} of GPU pool {self.pool.name} has room for it"
        detail += f" when {names}, which is Terminating, has ended{_and(promise.sentence(self._now))}"
        node = nodes[0].name if len(nodes) == 1 else None
        return Fate(state=State.ROOM_ENDS, detail=detail, pool=self.pool.id, node=node, promise=promise)

    def on_its_way(self, workload: Workload) -> Fate:
        """What becomes of *workload*, which was given room in nodes that are being provisioned, or that pods are about
        to leave."""
        if self.leaves_room(workload):
            return self._room_ends(workload)
        nodes, unlisted = self.coming, self.state.unlisted
        where, only = f"GPU pool {self.pool.name}", nodes[0] if len(nodes) == 1 and not self.state.unlisted else None
        if only is not None:
            detail = f"node {only.name} of {where} {only.note or STAGES.get(only.stage, 'is on its way')}"
        elif nodes:
            detail = f"{some(len(nodes) + unlisted, 'node')} of {where} are on their way"
        else:
            detail = f"{some(unlisted, 'node')} of {where} {'is' if unlisted == 1 else 'are'} asked for at Civo"
        promise = self._promises.of(workload)
        detail += _and(promise.sentence(self._now))
        node = only.name if only else None
        todo = PULL_AHEAD if promise.pulls_most(self._now) else ""
        return Fate(state=State.ON_ITS_WAY, detail=detail, pool=self.pool.id, node=node, promise=promise, todo=todo)

    def asked(self, workload: Workload) -> Fate:
        """New nodes are wanted for *workload*: they are bought, or a rule holds them."""
        before, after = self.decision.present, self.decision.target
        refused = self.wanted.work.refused.get(workload.key)
        if refused is not None:
            ends = refused.view.ends_at
            reason = binding(self.decision)
            same = reason is not None and reason.rule == refused.rule
            cause = f"does not grow for it: {cause_of(reason) if reason is not None and same else refused.why}"
            cause += f"; held until {ends.astimezone(self._zone):%-d %b}" if ends is not None else ""
            return self.held(refused.rule, cause, Promise(until=ends))
        if not self._buys_for(workload):
            reason = binding(self.decision) or self.decision.deciding
            how_far = f"grows only to {some(after, 'node')}" if after > before else "does not grow"
            # Only a cooldown ends for certain, and nothing but the start of the node comes after it.
            cools = reason.rule == COOLED_DOWN.name and not self._observing
            promise = self._promises.of(workload) if cools else Promise(until=reason.until)
            cause = f"{how_far}: {cause_of(reason)}{_and(promise.sentence(self._now))}"
            return self.held(reason.rule, cause, promise)
        change = f"from {before} to {some(after, 'node')}"
        if self._observing:
            detail = f"GPU pool {self.pool.name} would grow {change}; in observe mode nothing is bought"
            return Fate(state=State.BUYING, detail=detail, pool=self.pool.id)
        action = self.state.open_action
        error = action.last_error if action is not None and action.kind is ActionKind.GROW else ""
        promise = UNKNOWN if error else self._promises.of(workload)
        note = f"the last try failed: {error}" if error else promise.sentence(self._now) if promise.learnt else ""
        return Fate(
            state=State.BUYING,
            detail=f"GPU pool {self.pool.name} grows {change}{_and(note)}",
            pool=self.pool.id,
            nodes=after - before,
            promise=promise,
            todo=PULL_AHEAD if promise.pulls_most(self._now) else "",
        )

    def held(self, rule: str, reason: str, promise: Promise) -> Fate:
        """*rule* keeps the pool from growing for it."""
        detail = f"GPU pool {self.pool.name} {reason}"
        return Fate(state=State.HELD, detail=detail, pool=self.pool.id, rule=rule, promise=promise)

    def rolled_out(self, workload: Workload, fate: Fate) -> Fate:
        """*fate*, by which a rule holds *workload*: with the deadlock of its rolling update, if that is what it is."""
        passing = fate.rule is not None and fate.rule in RULES and RULES[fate.rule].passing
        rollout = None if passing else self._rollouts.of(workload)
        if rollout is None or not (rollout.deadlocked and rollout.settled):
            return fate
        todo = rollout.remedy(room_for(fate.rule, self.pool, self.wanted))
        return replace(fate, detail=f"{rollout}; {fate.detail}", todo=todo)

    def _buys_for(self, workload: Workload) -> bool:
        """True when the nodes that the decision leaves reach *workload*, by the order of service.

        A gang asks only if every check leaves it all its nodes; what is left of them goes to those behind it.
        """
        bought = max(0, self.decision.target - self.decision.present)
        if bought == 0 or bought >= self.wanted.for_demand:
            return bought > 0
        rooms = (r for p in self.wanted.work.rooms if p.workload.key == workload.key for r in p.rooms)
        return workload.gang or all(self._new.get(id(room), 0) < bought for room in rooms)


def room_for(rule: str | None, pool: Pool, wanted: Wanted) -> str:
    """How *pool*, which *rule* keeps from growing, could get a node for the time of a rolling update."""
    if rule == WITHIN_MAXIMUM.name and wanted.bounds.max_nodes >= pool.max_nodes:
        return f"raise max_nodes of pool {pool.name} (now {pool.max_nodes}) meanwhile"
    return f"let pool {pool.name} have a node more meanwhile, which this refuses: {plainly(rule or '')}"


def _and(clause: str) -> str:
    return f"; {clause}" if clause else ""


# {pod} is its name and {namespace} its namespace.
WHAT_TO_DO = {
    State.FITS_FREE_NODE: (
        "compare `kubectl describe pod -n {namespace} {pod}` with the node: volumes, pod affinity, topology "
        "spread, labels, taints; another node like it would not help, so none is bought"
    ),
    State.ROOM_ENDS: (
        "nothing: it starts when those pods have ended; if one stays Terminating, look at its finalizers and its node: "
        "two minutes after its grace period another node is bought"
    ),
    State.ON_ITS_WAY: (
        "nothing: it starts once the node's GPUs are allocatable; if that takes too long, look at the instance at "
        "Civo and at the GPU operator's pods on the node"
    ),
    State.BUYING: "nothing: in a minute this says which node is on its way",
    State.MAY_WAIT: "to start it now, remove its annotation gpu-autoscaler.io/may-wait and its scheduling gate",
    State.HELD: "read about the rule in docs/guardrails.md",
    State.GANG_INCOMPLETE: (
        "see why the gang's other pods do not exist: its controller, its queue, a quota of namespace {namespace}"
    ),
    State.FITS_NOWHERE: "change the pod, or configure a pool that offers what it asks for; each pool's line says why",
    State.NOT_DEMAND: "nothing: no pool grows for a pod like this",
}
PULL_AHEAD = (
    "nothing; most of the wait is the pull of its image, which k8s/workloads/cluster/pre-pull.yaml begins as soon as a "
    "node is Ready"
)
UNLIKE_ANY = "correct the selectors of the claim, or describe the pool's GPUs in pools[].devices where none is known"
OBSERVED = "set mode: act, or grow the pool by hand: in observe mode nothing is bought"


def what_to_do(state: str, rule: str | None, *, namespace: str, pod: str, observing: bool = False) -> str | None:
    """One line for the owner of *pod* that waits in *state*, held by *rule* (None: by none); None for a state that
    is not known here. *observing* is True where nothing is written."""
    if state not in set(State):
        return None
    if state == State.BUYING and observing:
        return OBSERVED
    line = WHAT_TO_DO[State(state)]
    if state == State.HELD and rule is not None and rule in RULES:
        line = RULES[rule].advice or line
    return line.format(namespace=namespace, pod=pod)


MOST = 500  # pods that are explained in one step: the picture is kept at every step and must stay small
MOST_POOLS = 30  # of which it says whether a pod fits
LONGEST_CLAIM = 120  # characters of what one claim asks for
NOT_COUNTED = "the last step did not count it as demand"


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
    learnt: Learnt = NOTHING_LEARNT,
) -> Iterator[Explanation]:
    """Explain waiting pods in the order of service (priority, then age), those that are no demand after all others.
    *decisions* are by pool id; *observing* is True where nothing is written, *learnt* is what the ledger says of past
    nodes."""
    fits, demand = _fitting(facts, policy), set[str]()
    for workload, fate in fates(facts, assignment, decisions, policy, observing=observing, learnt=learnt):
        for pod in workload.pods:
            demand.add(pod.key)
            yield Explanation(pod=pod, workload=workload, fate=fate, fits=fits(pod))
    for pod in facts.waiting:
        if pod.key not in demand:
            where = () if pod.claiming.not_bought else fits(pod)
            yield Explanation(pod=pod, workload=None, fate=_no_demand(pod), fits=where)


def fates(
    facts: Facts,
    assignment: Assignment,
    decisions: Mapping[str, Decision],
    policy: Policy,
    *,
    observing: bool = False,
    learnt: Learnt = NOTHING_LEARNT,
) -> Iterator[tuple[Workload, Fate]]:
    """Yield what becomes of each waiting workload, in the order of service; the arguments are those of `explain`."""
    zone = ZoneInfo(policy.timezone)
    places = []
    for pool in policy.pools:
        wanted, decision = assignment.pools[pool.id], decisions[pool.id]
        promises = Promises(pool, facts.pool(pool.id), wanted, decision, learnt, facts.at)
        places.append(Place(facts, wanted, decision, promises, zone, observing))
    by_id: Mapping[str | None, Place] = {place.pool.id: place for place in places}
    patient = {p.workload.key: p for p in assignment.patient}
    misfits = {m.workload.key: m.detail for m in assignment.misfits}
    held = {h.workload: (x, h) for x in places for h in x.wanted.work.held}
    placed = {key: (x, instance) for x in places for key, instance in x.wanted.work.placed}
    asking: dict[str, list[Place]] = {}
    settled: dict[str, list[Place]] = {}
    for place in places:
        for work in place.wanted.work.asking:
            asking.setdefault(work.key, []).append(place)
        for key in place.wanted.work.settled:
            settled.setdefault(key, []).append(place)
    for workload in (*workloads(facts.waiting, facts.other_work.bound_gangs), *deferred(facts)):
        key, fate = workload.key, Fate(state=State.NOT_DEMAND, detail=NOT_COUNTED)
        if key in patient or workload.pods[0].phase is PodPhase.DEFERRED:
            fate = _may_wait(patient.get(key), observing)
        elif key in misfits:
            detail = misfits[key] if workload.gang else "no GPU pool can hold it"  # `fits` has each pool's reason
            fate = Fate(state=State.FITS_NOWHERE, detail=detail)
        elif key in held:
            fate = _held(*held[key])
        elif key in asking:
            pool_fates = [place.asked(workload) for place in asking[key]]  # a gang may ask several pools
            fate = _last_to_start([*pool_fates, *_coming(workload, settled.get(key, ()))])
        elif key in placed:
            place, instance = placed[key]
            fate = place.free(instance)
        elif key in settled:  # a gang may have room in usable nodes alone, and in several pools
            coming_fates = _coming(workload, settled[key])
            fate = _last_to_start(coming_fates) if coming_fates else settled[key][0].free(None)
        fate = _with_rollout(workload, fate, by_id)
        yield workload, _with_nomination(workload, _with_claims(workload, fate))


def _held(place: Place, held: HeldWorkload) -> Fate:
    state = State.GANG_INCOMPLETE if held.rule == "gang_is_complete" else State.HELD
    detail = cause_of_gang(held)
    fate = Fate(state=state, detail=detail, pool=place.pool.id, rule=held.rule)
    if held.refusal is None:
        return fate
    return replace(fate, detail=why_refused(held.refusal), promise=Promise(until=held.refusal.until))


def _coming(work: Workload, settled: Sequence[Place]) -> Sequence[Fate]:
    mine = [p for p in settled if p.coming or p.state.unlisted or not work.gang or p.leaves_room(work)]
    return [place.on_its_way(work) for place in mine]


def _last_to_start(pool_fates: Sequence[Fate]) -> Fate:
    """The one of *pool_fates* that the whole of a gang waits for: what is held, or starts last."""
    last = pool_fates[0]
    for fate in pool_fates[1:]:
        last = fate if fate.promise.after(last.promise) else last
    return next((fate for fate in pool_fates if fate.state is State.HELD), last)


def _may_wait(work: PatientWork | None, observing: bool) -> Fate:
    """What becomes of *work* that may wait; None: it waits for nothing any more, and its gate is still there."""
    if work is None:
        gate = "stays in observe mode" if observing else "is being removed"
        return Fate(state=State.MAY_WAIT, detail=f"it may wait no longer: its scheduling gate {gate}")
    detail = work.why + ("; in observe mode nothing is bought" if observing else "")
    promise = UNKNOWN if observing else Promise(starts_p90=work.starts_by, until=work.buys_at)
    return Fate(state=State.MAY_WAIT, detail=detail, promise=promise)


def _with_rollout(workload: Workload, fate: Fate, places: Mapping[str | None, Place]) -> Fate:
    held = fate.state is State.HELD and fate.pool in places
    return places[fate.pool].rolled_out(workload, fate) if held else fate


def _with_claims(workload: Workload, fate: Fate) -> Fate:
    pod = next((pod for pod in workload.pods if pod.claiming.words), None)
    return fate if pod is None else replace(fate, detail=f"it claims {claimed(pod)}; {fate.detail}")


def _with_nomination(workload: Workload, fate: Fate) -> Fate:
    lapsed = (in_words(pod.nomination) for pod in workload.pods if pod.nomination is not None)
    lapse = next(filter(None, lapsed), "")
    return replace(fate, detail=f"it {lapse}; {fate.detail}") if lapse else fate


def by_claim(pod: Pod) -> str:
    """Why no node is bought for *pod*, which claims devices by Dynamic Resource Allocation."""
    return f"it claims {claimed(pod)}; no node is bought for it: {pod.claiming.not_bought}"


def claimed(pod: Pod) -> str:
    return listed([cut(words, LONGEST_CLAIM) for words in pod.claiming.words], MOST_NAMED)


def _no_demand(pod: Pod) -> Fate:
    reason = by_claim(pod) if pod.claiming.not_bought else NOT_COUNTED
    todo = UNLIKE_ANY if pod.claiming.not_bought == NO_SUCH_GPU else ""
    if pod.daemon:
        reason = "a DaemonSet puts a pod on every node, so no node is bought for it"
    elif pod.terminating:
        reason = "it is being deleted"
    elif pod.namespace in IGNORED_NAMESPACES:
        reason = f"pods of namespace {pod.namespace} belong to the GPU operator or KAI, so no node is bought for them"
    return Fate(state=State.NOT_DEMAND, detail=reason, todo=todo)


def _fitting(facts: Facts, policy: Policy) -> Callable[[Pod], tuple[Fit, ...]]:
    """What says of each pool whether a pod fits, as the assignment judges it: of more than `MOST_POOLS` pools, those
    that fit and the first others. Pods of one shape are matched once."""
    by_label: LabelIndex[Pool] = LabelIndex(policy.pools, lambda pool: NextLabels(pool, facts.pool(pool.id).offer))
    by_kind: dict[Kind, tuple[Fit, ...]] = {}

    def fits(pod: Pod) -> tuple[Fit, ...]:
        kind, pools = shape(pod), policy.pools
        if kind not in by_kind:
            if len(pools) > MOST_POOLS:
                fitting = (p for p in by_label.selected(pod) if refusal(pod, p, facts.pool(p.id)) is None)
                named = {p.id for p in islice(fitting, MOST_POOLS)}
                named |= {p.id for p in pools[: MOST_POOLS - len(named)]}
                pools = tuple(p for p in pools if p.id in named)
            by_kind[kind] = tuple(Fit(pool=p.id, name=p.name, why=refusal(pod, p, facts.pool(p.id))) for p in pools)
        return by_kind[kind]

    return fits
