"""Notices of what needs a person: silent sources, missing rights, changes by others, nodes that serve nobody."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal

from receiver.core.model.model import BIND, Backoff, Drift, Facts, Node, PoolState, Rights, Source, Stage
from receiver.core.model.pods import Pod, PodPhase
from receiver.core.model.policy import Policy, Pool
from receiver.core.model.text import lasting, some
from receiver.core.money.budget import Budgets
from receiver.core.notices import charges_notices, wording
from receiver.core.notices.sentences import Cause, Notice, Severity
from receiver.core.scaling.assign import Assignment
from receiver.core.scaling.provisioning import (
    LONGEST_PROVISIONING_BACKOFF,
    lost_nodes,
    stuck_on_the_way,
    undone_by_others,
)

# A source must be silent for this long before people are told: one lost answer is no news.
SILENT_FOR = timedelta(minutes=2)
RETURN_IS_NEWS_FOR = timedelta(minutes=5)
CLEAR = "clear"
IGNORED_FOR = timedelta(minutes=2)  # the scheduler needs a moment after a node became usable
# What people call each source, and what its silence stops (the table under 'Sources' in docs/guardrails.md).
SOURCES = {
    Source.CIVO: ("Civo", "no GPU pool changes"),
    Source.STORE: ("The database", "no GPU pool changes"),
    Source.KUBERNETES: ("Kubernetes", "no GPU node is removed"),
    Source.PROMETHEUS: ("Prometheus", "GPU pools may not grow, no node is removed"),
    Source.DCGM: ("DCGM (GPU telemetry)", "pod counts decide on GPU nodes"),
    Source.HEARTBEAT: ("The alerts' heartbeat", "no GPU node is removed"),
    Source.ALERTMANAGER: ("Alertmanager", "no GPU node is removed"),
}


def found(
    facts: Facts,
    assignment: Assignment,
    drifts: Mapping[str, Drift],
    policy: Policy,
    reopened: Mapping[str, datetime] | None = None,
) -> Iterable[Notice]:
    """Every notice that the facts of one step ask for; what was told before is dropped by its key.

    *reopened* is when nodes of a pool (by id) last were opened to new work after a budget's stop.
    """
    yield from _silent_sources(facts, policy)
    yield from of_rights(facts)
    yield from _drifted(facts, drifts, assignment.budgets, policy)
    yield from _ignored(facts, assignment, policy, reopened or {})
    yield from charges_notices.notices(facts, policy)
    for pool in policy.pools:
        yield from of_nodes(pool, facts, assignment.budgets, policy)


def _silent_sources(facts: Facts, policy: Policy) -> Iterable[Notice]:
    """Notices of sources that have been silent for a while, and of their return; each spell is told once."""
    for state in facts.sources.values():
        if not state.configured or state.since is None:
            continue
        lasted, (name, stops) = facts.at - state.since, SOURCES[state.source]
        if state.up and lasted < RETURN_IS_NEWS_FOR:
            yield Notice(
                cause=Cause.SOURCE_BACK,
                topic=f"source:{state.source}",
                key=CLEAR,
                title=f"{name} answers again",
                body=wording.worded(f"since {wording.moment(state.since, facts.at)}", after="what it held up goes on"),
                all_clear=True,
            )
        elif not state.up and lasted >= SILENT_FOR:
            yield Notice(
                cause=Cause.SOURCE_SILENT,
                topic=f"source:{state.source}",
                key=f"silent since {state.since.isoformat()}",
                title=f"{name} is silent: {stops}",
                body=wording.worded(
                    f"silent since {wording.moment(state.since, facts.at)}",
                    why=state.detail or "no answer",
                    cost=_of_all(facts, policy),
                    after="running nodes stay. You are told when it answers again",
                    do="To see every source: gpu-autoscaler status",
                ),
                severity=Severity.WARNING,
            )


def _of_all(facts: Facts, policy: Policy) -> str:
    """What the nodes of all pools cost an hour, as far as their prices are known."""
    priced = ((p.price_usd_per_hour or Decimal(0)) * facts.pool(p.id).required for p in policy.pools)
    return f"all pools together {wording.usd(sum(priced, Decimal(0)))} an hour"


def removals_stopped(state: PoolState, backoff: Backoff, policy: Policy, now: datetime) -> Notice:
    """The notice of a pool whose removals are answered with replacements, or are not counted."""
    pool_id, pool = state.pool, policy.pool(state.pool)
    name = pool.name if pool else pool_id
    return Notice(
        cause=Cause.REMOVAL_STOPPED,
        topic=f"removals:{pool_id}",
        key=backoff.until.isoformat(),
        title=f"GPU pool {name}: removals stop until {backoff.until:%Y-%m-%d %H:%M} UTC",
        body=wording.worded(
            why=backoff.reason,
            cost=f"{wording.an_hour(pool, len(state.living))}, idle nodes included",
            after=f"no node of it is removed before {wording.moment(backoff.until, now)}; growth goes on",
            do="Look at: the pool and its instances at Civo",
        ),
        severity=Severity.FAILURE,
        pool=pool_id,
    )


def _drifted(facts: Facts, drifts: Mapping[str, Drift], budgets: Budgets, policy: Policy) -> Iterable[Notice]:
    """Counts that somebody else changed: the new one is adopted."""
    for pool_id, drift in drifts.items():
        pool, grew = policy.pool(pool_id), drift.to_count > drift.from_count
        undone = undone_by_others(facts.pool(pool_id), facts.at, grows=not grew)
        after = "it is left as it is" + ("; idle nodes go in their time" if grew else "; it grows when GPU work waits")
        if undone is not None:
            after = f"it turned our own change back again: it is left so until {wording.moment(undone, facts.at)}"
        yield Notice(
            cause=Cause.DRIFT,
            topic=f"drift:{pool_id}:{drift.from_count}:{drift.to_count}",  # a count that flaps is told once an hour
            key=f"{drift.at:%Y-%m-%dT%H}",
            title=f"GPU pool {pool.name if pool else pool_id}: somebody else set {some(drift.to_count, 'node')}"
            f" (was {drift.from_count})",
            body=wording.worded(
                why="Civo's node count changed, and not by us",
                cost=wording.costs(pool, budgets, drift.to_count, drift.from_count),
                after=after,
                do="Look at: Terraform, Cluster Autoscaler, a person at Civo's dashboard: only one should size a pool",
            ),
            severity=Severity.WARNING,
            pool=pool_id,
        )


def _ignored(
    facts: Facts, assignment: Assignment, policy: Policy, reopened: Mapping[str, datetime]
) -> Iterable[Notice]:
    """Notices of pods that wait although a usable node would hold them as configured; told once per pod and node."""
    pods = {p.key: p for p in facts.waiting}
    for pool in policy.pools:
        nodes = {n.instance: n for n in facts.pool(pool.id).nodes}
        for workload, instance in assignment.pools[pool.id].placed:
            node, pod = nodes[instance], pods.get(workload)
            since = node.idle_since or node.usable_since
            if pod is None or since is None or node.closed_for is not None:
                continue
            if facts.at - max(since, pod.created_at, reopened.get(pool.id, since)) < IGNORED_FOR:
                continue
            yield Notice(
                cause=Cause.UNUSED,
                topic=f"ignored:{workload}",
                key=f"{pod.uid}:{instance}",
                title=f"{workload} waits beside a usable node of GPU pool {pool.name}",
                body=wording.worded(
                    why=f"by the configuration {node.name} would hold it: {_differs(node, pool, pod)}",
                    whose=wording.whose(wording.asked_by([pod], policy)),
                    cost=f"{wording.an_hour(pool, 1)} for a node that it does not use",
                    after="no other node is bought for it: it would be like this one",
                    do=f"Look at: kubectl describe pod -n {pod.namespace} {pod.name}, beside the node",
                ),
                severity=Severity.WARNING,
                pool=pool.id,
            )


def _differs(node: Node, pool: Pool, pod: Pod) -> str:
    """How *node* differs from what the configuration says of its pool, or else what the scheduler says."""
    labels = [f"{k}={v}" for k, v in sorted(pool.labels.items()) if node.labels.get(k) != v]
    extra = [f"{t.key}={t.value}:{t.effect}" for t in node.taints if t not in pool.taints]
    said = [f"it lacks the labels {', '.join(labels)}"] if labels else []
    said += [f"it carries the taints {', '.join(extra)}"] if extra else []
    scheduler = f"; the scheduler says: {pod.scheduler_says}" if pod.scheduler_says else ""
    usual = "its labels and taints are as configured, so look at volumes, pod affinity and topology spread"
    return (" and ".join(said) or usual) + scheduler


SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"


def of_nodes(pool: Pool, facts: Facts, budgets: Budgets, policy: Policy) -> Iterable[Notice]:
    """Every notice that the nodes of *pool* ask for; what was told before is dropped by its key."""
    state = facts.pool(pool.id)
    yield from _stuck(pool, state, facts, budgets)
    yield from _unknown(pool, state, facts, policy)
    yield from _not_drained(pool, state, facts, policy)
    yield from _misdescribed(pool, state)
    yield from _unjoined(pool, state)
    yield from _slow_to_start(pool, state, facts, policy)


def _stuck(pool: Pool, state: PoolState, facts: Facts, budgets: Budgets) -> Iterable[Notice]:
    """Nodes that did not become usable in time, or broke for as long: they cost money and serve nobody."""
    lost = [n.name for n in lost_nodes(pool, state, facts.at)]
    names = (*stuck_on_the_way(pool, state, facts.at), *lost)
    if not names:
        return
    paid = [n for n in state.living if n.name in names]
    instead = "The pool buys none until that is cleared up; other pools that fit take the work"
    failed = state.provisioning
    if failed is not None and failed.holds(facts.at, LONGEST_PROVISIONING_BACKOFF):
        until = wording.moment(failed.until, facts.at)
        instead = f"The pool buys no other before {until}; other pools that fit take the work"
    yield Notice(
        cause=Cause.STUCK,
        topic=f"stuck:{pool.id}",
        key=",".join(names),
        title=f"GPU pool {pool.name}: not usable within {lasting(pool.provision_timeout)}: {wording.named(names, 2)}",
        body=wording.worded(
            why=_how_far(names, state),
            cost=f"{wording.an_hour(pool, len(paid))} for nothing;"
            f" {wording.money_left(wording.tightest(budgets, pool.id))}",
            after=f"a node that nothing runs on is removed by name. {instead}",
            do="Look at: the instance at Civo, kubectl describe node, the GPU operator's pods",
        ),
        severity=Severity.WARNING,
        pool=pool.id,
    )


def _how_far(names: Iterable[str], state: PoolState) -> str:
    """How far each of *names* has come, in the words of somebody who looks at it."""
    stages = {
        Stage.BUILDING: "Civo still builds it",
        Stage.BOOTING: "built, but not Ready in Kubernetes",
        Stage.INSTALLING: "Ready, but without GPUs: driver or device plugin",
        Stage.BROKEN: "broken: not Ready any more, or its GPUs are gone",
    }
    known = {n.name: n.note or stages.get(n.stage, "not usable") for n in state.living}
    return "; ".join(f"{name}: {known[name]}" if name in known else name for name in list(names)[: wording.NAMED])


def _unknown(pool: Pool, state: PoolState, facts: Facts, policy: Policy) -> Iterable[Notice]:
    """Nodes that have been neither busy nor idle for long: nothing removes them, so a person must look."""
    for node in state.living:
        spells = [(node.unknown_since, "its GPUs are in use, and no GPU pod holds them")]
        if node.stage is Stage.BROKEN and node.busy:  # one that nothing runs on is removed, and told as such
            spells.append((node.lost_at, "it was usable and is no longer Ready, or lost its GPUs"))
        for since, what in spells:
            if since is None or facts.at - since < policy.unknown_after:
                continue
            yield Notice(
                cause=Cause.UNKNOWN,
                topic=f"unknown:{node.instance}",
                key=since.isoformat(),
                title=f"GPU pool {pool.name}: nobody can tell whether {node.name} is idle",
                body=wording.worded(
                    why=f"since {wording.moment(since, facts.at)} {what}",
                    whose=wording.whose(wording.asked_by(node.pods, policy)),
                    cost=wording.an_hour(pool, 1),
                    after="it is kept until that is clear",
                    do=f"Look at: kubectl describe node {node.name}; nvidia-smi on it shows what is no pod",
                ),
                severity=Severity.WARNING,
                pool=pool.id,
            )


def _not_drained(pool: Pool, state: PoolState, facts: Facts, policy: Policy) -> Iterable[Notice]:
    """Idle nodes that stay for a pod without a GPU: beyond their first paid unit they cost money for it."""
    after = max(policy.unknown_after, policy.billing.granularity)
    for node in state.of(Stage.USABLE):
        if node.idle_since is None or not node.kept_by or facts.at - node.idle_since < after:
            continue
        yield Notice(
            cause=Cause.NOT_DRAINED,
            topic=f"not drained:{node.instance}",
            key="; ".join(node.kept_by),
            title=f"GPU pool {pool.name}: idle node {node.name} stays for a pod without a GPU",
            body=wording.worded(
                why="; ".join(node.kept_by),
                cost=wording.an_hour(pool, 1),
                after="the node stays until that pod is gone, or may be evicted",
                do=f"To let the node go: delete the pod, or kubectl annotate pod -n NAMESPACE POD {SAFE_TO_EVICT}=true;"
                " for a pod of kube-system, add a PodDisruptionBudget that covers it",
            ),
            severity=Severity.WARNING,
            pool=pool.id,
        )


def _misdescribed(pool: Pool, state: PoolState) -> Iterable[Notice]:
    """Usable nodes that offer other GPUs than the configuration says: demand is worked out from a wrong number."""
    for node in state.of(Stage.USABLE):
        offers = {r: node.allocatable.get(r, 0) for r in pool.resources}
        if offers != dict(pool.resources):
            yield Notice(
                cause=Cause.MISDESCRIBED,
                topic=f"offers:{node.instance}",
                key=_listed(offers),
                title=f"GPU pool {pool.name}: {node.name} offers other GPUs than configured",
                body=wording.worded(
                    why=f"it offers {_listed(offers)}; the configuration says {_listed(pool.resources)}",
                    cost=f"{wording.an_hour(pool, 1)}, whatever it offers",
                    after="nodes are bought by the wrong number until pools[].resources is corrected, or the node is",
                ),
                severity=Severity.WARNING,
                pool=pool.id,
            )


def _unjoined(pool: Pool, state: PoolState) -> Iterable[Notice]:
    """Nodes that belong to no instance that Civo lists, while instances seem to have no node."""
    missing = (Stage.BOOTING, Stage.BROKEN)
    if state.unjoined and any(not n.registered and n.stage in missing for n in state.living):
        yield Notice(
            cause=Cause.UNJOINED,
            topic=f"unjoined:{pool.id}",
            key=",".join(state.unjoined),
            title=f"GPU pool {pool.name}: {some(len(state.unjoined), 'node')} of no instance that Civo lists",
            body=wording.worded(
                why=f"{wording.named(state.unjoined)}: the provider id names no instance of Civo, and some instances"
                " seem to have no node",
                after="until that is clear nothing without a node is removed",
                do="Look at: spec.providerID (civo://INSTANCE) of the nodes, beside the instances at Civo",
            ),
            severity=Severity.WARNING,
            pool=pool.id,
        )


def _listed(offers: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {resource}" for resource, count in sorted(offers.items()))


def _slow_to_start(pool: Pool, state: PoolState, facts: Facts, policy: Policy) -> Iterable[Notice]:
    """Pods that have a node and do not come to run: an image that cannot be pulled holds a paid GPU."""
    for node in state.of(Stage.USABLE):
        for pod in node.pods:
            if pod.phase is not PodPhase.STARTING or pod.daemon or pod.terminating:
                continue
            since = max(node.usable_since or pod.created_at, pod.created_at)
            if facts.at - since < pool.provision_timeout:
                continue
            yield Notice(
                cause=Cause.SLOW_TO_START,
                topic=f"starting:{pod.uid}",
                key=node.instance,
                title=f"{pod.key} has a GPU and does not start",
                body=wording.worded(
                    why=f"it was given {node.name} of GPU pool {pool.name} and is not running after"
                    f" {lasting(pool.provision_timeout)}",
                    whose=wording.whose(wording.asked_by([pod], policy)),
                    cost=wording.an_hour(pool, 1),
                    after="the node is kept for it",
                    do=f"Look at: kubectl describe pod -n {pod.namespace} {pod.name} (image, volume, init container)",
                ),
                severity=Severity.WARNING,
                pool=pool.id,
            )


NEWS_FOR = timedelta(minutes=5)  # after that long a grant is no news any more
TOPIC = "rights"
LOOK = "gpu-autoscaler doctor --only kubernetes"


def of_rights(facts: Facts) -> Iterator[Notice]:
    """Notices of rights that are missing, of those that nobody can tell of, and that all are there again.

    That nobody can tell because Kubernetes is silent is no news: its silence is told.
    """
    rights, now = facts.rights, facts.at
    if rights is None:
        return
    if rights.lacking:
        yield _told(
            rights,
            title="GPU pools do not grow: no node could be removed again",
            body=wording.worded(
                f"since {wording.moment(rights.since, now)}",
                why=str(rights),
                cost="nodes that run now go on costing money until they can be removed",
                after="nothing is bought; running nodes stay. A grant is seen within a minute, without a restart",
                do=f"To mend it: {BIND}. To see all that is missing: {LOOK}",
            ),
            severity=Severity.FAILURE,
        )
    elif rights.lacking is None and not rights.holds_growth(now) and facts.up(Source.KUBERNETES):
        yield _told(
            rights,
            title="Nobody can tell whether GPU nodes may be removed",
            body=wording.worded(
                f"since {wording.moment(rights.since, now)}",
                why=rights.detail or "no answer",
                after="GPU pools grow all the same: a removal that is refused is told",
                do=f"To see each right: {LOOK}",
            ),
            severity=Severity.WARNING,
        )
    elif rights.lacking == () and now - rights.since < NEWS_FOR:
        yield Notice(
            cause=Cause.RIGHTS_BACK,
            topic=TOPIC,
            key="clear",
            title="GPU nodes may be removed: pools grow again",
            body=wording.worded(f"since {wording.moment(rights.since, now)}", after="what was held up goes on"),
            all_clear=True,
        )


def _told(rights: Rights, *, title: str, body: str, severity: Severity) -> Notice:
    said = ", ".join(rights.lacking) if rights.lacking is not None else "not known"
    key = f"{said} since {rights.since.isoformat()}"
    return Notice(cause=Cause.RIGHTS_MISSING, topic=TOPIC, key=key, title=title, body=body, severity=severity)
