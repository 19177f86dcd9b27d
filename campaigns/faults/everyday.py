"""Everyday operations: obstacles that only the scheduler knows, reservations, pods that leave slowly, `kubectl taint`
and `kubectl label`, and parts of Civo's answers. Each is drawn by dice of its own, so that no other draw of a seed
moves."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from campaigns.faults.scenario import Event, PoolPlan, Scenario
from receiver.core.model.policy import Taint
from receiver.ports import CloudPool
from receiver.replay.world.objects import WorldNode, WorldPod
from simulator.scheduling import OBSTACLE_ANNOTATION, OBSTACLES, PORT_ANNOTATION, WHOLE
from simulator.slow_pods import BINDS_IN, FAILS, KEEPS_NOMINATION
from simulator.world import World

EVERYTHING = [["", "Exists", "", ""]]
GPUS = [["gpu", "Exists", "", ""]]
POOL_LABEL = "kubernetes.civo.com/civo-node-pool"
SETTLED = timedelta(minutes=3)
WORDS = ("", "RESIZING", "RUNNING", "MIGRATING")  # as a status: absent, and not documented
PEOPLE = "people"  # the value of a taint that a person sets
What = dict[str, Any]
Drawn = Callable[[Scenario, random.Random], Scenario]


def everyday(scenario: Scenario) -> Scenario:
    """Return *scenario* with what its seed draws here."""
    for kind in kinds_of(scenario.seed):
        scenario = KINDS[kind][1](scenario, _dice(scenario.seed, kind))
    return scenario


def kinds_of(seed: int) -> list[str]:
    """The kinds of everyday operations in the world of *seed*."""
    return [kind for kind, (share, _) in KINDS.items() if _dice(seed, f"{kind}?").random() < share]


def _dice(seed: int, what: str) -> random.Random:
    return random.Random(f"{seed}/everyday/{what}")


def _with(scenario: Scenario, events: Sequence[Event], **changes: Any) -> Scenario:
    return replace(scenario, events=sorted([*scenario.events, *events], key=lambda e: e.at), **changes)


def _simple(plans: Sequence[PoolPlan]) -> list[PoolPlan]:
    """The pools that are as configured, have a price and no claims."""
    return [p for p in plans if p.price is not None and not p.devices and p.true_labels is None and p.window is None]


def _plain(event: Event) -> bool:
    return event.kind == "job" and not event.what.get("gang") and not event.what.get("claims")


def _changed(scenario: Scenario, change: Callable[[What], What | None]) -> list[Event]:
    """The events of *scenario*, with what *change* makes of plain jobs."""
    return [
        replace(e, what={**e.what, **more}) if _plain(e) and (more := change(e.what)) else e for e in scenario.events
    ]


def _annotated(what: What, **annotations: str) -> What:
    return {"annotations": {**what.get("annotations", {}), **annotations}}


def _whole_node(plan: PoolPlan, name: str, **more: Any) -> What:
    """Work that takes whole nodes of *plan* and may run there by its labels."""
    resource, there = next(iter(plan.resources.items()))
    what: What = {"id": name, "pods": 1, "each": there, "resource": resource, "tolerations": GPUS}
    return {**what, "selector": {POOL_LABEL: plan.id, **plan.labels}, **more}


def _obstacles(scenario: Scenario, dice: random.Random) -> Scenario:
    """Pods that the scheduler refuses everywhere, some for a while; in some worlds pods with a port of the host."""
    events: list[Event] = []
    plans = _simple(scenario.pools)
    for number in range(dice.choice([1, 1, 2, 3]) if plans else 0):
        plan, at = dice.choice(plans), round(dice.uniform(0, scenario.troubled * 0.7), 1)
        resource, there = next(iter(plan.resources.items()))
        what: What = {
            "id": f"never{number}",
            "pods": dice.choice([1, 1, 2]),
            "each": dice.choice([1, there]),
            "resource": resource,
            "seconds": 300,
            "tolerations": EVERYTHING,
            "selector": {POOL_LABEL: plan.id},
            "owner": dice.choice(["Job", "ReplicaSet"]),
        }
        if dice.random() < 0.25:
            ported = {**what, **_annotated(what, **{PORT_ANNOTATION: "8080"}), "pods": 2, "each": 1, "seconds": 900}
            events.append(Event(at=at, kind="job", what=ported))
            continue
        obstacle = dice.choice([*OBSTACLES, *WHOLE, "claim"])
        events.append(Event(at=at, kind="job", what={**what, **_annotated(what, **{OBSTACLE_ANNOTATION: obstacle})}))
        if dice.random() < 0.35:
            over = round(at + dice.choice([30, 200, 700, 1500]), 1)
            events.append(Event(at=over, kind="obstacle_over", what={"id": what["id"]}))
    return _with(scenario, events)


def _reservations(scenario: Scenario, dice: random.Random) -> Scenario:
    """The scheduler reserves a node before it binds a pod; some bindings fail, and some nodes are gone before."""

    def slow(what: What) -> What | None:
        if dice.random() < 0.3:
            return None
        more = {BINDS_IN: str(dice.choice([5, 20, 60, 120, 300]))}
        if dice.random() < 0.25:
            more[FAILS] = str(dice.choice([1, 2]))
        if dice.random() < 0.3:
            more[KEEPS_NOMINATION] = "true"
        return _annotated(what, **more)

    gone = [
        Event(
            at=round(dice.uniform(60, scenario.troubled), 1),
            kind="lose_reserved",
            what={"pool": dice.choice(scenario.pools).id},
        )
        for _ in range(dice.choice([0, 0, 1, 3]))
    ]
    return _with(replace(scenario, events=_changed(scenario, slow)), gone)


def _restarts(scenario: Scenario, dice: random.Random) -> Scenario:
    """Pods of ReplicaSets are restarted again and again, and leave slowly; in some worlds a kubelet dies for good."""

    def served(what: What) -> What | None:
        return {"owner": "ReplicaSet"} if "owner" not in what and dice.random() < 0.8 else None

    events = []
    for number, plan in enumerate(_simple(scenario.pools)[:2]):  # whole nodes, whose successors fit nowhere else
        pods = dice.randint(1, max(1, plan.max_nodes - 1))
        what = _whole_node(plan, f"served{number}", seconds=scenario.troubled, pods=pods, owner="ReplicaSet")
        events.append(Event(at=round(dice.uniform(0, 100), 1), kind="job", what=what))
    for _ in range(dice.choice([2, 4, 8])):
        what = {"which": dice.randint(0, 9), "grace": dice.choice([2, 10, 30, 30, 60, 120])}
        events.append(Event(at=round(dice.uniform(100, scenario.troubled), 1), kind="restart", what=what))
    for _ in range(dice.choice([0, 0, 1, 2])):
        where = {"pool": dice.choice(scenario.pools).id, "which": dice.randint(0, 5)}
        events.append(Event(at=round(dice.uniform(200, scenario.troubled), 1), kind="kubelet_dies", what=where))
    return _with(replace(scenario, events=_changed(scenario, served)), events)


def _people(scenario: Scenario, dice: random.Random) -> Scenario:
    """People taint and relabel a pool's only, newest or oldest usable node, for a while or for good."""
    events = []
    for number in range(dice.choice([1, 2, 4])):
        plan, at = dice.choice(scenario.pools), round(dice.uniform(0, scenario.troubled * 0.9), 1)
        which: What = {"pool": plan.id, "which": dice.choice(["oldest", "newest", "all"])}
        for when in (at - dice.choice([100, 400, 700]), at + dice.choice([2, 60, 400])):
            name, seconds = f"people{number}at{when:.0f}", dice.choice([100, 600])
            events.append(Event(at=round(max(when, 0), 1), kind="job", what=_whole_node(plan, name, seconds=seconds)))
        later = dice.choice([None, 40, 300, 900])
        if dice.random() < 0.55:
            key = dice.choice(["maintenance", "ToBeDeletedByClusterAutoscaler", f"custom{number}"])
            effect = dice.choice(["NoSchedule", "NoSchedule", "PreferNoSchedule"])
            events.append(Event(at=at, kind="taint", what={**which, "key": key, "effect": effect}))
            if later is not None:
                events.append(Event(at=round(at + later, 1), kind="untaint", what={"pool": plan.id, "key": key}))
            continue
        key = dice.choice([*plan.labels, "nvidia.com/gpu.present", "team"])
        value = dice.choice([PEOPLE, None])
        events.append(Event(at=at, kind="relabel", what={**which, "key": key, "value": value}))
        if later is not None:
            events.append(Event(at=round(at + later, 1), kind="relabel_over", what={"pool": plan.id, "key": key}))
    return _with(scenario, events)


def _partial_answers(scenario: Scenario, dice: random.Random) -> Scenario:
    """Civo leaves out the status of an instance, calls it something new, or leaves the instance out; its count falls
    late."""
    events = []
    for _ in range(dice.choice([1, 2, 4])):
        plan, at = dice.choice(scenario.pools), round(dice.uniform(0, scenario.troubled), 1)
        how = dice.choice(["word", "word", "word", "missing"])
        what: What = {"how": how, "pool": plan.id, "which": dice.choice([0, 1, None])}
        if how == "word":
            what["word"] = dice.choice(WORDS)
        what["seconds"] = dice.choice([20, 100]) if how == "missing" else dice.choice([20, 300, 1500])
        events.append(Event(at=at, kind="civo_answers", what=what))
    behaviour, decrement = dict(scenario.behaviour), dice.choice(["at_once", 10, 30, 60])
    if behaviour.get("decrement", "at_once") == "at_once":
        behaviour["decrement"] = decrement
    return _with(scenario, events, behaviour=behaviour)


KINDS: Mapping[str, tuple[float, Drawn]] = {  # each with the share of worlds that have it
    "obstacles": (0.15, _obstacles),
    "reservations": (0.15, _reservations),
    "restarts": (0.15, _restarts),
    "people": (0.15, _people),
    "answers": (0.12, _partial_answers),
}


class EverydayHappens:
    """What happens in such worlds."""

    _world: World

    def _obstacle_over(self, what: What) -> None:
        for pod in [p for p in self._world.active_pods.values() if p.owner_name == what["id"]]:
            self._world.remove_obstacle(pod.key)

    def _lose_reserved(self, what: What) -> None:
        """Civo replaces a node that is reserved for a pod."""
        names = {reserved.node for reserved in self._world.reserved.values()}
        for node in [n for n in self._usable(what["pool"]) if n.name in names][:1]:
            self._world.recycle(node.name)

    def _restart(self, what: What) -> None:
        """A person deletes a running pod of a ReplicaSet."""
        pods = [p for p in self._world.active_pods.values() if p.owner_kind == "ReplicaSet" and p.requests]
        pods = [p for p in pods if p.phase == "Running" and p.deletion_at is None]
        if pods:
            pod = pods[what["which"] % len(pods)]
            self._world.delete_pod(pod.namespace, pod.name, timedelta(seconds=what["grace"]))

    def _kubelet_dies(self, what: What) -> None:
        nodes = [n for n in self._usable(what["pool"]) if n.ready]
        if nodes:
            self._world.kubelet_dies(nodes[what["which"] % len(nodes)].name)

    def _usable(self, pool: str, least: timedelta = timedelta(0)) -> list[WorldNode]:
        """The living nodes of *pool* that became usable *least* ago, oldest first."""
        now, living = self._world.now, self._world.pools[pool].living
        lives = [vm for vm in living if vm.usable_at is not None and now - vm.usable_at >= least]
        return [self._world.nodes[vm.hostname] for vm in lives if vm.hostname in self._world.nodes]

    def _meant(self, what: What) -> list[WorldNode]:
        """The nodes that a person means. What is done to one that has just come may belong to it."""
        nodes = self._usable(what["pool"], SETTLED)
        return {"oldest": nodes[:1], "newest": nodes[-1:], "all": nodes}[what["which"]]

    def _taint(self, what: What) -> None:
        for node in self._meant(what):
            others = [t for t in node.taints if t.key != what["key"]]
            taint = Taint(key=what["key"], value=PEOPLE, effect=what["effect"])
            self._world.patch_node(node.name, taints=(*others, taint))

    def _untaint(self, what: What) -> None:
        for node in [n for n in self._world.nodes.values() if n.pool == what["pool"]]:
            self._world.patch_node(node.name, taints=[t for t in node.taints if t.key != what["key"]])

    def _relabel(self, what: What) -> None:
        for node in self._meant(what):
            self._world.patch_node(node.name, labels={what["key"]: what["value"]})

    def _relabel_over(self, what: What) -> None:
        pool = self._world.pools[what["pool"]]
        before = {**pool.labels, **pool.spec.gpu_labels}.get(what["key"])
        for node in self._usable(what["pool"]):
            self._world.patch_node(node.name, labels={what["key"]: before})


def answered(pools: Mapping[str, CloudPool], what: Mapping[str, Any]) -> Mapping[str, CloudPool]:
    """Return what Civo says of *pools* while it answers as *what* has it."""
    pool = pools.get(what["pool"])
    if pool is None:
        return pools
    chosen = pool.instances if what["which"] is None else pool.instances[what["which"] : what["which"] + 1]
    if what["how"] == "missing":
        instances = tuple(i for i in pool.instances if i not in chosen)
    else:
        instances = tuple(
            replace(i, status=what["word"]) if i in chosen and i.status == "ACTIVE" else i for i in pool.instances
        )
    return {**pools, pool.id: replace(pool, instances=instances)}


def never_starts(pod: WorldPod) -> bool:
    """True for a pod that no node helps."""
    return OBSTACLE_ANNOTATION in pod.annotations


def spoilt(node: WorldNode) -> bool:
    """True for a node that a person keeps from work by a taint."""
    return any(t.value == PEOPLE and t.effect == "NoSchedule" for t in node.taints)
