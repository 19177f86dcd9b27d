"""Random worlds with claims: pools whose devices are claimed, what goes wrong with their drivers, and what is true.

What fits is worked out by the world's own allocator, which is not the product's.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from campaigns.faults.scenario import Event, PoolPlan, Scenario
from receiver.adapters.kubernetes.devices import devices_in, slice_from
from receiver.core.model.devices import as_text
from receiver.replay.world.objects import CLAIMS, DeviceSet, PodClaim, WorldNode, WorldPod
from simulator.dra.allocator import Attempt
from simulator.dra.claims import CLAIM, CLASS, SLICE, TEMPLATE, node_of, results_of
from simulator.dra.devices import DRIVER, DeviceId, complete_pools, slices_of
from simulator.world import World

GPU = "nvidia.com/gpu"
SICK, FOR_GOOD = "example.com/burn-in", "for-good"  # what its driver taints, `campaigns.faults.sick` makes
SHARE_OF_WORLDS = 0.25
WHOLE, PARTS = "whole", "parts"
MOST_PER_NODE = 32
What = dict[str, Any]


def _asking(count: int | None, kind: str = "gpu", **more: Any) -> What:
    mode = {"allocationMode": "All"} if count is None else {"allocationMode": "ExactCount", "count": count}
    return {"deviceClassName": f"{kind}.nvidia.com", **mode, **more}


def _spec(exactly: What, **devices: Any) -> What:
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}], **devices}}


def _either(*ways: What) -> What:
    options = [{"name": f"way{n}", **way} for n, way in enumerate(ways)]
    return {"devices": {"requests": [{"name": "gpu", "firstAvailable": options}]}}


LARGE = [{"cel": {"expression": f"device.attributes['{DRIVER}'].size == 'large'"}}]
TOLERANT = [{"key": SICK, "operator": "Exists"}]
SPECS: Mapping[str, What] = {
    "one": _spec(_asking(1)),
    "two": _spec(_asking(2)),
    "all": _spec(_asking(None)),
    "near": _spec(_asking(2), constraints=[{"matchAttribute": f"{DRIVER}/rack"}]),
    "apart": _spec(_asking(2), constraints=[{"distinctAttribute": f"{DRIVER}/rack"}]),
    "tolerant": _spec(_asking(1, tolerations=TOLERANT)),
    "four-or-one": _either(_asking(4), _asking(1)),
    "mig-or-gpu": _either(_asking(1, "mig"), _asking(1)),
    "mig": _spec(_asking(1, "mig")),
    "large": _spec(_asking(1, "mig", selectors=LARGE)),
}


def with_claims(scenario: Scenario) -> Scenario:
    """In some worlds work claims devices of DRA drivers; by dice of their own."""
    dice = random.Random(f"{scenario.seed}/claims")
    if dice.random() > SHARE_OF_WORLDS:
        return scenario
    by_resource = dice.random() < 0.5
    pools = [_with_devices(plan, by_resource, dice) for plan in scenario.pools]
    if not any(plan.devices for plan in pools):
        return scenario
    claims: dict[str, What] = {}
    jobs = [_with_claim(event, claims, dice) for event in scenario.events]
    objects = Event(at=0, kind="claims", what={"templates": SPECS, "claims": claims})
    return replace(
        scenario,
        pools=pools,
        events=sorted([objects, *jobs, *_troubles(scenario, pools, dice)], key=lambda e: e.at),
        timings={**scenario.timings, "slices": dice.choice([0, 0, 5, 20])},
    )


def _with_devices(plan: PoolPlan, by_resource: bool, dice: random.Random) -> PoolPlan:
    gpus = plan.resources.get(GPU, 0)
    if not gpus or dice.random() < 0.2:
        return replace(plan, dra=False)
    kind = dice.choice([WHOLE, WHOLE, PARTS]) if gpus < 4 else WHOLE
    return replace(plan, dra=by_resource, devices=kind, slices=dice.choice([1, 1, 2]))


def _with_claim(event: Event, claims: dict[str, What], dice: random.Random) -> Event:
    """Let most jobs claim devices: each pod its own by a template, or all pods of a job the same ones."""
    if event.kind != "job" or event.what["resource"] != GPU or dice.random() < 0.3:
        return event
    name = dice.choice(list(SPECS))
    what = {**event.what, "each": 0, "claims": {"template": name}}
    if dice.random() < 0.25:
        claims[what["id"]] = SPECS[name]
        what = {key: value for key, value in what.items() if key not in ("gang", "least", "compute")}
        what["claims"] = {"claim": what["id"]}
    if dice.random() < 0.3:  # used GPUs keep their node by themselves
        what |= {"util": 0.0, "memory": 0.0}
    return replace(event, what=what)


def _troubles(scenario: Scenario, pools: list[PoolPlan], dice: random.Random) -> list[Event]:
    """Devices fall sick, some for good; drivers restart; some nodes never show all of their slices."""
    found = []
    served = [plan.id for plan in pools if plan.devices]
    warm = scenario.objective == "wait"
    kept = [plan.id for plan in pools if warm or plan.min_nodes or plan.standby_nodes]  # nothing replaces a node there

    def add(kind: str, lasting: int | None, end: str, **what: Any) -> None:
        at, what = round(dice.uniform(0, scenario.troubled * 0.85), 1), {"pool": dice.choice(served), **what}
        if kind == "sick" and lasting is None:
            what["for_good"] = what["pool"] not in kept
        found.append(Event(at=at, kind=kind, what=what))
        if lasting is not None:
            found.append(Event(at=at + lasting, kind=end, what=what))

    for _ in range(dice.choice([0, 1, 2, 4])):
        effect, device = dice.choice(["NoSchedule", "NoExecute"]), dice.randint(0, 3)
        lasting = dice.choice([60, 600, None])
        add("sick", lasting, "healed", which=dice.randint(0, 5), device=device, effect=effect)
    for _ in range(dice.choice([0, 0, 1, 2])):
        add("driver", dice.choice([20, 120, 600]), "driver_back", which=dice.randint(0, 5))
    for _ in range(dice.choice([0, 0, 1])):
        add("slices", None, "")
    return found


# --- what there is


def sets_of(plan: PoolPlan) -> tuple[DeviceSet, ...]:
    """The devices of one node of *plan*: whole GPUs, two in each rack; or parts of GPUs that exclude each other."""
    gpus = plan.resources.get(GPU, 0)
    if plan.devices == WHOLE:
        rack = [{"type": {"string": "gpu"}, "rack": {"int": n // 2}} for n in range(gpus)]
        devices = tuple({"name": f"gpu-{n}", "attributes": attributes} for n, attributes in enumerate(rack))
        return (DeviceSet(devices=devices, slices=plan.slices),)
    if plan.devices != PARTS:
        return ()
    halves = {"large": (0, 1), "left": (0,), "right": (1,)}
    parts = [
        {
            "name": f"gpu-{3 * gpu + n}",
            "attributes": {"type": {"string": "mig"}, "size": {"string": size}},
            "consumesCounters": [{"counterSet": f"gpu-{gpu}", "counters": {f"half-{h}": {"value": "1"} for h in used}}],
        }
        for gpu in range(gpus)
        for n, (size, used) in enumerate(halves.items())
    ]
    counters = {f"half-{h}": {"value": "1"} for h in (0, 1)}
    shared = tuple({"name": f"gpu-{gpu}", "counters": counters} for gpu in range(gpus))
    return (DeviceSet(devices=tuple(parts), counters=shared, slices=plan.slices),)


def configured(plan: PoolPlan) -> str:
    """The devices of *plan* as its configuration has them."""
    slices = [one for each in sets_of(plan) for one in slices_of(each, "new", "new", 1)]
    return as_text(devices_in([slice_from(one) for one in slices])) if slices else ""


def claims_of(what: Mapping[str, Any]) -> tuple[PodClaim, ...]:
    """The claims of each pod of a job."""
    return (PodClaim(name="gpu", **what["claims"]),) if "claims" in what else ()


class ClaimsHappen:
    """What happens to claims and devices."""

    _world: World

    def _node(self, what: What) -> WorldNode | None:
        raise NotImplementedError

    def _claims(self, what: What) -> None:
        for plural, specs in ((TEMPLATE, what["templates"]), (CLAIM, what["claims"])):
            for name, spec in specs.items():
                spec = {"spec": spec} if plural == TEMPLATE else spec
                self._world.claims.put(plural, {"metadata": {"name": name, "namespace": "ml"}, "spec": spec})
        self._world.claims.changed()

    def _sick(self, what: What) -> None:
        if (node := self._node(what)) is not None:
            taint = {"key": SICK, "effect": what["effect"], **({"value": FOR_GOOD} if what.get("for_good") else {})}
            self._world.taint_device(node.name, f"gpu-{what['device']}", taint)

    def _healed(self, what: What) -> None:
        for node in [n for n in self._world.nodes.values() if n.pool == what["pool"]]:
            self._world.taint_device(node.name, f"gpu-{what['device']}", None)

    def _driver(self, what: What) -> None:
        if (node := self._node(what)) is not None:
            self._world.faults.lose_gpu(node.name)

    def _driver_back(self, what: What) -> None:
        for name in sorted(self._world.crashed_nodes):
            if self._world.nodes[name].pool == what["pool"]:
                self._world.faults.recover(name)

    def _slices(self, what: What) -> None:
        self._world.faults.slices_incomplete(what["pool"])


def heal(world: World) -> None:
    """Repair devices that are not sick for good, those of nodes that other pods keep, and those from which pods are
    evicted again and again because their replacements use the same claim."""
    kept = {pod.node for pod in world.active_pods.values() if pod.node and not pod.requests}
    claimed = {(r["pool"], r["device"]) for one in world.claims.objects[CLAIM].values() for r in results_of(one)}
    for spec in [one["spec"] for one in world.claims.objects[SLICE].values()]:
        for device in spec.get("devices") or ():
            taints = device.get("taints") or ()
            evicts = any(t["effect"] == "NoExecute" for t in taints)
            stays = spec["nodeName"] in kept or (evicts and (spec["pool"]["name"], device["name"]) in claimed)
            if any(t.get("value") != FOR_GOOD or stays for t in taints):
                world.taint_device(spec["nodeName"], device["name"], None)


# --- what is true


def asks_of(pod: WorldPod) -> Mapping[str, int]:
    """What *pod* asks for beside claims."""
    return {r: n for r, n in pod.asks.items() if r != CLAIMS}


def is_placed(pod: WorldPod, world: World) -> bool:
    """True where a claim of a waiting *pod* has its devices: it can only start on their node."""
    found = (world.claims.objects[CLAIM].get(key) for key in world.claims.keys(pod))
    return any(claim is not None and node_of(claim) is not None for claim in found)


def once(pods: Sequence[WorldPod]) -> list[WorldPod]:
    """*pods* without those that wait for the claim of another one of them."""
    named = {(p.claims[0].claim if p.claims and p.claims[0].claim else (p.uid, p.name)): p for p in reversed(pods)}
    return [p for p in pods if p in named.values()]


def kind_of(pod: WorldPod) -> tuple[Any, ...]:
    """Equal for pods that ask for the same."""
    return (tuple(sorted(asks_of(pod).items())), tuple((c.claim, c.template) for c in pod.claims))


def like_it(pod: WorldPod, plan: PoolPlan, world: World) -> int:
    """How many pods like *pod*, one after the other, get their devices on an empty node of *plan*; no more than
    `MOST_PER_NODE` are counted."""
    objects = world.claims.objects
    pools = complete_pools(one for each in sets_of(plan) for one in slices_of(each, "new", "new", 1))
    classes = {name: one for (_, name), one in objects[CLASS].items()}
    specs = [
        objects[CLAIM][pod.namespace, c.claim]["spec"]
        if c.claim
        else objects[TEMPLATE][pod.namespace, c.template]["spec"]["spec"]
        for c in pod.claims
    ]
    taken: set[DeviceId] = set()
    for number in range(MOST_PER_NODE):
        got = Attempt(pools, taken, classes, world.claims.judge).allocate([spec["devices"] for spec in specs])
        if got is None:
            return number
        if pod.claims[0].claim:
            break
        taken |= {DeviceId(r["driver"], r["pool"], r["device"]) for results in got for r in results}
    return MOST_PER_NODE
