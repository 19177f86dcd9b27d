"""Devices of Dynamic Resource Allocation and claims on them as values, from the API server's JSON.

The shapes are those of resource.k8s.io/v1; v1beta2 has the same, v1beta1 has the fields of a device under ``basic`` and
those of a request without ``exactly``.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import ROUND_CEILING, Decimal

from receiver.adapters.http.sessions import moment
from receiver.adapters.kubernetes.api import Json, entries, key_of, section, text
from receiver.adapters.kubernetes.nodes import MOST_BYTES, bounded, taint_from
from receiver.core.model.devices import (
    CLAIMS,
    GPU_DRIVER,
    Attribute,
    Claim,
    Constraint,
    Device,
    DeviceId,
    DeviceRequest,
    NodeDevices,
    Question,
    Toleration,
)
from receiver.core.model.policy import Taint
from receiver.core.model.text import cut

KEEPS_OFF = frozenset({"NoSchedule", "NoExecute"})  # effects of device taints; the API says to ignore others
KINDS = ("int", "bool", "string", "version")
EXACT_COUNT, ALL = "ExactCount", "All"
MIG = "mig"
LONGEST = 80  # characters of a name that others chose


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Slice:
    """What counts of a ResourceSlice, compared by identity; *node* is empty unless all its devices are local to one."""

    driver: str
    pool: str
    generation: int
    slices: int  # of the pool in this generation
    node: str
    devices: tuple[Device, ...] = ()
    counters: Mapping[str, int] = field(default_factory=dict)


def slice_from(raw: Json) -> Slice:
    spec = section(raw, "spec")
    pool, driver = section(spec, "pool"), text(spec, "driver")
    name = text(pool, "name")
    devices = [_device(d, driver, name) for d in entries(spec, "devices")]
    return Slice(
        driver=driver,
        pool=name,
        generation=_whole(pool.get("generation")),
        slices=_whole(pool.get("resourceSliceCount")),
        node=text(spec, "nodeName"),
        devices=tuple(d for d in devices if d is not None),
        counters={
            f"{name}/{text(shared, 'name')}/{counter}": _units(section(section(shared, "counters"), counter), up=False)
            for shared in entries(spec, "sharedCounters")
            for counter in section(shared, "counters")
        },
    )


def _device(raw: Json, driver: str, pool: str) -> Device | None:
    """Return the device in *raw*; None for one that several claims may share (consumable capacity)."""
    basic = {**raw, **section(raw, "basic")}
    if basic.get("allowMultipleAllocations") is True:
        return None
    taints = (taint_from({"effect": "None", **taint}) for taint in entries(basic, "taints"))
    return Device(
        driver=driver,
        pool=pool,
        name=text(raw, "name"),
        attributes={_full(n, driver): _attribute(v) for n, v in section(basic, "attributes").items()},
        capacity={_full(n, driver): _quantity(v) for n, v in section(basic, "capacity").items()},
        uses={
            f"{pool}/{text(used, 'counterSet')}/{counter}": _units(section(section(used, "counters"), counter), up=True)
            for used in entries(basic, "consumesCounters")
            for counter in section(used, "counters")
        },
        taints=tuple(t for t in taints if t.effect in KEEPS_OFF),
    )


def _full(name: str, driver: str) -> str:
    return name if "/" in name else f"{driver}/{name}"


def _attribute(raw: object) -> Attribute:
    fields = raw if isinstance(raw, dict) else {}
    return next(((kind, fields[kind]) for kind in KINDS if fields.get(kind) is not None), ("list", ""))


def _quantity(raw: object) -> str:
    return str(raw.get("value", "0")) if isinstance(raw, dict) else str(raw)


def _units(raw: Json, *, up: bool) -> int:
    """The amount of a counter in whole units, rounded so that never too much seems to fit."""
    try:
        amount: Decimal = bounded(_quantity(raw), MOST_BYTES)
    except (ValueError, ArithmeticError):
        return int(MOST_BYTES) if up else 0
    return int(amount.to_integral_value(ROUND_CEILING)) if up else int(amount)


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def by_node(slices: Iterable[Slice]) -> dict[str, tuple[Slice, ...]]:
    """Return the slices of each node that are of complete pools: as many slices of the highest generation as each of
    them says, and no device twice. Pools of several nodes do not count."""
    pools: defaultdict[tuple[str, str], list[Slice]] = defaultdict(list)
    for part in slices:
        pools[part.driver, part.pool].append(part)
    slices_by_node: defaultdict[str, tuple[Slice, ...]] = defaultdict(tuple)
    for key in sorted(pools):
        newest = max(part.generation for part in pools[key])
        parts = tuple(part for part in pools[key] if part.generation == newest)
        names = [device.name for part in parts for device in part.devices]
        whole = all(part.slices == len(parts) for part in parts) and len(set(names)) == len(names)
        if whole and names and len({part.node for part in parts}) == 1:
            slices_by_node[parts[0].node] += parts
    slices_by_node.pop("", None)
    return dict(slices_by_node)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaintRule:
    """A DeviceTaintRule: the *taint* of the devices whose driver, pool and name are *selected* (empty: any)."""

    selected: DeviceId
    taint: Taint

    def taints(self, device: Device) -> bool:
        return all(wanted in ("", part) for wanted, part in zip(self.selected, device.id, strict=True))


def rule_from(raw: Json) -> TaintRule | None:
    """Return the rule in *raw*; None for one that keeps nothing off its devices, or that selects none."""
    spec = section(raw, "spec")
    chosen, taint = spec.get("deviceSelector"), taint_from({"effect": "None", **section(spec, "taint")})
    if not isinstance(chosen, dict) or taint.effect not in KEEPS_OFF:
        return None
    return TaintRule(selected=(text(chosen, "driver"), text(chosen, "pool"), text(chosen, "device")), taint=taint)


def devices_in(parts: Iterable[Slice], rules: Sequence[TaintRule] = ()) -> NodeDevices:
    """Return the devices of a node in its slices, with the taints that *rules* add."""
    return NodeDevices(
        devices=tuple(_tainted(device, rules) for part in parts for device in part.devices),
        counters={name: amount for part in parts for name, amount in part.counters.items()},
    )


def _tainted(device: Device, rules: Sequence[TaintRule]) -> Device:
    rule_taints = tuple(rule.taint for rule in rules if rule.taints(device))
    return replace(device, taints=(*device.taints, *rule_taints)) if rule_taints else device


def resource_of(device: Device) -> str:
    """Return the resource that a held device counts as: a GPU, a MIG slice, or another device."""
    if device.driver != GPU_DRIVER:
        return CLAIMS
    kind, profile = (device.attributes.get(f"{GPU_DRIVER}/{name}", ("", ""))[1] for name in ("type", "profile"))
    return f"nvidia.com/mig-{profile}" if kind == MIG and profile else "nvidia.com/gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenClaim:
    """A ResourceClaim: its *spec*, or the devices that it was given (None: none yet), those of admin access left out.
    *pods* are the uids of the pods that may use them. *shared*: it was made for all pods of a PodGroup. *deleted_at* is
    when its deletion was requested: its pod, which it was made for, is gone."""

    key: str
    spec: Json
    shared: bool = False
    given: tuple[DeviceId, ...] | None = None
    pods: frozenset[str] = frozenset()
    deleted_at: datetime | None = None


def claim_from(raw: Json) -> SeenClaim:
    status = section(raw, "status")
    results = entries(section(section(status, "allocation"), "devices"), "results")
    devices = tuple(
        (text(r, "driver"), text(r, "pool"), text(r, "device")) for r in results if r.get("adminAccess") is not True
    )
    allocated = isinstance(status.get("allocation"), dict)
    users = (user for user in entries(status, "reservedFor") if user.get("resource") == "pods")
    return SeenClaim(
        key=key_of(raw),
        spec={} if allocated else section(raw, "spec"),
        shared=any(owner.get("kind") == "PodGroup" for owner in entries(section(raw, "metadata"), "ownerReferences")),
        given=devices if allocated else None,
        pods=frozenset(text(user, "uid") for user in users),
        deleted_at=moment(section(raw, "metadata").get("deletionTimestamp")),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClasses:
    """The DeviceClasses: the selectors *of* each by name, and those of the class that serves each extended resource."""

    of: Mapping[str, Question] = field(default_factory=dict)
    serving: Mapping[str, Question] = field(default_factory=dict)


def classes_from(raws: Collection[Json]) -> DeviceClasses:
    """If two classes name one resource, the later one serves it, then the first by name (resource/v1)."""
    of, serving = dict[str, Question](), dict[str, Question]()

    def name(raw: Json) -> str:
        return text(section(raw, "metadata"), "name")

    latest = sorted(
        sorted(raws, key=name, reverse=True), key=lambda r: text(section(r, "metadata"), "creationTimestamp")
    )
    for raw in latest:
        spec = section(raw, "spec")
        of[name(raw)] = _selectors(spec)
        if resource := text(spec, "extendedResourceName"):
            serving[resource] = of[name(raw)]
    return DeviceClasses(of=of, serving=serving)


def _selectors(raw: Json) -> Question:
    return tuple(text(section(selector, "cel"), "expression") for selector in entries(raw, "selectors"))


def claim_of(key: str, spec: Json, classes: DeviceClasses, *, shared: bool) -> Claim:
    """Return what a claim or template with *spec* asks for. One alternative that is not understood is left out: a node
    for another one will do. Where none is left, the claim has a problem."""
    devices = section(spec, "devices")
    requests: list[tuple[DeviceRequest, ...]] = []
    for raw in entries(devices, "requests"):
        name, ways = text(raw, "name"), entries(raw, "firstAvailable")
        one = raw if "deviceClassName" in raw else section(raw, "exactly")
        if not ways and one.get("adminAccess") is True:
            continue
        read = [_request(f"{name}/{text(way, 'name')}", way, classes) for way in ways] or [_request(name, one, classes)]
        understood = tuple(way for way in read if isinstance(way, DeviceRequest))
        if not understood:
            problems = [way for way in read if isinstance(way, str)]
            return Claim(key=key, shared=shared, problem=f"request {cut(name, LONGEST)}: {problems[0]}")
        requests.append(understood)
    constraints, problem = _constraints(entries(devices, "constraints"))
    if problem:
        return Claim(key=key, shared=shared, problem=problem)
    return Claim(key=key, requests=tuple(requests), constraints=constraints, shared=shared)


def _request(name: str, raw: Json, classes: DeviceClasses) -> DeviceRequest | str:
    """Return one alternative of a request, or why no node can be bought for it."""
    class_name, mode = text(raw, "deviceClassName"), text(raw, "allocationMode") or EXACT_COUNT
    if not class_name:
        return "it has neither a device class nor alternatives that are understood"
    if class_name not in classes.of:
        return f"there is no DeviceClass {cut(class_name, LONGEST)}"
    if mode not in (EXACT_COUNT, ALL):
        return f"its allocation mode {cut(mode, LONGEST)} is not known"
    if section(raw, "capacity"):
        return "it asks for a part of a device's capacity, which is not supported"
    count = raw.get("count")
    return DeviceRequest(
        name=name,
        device_class=class_name,
        selectors=(*classes.of[class_name], *_selectors(raw)),
        count=0 if mode == ALL else count if isinstance(count, int) and count > 0 else 1,
        tolerations=tuple(
            Toleration(
                key=text(t, "key"),
                operator=text(t, "operator") or "Equal",
                value=text(t, "value"),
                effect=text(t, "effect"),
            )
            for t in entries(raw, "tolerations")
        ),
    )


def _constraints(raws: Sequence[Json]) -> tuple[tuple[Constraint, ...], str]:
    constraints = []
    for raw in raws:
        names = raw.get("requests")
        same, different = text(raw, "matchAttribute"), text(raw, "distinctAttribute")
        if not same and not different:
            return (), "it has a constraint that is not known"
        requests = tuple(map(str, names)) if isinstance(names, list) else ()
        constraints.append(Constraint(requests=requests, attribute=same or different, distinct=not same))
    return tuple(constraints), ""


def in_words(claim: Claim, name: str) -> str:
    """Return what the claim or template called *name* asks for, such as ``2 devices of class gpu.nvidia.com (claim
    train)``."""
    phrases = [
        " or ".join(f"{_amount(way)} of class {cut(way.device_class, LONGEST)}" for way in ways)
        for ways in claim.requests
    ]
    return f"{', '.join(phrases) or 'devices'} ({cut(name, LONGEST)})"


def _amount(way: DeviceRequest) -> str:
    return f"{way.count} device{'' if way.count == 1 else 's'}" if way.count else "every device"
