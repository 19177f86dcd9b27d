"""The nodes of the configured pools as Kubernetes shows them, and who else acts on them: pure judgements."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from receiver.adapters.survey.cluster import SeenNode, age
from receiver.config import Mode
from receiver.core.model.policy import POOL_LABEL, Policy, Pool, Taint
from receiver.core.model.text import lasting, some
from receiver.core.scaling.packing import SOFT_TAINTS
from receiver.doctor.checks import Check, Finding, taint_text
from receiver.ports import CORDON_ANNOTATION, STOP_ANNOTATION

POOL_LABELS = Check(
    "kubernetes.pool_label",
    f"whether every node of Civo carries `{POOL_LABEL}`: metrics and demand are joined by it",
    ("warn", "skip"),
    "wait some minutes for a new node; recycle an old one at Civo, or ask Civo why its cloud controller set no label",
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
    "whether the nodes of each pool are Ready and offer what `resources` says: GPUs, MIG slices or time-sliced "
    "replicas",
    ("fail", "skip"),
    "see the GPU operator's pods on the node (`kubectl -n gpu-operator get pods -o wide`); after a change of MIG or "
    "time-slicing correct `resources`",
)
HOSTS = Check(
    "kubernetes.hosts",
    "whether we, Prometheus or Alertmanager run on a node of a configured pool: such a node is never removed",
    ("warn",),
    "keep them off GPU nodes: a node selector or affinity for another pool, and no toleration of the GPU pool's taints",
)
DRA = Check(
    "kubernetes.dra",
    "whether Dynamic Resource Allocation serves the GPUs of nodes of configured pools: what is not supported there",
    ("warn", "skip"),
    "let pods that should get nodes ask for a resource of the pool (`nvidia.com/gpu`): give the driver's DeviceClass "
    "that `extendedResourceName`, or use the device plugin (docs/how-it-decides.md, GPUs served by DRA)",
)
CLAIMS_DO_NOT_COUNT = "pods that ask by ResourceClaim are no demand: no node is bought for them"
NOT_READY = "see `kubectl describe node` and the instance at Civo; it is replaced by itself if nothing runs there"
CORDONS = Check(
    "kubernetes.cordons",
    "whether nodes carry cordons of ours although we only observe, so that nobody will undo them",
    ("warn",),
    "`gpu-autoscaler doctor --release` lists and undoes them",
)
DRESSED_WITHIN = timedelta(minutes=2)
DRESSING = "its nodes have only just come, and apply_to_nodes puts labels and taints on them"
# Kubernetes and clouds put these on and take them off by themselves.
PASSING = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")


def of_pool(nodes: Sequence[SeenNode], pool: Pool) -> list[SeenNode]:
    """Return the nodes of *pool*, by the label that Civo sets."""
    return [seen for seen in nodes if seen.node.labels.get(POOL_LABEL) == pool.id]


def judged(nodes: Sequence[SeenNode], policy: Policy, mode: Mode, now: datetime) -> Iterator[Finding]:
    """Judge every node of a configured pool, pool by pool."""
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
    """True for a node so young that the server may not have put labels and taints on it yet."""
    old = age(seen, now)
    return pool.apply_to_nodes and old is not None and old < DRESSED_WITHIN


def pool_labels(nodes: Sequence[SeenNode]) -> Finding:
    """Find nodes of Civo without the label of their pool."""
    civo = [seen.node for seen in nodes if seen.node.instance]
    bare = sorted(node.name for node in civo if POOL_LABEL not in node.labels)
    if not civo:
        return POOL_LABELS.skipped("the cluster has no node of Civo now")
    if bare:
        return POOL_LABELS.warned(f"{some(len(bare), 'node')} without {POOL_LABEL}: {_some_of(bare)}")
    return POOL_LABELS.passed(f"{some(len(civo), 'node')} of Civo, each with its pool's id")


def node_labels(mine: Sequence[SeenNode], pool: Pool) -> Finding:
    """Find labels that nodes of *pool* lack."""
    lacking = [
        f"{seen.node.name} lacks {key}={value}"
        for seen in mine
        for key, value in pool.labels.items()
        if seen.node.labels.get(key) != value
    ]
    if lacking:
        said = f"pool {pool.name}: {_some_of(lacking)}; pods that ask for it cannot run there"
        return NODE_LABELS.failed(said)
    return NODE_LABELS.passed(f"pool {pool.name}: {some(len(mine), 'node')} with every configured label")


def node_taints(mine: Sequence[SeenNode], pool: Pool, startup_taints: tuple[str, ...], now: datetime) -> Finding:
    """Find taints that nodes of *pool* lack, or have beside the configured ones. A node may carry a startup taint for
    as long as it may take to become usable."""
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
        return NODE_TAINTS.failed(f"pool {pool.name}: {_some_of(lacking)}; pods without GPUs may take its room")
    if more:
        said = f"pool {pool.name}: {_some_of(more)}, which the configuration does not name"
        return NODE_TAINTS.warned(f"{said}; pods that do not tolerate it cannot run there")
    return NODE_TAINTS.passed(f"pool {pool.name}: {some(len(mine), 'node')} with the configured taints")


def keeps_away(taint: Taint) -> bool:
    """True for a taint that lasts and keeps pods away, put there by nobody who takes it off by himself."""
    return taint.effect != "PreferNoSchedule" and taint not in SOFT_TAINTS and not taint.key.startswith(PASSING)


def allocatable(mine: Sequence[SeenNode], pool: Pool, now: datetime) -> Iterator[Finding]:
    """Compare what nodes of *pool* offer with what is configured; a young one may still install its driver."""
    wanted = dict(pool.resources)
    differing = False
    for seen in mine:
        offers = dict(seen.node.allocatable)
        old = age(seen, now)
        if not seen.node.ready and (old is None or old >= pool.provision_timeout):
            differing = True  # what it offered last goes on to stand there
            yield ALLOCATABLE.failed(f"node {seen.node.name} of pool {pool.name} is not Ready", NOT_READY)
            continue
        if offers == wanted and seen.node.ready:
            continue
        if _is_served_by_dra(seen, pool):
            differing = True  # its status never shows them: `kubernetes.dra` tells
            continue
        young = old is not None and old < pool.provision_timeout
        if young and not set(offers) - set(wanted):
            yield ALLOCATABLE.skipped(f"node {seen.node.name} of pool {pool.name} is young and may install its driver")
            continue
        differing = True
        said = f"node {seen.node.name} of pool {pool.name} offers {_units(offers)}, configured is {_units(wanted)}"
        if not offers and old is not None:
            said += f"; it came {lasting(old)} ago"
        yield ALLOCATABLE.failed(said)
    if not differing:
        yield ALLOCATABLE.passed(f"pool {pool.name}: nodes offer {_units(wanted)}")


def _is_served_by_dra(seen: SeenNode, pool: Pool) -> bool:
    return seen.node.dra and not seen.node.allocatable.keys() & pool.resources.keys()


def dra(nodes: Sequence[SeenNode], served: frozenset[str] | None, policy: Policy) -> Iterator[Finding]:
    """Find the nodes of configured pools whose GPUs a DRA driver serves; *served* are the extended resources by which
    pods may ask for them (None: not known)."""
    found = False
    for pool in policy.pools:
        mine = [seen.node.name for seen in of_pool(nodes, pool) if _is_served_by_dra(seen, pool)]
        if not mine:
            continue
        found = True
        said = f"pool {pool.name}: a DRA driver serves the GPUs of {_some_of(mine)}; {CLAIMS_DO_NOT_COUNT}"
        lacking = sorted(pool.resources.keys() - served) if served is not None else []
        if lacking:
            said += f". No DeviceClass has the extendedResourceName {', '.join(lacking)}, so pods cannot ask for that"
        yield DRA.warned(said)
    if not found:
        yield DRA.passed("no node of a configured pool has GPUs that a DRA driver serves")


def hosts(nodes: Sequence[SeenNode], policy: Policy) -> Finding:
    """Find nodes of configured pools on which we or our monitoring run."""
    pools = {pool.id: pool.name for pool in policy.pools}
    found = [
        f"{', '.join(seen.node.hosts)} on {seen.node.name} of pool {pools[seen.node.labels[POOL_LABEL]]}"
        for seen in nodes
        if seen.node.hosts and seen.node.labels.get(POOL_LABEL) in pools
    ]
    if found:
        return HOSTS.warned(_some_of(found))
    return HOSTS.passed("no node of a configured pool hosts us or the monitoring")


def cordons(nodes: Sequence[SeenNode], mode: Mode) -> Finding:
    """Find cordons of ours that nobody will undo."""
    ours = [s.node.name for s in nodes if s.node.annotations.keys() & {CORDON_ANNOTATION, STOP_ANNOTATION}]
    if ours and mode is Mode.OBSERVE:
        return CORDONS.warned(f"closed by us, and nobody opens them in mode observe: {_some_of(ours)}")
    if ours:
        return CORDONS.passed(f"{some(len(ours), 'node')} closed by us; the running server takes care of them")
    return CORDONS.passed("no node is closed by us")


def _units(offers: dict[str, int]) -> str:
    return ", ".join(f"{count} {resource}" for resource, count in sorted(offers.items())) or "no GPU"


def _some_of(found: Sequence[str], most: int = 3) -> str:
    """The first of *found*, and how many more there are."""
    rest = len(found) - most
    return ", ".join(found[:most]) + (f" and {rest} more" if rest > 0 else "")
