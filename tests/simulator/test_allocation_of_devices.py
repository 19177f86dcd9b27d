"""The world's allocator and the product's search agree on which claims fit the devices of a node."""

from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from receiver.adapters.kubernetes.cel import Selectors
from receiver.adapters.kubernetes.devices import claim_of, classes_from, devices_in, slice_from
from receiver.core.scaling.demand import take
from receiver.ports import ClusterFacts, ClusterNode
from receiver.replay.world.objects import DeviceSet
from receiver.step.devices import DeviceJoin
from simulator.dra.allocator import Attempt
from simulator.dra.devices import (
    DRIVER,
    DeviceId,
    complete_pools,
    device_class,
    simple_judge,
    slices_of,
)
from tests.core.builders import a_pod, with_fields

JSON = dict[str, Any]
CLASSES = {"gpu.nvidia.com": device_class(None, "gpu"), "mig.nvidia.com": device_class(None, "mig")}
OF_CLASS = [{"metadata": {"name": name}, "spec": spec} for name, spec in CLASSES.items()]
JUDGE = Selectors(seconds=lambda: 0.0)
HALVES = [{"name": "gpu", "counters": {"half-0": {"value": "1"}, "half-1": {"value": "1"}}}]
RACK_0 = [{"cel": {"expression": f"device.attributes['{DRIVER}'].rack == 0"}}]
SICK = {"key": "sick", "effect": "NoSchedule"}

devices = st.lists(
    st.fixed_dictionaries(
        {
            "attributes": st.fixed_dictionaries(
                {
                    "type": st.sampled_from([{"string": "gpu"}, {"string": "mig"}]),
                    "rack": st.sampled_from([{"int": 0}, {"int": 1}]),
                }
            )
        },
        optional={
            "taints": st.just([SICK]),
            "consumesCounters": st.sampled_from([["half-0"], ["half-1"], ["half-0", "half-1"]]).map(
                lambda used: [{"counterSet": "gpu", "counters": {half: {"value": "1"} for half in used}}]
            ),
        },
    ),
    min_size=1,
    max_size=6,
)
ways = st.fixed_dictionaries(
    {"deviceClassName": st.sampled_from(list(CLASSES)), "allocationMode": st.sampled_from(["ExactCount", "All"])},
    optional={
        "selectors": st.just(RACK_0),
        "tolerations": st.just([{"operator": "Exists"}]),
    },
)
counts = st.integers(1, 3)


@st.composite
def requests(draw: st.DrawFn, name: str) -> JSON:
    """A request with one way or several."""
    found = []
    for number in range(draw(st.sampled_from([1, 1, 2]))):
        way = draw(ways)
        count = {"count": draw(counts)} if way["allocationMode"] == "ExactCount" else {}
        found.append({"name": f"way{number}", **way, **count})
    if len(found) == 1:
        return {"name": name, "exactly": {key: value for key, value in found[0].items() if key != "name"}}
    return {"name": name, "firstAvailable": found}


@st.composite
def claims(draw: st.DrawFn) -> JSON:
    """``spec`` of a claim."""
    asked = [draw(requests(f"r{number}")) for number in range(draw(st.sampled_from([1, 1, 2])))]
    spec: JSON = {"devices": {"requests": asked}}
    if draw(st.booleans()):
        kind = draw(st.sampled_from(["matchAttribute", "distinctAttribute"]))
        spec["devices"]["constraints"] = [{kind: f"{DRIVER}/rack"}]
    return spec


@settings(max_examples=150, deadline=None)
@given(devices, st.lists(claims(), min_size=1, max_size=3), st.sets(st.integers(0, 5)))
def test_both_place_the_same_pods(shown: list[JSON], specs: list[JSON], in_use: set[int]) -> None:
    named = tuple({"name": f"gpu-{n}", **device} for n, device in enumerate(shown))
    slices = slices_of(DeviceSet(devices=named, counters=tuple(HALVES)), "n", "uid", 1)
    taken = {DeviceId(DRIVER, "n", f"gpu-{n}") for n in in_use if n < len(named)}
    ours = devices_in([slice_from(one) for one in slices])
    known = classes_from(OF_CLASS)
    claimed = [claim_of(f"ml/c{n}", spec, known, shared=False) for n, spec in enumerate(specs)]
    pods = [with_fields(a_pod(f"p{n}"), requests={}, claimed=(claim,)) for n, claim in enumerate(claimed)]
    join = DeviceJoin(JUDGE)
    node = ClusterNode(name="n", instance="i", ready=True, unschedulable=False, allocatable={}, devices=ours)
    joined = join.join(ClusterFacts(nodes=(node,), pods=tuple(pods), dra_resources={}), ())
    free = dict(join.free(ours, frozenset((d, p, n) for d, p, n in taken)))
    pools = complete_pools(slices)
    classes: Mapping[str, JSON] = {one["metadata"]["name"]: one for one in OF_CLASS}
    for pod, spec in zip(joined.pods, specs, strict=True):
        got = Attempt(pools, taken, classes, simple_judge).allocate([spec["devices"]])
        assert (bool(pod.requests) and take(free, pod.requests)) is (got is not None), (spec, sorted(taken))
        taken |= {DeviceId(r["driver"], r["pool"], r["device"]) for results in got or () for r in results}
