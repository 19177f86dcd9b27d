"""Judges the nodes of the configured pools by their state in Kubernetes. Pure functions."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from receiver.config import Mode
from receiver.core.model.policy import POOL_LABEL, Policy, Pool, Taint
from receiver.core.model.text import lasting, some
from receiver.core.scaling.packing import SOFT_TAINTS
from receiver.doctor.checks import Check, Finding, few, skipped, taint_text
from receiver.ports import CORDON_ANNOTATION, STOP_ANNOTATION, ClusterNode

POOL_LABELS = Check(
    "kubernetes.pool_label",
    f"whether every node of Civo carries `{POOL_LABEL}`: metrics and demand are joined by it",
    "wait a few minutes for a new node; recycle an old one at Civo, or ask Civo why its cloud controller set no label",
)
NODE_LABELS = Check(
    "kubernetes.node_labels",
    "whether the nodes of each pool carry its configured labels",
    "set the labels on the pool at Civo and recycle the node, or `apply_to_nodes: true`, or correct `labels`",
)
NODE_TAINTS = Check(
    "kubernetes.node_taints",
    "whether the nodes of each pool carry its configured taints and no other that keeps pods away",
    "set the taints on the pool at Civo and recycle the node, or `apply_to_nodes: true`, or correct `taints`",
)
ALLOCATABLE = Check(
    "kubernetes.gpus",
    "whether the nodes of each pool are Ready and offer the `resources` of the pool: GPUs, MIG slices or time-sliced "
    "replicas",
    "see the GPU operator's pods on the node (`kubectl -n gpu-operator get pods -o wide`); after a change of MIG or "
    "time-slicing correct `resources`",
)
DRA = Check(
    "kubernetes.dra",
    "whether pods can request the `resources` of pools whose GPUs Dynamic Resource Allocation serves; claims need none",
    "give the driver's DeviceClass that `extendedResourceName`, or let pods claim devices "
    "(docs/how-it-decides.md, GPUs served by DRA)",
)
CORDONS = Check(
    "kubernetes.cordons",
    "whether no node carries the autoscaler's cordon in mode observe, which never undoes it",
    "`gpu-autoscaler doctor release` lists and undoes them",
)
CHECKS = (POOL_LABELS, NODE_LABELS, NODE_TAINTS, ALLOCATABLE, DRA, CORDONS)
NOT_READY = "see `kubectl describe node` and the instance at Civo; it is replaced automatically if nothing runs there"
DRESSED_WITHIN = timedelta(minutes=2)
DRESSING = "its nodes are new, and apply_to_nodes is adding labels and taints"
# Kubernetes and clouds add and remove these themselves.
PASSING = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
Nodes = Sequence[ClusterNode]


def of_pool(nodes: Nodes, pool: Pool) -> list[ClusterNode]:
    """Return the nodes of *pool*, by Civo's label."""
    return [node for node in nodes if node.labels.get(POOL_LABEL) == pool.id]


def _is_young(node: ClusterNode, now: datetime, until: timedelta) -> bool:
    return node.created_at is not None and now - node.created_at < until


def judged(nodes: Nodes, policy: Policy, mode: Mode, now: datetime) -> Iterator[Finding]:
    """Judge the nodes of every configured pool."""
    civo = [node for node in nodes if node.instance]
    bare = sorted(node.name for node in civo if POOL_LABEL not in node.labels)
    message = f"{some(len(bare), 'node')} without {POOL_LABEL}: {few(bare)}"
    yield POOL_LABELS.warned_if(bare, message, f"{some(len(civo), 'Civo node')}, each with its pool's id")
    for pool in policy.pools:
        mine = of_pool(nodes, pool)
        if not mine:
            reason = f"pool {pool.name} has no node, so there is nothing to compare"
            yield from skipped((NODE_LABELS, NODE_TAINTS, ALLOCATABLE), reason)
            continue
        # The server may not have added labels and taints to a new node yet.
        dressed = [node for node in mine if not (pool.apply_to_nodes and _is_young(node, now, DRESSED_WITHIN))]
        if dressed:
            lacking = [
                f"{n.name} lacks {k}={v}" for n in dressed for k, v in pool.labels.items() if n.labels.get(k) != v
            ]
            message = f"pool {pool.name}: {few(lacking)}; pods that select it cannot run there"
            well = f"pool {pool.name}: {some(len(dressed), 'node')} with every configured label"
            yield NODE_LABELS.failed_if(lacking, message, well)
            yield node_taints(dressed, pool, policy.startup_taints, now)
        else:
            yield from skipped((NODE_LABELS, NODE_TAINTS), f"pool {pool.name}: {DRESSING}")
        yield from allocatable(mine, pool, now)
    cordoned = [node.name for node in nodes if node.annotations.keys() & {CORDON_ANNOTATION, STOP_ANNOTATION}]
    stay = f"cordoned by the autoscaler, which does not uncordon in mode observe: {few(cordoned)}"
    well = f"{some(len(cordoned), 'node')} cordoned by the autoscaler, which uncordons or removes them"
    yield CORDONS.warned_if(cordoned and mode is Mode.OBSERVE, stay, well)


def node_taints(mine: Nodes, pool: Pool, startup_taints: tuple[str, ...], now: datetime) -> Finding:
    """Find missing and unconfigured taints of nodes of *pool*. A new node may carry a startup taint until
    `provision_timeout`."""

    def stays(node: ClusterNode, taint: Taint) -> bool:
        """Return whether *taint* keeps pods away for good: neither Kubernetes nor the autoscaler removes it."""
        if taint.effect == "PreferNoSchedule" or taint in SOFT_TAINTS or taint.key.startswith(PASSING):
            return False
        return not (taint.key.startswith(startup_taints) and _is_young(node, now, pool.provision_timeout))

    lacking = [f"{n.name} lacks {taint_text(t)}" for n in mine for t in pool.taints if t not in n.taints]
    if lacking:
        return NODE_TAINTS.failed(f"pool {pool.name}: {few(lacking)}; pods without GPUs may use it")
    unconfigured = [
        f"{n.name} has {taint_text(t)}" for n in mine for t in n.taints if t not in pool.taints and stays(n, t)
    ]
    if unconfigured:
        message = f"pool {pool.name}: {few(unconfigured)}, which are not configured"
        return NODE_TAINTS.warned(f"{message}; pods without a toleration cannot run there")
    return NODE_TAINTS.passed(f"pool {pool.name}: {some(len(mine), 'node')} with the configured taints")


def allocatable(mine: Nodes, pool: Pool, now: datetime) -> Iterator[Finding]:
    """Compare the GPUs of nodes of *pool* with its `resources`; a new node may still install its driver."""
    configured = dict(pool.resources)
    differing = False
    for node in mine:
        offers, young = dict(node.allocatable), _is_young(node, now, pool.provision_timeout)
        if offers == configured and node.ready:
            continue
        if young and not offers.keys() - configured.keys():
            yield ALLOCATABLE.skipped(f"node {node.name} of pool {pool.name} is new and may still install its driver")
            continue
        differing = True
        if not node.ready and not young:  # its last allocatable GPUs remain in its status
            yield ALLOCATABLE.failed(f"node {node.name} of pool {pool.name} is not Ready", NOT_READY)
        elif not _is_served_by_dra(node, pool):  # its status never shows them: see `kubernetes.dra`
            message = f"node {node.name} of pool {pool.name} offers {_units(offers)}"
            message += f" instead of the configured {_units(configured)}"
            if not offers and node.created_at is not None:
                message += f"; it was created {lasting(now - node.created_at)} ago"
            yield ALLOCATABLE.failed(message)
    if not differing:
        yield ALLOCATABLE.passed(f"pool {pool.name}: nodes offer {_units(configured)}")


def _is_served_by_dra(node: ClusterNode, pool: Pool) -> bool:
    return node.dra and not node.allocatable.keys() & pool.resources.keys()


def dra(nodes: Nodes, served: frozenset[str] | None, policy: Policy) -> Iterator[Finding]:
    """Find nodes of configured pools whose GPUs a DRA driver serves; *served* are the extended resources of its
    DeviceClasses (None: unknown)."""
    problems = []
    served_nodes: list[str] = []
    for pool in policy.pools:
        mine = [node.name for node in of_pool(nodes, pool) if _is_served_by_dra(node, pool)]
        lacking = sorted(pool.resources.keys() - served) if served is not None else []
        served_nodes += mine
        if mine and lacking:
            problem = f"pool {pool.name}: a DRA driver serves the GPUs of {few(mine)}. No DeviceClass has the"
            problems.append(f"{problem} extendedResourceName {', '.join(lacking)}, so pods cannot request them")
    well = f"a DRA driver serves the GPUs of {few(served_nodes)}" if served_nodes else ""
    yield from DRA.warnings(problems, well or "no node of a configured pool has GPUs that a DRA driver serves")


def _units(offers: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {resource}" for resource, count in sorted(offers.items())) or "no GPU"
