"""Notices of what was found and needs a person: silent sources, stuck nodes, other hands, work that is not placed."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal

from receiver.core.model.model import Backoff, Drift, Facts, Node, PoolState, Source
from receiver.core.model.pods import Pod
from receiver.core.model.policy import Policy, Pool
from receiver.core.model.text import some
from receiver.core.money.budget import Budgets
from receiver.core.notices import charges_notices, node_warnings, rights_notices, wording
from receiver.core.notices.sentences import Cause, Notice, Severity
from receiver.core.scaling.assign import Assignment
from receiver.core.scaling.count_drift import undone_by_others

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
    yield from rights_notices.of_rights(facts)
    yield from _drifted(facts, drifts, assignment.budgets, policy)
    yield from _ignored(facts, assignment, policy, reopened or {})
    yield from charges_notices.notices(facts, policy)
    for pool in policy.pools:
        yield from node_warnings.of_nodes(pool, facts, assignment.budgets, policy)


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
