"""Devices of Dynamic Resource Allocation (`resource.k8s.io`): what claims ask for, and whether a node has it.

What decides is worked out once in a step: which devices answer the selectors of which request (`step.devices`). Then a
claim is one resource name among a pod's requests, and free devices that nothing tells apart are one name among a node's
free resources. So pods without claims are placed as before, at the same speed.
"""

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple, Protocol

from receiver.core.model.policy import Taint
from receiver.core.model.text import some

CLAIMS = "resource.k8s.io/claims"  # devices of GPUs that no extended resource stands for
CLAIM = "resource.k8s.io/claim="  # what a waiting pod claims; the rest of the name says it
KIND = "resource.k8s.io/device="  # free devices of one kind on a node; the rest of the name says which
COUNTER = "resource.k8s.io/counter="  # what is left of a counter that devices of a node share
NOT_GPUS = (KIND, COUNTER)
GPU_DRIVER = "gpu.nvidia.com"
OF_ONE_DEVICE = ("/uuid", "/parentUUID")  # ends of the names of attributes that no other device has
NO_SUCH_GPU = "the selectors of its claim fit no GPU of a pool, as far as they are known"
UNKNOWN = "it is not known which devices a node has"
UNJUDGED = "whose selectors cannot be judged for the devices of a node"
MOST_DEVICES = 32  # of one claim (AllocationResultsMaxSize in resource/v1)
MOST_OF_A_POD = 128  # a pod that claims more devices fits nowhere
MOST_TRIES = 2_000  # devices tried for one claim on one node: a claim that needs more fits nowhere
INTEGER, CANONICAL = re.compile("[+-]?[0-9]+"), re.compile("0|-?[1-9][0-9]*")
LONGEST_INTEGER = 63  # characters of a label's value

Attribute = tuple[str, int | bool | str]  # its kind (int, bool, string, version, list) and its value
DeviceId = tuple[str, str, str]  # driver, pool, name


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """A toleration of a pod or of a device request; *operator* is Equal, Exists, Gt or Lt; an empty key with
    Exists tolerates everything."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A device as its ResourceSlice describes it. Attributes and capacities carry their domain
    (``gpu.nvidia.com/type``), a capacity is a quantity as written. *uses* is what it takes of the counters of its node
    (``pool/set/counter``). *taints* are those with effect NoSchedule or NoExecute."""

    driver: str
    pool: str = ""
    name: str = ""
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=dict)
    uses: Mapping[str, int] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()

    @property
    def id(self) -> DeviceId:
        return self.driver, self.pool, self.name


@dataclass(frozen=True, eq=False, kw_only=True)  # compared by identity: it is a key of caches
class NodeDevices:
    """The devices of one node in complete pools, in the order of their slices, and their shared *counters*
    (``pool/set/counter``)."""

    devices: tuple[Device, ...] = ()
    counters: Mapping[str, int] = field(default_factory=dict)

    @property
    def gpus(self) -> tuple[Device, ...]:
        """Those of the GPU driver."""
        return tuple(device for device in self.devices if device.driver == GPU_DRIVER)


Question = tuple[str, ...]  # CEL expressions that a device must meet, in this order


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRequest:
    """*count* devices of *device_class* (0: all that match) that meet *selectors*, those of the class first. *name* is
    ``request`` or ``request/subrequest``."""

    name: str
    device_class: str
    selectors: Question
    count: int = 1
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """The devices of *requests* (empty: of all) have the same value of *attribute*, or with *distinct* all different
    ones."""

    requests: tuple[str, ...]
    attribute: str
    distinct: bool = False

    def binds(self, request: str) -> bool:
        """True for ``request`` or ``request/subrequest`` among those that it is for."""
        return not self.requests or request in self.requests or request.partition("/")[0] in self.requests


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claim that has no devices yet. Each of *requests* lists its alternatives in order. Requests with admin access
    are left out: they take no device. *shared* is True for a ResourceClaim that several pods may name.

    *problem* says why no node can be bought for it; then it has no *requests*.
    """

    key: str  # ``namespace/name`` of the claim, or of its template
    requests: tuple[tuple[DeviceRequest, ...], ...] = ()
    constraints: tuple[Constraint, ...] = ()
    shared: bool = False
    problem: str = ""


class Judge(Protocol):
    """Evaluates CEL expressions on devices."""

    def __call__(self, expression: str, device: Device) -> bool | None:
        """Return whether *device* meets *expression*; None where that cannot be judged. Never raises."""


# Names of resources. What a name says is JSON without spaces, so that equal claims and equal devices are one resource.


class _Ask(NamedTuple):
    """One alternative of a request, as a resource name has it: 0 *devices* are all that match."""

    name: str
    device_class: str
    question: str
    devices: int
    tolerations: tuple[Toleration, ...]


class _Claim(NamedTuple):
    """The requests of one claim, each with its alternatives, and its constraints."""

    requests: tuple[tuple[_Ask, ...], ...]
    constraints: tuple[Constraint, ...]


class _Kind(NamedTuple):
    """What is alike of devices: the *answered* questions and the *unjudged* ones, attributes of constraints (as
    hashes: the name must have no spaces), taints, what each *uses* of other resources of the node, and how many of them
    the node has, *of* which some may be taken."""

    answered: frozenset[str]
    unjudged: frozenset[str]
    attributes: Mapping[str, str]
    taints: tuple[Taint, ...]
    uses: Mapping[str, int]
    of: int

    def lets_in(self, ask: _Ask) -> bool:
        return all(any(tolerates(t, taint) for t in ask.tolerations) for taint in self.taints)


@lru_cache(maxsize=4096)
def question_id(question: Question) -> str:
    return hashlib.sha256("\0".join(question).encode()).hexdigest()[:12]


def claim_name(claims: Iterable[Claim]) -> str:
    """Return the resource that a pod with *claims* asks for."""
    document = [
        [
            [[[a.name, a.device_class, question_id(a.selectors), a.count, [[*_fields(t)] for t in a.tolerations]]
              for a in alternatives] for alternatives in claim.requests],
            [[c.requests, c.attribute, c.distinct] for c in claim.constraints],
        ]
        for claim in claims
    ]  # fmt: skip
    return CLAIM + json.dumps(document, separators=(",", ":"))


def fewest_gpus(claims: Iterable[Claim], of_gpus: Collection[Question]) -> int:
    """Return how many GPUs *claims* take at least, 1 or more; *of_gpus* are the questions that GPUs answer."""
    requests = [ways for claim in claims for ways in claim.requests if any(w.selectors in of_gpus for w in ways)]
    return max(1, sum(min(max(1, way.count) for way in ways) for ways in requests))


def kind_name(
    answered: Iterable[str],
    unjudged: Iterable[str],
    attributes: Mapping[str, Attribute],
    taints: Iterable[Taint],
    uses: Mapping[str, int],
    of: int,
) -> str:
    values = {name: question_id((kind, str(value))) for name, (kind, value) in sorted(attributes.items())}
    document = [sorted(answered), sorted(unjudged), values,
            [[t.key, t.value, t.effect] for t in taints], dict(sorted(uses.items())), of]  # fmt: skip
    return KIND + json.dumps(document, separators=(",", ":"))


def is_claim(resource: str) -> bool:
    return resource.startswith(CLAIM)


def _fields(toleration: Toleration) -> tuple[str, str, str, str]:
    return toleration.key, toleration.operator, toleration.value, toleration.effect


@lru_cache(maxsize=4096)
def _claims(name: str) -> tuple[_Claim, ...]:
    return tuple(
        _Claim(
            tuple(tuple(_ask(*fields) for fields in alternatives) for alternatives in requests),
            tuple(Constraint(requests=tuple(r), attribute=a, distinct=d) for r, a, d in constraints),
        )
        for requests, constraints in json.loads(name.removeprefix(CLAIM))
    )


def _ask(name: str, device_class: str, question: str, count: int, tolerations: Sequence[Sequence[str]]) -> _Ask:
    parsed_tolerations = (Toleration(key=k, operator=o, value=v, effect=e) for k, o, v, e in tolerations)
    return _Ask(name, device_class, question, count, tuple(parsed_tolerations))


@lru_cache(maxsize=16_384)
def _kind(name: str) -> _Kind:
    answered, unjudged, attributes, taints, uses, of = json.loads(name.removeprefix(KIND))
    return _Kind(
        frozenset(answered),
        frozenset(unjudged),
        attributes,
        tuple(Taint(key=key, value=value, effect=effect) for key, value, effect in taints),
        uses,
        of,
    )


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """True when *toleration* covers *taint*, by the rules of the Kubernetes API (Toleration v1 core). Gt and Lt compare
    integers as Kubernetes writes them (KEP-5471): ``+7`` and ``007`` are none."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.operator == "Exists":
        return toleration.key in ("", taint.key)
    if toleration.key != taint.key:
        return False
    match toleration.operator:
        case "Equal" | "":
            return toleration.value == taint.value
        case "Gt" | "Lt":
            canonical = CANONICAL.fullmatch(toleration.value) and CANONICAL.fullmatch(taint.value)
            return bool(canonical) and is_beyond(taint.value, toleration.operator, toleration.value)
        case _:
            return False  # an undocumented operator: never assume that it fits


def is_beyond(value: str, operator: str, bound: str) -> bool:
    """True when *value* is greater (Gt) or less (Lt) than *bound*; False where one of them is no integer to Go's
    ``strconv.ParseInt``: of 64 bits, in ASCII digits, without spaces and underscores."""
    numbers = [int(n) for n in (value, bound) if len(n) <= LONGEST_INTEGER and INTEGER.fullmatch(n)]
    if len(numbers) < 2 or not all(-(2**63) <= n < 2**63 for n in numbers):
        return False
    return numbers[0] > numbers[1] if operator == "Gt" else numbers[0] < numbers[1]


class _Search:
    """Takes devices out of *free* for claims as the scheduler does: requests in order, of each its alternatives in
    order, devices in the order of the node's slices, and back where that leads nowhere."""

    def __init__(self, free: dict[str, int]) -> None:
        self._free = free
        self._kinds = [(name, _kind(name)) for name in free if name.startswith(KIND)]
        self._chosen: list[tuple[str, _Kind, _Claim, _Ask]] = []
        self._tries = MOST_TRIES

    def serve(self, queue: Sequence[tuple[_Claim, int]]) -> bool:
        """Take devices for the requests of *queue*, each by its claim and number; False changes nothing."""
        if not queue:
            return True
        claim, number = queue[0]
        for ask in claim.requests[number]:
            if any(ask.question in kind.unjudged for _, kind in self._kinds):
                continue
            matching = [(name, kind) for name, kind in self._kinds if ask.question in kind.answered]
            if self._fill(ask, matching, ask.devices, queue) if ask.devices else self._fill_all(ask, matching, queue):
                return True
        return False

    def _fill(
        self, ask: _Ask, matching: Sequence[tuple[str, _Kind]], count: int, queue: Sequence[tuple[_Claim, int]]
    ) -> bool:
        """Take *count* devices of *matching*, then serve the other requests."""
        if not count:
            return self.serve(queue[1:])
        if count > sum(self._free[name] for name, _ in matching):
            return False
        for place, (name, kind) in enumerate(matching):
            self._tries -= 1
            if self._tries < 0:
                return False
            if self._take(name, kind, queue[0][0], ask):
                if self._fill(ask, matching[place:], count - 1, queue):
                    return True
                self._give_back()
        return False

    def _fill_all(self, ask: _Ask, matching: Sequence[tuple[str, _Kind]], queue: Sequence[tuple[_Claim, int]]) -> bool:
        """Take every device of *matching*, of which there must be one and none may be taken."""
        every = [(name, kind) for name, kind in matching for _ in range(kind.of)]
        before = len(self._chosen)
        untaken = all(self._free[name] == kind.of for name, kind in matching)
        if 0 < len(every) <= MOST_DEVICES and untaken:
            if all(self._take(name, kind, queue[0][0], ask) for name, kind in every) and self.serve(queue[1:]):
                return True
            while len(self._chosen) > before:
                self._give_back()
        return False

    def _take(self, name: str, kind: _Kind, claim: _Claim, ask: _Ask) -> bool:
        free, uses = self._free, kind.uses
        if free[name] < 1 or not kind.lets_in(ask) or any(free.get(r, 0) < n for r, n in uses.items()):
            return False
        for constraint in claim.constraints:
            if constraint.binds(ask.name):
                value = kind.attributes.get(constraint.attribute)
                mine = [(k, a) for _, k, c, a in self._chosen if c is claim]
                others = [k.attributes[constraint.attribute] for k, a in mine if constraint.binds(a.name)]
                if value is None or (value in others if constraint.distinct else value not in (others or [value])):
                    return False
        free[name] -= 1
        for resource, count in uses.items():
            free[resource] -= count
        self._chosen.append((name, kind, claim, ask))
        return True

    def _give_back(self) -> None:
        name, kind, _, _ = self._chosen.pop()
        self._free[name] += 1
        for resource, count in kind.uses.items():
            self._free[resource] += count


def put_claims(free: dict[str, int], name: str) -> bool:
    """Take devices for the claims that *name* says out of *free*; False changes nothing."""
    claims = _claims(name)
    requests = [(claim, number) for claim in claims for number in range(len(claim.requests))]
    most = sum(max(ask.devices for ask in claim.requests[number]) for claim, number in requests)
    return most <= MOST_OF_A_POD and _Search(free).serve(requests)


def put_all_claims(free: dict[str, int], requests: Iterable[str]) -> None:
    """Take devices for each claim among *requests* out of *free*, as far as they are there."""
    for name in requests:
        if is_claim(name):
            put_claims(free, name)


def why_no_devices(requests: Mapping[str, int], node: Mapping[str, int]) -> str | None:
    """Return why a node that offers *node* does not hold *requests*; None when it does."""
    for resource, count in requests.items():
        if not is_claim(resource) and count > node.get(resource, count):
            return f"it asks for {count} {resource}, a node has devices for {node[resource]}"
    return next(filter(None, (_why_no_claim(name, node) for name in requests if is_claim(name))), None)


def _why_no_claim(name: str, node: Mapping[str, int]) -> str | None:
    kinds = [(free, _kind(kind)) for kind, free in node.items() if kind.startswith(KIND)]
    if not kinds:
        return f"it claims devices, and {UNKNOWN}"
    for ask in (ways[0] for claim in _claims(name) for ways in claim.requests if len(ways) == 1):
        subject, matching = f"class {ask.device_class}", [(n, k) for n, k in kinds if ask.question in k.answered]
        if any(ask.question in kind.unjudged for _, kind in kinds):
            return f"it claims devices of {subject}, {UNJUDGED}"
        fitting = sum(free for free, kind in matching if kind.lets_in(ask))
        if fitting < sum(free for free, _ in matching) and fitting < max(1, ask.devices):
            return f"it claims devices of {subject} and does not tolerate their taints"
        if fitting < max(1, ask.devices):
            wanted = some(ask.devices, "device") if ask.devices else "every device"
            return f"it claims {wanted} of {subject}, a node has {fitting} that match"
    if put_claims(dict(node), name):
        return None
    return "it claims devices that a node does not have together (constraints, counters or alternatives)"


@lru_cache(maxsize=256)
def as_text(node: NodeDevices) -> str:
    """Return the devices of *node* as the next node will probably have them, for the store: without attributes that
    differ from node to node, and without taints that only some devices of a driver carry."""
    lasting = {
        driver: set.intersection(*(set(d.taints) for d in node.devices if d.driver == driver))
        for driver in {d.driver for d in node.devices}
    }
    devices = [
        [d.driver, d.pool, d.name, {n: v for n, v in d.attributes.items() if not n.endswith(OF_ONE_DEVICE)},
         dict(d.capacity), dict(d.uses), [[t.key, t.value, t.effect] for t in d.taints if t in lasting[d.driver]]]
        for d in node.devices
    ]  # fmt: skip
    return json.dumps([devices, dict(node.counters)], separators=(",", ":"))


@lru_cache(maxsize=256)
def from_text(text: str) -> NodeDevices:
    """Return what `as_text` made a text of; the same object for the same text."""
    devices, counters = json.loads(text)
    return NodeDevices(
        devices=tuple(
            Device(
                driver=driver,
                pool=pool,
                name=name,
                attributes={attribute: tuple(value) for attribute, value in attributes.items()},
                capacity=capacity,
                uses=uses,
                taints=tuple(Taint(key=key, value=value, effect=effect) for key, value, effect in taints),
            )
            for driver, pool, name, attributes, capacity, uses, taints in devices
        ),
        counters=counters,
    )


@lru_cache(maxsize=256)
def untainted(text: str) -> str:
    """Return *text*, which `as_text` made, without taints."""
    node = from_text(text)
    return as_text(replace(node, devices=tuple(replace(device, taints=()) for device in node.devices)))
