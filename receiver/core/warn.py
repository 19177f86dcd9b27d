"""Notices of what was found and needs a person: silent sources, stuck nodes, other hands, work that is not placed."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from receiver.core import charges_shown
from receiver.core.assign import Assignment
from receiver.core.counts import undone_by_others
from receiver.core.model import Backoff, Drift, Facts, Node, PoolState, Stage
from receiver.core.pods import Pod, PodPhase
from receiver.core.policy import Policy, Pool
from receiver.core.provisioning import (
    lost_nodes,
    stuck_on_the_way,
)
from receiver.core.tell import Cause, Notice, Severity
from receiver.core.words import some

# A source must be silent for this long before people are told: one lost answer is no news.
SILENT_FOR = timedelta(minutes=2)
RETURN_IS_NEWS_FOR = timedelta(minutes=5)
CLEAR = "clear"
IGNORED_FOR = timedelta(minutes=2)  # the scheduler needs a moment after a node became usable


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
    yield from _silent_sources(facts)
    yield from _drifted(facts, drifts, policy)
    yield from _ignored(facts, assignment, policy, reopened or {})
    yield from charges_shown.notices(facts, policy)
    for pool in policy.pools:
        state = facts.pool(pool.id)
        yield from _stuck(pool, state, facts)
        yield from _unknown(pool, state, facts, policy)
        yield from _misdescribed(pool, state)
        yield from _unjoined(pool, state)
        yield from _slow_to_start(pool, state, facts)


def _silent_sources(facts: Facts) -> Iterable[Notice]:
    """Notices of sources that have been silent for a while, and of their return; each spell is told once."""
    for state in facts.sources.values():
        if not state.configured or state.since is None:
            continue
        lasted = facts.at - state.since
        if state.up and lasted < RETURN_IS_NEWS_FOR:
            yield Notice(
                cause=Cause.SOURCE_BACK,
                topic=f"source:{state.source}",
                key=CLEAR,
                title=f"{state.source} answers again",
                body=f"Since {state.since:%H:%M:%S} UTC.",
                all_clear=True,
            )
        elif not state.up and lasted >= SILENT_FOR:
            yield Notice(
                cause=Cause.SOURCE_SILENT,
                topic=f"source:{state.source}",
                key=f"silent since {state.since.isoformat()}",
                title=f"{state.source} is silent",
                body=f"{state.detail}\nWhat this stops is listed under 'Sources' in docs/guardrails.md.",
                severity=Severity.WARNING,
            )


def _stuck(pool: Pool, state: PoolState, facts: Facts) -> Iterable[Notice]:
    """Nodes that did not become usable in time, or broke for as long: they cost money and serve nobody."""
    lost = [n.name for n in lost_nodes(pool, state, facts.at)]
    names = (*stuck_on_the_way(pool, state, facts.at), *lost)
    if names:
        yield Notice(
            cause=Cause.STUCK,
            topic=f"stuck:{pool.id}",
            key=",".join(names),
            title=f"GPU pool {pool.name}: not usable within {pool.provision_timeout}",
            body=(
                f"{', '.join(names)}.\nWhat nothing runs on is removed by name. After a node that never came up the"
                " pool buys none for a while; other pools that fit are used."
                "\nLook at the instance at Civo, at `kubectl describe node` and at the GPU operator's pods."
            ),
            severity=Severity.WARNING,
            pool=pool.id,
        )


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
                body=(
                    f"Since {since:%H:%M} UTC {what}. It is kept, and it costs money."
                    f"\nLook at `kubectl describe node {node.name}` and at what runs there; a process outside of"
                    " Kubernetes shows in `nvidia-smi` on the node."
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
                body=(
                    f"It offers {_listed(offers)}; the configuration says {_listed(pool.resources)}."
                    "\nCorrect pools[].resources, or look for GPUs that the node lost."
                ),
                severity=Severity.WARNING,
                pool=pool.id,
            )


def _unjoined(pool: Pool, state: PoolState) -> Iterable[Notice]:
    """Nodes that belong to no instance that Civo lists, while instances seem to have no node."""
    if state.unjoined and any(not n.registered and n.stage is Stage.BOOTING for n in state.living):
        yield Notice(
            cause=Cause.UNJOINED,
            topic=f"unjoined:{pool.id}",
            key=",".join(state.unjoined),
            title=f"GPU pool {pool.name}: nodes that belong to no instance",
            body=(
                f"{', '.join(state.unjoined)}: the provider id names no instance that Civo lists, and some instances"
                " seem to have no node. Until that is clear nothing without a node is removed."
                "\nCompare `kubectl get node -o wide` and spec.providerID (civo://<instance id>) with Civo's instances."
            ),
            severity=Severity.WARNING,
            pool=pool.id,
        )


def _listed(offers: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {resource}" for resource, count in sorted(offers.items()))


def _slow_to_start(pool: Pool, state: PoolState, facts: Facts) -> Iterable[Notice]:
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
                body=(
                    f"It has been given {node.name} and is not running after {pool.provision_timeout}."
                    f"\nLook at `kubectl describe pod -n {pod.namespace} {pod.name}`: an image that cannot be pulled,"
                    " a volume, an init container."
                ),
                severity=Severity.WARNING,
                pool=pool.id,
            )


def removals_stopped(pool_id: str, backoff: Backoff, policy: Policy) -> Notice:
    """The notice of a pool whose removals are answered with replacements, or are not counted."""
    pool = policy.pool(pool_id)
    name = pool.name if pool else pool_id
    return Notice(
        cause=Cause.REMOVAL_STOPPED,
        topic=f"removals:{pool_id}",
        key=backoff.until.isoformat(),
        title=f"GPU pool {name}: removals stop until {backoff.until:%Y-%m-%d %H:%M} UTC",
        body=f"{backoff.reason[:1].upper()}{backoff.reason[1:]}.\nLook at the pool at Civo; its idle nodes cost money.",
        severity=Severity.FAILURE,
        pool=pool_id,
    )


def _drifted(facts: Facts, drifts: Mapping[str, Drift], policy: Policy) -> Iterable[Notice]:
    """Counts that somebody else changed: the new one is adopted."""
    for pool_id, drift in drifts.items():
        pool = policy.pool(pool_id)
        undone = undone_by_others(facts.pool(pool_id), facts.at, grows=drift.to_count < drift.from_count)
        left = (
            f" It turns our own change back again: it is left so until {undone:%Y-%m-%d %H:%M} UTC." if undone else ""
        )
        yield Notice(
            cause=Cause.DRIFT,
            topic=f"drift:{pool_id}:{drift.from_count}:{drift.to_count}",  # a count that flaps is told once an hour
            key=f"{drift.at:%Y-%m-%dT%H}",
            title=f"GPU pool {pool.name if pool else pool_id}: somebody else set {some(drift.to_count, 'node')}",
            body=(
                f"It was {drift.from_count}. The new count is taken as it is; idle nodes still go in their time.{left}"
                "\nLook for Terraform, Cluster Autoscaler or a person at Civo's dashboard: only one should size a pool."
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
                body=(
                    f"By the configuration {node.name} would hold it: {_differs(node, pool, pod)}."
                    "\nNo further node is bought for it: it would be like this one."
                    f"\nCompare `kubectl describe pod -n {pod.namespace} {pod.name}` with the node."
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
    usual = "its labels and taints are as configured, so look at CPU, memory and volumes"
    return (" and ".join(said) or usual) + scheduler
