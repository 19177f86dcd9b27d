"""Claims of devices: what a claim takes of a node's devices, against a search that tries everything."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest

from receiver.core.model.devices import (
    COUNTER,
    KIND,
    Claim,
    Constraint,
    Device,
    DeviceRequest,
    NodeDevices,
    Toleration,
    as_text,
    claim_name,
    fewest_gpus,
    from_text,
    put_claims,
    tolerates,
    why_no_devices,
)
from receiver.core.model.model import CordonedBy, Node
from receiver.core.model.pods import Pod, PodPhase
from receiver.core.model.policy import Taint
from receiver.ports import ClusterFacts
from receiver.replay.world.scheduler import untolerated
from receiver.step.devices import DeviceJoin
from tests.core.builders import a_node, a_pod, a_policy, a_pool, a_state, facts, run, with_fields

GPU_DRIVER = "gpu.nvidia.com"
TYPE, MODEL, ROOT = f"{GPU_DRIVER}/type", f"{GPU_DRIVER}/model", "resource.kubernetes.io/pcieRoot"
SICK = Taint(key="gpu.nvidia.com/xid", effect="NoSchedule")


def meets(expression: str, device: Device) -> bool | None:
    """A judge of expressions such as ``gpu.nvidia.com/type=gpu``; ``?`` cannot be judged."""
    name, _, value = expression.partition("=")
    return None if name == "?" else name == "any" or device.attributes.get(name, ("", ""))[1] == value


def a_device(name: str, kind: str = "gpu", **given: Any) -> Device:
    attributes = {TYPE: ("string", kind), **given.pop("attributes", {})}
    return Device(driver=GPU_DRIVER, pool="n1", name=name, attributes=attributes, **given)


def want(count: int = 1, selector: str = f"{TYPE}=gpu", name: str = "r", *tolerations: Toleration) -> DeviceRequest:
    return DeviceRequest(
        name=name, device_class="gpu", selectors=(selector,), count=count, tolerations=tuple(tolerations)
    )


def a_claim(*requests: DeviceRequest | tuple[DeviceRequest, ...], constraints: Sequence[Constraint] = ()) -> Claim:
    ways = tuple(r if isinstance(r, tuple) else (r,) for r in requests)
    return Claim(key="ml/train", requests=ways, constraints=tuple(constraints))


def room(
    node: NodeDevices, *claims: Claim, taken: frozenset[tuple[str, str, str]] = frozenset(), served: str = ""
) -> dict[str, int]:
    """What is free of *node* where a pod with *claims* waits."""
    join = DeviceJoin(meets)
    resources = {served: (f"{TYPE}=gpu",)} if served else {}
    pod = a_pod(requests={}, claimed=claims)
    join.join(ClusterFacts(nodes=(), pods=(pod,), dra_resources=resources), ())
    return dict(join.free(node, taken))


def four(**given: Any) -> NodeDevices:
    return NodeDevices(devices=tuple(a_device(f"gpu-{n}", **given) for n in range(4)))


def test_devices_that_nothing_tells_apart_are_one_resource() -> None:
    claim = a_claim(want())
    kinds = {name: n for name, n in room(four(), claim).items() if name.startswith(KIND)}
    assert list(kinds.values()) == [4]


def test_a_claim_takes_as_many_devices_as_it_asks_for() -> None:
    claim = a_claim(want(3))
    free = room(four(), claim)
    name = claim_name([claim])
    assert put_claims(free, name)
    before = dict(free)
    assert not put_claims(free, name)
    assert free == before
    assert fewest_gpus([claim], {want().selectors}) == 3


def test_a_device_that_another_claim_holds_is_not_free() -> None:
    claim = a_claim(want(3))
    taken = frozenset({(GPU_DRIVER, "n1", "gpu-0"), (GPU_DRIVER, "n1", "gpu-1")})
    assert not put_claims(room(four(), claim, taken=taken), claim_name([claim]))


def test_alternatives_are_tried_in_their_order() -> None:
    node = NodeDevices(devices=(a_device("gpu-0"), a_device("mig-0", "mig"), a_device("mig-1", "mig")))
    claim = a_claim((want(2, name="r/gpus"), want(2, f"{TYPE}=mig", "r/slices")))
    free = room(node, claim)
    assert put_claims(free, claim_name([claim]))
    assert sorted(n for name, n in free.items() if name.startswith(KIND)) == [0, 1]
    assert fewest_gpus([a_claim((want(2), want(1)))], {want().selectors}) == 1


def test_all_devices_are_at_least_one_and_none_is_taken() -> None:
    every = a_claim(want(0))
    name = claim_name([every])
    free = room(four(), every)
    assert put_claims(free, name)
    assert not put_claims(free, name)
    assert not put_claims(room(NodeDevices(devices=(a_device("m", "mig"),)), every), name)
    one = frozenset({(GPU_DRIVER, "n1", "gpu-3")})
    assert not put_claims(room(four(), every, taken=one), name)


def test_a_tainted_device_is_for_claims_that_tolerate_it() -> None:
    node = NodeDevices(devices=(a_device("gpu-0", taints=(SICK,)),))
    claim, every = a_claim(want()), a_claim(want(0))
    for intolerant in (claim, every):
        assert not put_claims(room(node, intolerant), claim_name([intolerant]))
    tolerant = a_claim(want(1, f"{TYPE}=gpu", "r", Toleration(key=SICK.key, operator="Exists")))
    assert put_claims(room(node, tolerant), claim_name([tolerant]))
    said = why_no_devices({claim_name([claim]): 1}, room(node, claim))
    assert said == "it claims devices of class gpu and does not tolerate their taints"


def on_two_roots() -> NodeDevices:
    roots = ({ROOT: ("string", root), MODEL: ("string", "l40s")} for root in ("a", "b", "a", "b"))
    return NodeDevices(devices=tuple(a_device(f"gpu-{n}", attributes=root) for n, root in enumerate(roots)))


@pytest.mark.parametrize(
    ("count", "constraint", "fits"),
    [
        (2, Constraint(requests=(), attribute=ROOT), True),
        (3, Constraint(requests=(), attribute=ROOT), False),
        (3, Constraint(requests=("other",), attribute=ROOT), True),
        (2, Constraint(requests=("r",), attribute=ROOT, distinct=True), True),
        (3, Constraint(requests=("r",), attribute=ROOT, distinct=True), False),
        (1, Constraint(requests=(), attribute="example.com/unknown"), False),
    ],
)
def test_constraints_compare_an_attribute(count: int, constraint: Constraint, fits: bool) -> None:
    claim = a_claim(want(count), constraints=[constraint])
    assert put_claims(room(on_two_roots(), claim), claim_name([claim])) is fits


def test_an_attribute_that_is_a_list_meets_no_constraint() -> None:
    node = NodeDevices(devices=(a_device("gpu-0", attributes={ROOT: ("list", "")}),))
    claim = a_claim(want(), constraints=[Constraint(requests=(), attribute=ROOT)])
    assert not put_claims(room(node, claim), claim_name([claim]))


def partitionable() -> NodeDevices:
    """A GPU that is one device, or two slices of half of it."""
    whole = a_device("gpu-0", uses={"n1/set/memory": 2})
    halves = [a_device(f"mig-{n}", "mig", uses={"n1/set/memory": 1}) for n in range(2)]
    return NodeDevices(devices=(whole, *halves), counters={"n1/set/memory": 2})


def test_devices_that_share_counters_are_taken_as_far_as_those_last() -> None:
    half, whole = a_claim(want(1, f"{TYPE}=mig")), a_claim(want())
    names = claim_name([half]), claim_name([whole])
    free = room(partitionable(), half, whole)
    assert put_claims(free, names[0])
    assert not put_claims(free, names[1])
    assert put_claims(free, names[0])
    assert not put_claims(free, names[0])
    one = frozenset({(GPU_DRIVER, "n1", "mig-1")})
    assert room(partitionable(), half, taken=one)[f"{COUNTER}n1/set/memory"] == 1
    assert not put_claims(room(partitionable(), whole, taken=one), names[1])


def test_a_device_that_serves_a_resource_counts_there_too() -> None:
    claim = a_claim(want(3))
    free = room(four(), claim, served="nvidia.com/gpu")
    assert free["nvidia.com/gpu"] == 4
    assert put_claims(free, claim_name([claim]))
    assert free["nvidia.com/gpu"] == 1
    free["nvidia.com/gpu"] = 0  # a pod that asks by the resource took it
    one = a_claim(want())
    assert not put_claims(free, claim_name([one]))


def test_what_cannot_be_judged_fits_nowhere_and_says_so() -> None:
    claim = a_claim(want(1, "?"))
    free = room(four(), claim)
    assert not put_claims(free, claim_name([claim]))
    said = why_no_devices({claim_name([claim]): 1}, free)
    assert said == "it claims devices of class gpu, whose selectors cannot be judged for the devices of a node"


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        (a_claim(want(5)), "it claims 5 devices of class gpu, a node has 4 that match"),
        (a_claim(want(0, "none=1")), "it claims every device of class gpu, a node has 0 that match"),
        (
            a_claim((want(5), want(6))),
            "it claims devices that a node does not have together (constraints, counters or alternatives)",
        ),
        (a_claim(want(4)), None),
    ],
)
def test_a_pool_says_what_its_nodes_lack(claim: Claim, said: str | None) -> None:
    assert why_no_devices({claim_name([claim]): 1}, room(four(), claim)) == said


def test_devices_that_are_not_known_and_resources_that_no_device_answers_to_are_told() -> None:
    unknown = "it claims devices, and it is not known which devices a node has"
    assert why_no_devices({claim_name([a_claim(want())]): 1}, {}) == unknown
    fewer = "it asks for 2 nvidia.com/gpu, a node has devices for 1"
    assert why_no_devices({"nvidia.com/gpu": 2}, {"nvidia.com/gpu": 1}) == fewer


def test_a_search_ends() -> None:
    """Sixteen roots of four devices each: no two requests of five devices with one root fit."""
    devices = tuple(a_device(f"gpu-{n}", attributes={ROOT: ("string", str(n // 4))}) for n in range(64))
    requests = [want(5, name=f"r{n}") for n in range(4)]
    claim = a_claim(*requests, constraints=[Constraint(requests=(r.name,), attribute=ROOT) for r in requests])
    free = room(NodeDevices(devices=devices), claim)
    before = dict(free)
    assert not put_claims(free, claim_name([claim]))
    assert free == before
    most = a_claim(*(want(32, name=f"r{n}") for n in range(5)))
    assert not put_claims(room(NodeDevices(devices=devices * 4), most), claim_name([most]))


def test_a_template_keeps_what_the_next_node_will_have() -> None:
    worn, lasting = Taint(key="gpu.nvidia.com/xid", effect="NoSchedule"), Taint(key="lab", effect="NoSchedule")
    devices = (
        a_device("gpu-0", attributes={f"{GPU_DRIVER}/uuid": ("string", "GPU-1")}, taints=(worn, lasting)),
        a_device("gpu-1", capacity={f"{GPU_DRIVER}/memory": "48Gi"}, uses={"n1/s/c": 1}, taints=(lasting,)),
        Device(driver="dra.net", name="nic-0", attributes={TYPE: ("string", "gpu")}),
    )
    told = from_text(as_text(NodeDevices(devices=devices, counters={"n1/s/c": 2})))
    assert [d.attributes for d in told.devices] == [{TYPE: ("string", "gpu")}] * 3
    assert [d.taints for d in told.devices] == [(lasting,), (lasting,), ()]
    assert (told.devices[1].capacity, told.devices[1].uses) == ({f"{GPU_DRIVER}/memory": "48Gi"}, {"n1/s/c": 1})
    assert told.counters == {"n1/s/c": 2}


# A claim against a search that tries every choice of devices.


def placements(requests: Sequence[Sequence[DeviceRequest]], devices: Sequence[Device]) -> Iterator[list[list[Device]]]:
    if not requests:
        yield []
        return
    for way in requests[0]:
        matching = [d for d in devices if meets(way.selectors[0], d)]
        every = [tuple(matching)] if matching else []
        choices = list(combinations(matching, way.count)) if way.count else every
        for choice in choices:
            rest = [d for d in devices if d not in choice]
            if not way.count and len(choice) != len([d for d in ALL if meets(way.selectors[0], d)]):
                continue
            yield from ([list(choice), *others] for others in placements(requests[1:], rest))


ALL: list[Device] = []


def fits(claim: Claim, node: NodeDevices) -> bool:
    for placement in placements(claim.requests, node.devices):
        chosen = [d for part in placement for d in part]
        used: dict[str, int] = {}
        for device in chosen:
            for counter, n in device.uses.items():
                used[counter] = used.get(counter, 0) + n
        if any(n > node.counters[counter] for counter, n in used.items()):
            continue
        if all(_holds(c, claim, placement) for c in claim.constraints) and not any(d.taints for d in chosen):
            return True
    return False


def _holds(constraint: Constraint, claim: Claim, placement: Sequence[Sequence[Device]]) -> bool:
    bound = [
        d
        for ways, part in zip(claim.requests, placement, strict=True)
        for d in part
        if not constraint.requests or ways[0].name in constraint.requests
    ]
    values = [d.attributes.get(constraint.attribute) for d in bound]
    return None not in values and len(set(values)) == (len(values) if constraint.distinct else min(1, len(values)))


def a_random_node(rng: random.Random) -> NodeDevices:
    devices = []
    for n in range(rng.randint(1, 6)):
        attributes: Mapping[str, object] = {ROOT: ("string", rng.choice("ab"))} if rng.random() < 0.8 else {}
        devices.append(
            a_device(
                f"d{n}",
                rng.choice(("gpu", "mig")),
                attributes=attributes,
                uses={f"n1/set/{rng.choice('xy')}": rng.randint(1, 2)} if rng.random() < 0.4 else {},
                taints=(SICK,) if rng.random() < 0.15 else (),
            )
        )
    return NodeDevices(devices=tuple(devices), counters={"n1/set/x": rng.randint(0, 3), "n1/set/y": rng.randint(0, 3)})


def a_random_claim(rng: random.Random) -> Claim:
    requests = []
    for n in range(rng.randint(1, 3)):
        ways = 2 if rng.random() < 0.3 else 1
        found = []
        for _ in range(ways):
            count = 0 if rng.random() < 0.15 else rng.randint(1, 3)
            found.append(want(count, rng.choice((f"{TYPE}=gpu", f"{TYPE}=mig", "any")), f"r{n}"))
        requests.append(tuple(found))
    constraints = [
        Constraint(
            requests=tuple(f"r{n}" for n in range(len(requests)) if rng.random() < 0.5),
            attribute=ROOT,
            distinct=rng.random() < 0.4,
        )
        for _ in range(rng.randint(0, 2))
    ]
    return a_claim(*requests, constraints=constraints)


def test_the_search_finds_what_trying_everything_finds() -> None:
    rng = random.Random("claims")
    found = 0
    for _ in range(1_500):
        node, claim = a_random_node(rng), a_random_claim(rng)
        ALL[:] = node.devices
        expected = fits(claim, node)
        free = room(node, claim)
        before = dict(free)
        assert put_claims(free, claim_name([claim])) is expected, (node, claim)
        found += expected
        assert (free == before) is not expected
        assert all(n >= 0 for n in free.values())
    assert 200 < found < 1_300


def claiming_node(*pods: Pod, returned: Mapping[str, int] | None = None, taken: int = 0) -> tuple[Node, str]:
    """A node of four devices, of which claims hold *taken*, with *pods*; and what a claim of two asks for."""
    claim = a_claim(want(2))
    held = frozenset((GPU_DRIVER, "n1", f"gpu-{n}") for n in range(taken))
    node = a_node(pods=pods, allocatable={}, devices=room(four(), claim, taken=held), devices_returned=returned or {})
    return node, claim_name([claim])


def test_a_claim_without_devices_takes_them_from_the_node_that_its_pod_reserves() -> None:
    _, name = claiming_node()
    reserved = a_pod("next", requests={name: 2}, phase=PodPhase.RESERVED, node="n1")
    one, two = (claiming_node(*[replace(reserved, name=str(n)) for n in range(count)])[0] for count in (1, 2))
    assert put_claims(dict(one.free), name)
    assert not put_claims(dict(two.free), name)


@pytest.mark.parametrize(("cordoned", "new"), [(None, 0), (CordonedBy.US, 1)], ids=["open", "being emptied"])
def test_devices_that_come_back_soon_are_room_for_what_claims_them(cordoned: CordonedBy | None, new: int) -> None:
    full, name = claiming_node(taken=4)
    node = with_fields(full, devices_returned=claiming_node()[0].beside.devices, cordoned_by=cordoned)
    found = facts(a_state(node, devices=claiming_node()[0].beside.devices), waiting=[a_pod(requests={name: 2})])
    assignment, _ = run(found, a_policy(a_pool(resources={})))
    assert assignment.pools["l40s-id"].new_nodes == new


MAX, MIN = "9223372036854775807", "-9223372036854775808"


def covered(toleration: Toleration, taint: Taint) -> bool:
    """What the product says; the simulated scheduler must say the same."""
    answer = tolerates(toleration, taint)
    assert answer is (untolerated((taint,), (toleration,)) is None)
    return answer


@pytest.mark.parametrize(
    ("toleration", "taint", "expected"),
    [
        (("foo", "Exists", "", "NoSchedule"), ("foo", "", "NoSchedule"), True),
        (("foo", "Exists", "", "NoSchedule"), ("foo", "bar", "NoSchedule"), True),
        (("foo", "Exists", "ignored", "NoSchedule"), ("foo", "bar", "NoSchedule"), True),
        (("", "Exists", "", "NoSchedule"), ("foo", "bar", "NoSchedule"), True),
        (("", "Exists", "", ""), ("foo", "bar", "NoExecute"), True),
        (("foo", "Exists", "", ""), ("foo", "bar", "NoExecute"), True),
        (("foo", "Exists", "", ""), ("other", "bar", "NoExecute"), False),
        (("foo", "Equal", "bar", "NoSchedule"), ("foo", "bar", "NoSchedule"), True),
        (("foo", "", "bar", "NoSchedule"), ("foo", "bar", "NoSchedule"), True),
        (("foo", "Equal", "value1", "NoSchedule"), ("foo", "value2", "NoSchedule"), False),
        (("foo", "Equal", "bar", "NoSchedule"), ("foo", "bar", "NoExecute"), False),
        (("foo", "Gte", "1", "NoSchedule"), ("foo", "1", "NoSchedule"), False),
        (("foo", "equal", "bar", "NoSchedule"), ("foo", "bar", "NoSchedule"), False),
        (("other", "Gt", "1", "NoSchedule"), ("foo", "2", "NoSchedule"), False),
        (("foo", "Gt", "1", "NoExecute"), ("foo", "2", "NoSchedule"), False),
        (("foo", "Gt", "1", ""), ("foo", "2", "NoSchedule"), True),
    ],
)
def test_a_toleration_covers_a_taint_by_key_operator_value_and_effect(
    toleration: tuple[str, str, str, str], taint: tuple[str, str, str], expected: bool
) -> None:
    key, operator, value, effect = toleration
    wants = Toleration(key=key, operator=operator, value=value, effect=effect)
    assert covered(wants, Taint(key=taint[0], value=taint[1], effect=taint[2])) is expected


@pytest.mark.parametrize(
    ("operator", "bound", "value", "expected"),
    [
        ("Gt", "950", "800", False),
        ("Gt", "750", "950", True),
        ("Lt", "800", "950", False),
        ("Lt", "950", "800", True),
        ("Gt", "950", "950", False),
        ("Lt", "100", "100", False),
        ("Gt", "950", "high", False),
        ("Gt", "-100", "-200", False),
        ("Gt", "-100", "-50", True),
        ("Lt", "-50", "-100", True),
        ("Gt", "0", "1", True),
        ("Lt", "0", "-1", True),
        ("Gt", "0", "0", False),
        ("Gt", "9223372036854775806", MAX, True),
        ("Lt", "0", MIN, True),
        ("Gt", "0", "9223372036854775808", False),
        ("Gt", "abc", "100", False),
        ("Gt", "", "100", False),
        ("Gt", "0100", "200", False),
        ("Gt", "+100", "200", False),
        ("Gt", "100.5", "200", False),
        ("Gt", "-", "100", False),
        ("Gt", "-0", "100", False),
        ("Gt", "100", "", False),
        ("Gt", "100", "0200", False),
        ("Lt", "100", "+20", False),
        ("Lt", "100", " 20 ", False),
        ("Gt", "1", "1_0", False),
        ("Gt", "1", "٣", False),
        ("Gt", "1", "3\n", False),
    ],
)
def test_numbers_are_compared_as_kubernetes_writes_them(operator: str, bound: str, value: str, expected: bool) -> None:
    toleration = Toleration(key="sla", operator=operator, value=bound)
    assert covered(toleration, Taint(key="sla", value=value, effect="NoSchedule")) is expected
