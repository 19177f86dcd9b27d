"""The law: a node that no pod has used for long is kept by something that can be named, and pods that are about to
start or to leave count as what they are."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from campaigns.faults.outside import MOST_PODS, packs
from campaigns.faults.truth import Truth
from receiver.core.scaling.nominations import HOLDS_FOR
from receiver.core.scaling.wanted import USED_WITHIN
from receiver.replay.world.objects import VM, WorldNode, WorldPod
from receiver.replay.world.scheduler import selects, untolerated
from receiver.step.reconcile import Stepped

if TYPE_CHECKING:
    from campaigns.faults.run import Run

PATIENCE = timedelta(minutes=45)  # beside the paid units: time-outs, cooldowns, what is kept warm, and the calm's steps
HOUR = timedelta(hours=1)
REFUSED_FOR = timedelta(hours=4)
SHORT_GRACE = timedelta(seconds=120)


class Law:
    """Follows which nodes are used, and what is reserved. *violated* notes what does not hold."""

    def __init__(self, truth: Truth, violated: Callable[[str, str], None]) -> None:
        self._truth, self._violated = truth, violated
        self._used: dict[str, datetime] = {}  # instances: when a GPU pod was last seen on them
        self._reserved: dict[str, tuple[WorldPod, ...]] = {}  # by node, when Kubernetes answered last
        self._refused: dict[str, datetime] = {}  # work that waits for nodes, and since when
        self._returning: Mapping[str, Mapping[str, int]] = {}  # free GPUs where pods leave soon
        self._free: dict[str, dict[str, int]] = {}  # GPUs beside bound and reserved pods then

    # --- reservations

    def looked(self) -> None:
        """Kubernetes has answered."""
        world = self._truth.world
        names = {reserved.node for reserved in world.reserved.values()}
        self._reserved = {name: tuple(self._truth.reserved_on(name)) for name in names}
        self._free = {}
        for name in names & world.nodes.keys():
            taken = [*world.pods_on(name), *self._reserved[name]]
            gpus = world.nodes[name].gpus
            free = {r: n - sum(p.requests.get(r, 0) for p in taken) for r, n in gpus.items()}
            if min(free.values(), default=0) >= 0:  # else it lost a GPU, and cannot keep its word
                self._free[name] = free
        self._returning = self._leaving_soon()

    def before_delete(self, vm: VM, cordoned: datetime | None) -> None:
        """No node goes that was reserved for a pod before its cordon."""
        since = {pod.name: self._truth.world.reserved[pod.key].since for pod in self._truth.reserved_on(vm.hostname)}
        early = [name for name, at in since.items() if cordoned is None or at < cordoned]
        if early:
            self._violated("1 reserved", f"DELETE {vm.hostname}, which is reserved for {', '.join(early)}")

    def stepped(self, stepped: Stepped) -> None:
        """No waiting pod counts on room that is reserved for another one."""
        names = {n.instance: n.name for state in stepped.facts.pools for n in state.nodes}
        pods = {p.key: p for p in stepped.facts.waiting}
        told = [p.nomination for p in pods.values() if p.nomination is not None]
        tired = {n.node for n in told if stepped.facts.at - n.since >= HOLDS_FOR}  # the scheduler tries it for too long
        for wanted in stepped.assignment.pools.values():
            for workload, instance in wanted.work.placed:
                free, pod = self._free.get(names.get(instance, "")), pods.get(workload)
                name = names.get(instance, "")
                if free is None or pod is None or self._is_reserved_for(name, workload) or name in tired:
                    continue
                for resource, count in pod.requests.items():
                    free[resource] = free.get(resource, 0) - count
                if min(free.values(), default=0) < 0:
                    self._violated("4 reserved room", f"{workload} was given {names[instance]}, which is reserved")

    def _is_reserved_for(self, node: str, workload: str) -> bool:
        """True where *node* is reserved for the waiting pod itself: it tried too often to be believed."""
        return any(f"{pod.namespace}/{pod.name}" == workload for pod in self._reserved.get(node, ()))

    # --- pods that leave

    def room_comes_back(self, waiting: Sequence[WorldPod]) -> bool:
        """True when all of *waiting* finds room where pods leave before a node could come. Plain pods are judged."""
        if not self._returning or len(waiting) > MOST_PODS:
            return False
        if any(p.gang is not None or p.claims or p.compute or len(p.requests) != 1 for p in waiting):
            return False
        nodes = self._truth.world.nodes
        asks = []
        for pod in waiting:
            [(resource, count)] = pod.requests.items()
            rooms = [name for name, free in self._returning.items() if free.get(resource, 0) >= count]
            here = [name for name in rooms if name in nodes and accepts(nodes[name], pod)]
            asks.append((count, frozenset(here)))
        free = [(name, sum(gpus.values())) for name, gpus in self._returning.items()]
        return bool(asks) and packs(sorted(asks, key=lambda a: (-a[0], len(a[1]))), free)

    def _leaving_soon(self) -> Mapping[str, Mapping[str, int]]:
        """The free GPUs of nodes as they are once the pods that leave before a node could come are gone."""
        world, truth = self._truth.world, self._truth
        soon, rooms = world.now + min(SHORT_GRACE, truth.fastest()), {}
        for vm in (vm for vm in world.lives if vm.living):
            node = truth.node_of(vm)
            if node is None or not truth.works(vm) or node.unschedulable or vm.hostname in world.dead_nodes:
                continue
            stay = [p for p in world.pods_on(node.name) if p.deletion_at is None or p.deletion_at > soon]
            if len(stay) < len(world.pods_on(node.name)):
                taken = [*stay, *truth.reserved_on(node.name)]
                rooms[node.name] = {r: n - sum(p.requests.get(r, 0) for p in taken) for r, n in node.gpus.items()}
        return rooms

    # --- nodes without work

    def follow(self) -> None:
        """Note which nodes are used now."""
        world = self._truth.world
        used = {p.node for p in world.active_pods.values() if p.requests} | {r.node for r in world.reserved.values()}
        used -= set(world.dead_nodes)
        self._used.update({vm.id: world.now for vm in world.lives if vm.living and vm.hostname in used})

    def refuses(self, works: Collection[str]) -> None:
        """Work that new nodes would start, and that may have them, does not wait for ever."""
        now = self._truth.world.now
        self._refused = {name: self._refused.get(name, now) for name in works}
        for name, since in self._refused.items():
            if now - since > REFUSED_FOR:
                self._violated(
                    "5 refused for ever", f"{name} has waited since {since:%d %H:%M} for a node that would start it"
                )

    def idle_since(self, vm: VM, calm_since: datetime) -> datetime:
        """Since when no GPU pod has been on *vm*, at the earliest since *calm_since*."""
        ended = [p.finished_at for p in self._truth.world.pods.values() if p.node == vm.hostname and p.finished_at]
        return max([self._used.get(vm.id, vm.created_at), vm.created_at, calm_since, *ended])


def unnamed(run: "Run", calm_since: datetime, kept: int, pool: str) -> Iterator[str]:
    """Nodes of *pool* beyond the *kept* ones that have been without work for longer than their paid time."""
    scenario, world = run.scenario, run.world
    hourly = scenario.limits.get("max_removals_per_hour")
    removable = sum(vm.living or (vm.deleted_at or calm_since) > calm_since for vm in world.lives)
    queue = HOUR * (removable // hourly + 1) if hourly else timedelta(0)
    answers = HOUR if any(plan.asks for plan in scenario.pools) else timedelta(0)  # one removal may wait for several
    warm = USED_WITHIN if scenario.objective == "wait" else timedelta(0)
    idle_for = timedelta(seconds=run.truth.plans[pool].idle_for)
    patience = 2 * timedelta(seconds=scenario.granularity) + idle_for + PATIENCE + queue + answers + warm
    living = world.pools[pool].living
    idle = {vm.hostname: run.checks.law.idle_since(vm, calm_since) for vm in living}
    late = sorted((since, name) for name, since in idle.items() if world.now - since > patience)
    for since, name in late[: max(0, len(late) - kept)]:
        yield f"{name} of {pool} has no work since {since:%d %H:%M}"


def accepts(node: WorldNode, pod: WorldPod) -> bool:
    """True when taints and labels of *node* let *pod* run there."""
    return untolerated(node.taints, pod.tolerations) is None and selects(node.labels, pod.node_selector, pod.affinity)
