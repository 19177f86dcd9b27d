"""What is true of a world, worked out apart from the product: counts, money, who waits, who fits where."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import ceil, sqrt

from campaigns.faults.build import offers_of, start_of, taints_of
from campaigns.faults.claims import asks_of, kind_of, like_it
from campaigns.faults.commitments import commitments_of, most_covered, nodes_kept, usd_between
from campaigns.faults.grouped import size_of, to_come
from campaigns.faults.scenario import OTHER_STARTUP_TAINTS, STARTUP_TAINTS, PoolPlan, Scenario
from campaigns.faults.spoken import Words
from receiver.core.model.policy import Budget
from receiver.ports import CORDON_ANNOTATION, SAFE_TO_EVICT_ANNOTATION, STOP_ANNOTATION
from receiver.replay.world.objects import VM, WorldNode, WorldPod
from receiver.replay.world.scheduler import selects, untolerated
from simulator.world import World

HALF_AN_HOUR = timedelta(minutes=30)
TEN_MINUTES = timedelta(minutes=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """One pool as Civo showed it: *nodes* that exist or are asked for (fewer where a removal may not be counted yet),
    *there* that exist or that Civo took on, *coming* of them surely on their way."""

    required: int
    nodes: int
    there: int
    coming: int


class Truth:
    """Reads a world. *now* is the product's clock, which may be wrong by *skew* at most."""

    def __init__(self, scenario: Scenario, world: World) -> None:
        self.scenario = scenario
        self.world = world
        self.plans = {p.id: p for p in scenario.pools}
        self.commitments = commitments_of(scenario)
        skews = [abs(e.what["by"]) for e in scenario.events if e.kind == "clock"]
        self.skew = timedelta(seconds=2 * max(skews, default=0))
        self.words = Words(self.skew)
        silent = sum(e.what["seconds"] for e in scenario.events if e.kind == "silent" and e.what["source"] == "civo")
        self._late = self.skew + timedelta(seconds=max(scenario.ticks) + silent)
        self.seen: dict[str, VM] = {}  # instances that Civo listed when it was asked
        self.listed: dict[str, frozenset[str]] = {}  # by pool: the hosts that lived when it was asked last
        self.deleted: list[tuple[datetime, str]] = []  # by us: when, pool
        self.sick: dict[str, datetime] = {}  # nodes: when a source last showed them as sick
        self.restarts: dict[str, datetime] = {}  # nodes that Civo's agent restarts: when that was first seen

    def node_of(self, vm: VM) -> WorldNode | None:
        """The node object of *vm*, if there is one."""
        node = self.world.nodes.get(vm.hostname)
        return node if node is not None and node.instance == vm.id else None

    def vm(self, instance: str) -> VM | None:
        """The living or dying instance of that id."""
        return next((v for p in self.world.pools.values() for v in p.instances if v.id == instance), None)

    # --- counts

    def count(self, now: datetime) -> dict[str, Counted]:
        """Count every pool as Civo shows it now, and remember the instances that it lists."""
        counted = {}
        for pool in self.world.pools.values():
            self.seen.update((vm.id, vm) for vm in pool.instances)
            listed = [vm for vm in pool.instances if vm.living]
            self.listed[pool.id] = frozenset(vm.hostname for vm in listed)
            on_the_way = [vm for vm in (*listed, *pool.coming) if self._is_coming(vm, now)]
            counted[pool.id] = Counted(
                required=pool.required,
                nodes=max(len(listed), pool.required - self._uncounted(pool.id, now)),
                there=len(listed) + len(pool.coming),
                coming=len(on_the_way),
            )
        return counted

    def _uncounted(self, pool: str, now: datetime) -> int:
        """How many of our removals Civo's count may not show yet."""
        if self.scenario.behaviour.get("decrement", "at_once") == "at_once":
            return 0
        return sum(1 for at, of in self.deleted if of == pool and now - at < HALF_AN_HOUR)

    def _is_coming(self, vm: VM, now: datetime) -> bool:
        timeout = timedelta(seconds=self.plans[vm.pool].provision_timeout)
        if not vm.living or vm.usable_at is not None or vm.status not in ("BUILDING", "ACTIVE"):
            return False
        node = self.node_of(vm)
        closed = node is not None and is_theirs(node)
        lost = vm.registered_at is not None and node is None
        lost = lost or vm.hostname in self.world.faults.recovering
        return not closed and not lost and now - vm.created_at < timeout - self.skew

    def max_nodes(self, pool: str, now: datetime) -> int:
        """The pool's maximum at *now*, windows and what people said counted."""
        return self.words.most(self.plans[pool], now)

    # --- money

    def unit(self, pool: str) -> Decimal:
        """USD for one paid unit of a node of *pool*; 0 without a price."""
        price = self.plans[pool].price
        return Decimal(price or 0) * self.scenario.granularity / 3600

    def spent(self, now: datetime, late: timedelta | None = None, pool: str | None = None) -> Decimal:
        """USD for every unit that the instances Civo ever listed to us have begun this month, as of *now*.

        *pool* counts those of one pool alone. *late* is by how much we may have seen them go too late; without it, they
        were seen too early by the skew.
        """
        seen, month = [vm for vm in self.seen.values() if pool in (None, vm.pool)], _month_start(now)
        usd = sum((self._units(vm, month, now, late) * self.unit(vm.pool) for vm in seen), Decimal(0))
        if late is not None:  # at most: nothing is covered, and every commitment is paid for
            return usd + usd_between(self.commitments, pool, max(month, start_of(self.scenario)), now)
        step = timedelta(seconds=self.scenario.granularity)
        for each in self.commitments:
            instances = [vm for vm in seen if vm.pool == each.pool]
            units = sum(self._units(vm, month, now) for vm in instances)
            usd -= min(units, most_covered(each, instances, month, now, step)) * self.unit(each.pool)
        return usd

    def unpaid(self, pool: str, nodes: int, now: datetime) -> int:
        """How many of *nodes* nodes of *pool* cost money at least."""
        return max(0, nodes - nodes_kept(self.commitments, pool, now - self.skew))

    def perhaps_spent(self, now: datetime, pool: str | None = None) -> Decimal:
        """The most that the ledger may say: it saw nodes go a tick too late, or once Civo answered."""
        return max(self.spent(at, self._late, pool) for at in (now, now + self.skew))

    def surely_spent(self, now: datetime, pool: str | None = None) -> Decimal:
        """The least that the ledger may say: clocks were wrong by *skew* at most, in either direction."""
        return min(self.spent(at, pool=pool) for at in (now - self.skew, now))

    def unpriced(self, now: datetime) -> list[str]:
        """The nodes of this month without a price: with one of them nobody knows what was spent."""
        since = [_month_start(now), _month_start(now - self.skew)]
        return [vm.hostname for vm in self._without_price() if all(self._units(vm, month, now) for month in since)]

    def perhaps_unpriced(self, now: datetime) -> bool:
        """True when the ledger may know of a node without a price in this month: it saw it go too late."""
        return any(self._units(vm, _month_start(now), now, self._late) for vm in self._without_price())

    def _without_price(self) -> Iterable[VM]:
        return (vm for vm in self.seen.values() if self.plans[vm.pool].price is None)

    def _units(self, vm: VM, month: datetime, now: datetime, late: timedelta | None = None) -> int:
        step, off = timedelta(seconds=self.scenario.granularity), -self.skew if late is None else late
        begun = (now - vm.created_at) // step + 1
        if vm.gone_at is not None and vm.gone_at + off < now:
            begun = -((vm.created_at - (vm.gone_at + off)) // step)
        before = 0 if vm.created_at >= month else -((vm.created_at - month) // step)
        return max(1, begun) - min(max(1, begun), before)

    def surely_stopped(self, pool: str, budget: Budget, now: datetime) -> bool:
        """True when the cluster's budget or the pool's own is beyond its stop line, whatever clocks said."""
        lines = self._lines(pool, budget)
        return any(self.surely_spent(now, of) >= usd for of, usd in lines)

    def perhaps_stopped(self, pool: str, budget: Budget, now: datetime) -> bool:
        """True when the ledger may say that one of them is."""
        return any(self.perhaps_spent(now, of) >= usd for of, usd in self._lines(pool, budget))

    def _lines(self, pool: str, budget: Budget) -> list[tuple[str | None, Decimal]]:
        """The stop lines that concern *pool*, in USD."""
        own = self.plans[pool].budget
        mine: list[tuple[str | None, Decimal]] = [] if own is None else [(pool, Decimal(own) * budget.stop_at)]
        return [(None, budget.monthly_usd * budget.stop_at), *mine]

    def fastest(self) -> timedelta:
        """The least time from a PUT until a new node is usable."""
        timings = self.world.config.timings
        return (timings.create + timings.build + timings.boot + timings.driver) * (1 - timings.jitter)

    # --- work

    def waiting(self) -> list[WorldPod]:
        """The GPU pods that the scheduler could not place."""
        return [
            p
            for p in self.world.active_pods.values()
            if p.requests
            and p.node is None
            and p.reason == "Unschedulable"
            and p.deletion_at is None
            and p.key not in self.world.reserved
        ]

    def fits(self, pod: WorldPod, plan: PoolPlan, *, real: bool = False) -> bool:
        """True when an empty node of *plan* holds *pod*, by its configured or by its *real* labels."""
        offers = offers_of(plan)
        if any(offers.get(r, 0) < n for r, n in asks_of(pod).items()):
            return False
        if pod.claims and not like_it(pod, plan, self.world):
            return False
        labels = plan.labels if plan.true_labels is None or not real else plan.true_labels
        return untolerated(taints_of(plan), pod.tolerations) is None and selects(
            {**platform_labels(plan), **labels}, pod.node_selector, pod.affinity
        )

    def has_room(self, node: str, plan: PoolPlan, pod: WorldPod, count: int = 1) -> bool:
        """True when *node* of *plan* holds as many of *pod* beside the pods without a GPU that run there."""
        offers = offers_of(plan)
        others = [p for p in self.world.pods_on(node) if not p.requests]
        return all(
            n * count + sum(p.asks.get(r, 0) for p in others) <= offers.get(r, 0) for r, n in asks_of(pod).items()
        )

    def works(self, vm: VM) -> bool:
        """True when *vm* was usable once and its node would take work; the product replaces one that does not."""
        node = self.node_of(vm)
        if vm.usable_at is None or node is None or self.was_sick(vm.hostname):
            return False
        if vm.hostname in self.world.crashed_nodes or (node.unhealthy and not any(node.gpus.values())):
            return False  # its driver shows no GPU, or the only one is not healthy
        return node.ready and not any(taint.key in (*STARTUP_TAINTS, *OTHER_STARTUP_TAINTS) for taint in node.taints)

    def was_sick(self, node: str) -> bool:
        """True for a node that may still be repaired: it is not well for long."""
        since = self.sick.get(node)
        return since is not None and self.world.now - since < TEN_MINUTES + TEN_MINUTES + self.skew

    def lacks_pods(self, pod: WorldPod) -> bool:
        """True for a pod of a gang that never has as many pods as must start together."""
        jobs = (e.what for e in self.scenario.events if e.kind == "job" and e.what["id"] == pod.owner_name)
        return pod.gang is not None and any(what.get("least", 0) > what["pods"] for what in jobs)

    def surely_refused(self, pod: WorldPod) -> bool:
        """True for a pod of a gang that lacks pods, or that no pool can ever hold whole: none of it ever started."""
        if pod.gang is None or self.lacks_pods(pod):
            return pod.gang is not None
        members = [p for p in self.world.pods.values() if (p.namespace, p.gang) == (pod.namespace, pod.gang)]
        begun = any(p.node is not None or p.phase != "Pending" for p in members)
        fitting = [plan for plan in self.plans.values() if self.fits(pod, plan)]
        return not begun and all(nodes_for(members, plan, self.world) > plan.max_nodes for plan in fitting)

    def warm(self, plan: PoolPlan, now: datetime) -> int:
        """The most nodes that *plan* may keep warm, by the work that came lately or holds GPUs, none of it refused: at
        least one. With a balanced objective only pools of small nodes beside larger ones do."""
        size = sum(plan.resources.values())
        wide = any(sum(other.resources.values()) >= 4 * size for other in self.plans.values())
        if self.scenario.objective == "cost" or (self.scenario.objective == "balanced" and not wide):
            return 0
        every = (*self.world.active_pods.values(), *to_come(self.world))
        pods = [p for p in every if p.requests and self.fits(p, plan)]
        mine = [p for p in pods if not self.surely_refused(p)]
        asked = {id(p): -(-size // max(1, like_it(p, plan, self.world))) if p.claims else p.gpus for p in mine}
        lately = [asked[id(p)] for p in mine if now - p.created_at < TEN_MINUTES + self._late]
        while_one_starts = 0.2 * sum(lately) + 2 * sqrt(0.2 * sum(gpus**2 for gpus in lately))
        held = sum(asked[id(p)] for p in mine if p.node is not None)
        return -(-max(ceil(while_one_starts) + held // 20 + 1, size) // size) if mine else 0

    def would_be_lost(self, pod: WorldPod) -> bool:
        """True for a pod without a GPU that an eviction would end for good, or that kube-system may need: it keeps its
        node."""
        if pod.requests or pod.deletion_at is not None or pod.owner_kind in ("DaemonSet", "Node"):
            return False
        if pod.annotations.get(SAFE_TO_EVICT_ANNOTATION) == "true":
            return False
        covered = any(budget.covers(pod.namespace, pod.labels) for budget in self.world.pdbs)
        return not pod.owner_kind or (pod.namespace == "kube-system" and not covered)

    def gpu_pods_on(self, node: WorldNode) -> Sequence[WorldPod]:
        """The GPU pods bound to *node*, without those that a dead kubelet should have ended."""
        pods = [p for p in self.world.pods_on(node.name) if p.requests]
        if node.name not in self.world.dead_nodes:
            return pods
        return [p for p in pods if p.deletion_at is None or p.deletion_at > self.world.now]

    def awaited(self) -> list[WorldPod]:
        """The pods for which nodes are reserved: on one that is not usable yet, they count as waiting for any."""
        return [self.world.pods[key] for key in self.world.reserved]

    def reserved_on(self, node: str) -> list[WorldPod]:
        """The pods for which *node* is reserved."""
        return [self.world.pods[key] for key, reserved in self.world.reserved.items() if reserved.node == node]


def is_theirs(node: WorldNode) -> bool:
    """True when somebody else cordoned *node*."""
    return node.unschedulable and not node.annotations.keys() & {CORDON_ANNOTATION, STOP_ANNOTATION}


def _month_start(now: datetime) -> datetime:
    return now.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def platform_labels(plan: PoolPlan) -> dict[str, str]:
    """The labels that nodes carry without anybody's doing."""
    return {
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": f"an.g1.{plan.name}",
        "kubernetes.civo.com/civo-node-size": f"an.g1.{plan.name}",
        "kubernetes.civo.com/civo-node-pool": plan.id,
        "nvidia.com/gpu.present": "true",
    }


def per_node(pods: Sequence[WorldPod], plan: PoolPlan, world: World) -> int:
    """How many of *pods* one node of *plan* holds when all ask for the same; 1, the careful bound, when they differ."""
    if len({kind_of(p) for p in pods}) != 1:
        return 1
    offers = offers_of(plan)
    fit = [offers.get(resource, 0) // count for resource, count in asks_of(pods[0]).items()]
    return min([*fit, like_it(pods[0], plan, world)] if pods[0].claims else fit)


def nodes_for(pods: list[WorldPod], plan: PoolPlan, world: World) -> int:
    """Nodes that *pods* (equals of one job) take at once."""
    if pods[0].gang is None:
        return 1
    each = per_node(pods[:1], plan, world)
    return -(-max(size_of(pods[0]), len(pods)) // each)


def ended(scenario: Scenario) -> datetime:
    """When the troubles end."""
    return start_of(scenario) + timedelta(seconds=scenario.troubled)
