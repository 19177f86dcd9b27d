"""Startup taints of every prefix, and nodes whose GPUs fall sick or that others restart: drawn by dice of their own, so
that no other draw of a seed moves."""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from campaigns.faults.scenario import AGAIN, NAMED_CONDITION, OTHER_STARTUP_TAINTS, Event, PoolPlan
from campaigns.faults.truth import Truth
from receiver.core.model.model import REPAIR
from receiver.core.model.policy import Taint
from receiver.ports import CORDON_ANNOTATION, ClusterFacts, TelemetryFacts
from receiver.replay.world.objects import VM, WorldNode
from receiver.step.reconcile import Stepped
from simulator.world import World

FAULTS = ("xid", "xid", "condition", "named", "unready", "device", "restart")
FAULTY = {"GpuMemWatch": "True", NAMED_CONDITION: "True", "GPUReady": "False"}
QUARANTINE = Taint(key="nvidia.com/gpu-xid-error", value=AGAIN)  # beside a condition: the scheduler keeps off
RESTARTED_FOR = timedelta(minutes=44)


def tainted_otherwise(seed: int, pools: Sequence[PoolPlan]) -> list[PoolPlan]:
    """Return *pools*, where some of those with a startup taint carry one with another prefix."""
    dice, found = random.Random(f"{seed}/sick/taints"), []
    for plan in pools:
        key = dice.choice([plan.startup_taint, *OTHER_STARTUP_TAINTS])
        found.append(plan if plan.startup_taint is None else replace(plan, startup_taint=key))
    return found


def _has_sick_nodes(seed: int) -> bool:
    return random.Random(f"{seed}/sick").random() < 0.3


def repaired(seed: int, pools: Sequence[PoolPlan]) -> list[PoolPlan]:
    """Return *pools*, where some replace sick nodes in worlds that have any."""
    dice = random.Random(f"{seed}/sick/repair")
    shares = [dice.choice([None, 0.0, 0.2, 0.5, 1.0]) for _ in pools]
    if not _has_sick_nodes(seed):
        return list(pools)
    return [replace(plan, repair_share=share) for plan, share in zip(pools, shares, strict=True)]


def sick_events(seed: int, troubled: int, pools: Sequence[PoolPlan]) -> list[Event]:
    """The sicknesses within the *troubled* seconds of *seed*; each ends after a while, in all of its pool."""
    if not _has_sick_nodes(seed):
        return []
    dice, found = random.Random(f"{seed}/sick/events"), []
    for _ in range(dice.choice([2, 4, 8])):
        pool, at = dice.choice(pools).id, round(dice.uniform(0, troubled), 1)
        what: dict[str, Any] = {"pool": pool, "which": dice.randint(0, 5), "how": dice.choice(FAULTS)}
        found.append(Event(at=at, kind="sicken", what=what))
        over = round(at + dice.choice([20, 120, 700, 1500, 2600]), 1)
        if dice.random() < 0.7:
            found.append(Event(at=over, kind="recover", what={"pool": pool}))
    return found


def sicken(world: World, node: WorldNode | None, how: str) -> None:
    """Let *node* fall sick, or let Civo's node agent restart it."""
    if node is None:
        return
    faults = world.faults
    match how:
        case "xid":
            faults.failed[node.name] = "XID 79 on GPU 0"
        case "device":
            faults.unhealthy(node.name, 1)
        case "restart":
            faults.not_ready(node.name)
            faults.recovering[node.name] = "WaitingReboot"
        case _:
            world.patch_node(node.name, taints=(*(t for t in node.taints if t != QUARANTINE), QUARANTINE))
            kind = {"condition": "GpuMemWatch", "named": NAMED_CONDITION, "unready": "GPUReady"}[how]
            faults.condition(node.name, kind, FAULTY[kind])


def recover(world: World, pool: str) -> None:
    """End every sickness and restart in *pool*."""
    for name in [n.name for n in world.nodes.values() if n.pool == pool]:
        world.faults.failed.pop(name, None)
        world.faults.recovering.pop(name, None)
        world.faults.recover(name)
        node = world.nodes[name]
        if QUARANTINE in node.taints:
            world.patch_node(name, taints=tuple(t for t in node.taints if t != QUARANTINE))


def _lacks(allocatable: Mapping[str, int], capacity: Mapping[str, int]) -> bool:
    return any(0 < allocatable.get(resource, 0) < count for resource, count in capacity.items())


class SickNodes:
    """What must hold of sick nodes: no room for waiting work, repaired within the share, not removed in a restart."""

    def __init__(self, truth: Truth, clock: Callable[[], datetime], violated: Callable[[str, str], None]) -> None:
        self._truth, self._clock, self._violated = truth, clock, violated
        self._by_source: dict[str, frozenset[str]] = {}  # sick nodes as each source showed them in this step

    def looked(self, name: str, answer: Any) -> None:
        """A step begins, or a source answers."""
        if name == "store.memory":
            self._by_source = {}
        elif isinstance(answer, ClusterFacts):
            ill = [n.name for n in answer.nodes if any(n.conditions.get(k) == said for k, said in FAULTY.items())]
            self._by_source[name] = self._worked(ill)
            some = [n.name for n in answer.nodes if n.sick_devices or _lacks(n.allocatable, n.capacity)]
            self._truth.sick.update(dict.fromkeys(self._worked(some), self._clock()))
        elif isinstance(answer, TelemetryFacts):
            self._by_source[name] = self._worked(answer.failed)
            known = self._truth.restarts
            self._truth.restarts = {n: known.get(n, self._truth.world.now) for n in answer.recovering}
        self._truth.sick.update(dict.fromkeys((n for names in self._by_source.values() for n in names), self._clock()))

    def _worked(self, names: Iterable[str]) -> frozenset[str]:
        usable = {vm.hostname for vm in self._truth.world.lives if vm.usable_at is not None}
        return frozenset(names) & usable

    def stepped(self, stepped: Stepped) -> None:
        """After a step: no waiting pod was given a node that a source had shown as sick."""
        names = {n.instance: n.name for state in stepped.facts.pools for n in state.nodes}
        ill = frozenset[str]().union(*self._by_source.values())
        for wanted in stepped.assignment.pools.values():
            for workload, instance in wanted.work.placed:
                if names.get(instance) in ill:
                    self._violated("4 sick room", f"{workload} was given {names[instance]}, whose GPUs are sick")

    def before_cordon(self, node: WorldNode, value: str | None) -> None:
        """A repair keeps within the pool's share; one node always may be repaired."""
        if value != REPAIR:
            return
        plan, pool = self._truth.plans[node.pool], self._truth.world.pools[node.pool]
        if plan.repair_share is None:
            self._violated("2 repair", f"{node.name} is repaired, and its pool does not ask for it")
            return
        begun = [n for n in self._truth.world.nodes.values() if n.pool == node.pool and n.name != node.name]
        begun = [n for n in begun if n.annotations.get(CORDON_ANNOTATION) == REPAIR and n.unschedulable]
        listed = max(len(self._truth.listed.get(node.pool, ())), len(pool.living))
        if 1 + len(begun) > max(1, int(plan.repair_share * listed)):
            self._violated("2 repair", f"{node.name} and {len(begun)} more of {listed} nodes of {node.pool}")

    def before_delete(self, vm: VM) -> None:
        """A node that Civo's agent restarts is not deleted meanwhile."""
        since = self._truth.restarts.get(vm.hostname)
        if (
            self._truth.node_of(vm) is not None
            and since is not None
            and self._truth.world.now - since < RESTARTED_FOR - self._truth.skew
        ):
            self._violated("1 restarted", f"DELETE {vm.hostname}, which Civo's node agent restarts")
