"""What claims take of a node, by the product's search and by the simulated scheduler: two programs for one answer."""

import random
from typing import Any

from receiver.adapters.kubernetes.cel import Selectors
from receiver.adapters.kubernetes.devices import by_node, claim_of, classes_from, devices_in, slice_from
from receiver.core.model.devices import claim_name, put_claims
from receiver.ports import ClusterFacts
from receiver.replay.world.objects import DeviceSet
from receiver.step.devices import DeviceJoin
from simulator.dra.allocator import Attempt
from simulator.dra.devices import DeviceId, complete_pools, simple_judge, slices_of
from tests.core.builders import a_pod

JSON = dict[str, Any]
DRIVER, ROOT, SERIES = "gpu.nvidia.com", "resource.kubernetes.io/pcieRoot", "gpu.nvidia.com/series"
TYPE = f"device.attributes['{DRIVER}'].type"
CLASSES = {
    name: {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}
    for name, expression in {
        "any": f"device.driver == '{DRIVER}'",
        "gpu": f"device.driver == '{DRIVER}' && {TYPE} == 'gpu'",
        "mig": f"device.driver == '{DRIVER}' && {TYPE} == 'mig'",
    }.items()
}
TOLERATIONS: list[list[JSON]] = [
    [],
    [{"operator": "Exists"}],
    [{"key": "sick", "operator": "Exists", "effect": "NoSchedule"}],
    [{"key": "sick", "value": "very"}],
]


def a_device(rng: random.Random, number: int) -> JSON:
    attributes: JSON = {"type": {"string": rng.choice(("gpu", "mig"))}, "series": {"int": rng.randint(1, 2)}}
    if rng.random() < 0.8:
        attributes[ROOT] = {"string": rng.choice("ab")}
    device: JSON = {"name": f"d{number}", "attributes": attributes}
    if rng.random() < 0.4:
        counters = {rng.choice("xy"): {"value": str(rng.randint(1, 2))}}
        device["consumesCounters"] = [{"counterSet": "set", "counters": counters}]
    if rng.random() < 0.1:
        effect = rng.choice(("NoSchedule", "NoExecute", "None"))
        device["taints"] = [{"key": "sick", "value": rng.choice(("", "very")), "effect": effect}]
    return device


def an_ask(rng: random.Random) -> JSON:
    ask: JSON = {"deviceClassName": rng.choice(list(CLASSES)), "tolerations": rng.choice(TOLERATIONS)}
    if rng.random() < 0.1:
        return {**ask, "allocationMode": "All"}
    if rng.random() < 0.3:
        ask["selectors"] = [{"cel": {"expression": f"device.attributes['{DRIVER}'].series == {rng.randint(1, 2)}"}}]
    return {**ask, "count": rng.choice((1, 1, 1, 2, 3))}


def a_spec(rng: random.Random) -> JSON:
    requests: list[JSON] = []
    for number in range(rng.randint(1, 3)):
        if rng.random() < 0.3:
            ways: list[JSON] = [{"name": f"w{way}", **an_ask(rng)} for way in range(2)]
            requests.append({"name": f"r{number}", "firstAvailable": ways})
        else:
            requests.append({"name": f"r{number}", "exactly": an_ask(rng)})
    constraints: list[JSON] = []
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        bound = [r["name"] for r in requests if rng.random() < 0.5]
        kind = rng.choice(("matchAttribute", "distinctAttribute"))
        constraints.append({"requests": bound, kind: rng.choice((ROOT, SERIES))})
    return {"requests": requests, "constraints": constraints}


def test_both_find_room_for_the_same_claims() -> None:
    rng, classes, join = (
        random.Random("two allocators"),
        classes_from(CLASSES.values()),
        DeviceJoin(Selectors(lambda: 0)),
    )
    fitted = 0
    for number in range(600):
        devices = tuple(a_device(rng, n) for n in range(rng.randint(3, 8)))
        counters = ({"name": "set", "counters": {name: {"value": str(rng.randint(1, 4))} for name in "xy"}},)
        slices = slices_of(DeviceSet(devices=devices, counters=counters, slices=rng.randint(1, 2)), "n1", "uid", 1)
        in_use = {DeviceId(DRIVER, "n1", d["name"]) for d in devices if rng.random() < 0.15}
        specs = [a_spec(rng) for _ in range(rng.randint(1, 2))]
        world = Attempt(complete_pools(slices), in_use, CLASSES, simple_judge).allocate(specs)
        claims = tuple(claim_of(f"ml/c{n}", {"devices": s}, classes, shared=False) for n, s in enumerate(specs))
        facts = ClusterFacts(nodes=(), pods=(a_pod(requests={}, claimed=claims),), dra_resources={})
        join.join(facts, ())
        [parts] = by_node(map(slice_from, slices)).values()
        free = dict(join.free(devices_in(parts), frozenset((d.driver, d.pool, d.name) for d in in_use)))
        assert put_claims(free, claim_name(claims)) is (world is not None), number
        fitted += world is not None
    assert 150 < fitted < 450
