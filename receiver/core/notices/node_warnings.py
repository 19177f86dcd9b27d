"""Notices of nodes that need a person: they cost money and serve nobody, or nobody can tell what they do."""

from collections.abc import Iterable, Mapping

from receiver.core.model.model import Facts, PoolState, Stage
from receiver.core.model.pods import PodPhase
from receiver.core.model.policy import Policy, Pool
from receiver.core.model.text import lasting, some
from receiver.core.money.budget import Budgets
from receiver.core.notices import wording
from receiver.core.notices.sentences import Cause, Notice, Severity
from receiver.core.scaling.provisioning import LONGEST_PROVISIONING_BACKOFF, lost_nodes, stuck_on_the_way

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
