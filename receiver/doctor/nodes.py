"""Judges the nodes of the configured pools by their state in Kubernetes. Pure functions."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from receiver.adapters.survey.cluster import SeenNode, age
from receiver.config import Mode
from receiver.core.model.policy import POOL_LABEL, Policy, Pool, Taint
from receiver.core.model.text import lasting, some
from receiver.core.scaling.packing import SOFT_TAINTS
from receiver.doctor.checks import Check, Finding, few, taint_text
from receiver.ports import CORDON_ANNOTATION, STOP_ANNOTATION

POOL_LABELS = Check(
    "kubernetes.pool_label",
    f"whether every node of Civo carries `{POOL_LABEL}`: metrics and demand are joined by it",
    ("warn", "skip"),
    "wait a few minutes for a new node; recycle an old one at Civo, or ask Civo why its cloud controller set no label",
)
NODE_LABELS = Check(
    "kubernetes.node_labels",
    "whether the nodes of each pool carry its configured labels",
    ("fail", "skip"),
    "set the labels on the pool at Civo and recycle the node, or `apply_to_nodes: true`, or correct `labels`",
)
NODE_TAINTS = Check(
    "kubernetes.node_taints",
    "whether the nodes of each pool carry its configured taints and no other that keeps pods away",
    ("warn", "fail", "skip"),
    "set the taints on the pool at Civo and recycle the node, or `apply_to_nodes: true`, or correct `taints`",
)
ALLOCATABLE = Check(
    "kubernetes.gpus",
    "whether the nodes of each pool are Ready and offer the `resources` of the pool: GPUs, MIG slices or time-sliced "
    "replicas",
    ("fail", "skip"),
    "see the GPU operator's pods on the node (`kubectl -n gpu-operator get pods -o wide`); after a change of MIG or "
    "time-slicing correct `resources`",
)
HOSTS = Check(
    "kubernetes.hosts",
    "whether the autoscaler, Prometheus or Alertmanager run on a node of a configured pool: it is never removed",
    ("warn",),
    "keep them off GPU nodes: a node selector or affinity for another pool, and no toleration of the GPU pool's taints",
)
DRA = Check(
    "kubernetes.dra",
    "whether Dynamic Resource Allocation serves GPUs of configured pools: ResourceClaims are not supported",
    ("warn", "skip"),
    "let pods request a resource of the pool (`nvidia.com/gpu`): give the driver's DeviceClass that "
    "`extendedResourceName`, or use the device plugin (docs/how-it-decides.md, GPUs served by DRA)",
)
CLAIMS_DO_NOT_COUNT = "pods with a ResourceClaim do not count as demand: no node is bought for them"
NOT_READY = "see `kubectl describe node` and the instance at Civo; it is replaced automatically if nothing runs there"
CORDONS = Check(
    "kubernetes.cordons",
    "whether nodes carry the autoscaler's cordons in mode observe, in which they are never undone",
    ("warn",),
    "`gpu-autoscaler doctor --release` lists and undoes them",
)
DRESSED_WITHIN = timedelta(minutes=2)
DRESSING = "its nodes are new, and apply_to_nodes is adding labels and taints"
# Kubernetes and clouds add and remove these themselves.
PASSING = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")


def of_pool(nodes: Sequence[SeenNode], pool: Pool) -> list[SeenNode]:
    """Return the nodes of *pool*, by Civo's label."""
    return [seen for seen in nodes if seen.node.labels.get(POOL_LABEL) == pool.id]


def judged(nodes: Sequence[SeenNode], policy: Policy, mode: Mode, now: datetime) -> Iterator[Finding]:
    """Judge the nodes of every configured pool."""
    yield pool_labels(nodes)
    for pool in policy.pools:
        mine = of_pool(nodes, pool)
        if not mine:
            why = f"pool {pool.name} has no node, so there is nothing to compare"
            yield from (check.skipped(why) for check in (NODE_LABELS, NODE_TAINTS, ALLOCATABLE))
            continue
        dressed = [seen for seen in mine if not _is_being_dressed(seen, pool, now)]
        yield node_labels(dressed, pool) if dressed else NODE_LABELS.skipped(f"pool {pool.name}: {DRESSING}")
        if dressed:
            yield node_taints(dressed, pool, policy.startup_taints, now)
        else:
            yield NODE_TAINTS.skipped(f"pool {pool.name}: {DRESSING}")
        yield from allocatable(mine, pool, now)
    yield hosts(nodes, policy)
    yield cordons(nodes, mode)


def _is_being_dressed(seen: SeenNode, pool: Pool, now: datetime) -> bool:
    """Return whether the node is so new that the server may not have added labels and taints yet."""
    old = age(seen, now)
    return pool.apply_to_nodes and old is not None and old < DRESSED_WITHIN


def pool_labels(nodes: Sequence[SeenNode]) -> Finding:
    """Find Civo's nodes without the label of their pool."""
    civo = [seen.node for seen in nodes if seen.node.instance]
    bare = sorted(node.name for node in civo if POOL_LABEL not in node.labels)
    if not civo:
        return POOL_LABELS.skipped("the cluster has no Civo node now")
    if bare:
        return POOL_LABELS.warned(f"{some(len(bare), 'node')} without {POOL_LABEL}: {few(bare)}")
    return POOL_LABELS.passed(f"{some(len(civo), 'Civo node')}, each with its pool's id")


def node_labels(mine: Sequence[SeenNode], pool: Pool) -> Finding:
    """Find labels that nodes of *pool* lack."""
    lacking = [
        f"{seen.node.name} lacks {key}={value}"
        for seen in mine
        for key, value in pool.labels.items()
        if seen.node.labels.get(key) != value
    ]
    if lacking:
        said = f"pool {pool.name}: {few(lacking)}; pods that select it cannot run there"
        return NODE_LABELS.failed(said)
    return NODE_LABELS.passed(f"pool {pool.name}: {some(len(mine), 'node')} with every configured label")


def node_taints(mine: Sequence[SeenNode], pool: Pool, startup_taints: tuple[str, ...], now: datetime) -> Finding:
    """Find missing and unconfigured taints of nodes of *pool*. A new node may carry a startup taint until
    `provision_timeout`."""
    wanted = set(pool.taints)

    def passes(seen: SeenNode, taint: Taint) -> bool:
        old = age(seen, now)
        return taint.key.startswith(startup_taints) and old is not None and old < pool.provision_timeout

    more = [
        f"{s.node.name} has {taint_text(t)}"
        for s in mine
        for t in s.node.taints
        if t not in wanted and keeps_away(t) and not passes(s, t)
    ]
    lacking = [f"{s.node.name} lacks {taint_text(t)}" for s in mine for t in pool.taints if t not in s.node.taints]
    if lacking:
        return NODE_TAINTS.failed(f"pool {pool.name}: {few(lacking)}; pods without GPUs may use it")
    if more:
        said = f"pool {pool.name}: {few(more)}, which are not configured"
        return NODE_TAINTS.warned(f"{said}; pods without a toleration cannot run there")
    return NODE_TAINTS.passed(f"pool {pool.name}: {some(len(mine), 'node')} with the configured taints")


def keeps_away(taint: Taint) -> bool:
    """Return whether *taint* keeps pods away for good: neither Kubernetes nor the autoscaler removes it."""
    return taint.effect != "PreferNoSchedule" and taint not in SOFT_TAINTS and not taint.key.startswith(PASSING)


def allocatable(mine: Sequence[SeenNode], pool: Pool, now: datetime) -> Iterator[Finding]:
    """Compare the GPUs of nodes of *pool* with its `resources`; a new node may still install its driver."""
    wanted = dict(pool.resources)
    differing = False
    for seen in mine:
        offers = dict(seen.node.allocatable)
        old = age(seen, now)
        if not seen.node.ready and (old is None or old >= pool.provision_timeout):
            differing = True  # its last allocatable GPUs remain in its status
            yield ALLOCATABLE.failed(f"node {seen.node.name} of pool {pool.name} is not Ready", NOT_READY)
            continue
        if offers == wanted and seen.node.ready:
            continue
        if _is_served_by_dra(seen, pool):
            differing = True  # its status never shows them: see `kubernetes.dra`
            continue
        young = old is not None and old < pool.provision_timeout
        if young and not set(offers) - set(wanted):
            yield ALLOCATABLE.skipped(
                f"node {seen.node.name} of pool {pool.name} is new and may still install its driver"
            )
            continue
        differing = True
        said = f"node {seen.node.name} of pool {pool.name} offers {_units(offers)}"
        said += f" instead of the configured {_units(wanted)}"
        if not offers and old is not None:
            said += f"; it was created {lasting(old)} ago"
        yield ALLOCATABLE.failed(said)
    if not differing:
        yield ALLOCATABLE.passed(f"pool {pool.name}: nodes offer {_units(wanted)}")


def _is_served_by_dra(seen: SeenNode, pool: Pool) -> bool:
    return seen.node.dra and not seen.node.allocatable.keys() & pool.resources.keys()


def dra(nodes: Sequence[SeenNode], served: frozenset[str] | None, policy: Policy) -> Iterator[Finding]:
    """Find nodes of configured pools whose GPUs a DRA driver serves; *served* are the extended resources of its
    DeviceClasses (None: unknown)."""
    found = False
    for pool in policy.pools:
        mine = [seen.node.name for seen in of_pool(nodes, pool) if _is_served_by_dra(seen, pool)]
        if not mine:
            continue
        found = True
        said = f"pool {pool.name}: a DRA driver serves the GPUs of {few(mine)}; {CLAIMS_DO_NOT_COUNT}"
        lacking = sorted(pool.resources.keys() - served) if served is not None else []
        if lacking:
            said += f". No DeviceClass has the extendedResourceName {', '.join(lacking)}, so pods cannot request them"
        yield DRA.warned(said)
    if not found:
        yield DRA.passed("no node of a configured pool has GPUs that a DRA driver serves")


def hosts(nodes: Sequence[SeenNode], policy: Policy) -> Finding:
    """Find nodes of configured pools that run the autoscaler or its monitoring."""
    pools = {pool.id: pool.name for pool in policy.pools}
    found = [
        f"{', '.join(seen.node.hosts)} on {seen.node.name} of pool {pools[seen.node.labels[POOL_LABEL]]}"
        for seen in nodes
        if seen.node.hosts and seen.node.labels.get(POOL_LABEL) in pools
    ]
    if found:
        return HOSTS.warned(few(found))
    return HOSTS.passed("no node of a configured pool runs the autoscaler or its monitoring")


def cordons(nodes: Sequence[SeenNode], mode: Mode) -> Finding:
    """Find cordons of the autoscaler that will not be undone."""
    ours = [s.node.name for s in nodes if s.node.annotations.keys() & {CORDON_ANNOTATION, STOP_ANNOTATION}]
    if ours and mode is Mode.OBSERVE:
        return CORDONS.warned(f"cordoned by the autoscaler, which does not uncordon in mode observe: {few(ours)}")
    if ours:
        return CORDONS.passed(f"{some(len(ours), 'node')} cordoned by the autoscaler, which uncordons or removes them")
    return CORDONS.passed("no node is cordoned by the autoscaler")


def _units(offers: dict[str, int]) -> str:
    return ", ".join(f"{count} {resource}" for resource, count in sorted(offers.items())) or "no GPU"
