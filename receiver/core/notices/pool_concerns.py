"""What needs a person in one pool: stuck nodes, back-offs, held work, requests of people, odd nodes and pods."""

from collections.abc import Iterator, Mapping
from datetime import timedelta

from receiver.core.explain.rules import RULES, SPEAKS_UP, guide, plainly
from receiver.core.model.actions import ActionKind, Decision, Reason
from receiver.core.model.approval_request import sentence
from receiver.core.model.model import Facts, Node, PoolState, Stage
from receiver.core.model.pods import Pod, PodPhase, Workload
from receiver.core.model.policy import Pool
from receiver.core.model.text import cut, lasting, some
from receiver.core.notices import wording
from receiver.core.notices.notice import GUIDES, Cause, Concern, Level, Seen
from receiver.core.scaling.approval import is_wanted
from receiver.core.scaling.assign import Wanted
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
    undone_by_others,
    waits,
)

SILENT_FOR = timedelta(minutes=2)  # a source that misses one answer is no news
IGNORED_FOR = timedelta(minutes=2)  # the scheduler needs a moment after a node became usable
NEWS_FOR = timedelta(minutes=5)  # a return is news for that long
A_DAY = timedelta(days=1)
LONGEST_REASON = 160  # characters of an error of another system
CLEAR = "clear"
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
DOCTOR = "gpu-autoscaler doctor --only kubernetes"


def of_pool(pool: Pool, seen: Seen) -> Iterator[Concern]:
    """Return everything about *pool* that needs a person, in no order."""
    state, wanted = seen.facts.pool(pool.id), seen.assignment.pools[pool.id]
    yield from _drifted(pool, state, seen)
    yield from _stuck(pool, state, seen)
    yield from _waits(pool, state, seen)
    yield from _held(pool, wanted, seen)
    yield from _asked(pool, state, wanted, seen)
    yield from _by_people(pool, state, wanted)
    yield from _unused(pool, state, wanted, seen)
    yield from _unknown(pool, state, seen)
    yield from _not_drained(pool, state, seen)
    yield from _misdescribed(pool, state)
    yield from _unjoined(pool, state)
    yield from _slow_to_start(pool, state, seen)
    if pool.price_usd_per_hour is None:
        yield Concern(
            kind="no_price",
            level=Level.WARN,
            what="cannot grow: its price is unknown",
            pool=pool.id,
            todo=RULES["price_is_known"].advice,
            guide=guide("price_is_known"),
        )


def _drifted(pool: Pool, state: PoolState, seen: Seen) -> Iterator[Concern]:
    """A count that changed outside the autoscaler: the new one is adopted."""
    drift, lately = seen.drifts.get(pool.id), sum(seen.now - d.at < A_DAY for d in state.drifts)
    if drift is None and not lately:
        return
    topic = key = cost = ""
    what = f"node count changed outside the autoscaler {some(lately, 'time')} in the last day"
    doing = "the new count is kept"
    if drift is not None:
        grew = drift.to_count > drift.from_count
        undone = undone_by_others(state, seen.now, grows=not grew)
        what = f"node count changed outside the autoscaler, {drift.from_count} -> {drift.to_count}"
        doing += "; idle nodes go in their time" if grew else "; the pool grows when GPU work waits"
        if undone is not None:
            doing = (
                f"this reverts our own change again: the count is left alone until {wording.moment(undone, seen.now)}"
            )
        cost = wording.costs(pool, seen.assignment.budgets, drift.to_count, drift.from_count)
        topic = f"drift:{pool.id}:{drift.from_count}:{drift.to_count}"  # a count that flaps is told once an hour
        key = f"{drift.at:%Y-%m-%dT%H}"
    yield Concern(
        kind=Cause.DRIFT,
        level=Level.WARN,
        what=what,
        pool=pool.id,
        cost=cost,
        doing=doing,
        todo="Look at: Terraform, Cluster Autoscaler, Civo's dashboard: only one of them should size a pool",
        guide=GUIDES[Cause.DRIFT],
        topic=topic,
        key=key,
    )


STAGES = {
    Stage.BUILDING: "Civo still builds it",
    Stage.BOOTING: "built, but not Ready in Kubernetes",
    Stage.INSTALLING: "Ready, but without GPUs: driver or device plugin",
    Stage.BROKEN: "broken: no longer Ready, or its GPUs are gone",
}


def _stuck(pool: Pool, state: PoolState, seen: Seen) -> Iterator[Concern]:
    """Nodes that did not become usable in time, or broke for as long: they cost money and run nothing."""
    names = (*stuck_on_the_way(pool, state, seen.now), *(n.name for n in lost_nodes(pool, state, seen.now)))
    failed = state.provisioning
    held = failed is not None and failed.holds(seen.now, LONGEST_PROVISIONING_BACKOFF)
    if names:
        paid = [n for n in state.living if n.name in names]
        instead = "The pool buys no node until that is resolved; other pools that fit take the work"
        if failed is not None and held:
            until = wording.moment(failed.until, seen.now)
            instead = f"The pool buys no other node before {until}; other pools that fit take the work"
        known = {n.name: n.note or STAGES.get(n.stage, "not usable") for n in state.living}
        yield Concern(
            kind=Cause.STUCK,
            level=Level.BAD,
            what=f"not usable within {lasting(pool.provision_timeout)}: {wording.named(names, 2)}",
            pool=pool.id,
            why="; ".join(f"{n}: {known[n]}" if n in known else n for n in names[: wording.NAMED]),
            cost=f"{wording.an_hour(pool, len(paid))} for nothing;"
            f" {wording.money_left(wording.tightest(seen.assignment.budgets, pool.id))}",
            doing=f"a node that nothing runs on is removed by name. {instead}",
            todo="Look at: the instance at Civo, kubectl describe node, the GPU operator's pods",
            guide=GUIDES[Cause.STUCK],
            topic=f"stuck:{pool.id}",
            key=",".join(names),
        )
    elif (since := awaited_since(state)) is not None and seen.now - since > pool.provision_timeout:
        yield Concern(
            kind="late",
            level=Level.BAD,
            what="a requested node is not usable yet",
            pool=pool.id,
            since=since,
            doing="nothing more is bought here meanwhile; other pools that fit take the work",
            guide=GUIDES[Cause.STUCK],
        )
    if failed is not None and not names:
        until = f"the next try is at {wording.moment(failed.until, seen.now)}" if held else "one node is on trial"
        yield Concern(
            kind="never_usable",
            level=Level.BAD,
            what=f"{some(failed.failures, 'node')} in a row never became usable",
            pool=pool.id,
            why=failed.reason,
            doing=f"one node at a time is tried until one works; {until}",
            guide=GUIDES[Cause.STUCK],
        )


SCARCE = {
    Shortage.STOCK: (Cause.OUT_OF_STOCK, "Civo has no GPU of its kind free"),
    Shortage.QUOTA: (Cause.OUT_OF_STOCK, "the account's quota at Civo is used up"),
}


def _waits(pool: Pool, state: PoolState, seen: Seen) -> Iterator[Concern]:
    """Back-offs, and changes that others revert; the message about each is that of the action that failed."""
    for wait in waits(pool, state, seen.policy, seen.now):
        again = f"the next try is at {wording.moment(wait.until, seen.now)}"
        if wait.kind is WaitKind.BACKOFF and wait.direction is Direction.GROW:
            other = Cause.GROWTH_FAILED, cut(wait.reason, LONGEST_REASON)
            kind, reason = SCARCE.get(shortage_of(wait.reason), other)
            doing = f"other pools that fit take the work meanwhile; {again}"
            yield Concern(
                kind=kind, level=Level.BAD, what=f"cannot grow: {reason}", pool=pool.id, doing=doing, guide=GUIDES[kind]
            )
        elif wait.kind is WaitKind.BACKOFF:
            yield _no_removal(pool, wait, again)
        elif wait.kind is WaitKind.UNDONE:
            yield Concern(
                kind="undone",
                level=Level.BAD,
                what=f"is left alone until {wording.moment(wait.until, seen.now)}",
                pool=pool.id,
                why=wait.reason,
                todo=RULES["not_undone_by_others"].advice,
                guide=guide("not_undone_by_others"),
            )
    action = state.open_action
    if action is not None and action.last_error:
        change = "growth" if action.kind is ActionKind.GROW else "removal"
        yield Concern(
            kind=f"{change}_fails",
            level=Level.WARN,
            what=f"{change} fails",
            pool=pool.id,
            why=cut(action.last_error, LONGEST_REASON),
            doing="it is tried again",
        )


def _no_removal(pool: Pool, wait: Wait, again: str) -> Concern:
    return Concern(
        kind=Cause.REMOVAL_STOPPED,
        level=Level.WARN,
        what=f"removal{f' of {wording.named(wait.nodes)}' if wait.nodes else ''} failed",
        pool=pool.id,
        why=cut(wait.reason, LONGEST_REASON),
        doing=f"the nodes stay and cost money; {again}",
        guide=GUIDES[Cause.REMOVAL_STOPPED],
    )


def _held(pool: Pool, wanted: Wanted, seen: Seen) -> Iterator[Concern]:
    """Work that waits because of a guardrail that a person could change; a message is sent once per rule and day."""
    decision = seen.decisions[pool.id]
    told = [r for r in decision.reasons if r.verdict in SPEAKS_UP and r.rule in RULES and RULES[r.rule].told]
    reason = next(iter(told + [r for r in decision.reasons if r.rule == "gangs_whole"]), None)
    waiting = wanted.asking or _held_back(wanted, seen.facts)
    if reason is None or not waiting:
        return
    asking = wording.asked_by([p for w in waiting for p in w.pods], seen.policy)
    grows = decision.target > decision.present
    how_far = f"grows to {some(decision.target, 'node')} only" if grows else "does not grow"
    yield Concern(
        kind=Cause.HELD,
        level=Level.BAD if reason.rule == "within_budget" else Level.WARN,
        what=f"{how_far}: {plainly(reason.rule)}",
        title=f"GPU pool {pool.name} {how_far}: {plainly(reason.rule)}",
        pool=pool.id,
        why=_why_held(reason, wanted),
        whose=wording.whose(asking),
        cost=wording.costs(pool, seen.assignment.budgets, decision.target, teams=wording.teams_asking(asking)),
        doing=_what_would_change(reason, decision),
        guide=guide(reason.rule),
        decision=seen.numbers.get(pool.id),
        topic=f"held:{pool.id}:{reason.rule}",  # a topic of its own: rules that take turns are no news
        key=f"{decision.at:%Y-%m-%d}",
    )


def _held_back(wanted: Wanted, facts: Facts) -> tuple[Workload, ...]:
    """The workloads that got no room, as their pods show them."""
    keys = dict.fromkeys(held.workload for held in wanted.held)
    return tuple(Workload(key=key, pods=pods) for key in keys if (pods := facts.waiting_of(key)))


def _why_held(reason: Reason, wanted: Wanted) -> str:
    """Why it is held, with the rule that leaves a gang too few nodes in words."""
    met = next((held.met for held in wanted.held if held.met and held.detail == reason.detail), None)
    if met is None:
        return reason.detail
    needs = reason.detail.partition(f", and {met} leaves fewer")[0]
    return f"{needs}; fewer are left, because {plainly(met)}"


def _what_would_change(reason: Reason, decision: Decision) -> str:
    """What would let it grow: what a person can do, and what happens by itself."""
    if reason.rule == "gangs_whole":
        return "it waits until there is room for all of them at once"
    stored = decision.evidence.get("what_would_change", ())
    helps = [remedy["text"] for remedy in stored if remedy["rule"] == reason.rule]
    ways = dict.fromkeys([*helps[:1], *helps[-1:]])
    return f"it waits. What would change that: {'; or '.join(ways)}" if ways else "it waits"


def _asked(pool: Pool, state: PoolState, wanted: Wanted, seen: Seen) -> Iterator[Concern]:
    for question in (q for q in seen.facts.questions if q.pool == pool.id):
        if question.is_open(seen.now) and is_wanted(question, state, wanted):
            yield Concern(
                kind="question",
                level=Level.WARN,
                what="waits for an approval",
                pool=pool.id,
                why=sentence(question, seen.now),
                todo=f"answer from the message, or with `gpu-autoscaler answer {question.id} approve`",
                guide=GUIDES[Cause.ASKS],
                question=question.id,
            )


def _by_people(pool: Pool, state: PoolState, wanted: Wanted) -> Iterator[Concern]:
    """What people requested: shown, so that it is not forgotten."""
    if state.silence is not None:
        yield Concern(
            kind="silenced",
            level=Level.NOTE,
            what="is paused by a silence",
            pool=pool.id,
            why=str(state.silence),
            doing="nothing grows and nothing is removed",
            todo=RULES["not_silenced"].advice,
            guide=guide("not_silenced"),
        )
    for override in wanted.bounds.overrides.all:
        size = f" of {some(override.nodes, 'node')}" if override.nodes is not None else ""
        yield Concern(
            kind="override",
            level=Level.NOTE,
            what=f"has a {override.kind}{size} until {override.until:%Y-%m-%d %H:%M} UTC",
            pool=pool.id,
            why=f"{override.who}: {override.why}",
        )


# --- nodes and pods


def _unused(pool: Pool, state: PoolState, wanted: Wanted, seen: Seen) -> Iterator[Concern]:
    """Pods that wait although a usable node would hold them as configured; told once per pod and node."""
    nodes = {n.instance: n for n in state.nodes}
    for workload, instance in wanted.placed:
        node = nodes[instance]
        pod = next((p for p in reversed(seen.facts.waiting_of(workload)) if p.key == workload), None)
        since = node.idle_since or node.usable_since
        if pod is None or since is None or node.closed_for is not None:
            continue
        if seen.now - max(since, pod.created_at, seen.reopened.get(pool.id, since)) < IGNORED_FOR:
            continue
        yield Concern(
            kind=Cause.UNUSED,
            level=Level.WARN,
            what=f"{workload} waits beside a usable node",
            title=f"{workload} waits beside a usable node of GPU pool {pool.name}",
            pool=pool.id,
            why=f"by the configuration {node.name} would hold it: {_differs(node, pool, pod)}",
            whose=wording.whose(wording.asked_by([pod], seen.policy)),
            cost=f"{wording.an_hour(pool, 1)} for a node that it does not use",
            doing="no other node is bought for it: it would be like this one",
            todo=f"Look at: kubectl describe pod -n {pod.namespace} {pod.name}, beside the node",
            guide=GUIDES[Cause.UNUSED],
            topic=f"ignored:{workload}",
            key=f"{pod.uid}:{instance}",
        )


def _differs(node: Node, pool: Pool, pod: Pod) -> str:
    """How *node* differs from the configuration of its pool, or else what the scheduler says."""
    labels = [f"{k}={v}" for k, v in sorted(pool.labels.items()) if node.labels.get(k) != v]
    extra = [f"{t.key}={t.value}:{t.effect}" for t in node.taints if t not in pool.taints]
    said = [f"it lacks the labels {', '.join(labels)}"] if labels else []
    said += [f"it has the extra taints {', '.join(extra)}"] if extra else []
    scheduler = f"; the scheduler says: {pod.scheduler_says}" if pod.scheduler_says else ""
    usual = "its labels and taints are as configured, so look at volumes, pod affinity and topology spread"
    return (" and ".join(said) or usual) + scheduler


def _unknown(pool: Pool, state: PoolState, seen: Seen) -> Iterator[Concern]:
    """Nodes that have been neither busy nor idle for long: nothing removes them, so a person must look."""
    for node in state.living:
        spells = [(node.unknown_since, "its GPUs are in use, but no GPU pod holds them")]
        if node.stage is Stage.BROKEN and node.busy:  # one that nothing runs on is removed, and told as such
            spells.append((node.lost_at, "it was usable and is no longer Ready, or lost its GPUs"))
        for since, happened in spells:
            if since is None or seen.now - since < seen.policy.unknown_after:
                continue
            yield Concern(
                kind=Cause.UNKNOWN,
                level=Level.WARN,
                what=f"cannot tell whether {node.name} is idle",
                pool=pool.id,
                why=f"since {wording.moment(since, seen.now)} {happened}",
                whose=wording.whose(wording.asked_by(node.pods, seen.policy)),
                cost=wording.an_hour(pool, 1),
                doing="the node is kept until that is resolved",
                todo=f"Look at: kubectl describe node {node.name}; nvidia-smi on it shows processes outside pods",
                guide=GUIDES[Cause.UNKNOWN],
                topic=f"unknown:{node.instance}",
                key=since.isoformat(),
            )


def _not_drained(pool: Pool, state: PoolState, seen: Seen) -> Iterator[Concern]:
    """Idle nodes that stay for a pod without a GPU: beyond their first paid unit they cost money for it."""
    after = max(seen.policy.unknown_after, seen.policy.billing.granularity)
    for node in state.of(Stage.USABLE):
        if node.idle_since is None or not node.kept_by or seen.now - node.idle_since < after:
            continue
        yield Concern(
            kind=Cause.NOT_DRAINED,
            level=Level.WARN,
            what=f"idle node {node.name} stays for a pod without a GPU",
            pool=pool.id,
            why="; ".join(node.kept_by),
            cost=wording.an_hour(pool, 1),
            doing="the node stays until that pod is gone, or may be evicted",
            todo=f"To release the node: delete the pod, or kubectl annotate pod -n NAMESPACE POD {SAFE_TO_EVICT}=true;"
            " for a pod of kube-system, add a PodDisruptionBudget that covers it",
            guide=GUIDES[Cause.NOT_DRAINED],
            topic=f"not drained:{node.instance}",
            key="; ".join(node.kept_by),
        )


def _misdescribed(pool: Pool, state: PoolState) -> Iterator[Concern]:
    """Usable nodes that offer other GPUs than configured: demand is worked out from a wrong number."""
    for node in state.of(Stage.USABLE):
        offers = {r: node.allocatable.get(r, 0) for r in pool.resources}
        if offers != dict(pool.resources):
            yield Concern(
                kind=Cause.MISDESCRIBED,
                level=Level.WARN,
                what=f"{node.name} offers other GPUs than configured",
                pool=pool.id,
                why=f"it offers {_listed(offers)}; the configuration says {_listed(pool.resources)}",
                cost=f"{wording.an_hour(pool, 1)}, whatever it offers",
                doing="the wrong number of nodes is bought until pools[].resources or the node is corrected",
                guide=GUIDES[Cause.MISDESCRIBED],
                topic=f"offers:{node.instance}",
                key=_listed(offers),
            )


def _listed(offers: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {resource}" for resource, count in sorted(offers.items()))


def _unjoined(pool: Pool, state: PoolState) -> Iterator[Concern]:
    """Nodes that belong to no instance that Civo lists, while instances seem to have no node."""
    missing = (Stage.BOOTING, Stage.BROKEN)
    if state.unjoined and any(not n.registered and n.stage in missing for n in state.living):
        yield Concern(
            kind=Cause.UNJOINED,
            level=Level.WARN,
            what=f"{some(len(state.unjoined), 'node')} of no instance that Civo lists",
            pool=pool.id,
            why=f"{wording.named(state.unjoined)}: the provider id names no instance of Civo, and some instances"
            " seem to have no node",
            doing="no instance without a node is removed until that is resolved",
            todo="Look at: spec.providerID (civo://INSTANCE) of the nodes, beside the instances at Civo",
            guide=GUIDES[Cause.UNJOINED],
            topic=f"unjoined:{pool.id}",
            key=",".join(state.unjoined),
        )


def _slow_to_start(pool: Pool, state: PoolState, seen: Seen) -> Iterator[Concern]:
    """Pods that have a node and do not start: an image that cannot be pulled holds a paid GPU."""
    for node in state.of(Stage.USABLE):
        for pod in node.pods:
            since = max(node.usable_since or pod.created_at, pod.created_at)
            starting = pod.phase is PodPhase.STARTING and not (pod.daemon or pod.terminating)
            if not starting or seen.now - since < pool.provision_timeout:
                continue
            yield Concern(
                kind=Cause.SLOW_TO_START,
                level=Level.WARN,
                what=f"{pod.key} has a GPU and does not start",
                title=f"{pod.key} has a GPU and does not start",
                pool=pool.id,
                why=f"it was given {node.name} of GPU pool {pool.name} and is not running after"
                f" {lasting(pool.provision_timeout)}",
                whose=wording.whose(wording.asked_by([pod], seen.policy)),
                cost=wording.an_hour(pool, 1),
                doing="the node is kept for it",
                todo=f"Look at: kubectl describe pod -n {pod.namespace} {pod.name} (image, volume, init container)",
                guide=GUIDES[Cause.SLOW_TO_START],
                topic=f"starting:{pod.uid}",
                key=node.instance,
            )
