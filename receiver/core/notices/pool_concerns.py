"""What needs a person in one pool: stuck nodes, back-offs, held work, requests of people, odd nodes and pods."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from receiver.core.explain.rules import RULES, guide
from receiver.core.model.actions import ActionKind
from receiver.core.model.model import CordonedBy, Node, PoolState, Stage
from receiver.core.model.pods import PodPhase
from receiver.core.model.policy import Pool, Repair
from receiver.core.model.text import cut, lasting, listed, some
from receiver.core.notices import unplaced_concerns, wording
from receiver.core.notices.action_notices import instead_of
from receiver.core.notices.civo_concerns import drifted, odd_at_civo, undone, unreadable
from receiver.core.notices.held_concerns import of_held, symptom
from receiver.core.notices.notice import GUIDES, Cause, Concern, Level, PoolConcerns, Seen
from receiver.core.notices.pod_concerns import stuck_pods
from receiver.core.scaling.guardrails.waiting import why_backing_off
from receiver.core.scaling.rooms import foreign_taints
from receiver.core.scaling.terminations import is_abandoned
from receiver.core.scaling.waits import (
    LONGEST_PROVISIONING_BACKOFF,
    Direction,
    Shortage,
    Wait,
    WaitKind,
    awaited_since,
    lost_nodes,
    shortage_of,
    stuck_on_the_way,
    waits,
)
from receiver.core.scaling.wanted import Wanted

MOST_DELETED = 3  # pods in a command
LONGEST_REASON = 160  # characters of an error of another system
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"


def of_pool(pool: Pool, seen: Seen, added: Sequence[PoolConcerns] = ()) -> Iterator[Concern]:
    """Return everything about *pool* that needs a person, also what capabilities add, in no order."""
    state, wanted = seen.facts.pool(pool.id), seen.assignment.pools[pool.id]
    concerns: list[Concern] = []
    if pool.id in seen.drifts or state.count.drifts:
        concerns += drifted(pool, state, seen)
    if state.count.unreadable:
        concerns.append(unreadable(pool, state, seen))
    concerns += _stuck(pool, state, seen)
    concerns += _waits(pool, state, wanted, seen)
    concerns += of_held(pool, state, wanted, seen)
    for addition in added:
        concerns += addition.of(pool, seen)
    concerns += _requested(pool, state, wanted, seen)
    if wanted.work.placed or any(held.refusal for held in wanted.work.held):
        concerns += unplaced_concerns.of_pool(pool, state, wanted, seen)
    if state.nodes:
        concerns += _sick_nodes(pool, state, wanted, seen)
        concerns += _unclear_nodes(pool, state, seen)
        concerns += odd_at_civo(pool, state)
        concerns += _usable_nodes(pool, state, wanted, seen)
        concerns += stuck_pods(pool, state, seen)
    return (replace(concern, pool=pool.id) for concern in concerns)


LOOK_AT_NODES = "Look at: the instance at Civo, kubectl describe node, the GPU operator's pods"
STAGES = {
    Stage.BUILDING: "Civo is still building it",
    Stage.BOOTING: "built, but not Ready in Kubernetes",
    Stage.INSTALLING: "Ready, but no allocatable GPUs: check the driver and the device plugin",
    Stage.BROKEN: "broken: no longer Ready, or its GPUs are gone",
}


def _stuck(pool: Pool, state: PoolState, seen: Seen) -> Iterator[Concern]:
    """Nodes that did not become usable in time, or broke for as long: they cost money and run nothing."""
    broken = lost_nodes(pool, state, seen.now)
    lost = [n.name for n in broken if not n.busy or is_abandoned(n, seen.now)]  # `_unclear_nodes` tells of a busy one
    names = (*stuck_on_the_way(pool, state, seen.now), *lost)
    level = seen.level("provisioning_works", "dead_nodes", pool=pool.id)
    failed = state.backoffs.trial
    held = failed is not None and failed.holds(seen.now, LONGEST_PROVISIONING_BACKOFF)
    if names:
        notes = {n.name: n.note or STAGES.get(n.stage, "not usable") for n in state.living}
        budget_left = wording.money_left(wording.tightest(seen.assignment.budgets, pool.id))
        instead = "no other node until they are usable or gone"
        if failed is not None and held:
            instead = f"no other node before {wording.moment(failed.until, seen.now)}"
        yield Concern(
            kind=Cause.STUCK,
            level=level,
            rule="provisioning_works",
            what=f"not usable after {lasting(pool.provision_timeout)}: {listed(names, 2)}",
            why="; ".join(f"{n}: {notes[n]}" if n in notes else n for n in names[:3]),
            cost=f"{wording.an_hour(pool, sum(n.name in names for n in state.living))} for nothing; {budget_left}",
            doing=f"these nodes are deleted if no GPU pod runs on them. The pool buys {instead};"
            " other pools that fit can take the work",
            todo=LOOK_AT_NODES,
            # Its own topic while work waits: a pager, which does not get the warning, gets the failure.
            topic=f"stuck:{pool.id}" + (":waited for" if level is Level.BAD else ""),
            key=",".join(names),
        )
    elif (since := awaited_since(state)) is not None and seen.now - since > pool.provision_timeout:
        yield Concern(
            kind="late",
            level=level,
            rule="provisioning_works",
            what="a requested node is not usable yet",
            since=since,
            doing="no other node of this pool is bought meanwhile; other pools that fit can take the work",
            guide=GUIDES[Cause.STUCK],
        )
    if failed is not None and not names:
        until = (
            f"the next try is at {wording.moment(failed.until, seen.now)}" if held else "one node is being tried now"
        )
        in_a_row = "a new node" if failed.failures == 1 else f"{failed.failures} new nodes in a row"
        fault = "fell sick" if failed == state.backoffs.sickened else "never became usable"
        binds = symptom("provisioning_works", pool, seen)
        yield Concern(
            kind="never_usable",
            level=level,
            rule="provisioning_works",
            what=binds or f"{in_a_row} {fault}",
            why=wording.named(failed.reason, seen.policy),
            doing=f"one node at a time is tried until one works{'' if binds and held else f'; {until}'}",
            todo=LOOK_AT_NODES,
            guide=GUIDES[Cause.STUCK],
        )


SCARCE = (Shortage.STOCK, Shortage.QUOTA)


def _backs_off(pool: Pool, wanted: Wanted, wait: Wait, error: str, seen: Seen) -> Concern:
    """That growth failed, and when it is tried again."""
    rule, scarce = "not_backing_off", shortage_of(wait.reason) in SCARCE
    asking = wording.asked_by([pod for work in wanted.work.asking for pod in work.pods], seen.policy)
    doing = f"the next try is at {wording.moment(wait.until, seen.now)}"
    if wanted.work.asking:
        instead = instead_of(pool, wanted, seen.facts, seen.policy)
        waits_for = f"{listed(instead)} can take the work" if instead else "no other pool can take the work"
        doing = f"it tries again by itself; meanwhile {waits_for}"
    return Concern(
        kind=Cause.OUT_OF_STOCK if scarce else Cause.GROWTH_FAILED,
        level=seen.level(rule, pool=pool.id),
        rule=rule,
        what=symptom(rule, pool, seen) or f"cannot grow: {why_backing_off(wait, pool, seen.now)}",
        why=error,
        whose=wording.whose(asking),
        doing=doing,
    )


def _waits(pool: Pool, state: PoolState, wanted: Wanted, seen: Seen) -> Iterator[Concern]:
    """Back-offs, and changes that others revert; the message about each is that of the action that failed."""
    for wait in waits(pool, state, seen.policy, seen.now):
        until, cause = wording.moment(wait.until, seen.now), wording.named(wait.reason, seen.policy)
        reason = cut(cause, LONGEST_REASON)
        if wait.kind is WaitKind.BACKOFF and wait.direction is Direction.GROW:
            yield _backs_off(pool, wanted, wait, "" if shortage_of(wait.reason) in SCARCE else reason, seen)
        elif wait.kind is WaitKind.BACKOFF:
            yield Concern(
                kind=Cause.REMOVAL_STOPPED,
                what=f"removal{f' of {listed(wait.nodes)}' if wait.nodes else ''} failed",
                why=reason,
                doing=f"the nodes stay and cost money; the next try is at {until}",
            )
        elif wait.kind is WaitKind.UNDONE:
            yield undone(pool, state, wait, seen)
    action = state.open_action
    if action is not None and action.last_error:
        change = "growth" if action.kind is ActionKind.GROW else "removal"
        level = Level.BAD if action.kind is ActionKind.GROW and wanted.work.asking else Level.WARN
        reason = cut(wording.named(action.last_error, seen.policy), LONGEST_REASON)
        kind, what = f"{change}_fails", f"{change} fails"
        yield Concern(kind=kind, level=level, what=what, why=reason, doing="it is retried")


def _requested(pool: Pool, state: PoolState, wanted: Wanted, seen: Seen) -> Iterator[Concern]:
    """What people requested: shown, so that it is not forgotten."""
    if state.silence is not None:
        yield Concern(
            kind="silenced",
            level=seen.level("not_silenced", pool=pool.id, otherwise=Level.NOTE),
            rule="not_silenced",
            what=symptom("not_silenced", pool, seen) or "is paused by a silence",
            why=str(state.silence),
            doing="nothing grows and nothing is removed",
            todo=RULES["not_silenced"].advice,
            guide=guide("not_silenced"),
        )
    for override in wanted.bounds.overrides.all:
        size = f" of {some(override.nodes, 'node')}" if override.nodes is not None else ""
        what = f"has a {override.kind}{size} until {override.until:%Y-%m-%d %H:%M} UTC"
        level, rule = Level.NOTE, ""
        if override is wanted.bounds.overrides.pause:
            rule = "not_paused"
            level = seen.level(rule, pool=pool.id, otherwise=level)
            what = symptom(rule, pool, seen) or what
        yield Concern(kind="override", level=level, rule=rule, what=what, why=f"{override.who}: {override.why}")
    if pool.price_usd_per_hour is None:
        rule = "price_is_known"
        level = seen.level(rule, pool=pool.id)
        advice = RULES[rule].advice
        what = "cannot grow: its price is unknown"
        yield Concern(kind="no_price", level=level, rule=rule, what=what, todo=advice, guide=guide(rule))


def _sick_nodes(pool: Pool, state: PoolState, wanted: Wanted, seen: Seen) -> Iterator[Concern]:
    """Nodes whose GPUs are sick: they cost money, and work that starts there may fail."""
    for node in state.of(Stage.USABLE):
        if not node.health.sick or node.health.since is None:
            continue
        begun = node.instance in wanted.nodes.repairs
        counts = "only its healthy GPUs count" if node.health.partly and not begun else "the node no longer counts"
        goes, replaces = "removed once idle", ". With `repair: replace`, the pool replaces such nodes"
        if pool.repair is Repair.REPLACE:
            replaces = ""
            goes = "removed when they end" if begun else "replaced once `repair_share`, budgets and guardrails allow it"
            careful = state.backoffs.trial
            if not begun and careful is not None and careful.holds(seen.now, LONGEST_PROVISIONING_BACKOFF):
                goes = f"not replaced before {wording.moment(careful.until, seen.now)}: {careful.reason}"
        what, fate, illness = f"sick GPUs on {node.name}", "", f": {node.health.sick}"
        todo = f"Look at: kubectl describe node {node.name}, nvidia-smi on it{replaces}"
        if node.busy:
            what = f"has a sick GPU under {listed([pod.key for pod in node.pods], 1)}: {node.health.sick}"
            fate, illness = "its GPU pods may have failed or hang; ", ""
            todo = f"To move the work: {_deleted(node)}"
        yield Concern(
            kind=Cause.SICK,
            level=Level.BAD if node.busy else Level.WARN,
            what=what,
            title=f"GPU pool {pool.name} {what}" if node.busy else "",
            why=f"{node.name} since {wording.moment(node.health.since, seen.now)}{illness}",
            whose=wording.whose(wording.asked_by(node.pods, seen.policy)),
            cost=wording.an_hour(pool, 1),
            doing=f"{fate}{counts} as capacity, and it is {goes}",
            todo=todo,
            topic=f"sick:{node.instance}",
            key=node.health.since.isoformat(),
        )


def _deleted(node: Node) -> str:
    """The command that moves the GPU pods of *node* to other ones."""
    pods = " && ".join(f"kubectl delete pod -n {pod.namespace} {pod.name}" for pod in node.pods[:MOST_DELETED])
    more = f", and {len(node.pods) - MOST_DELETED} more" if len(node.pods) > MOST_DELETED else ""
    return f"{pods}{more}"


def _unclear_nodes(pool: Pool, state: PoolState, seen: Seen) -> Iterator[Concern]:
    """Nodes that are neither busy nor idle, and those that belong to no instance that Civo lists, while instances seem
    to have no node."""
    for node in state.living:
        describe = f"Look at: kubectl describe node {node.name}"
        spells = [
            (
                node.times.unknown_since,
                f"cannot tell whether {node.name} is idle",
                "its GPUs have been in use since {}, but no GPU pod holds them",
                "the node is kept until this is resolved",
                f"{describe}; nvidia-smi on it shows processes outside pods",
                seen.policy.unknown_after,
            )
        ]
        if (
            node.stage is Stage.BROKEN and node.busy and not is_abandoned(node, seen.now)
        ):  # one that nothing runs on is removed, and told as such
            spells.append(
                (
                    node.times.lost_at,
                    f"has a broken node under {listed([pod.key for pod in node.pods], 1)}",
                    f"{node.name} has not been Ready, or has lacked its GPUs, since {{}}",
                    "the node is kept while a GPU pod is bound to it, and removed once it is empty",
                    f"To move the work: {_deleted(node)}",
                    min(seen.policy.unknown_after, pool.provision_timeout),
                )
            )
        for since, what, happened, doing, todo, patience in spells:
            if since is None or seen.now - since < patience:
                continue
            yield Concern(
                kind=Cause.UNKNOWN,
                level=Level.BAD if node.stage is Stage.BROKEN else Level.WARN,
                what=what,
                title=f"GPU pool {pool.name} {what}" if node.stage is Stage.BROKEN else "",
                why=happened.format(wording.moment(since, seen.now))
                + (f"; {node.note}" if node.civo_status and node.busy else ""),
                whose=wording.whose(wording.asked_by(node.pods, seen.policy)),
                cost=wording.an_hour(pool, 1),
                doing=doing,
                todo=todo,
                topic=f"unknown:{node.instance}",
                key=since.isoformat(),
            )
    missing, many = (Stage.BOOTING, Stage.BROKEN), len(state.unjoined)
    if state.unjoined and any(not n.registered and n.stage in missing for n in state.living):
        yield Concern(
            kind=Cause.UNJOINED,
            what=f"{'1 node matches' if many == 1 else f'{many} nodes match'} no Civo instance",
            why=f"the providerID of {listed(state.unjoined)} matches no Civo instance, and some instances have no node",
            doing="instances without a node are not removed until this is resolved",
            todo="Compare: spec.providerID (civo://INSTANCE) of the nodes with the instances at Civo",
            topic=f"unjoined:{pool.id}",
            key=",".join(state.unjoined),
        )


LEFT_BEHIND = ("ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler", "karpenter.sh/disrupted")


def _tainted(node: Node, pool: Pool, wanted: Wanted, seen: Seen) -> Iterator[Concern]:
    """An idle node with a hard taint that its pool is not configured with: most work cannot start there."""
    taints = foreign_taints(node, pool)
    patience = unplaced_concerns.IGNORED_FOR if wanted.work.gpus else seen.policy.unknown_after
    if (
        not taints
        or node.instance in wanted.nodes.needed
        or node.idle_since is None
        or seen.now - node.idle_since < patience
    ):
        return
    named = listed([f"{t.key}={t.value}:{t.effect}" for t in taints])
    leftover = next((t.key for t in taints if t.key.startswith(LEFT_BEHIND)), "")
    explanation = f"another autoscaler sets {leftover} on a node that it is about to delete, and may leave it behind"
    yield Concern(
        kind=Cause.CORDONED,
        what=f"idle and tainted: {node.name}",
        why=f"it has {named}, which pool {pool.name} is not configured with{f'; {explanation}' if leftover else ''}",
        cost=wording.an_hour(pool, 1),
        doing="only pods that tolerate the taint start there, other work gets another node, and this one is removed"
        " like any idle node",
        todo="To return it: " + "; ".join(f"kubectl taint nodes {node.name} {t.key}:{t.effect}-" for t in taints),
        topic=f"tainted:{node.instance}",
        key=named,
    )


def _usable_nodes(pool: Pool, state: PoolState, wanted: Wanted, seen: Seen) -> Iterator[Concern]:
    """Usable nodes that stay for a pod without a GPU or for a cordon, that are not as configured, or whose pods do not
    start."""
    for node in state.of(Stage.USABLE):
        idle_for = seen.now - node.idle_since if node.idle_since is not None else timedelta(0)
        if node.keep.drain_losses and idle_for >= max(seen.policy.unknown_after, seen.policy.billing.granularity):
            yield _not_drained(node, pool)
        if node.cordon.by is CordonedBy.SOMEONE and node.idle_since and idle_for >= seen.policy.unknown_after:
            yield _cordoned(node, pool, node.idle_since)
        yield from _tainted(node, pool, wanted, seen)
        yield from _misdescribed(node, pool)
        yield from _slow_to_start(node, pool, seen)


def _not_drained(node: Node, pool: Pool) -> Concern:
    release = f"delete the pod, or kubectl annotate pod -n NAMESPACE POD {SAFE_TO_EVICT}=true"
    return Concern(
        kind=Cause.NOT_DRAINED,
        what=f"idle node {node.name} stays for a pod without a GPU",
        why="; ".join(node.keep.drain_losses),
        cost=wording.an_hour(pool, 1),
        doing="the node stays until that pod is gone, or may be evicted",
        todo=f"To release the node: {release}; for a pod of kube-system, add a PodDisruptionBudget that covers it",
        topic=f"not drained:{node.instance}",
        key="; ".join(node.keep.drain_losses),
    )


def _cordoned(node: Node, pool: Pool, idle_since: datetime) -> Concern:
    return Concern(
        kind=Cause.CORDONED,
        what=f"idle and cordoned: {node.name}",
        why="a person or another system cordoned it",
        cost=f"{wording.an_hour(pool, 1)} for nothing",
        doing="it costs that until it is uncordoned or deleted; waiting work gets another node",
        todo=f"To return it: kubectl uncordon {node.name}; if it is broken, delete its instance at Civo",
        topic=f"cordoned:{node.instance}",
        key=idle_since.isoformat(),
    )


def _misdescribed(node: Node, pool: Pool) -> Iterator[Concern]:
    """A node with other GPUs than configured; what DRA serves is learnt from the node itself."""
    offers, health = {r: node.allocatable.get(r, 0) for r in pool.resources}, node.health
    faulty = health.sick or health.since is not None or health.maintained  # `_sick_nodes` tells of that
    if offers != dict(pool.resources) and not (node.beside.dra or faulty):
        yield Concern(
            kind=Cause.MISDESCRIBED,
            what=f"{node.name} offers other GPUs than configured",
            why=f"it offers {_listed(offers)}; the configuration says {_listed(pool.resources)}",
            cost=f"{wording.an_hour(pool, 1)}, whatever it offers",
            doing="the wrong number of nodes is bought until pools[].resources or the node is corrected",
            topic=f"offers:{node.instance}",
            key=_listed(offers),
        )


def _slow_to_start(node: Node, pool: Pool, seen: Seen) -> Iterator[Concern]:
    """Pods that were given a GPU and do not start: an image that cannot be pulled holds a paid GPU."""
    for pod in node.pods:
        since = max(node.times.usable_since or pod.created_at, pod.created_at)
        starting = pod.phase is PodPhase.STARTING and not (pod.daemon or pod.terminating)
        if not starting or seen.now - since < pool.provision_timeout:
            continue
        late = f"is not running after {lasting(pool.provision_timeout)}"
        yield Concern(
            kind=Cause.SLOW_TO_START,
            what=f"{pod.key} has a GPU and does not start",
            title=f"{pod.key} has a GPU and does not start",
            why=f"it was given {node.name} of GPU pool {pool.name} and {late}",
            whose=wording.whose(wording.asked_by([pod], seen.policy)),
            cost=wording.an_hour(pool, 1),
            doing="the node is kept for it",
            todo=f"Look at: kubectl describe pod -n {pod.namespace} {pod.name} (image, volume, init container)",
            topic=f"starting:{pod.uid}",
            key=node.instance,
        )


def _listed(offers: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {resource}" for resource, count in sorted(offers.items()))
