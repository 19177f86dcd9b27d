"""Allocation of devices to ResourceClaims on one node: the first solution, in the order of the API.

It follows the Kubernetes documentation, independently of the product's own search, so that the two check each other.
Consumable capacity is not modelled: a claim that asks for it is never allocated.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from simulator.dra.devices import JSON, DeviceId, DevicePool, Judge, amount, attribute

Counter = tuple[str, str, str, str]  # driver, pool, counter set, counter


class UnjudgedError(Exception):
    """A selector cannot be judged on a device, which ends the attempt to schedule the pod."""


class DeviceAsk(NamedTuple):
    """A request, or one of its alternatives: *base* is the request's name, *given* the fields of both forms."""

    name: str
    base: str
    given: Mapping[str, Any]

    @property
    def admin(self) -> bool:
        return self.given.get("adminAccess") is True


class Taken(NamedTuple):
    asked: DeviceAsk
    id: DeviceId
    device: JSON

    @property
    def result(self) -> JSON:
        """The DeviceRequestAllocationResult."""
        optional_fields = {
            key: self.asked.given[key] for key in ("adminAccess", "tolerations") if self.asked.given.get(key)
        }
        return {
            "request": self.asked.name,
            "driver": self.id.driver,
            "pool": self.id.pool,
            "device": self.id.name,
            **optional_fields,
        }


def alternatives(request: JSON) -> list[DeviceAsk]:
    """Return what satisfies *request*, the preferred first."""
    name = request["name"]
    if "exactly" in request:
        return [DeviceAsk(name, name, request["exactly"])]
    return [
        DeviceAsk(f"{name}/{subrequest['name']}", name, subrequest)
        for subrequest in request.get("firstAvailable") or ()
    ]


def tolerated(taint: Mapping[str, Any], tolerations: Iterable[Mapping[str, Any]]) -> bool:
    """True for a taint that keeps no pod away, or that one of *tolerations* covers."""
    if taint["effect"] not in ("NoSchedule", "NoExecute"):
        return True
    for toleration in tolerations:
        exists = toleration.get("operator") == "Exists"
        same_key = toleration.get("key") == taint["key"] or (exists and not toleration.get("key"))
        same_value = exists or (toleration.get("value") or "") == (taint.get("value") or "")
        if same_key and same_value and toleration.get("effect") in (None, "", taint["effect"]):
            return True
    return False


class Attempt:
    """Allocates claims from *pools*, of which the devices *in_use* are taken."""

    def __init__(
        self, pools: Sequence[DevicePool], in_use: Collection[DeviceId], classes: Mapping[str, JSON], judge: Judge
    ) -> None:
        self._classes = classes
        self._judge = judge
        self._devices = [
            (DeviceId(pool.driver, pool.name, name), device) for pool in pools for name, device in pool.devices.items()
        ]
        self._busy = set(in_use)
        self._left: dict[Counter, Decimal] = {
            (pool.driver, pool.name, *counter): total for pool in pools for counter, total in pool.counters.items()
        }
        for name, device in self._devices:
            if name in self._busy:
                self._consume(name, device, 1)
        self._specs: Sequence[JSON] = ()
        self._taken: list[list[Taken]] = []

    def allocate(self, specs: Sequence[JSON]) -> list[list[JSON]] | None:
        """Return the results for each of *specs* (``spec.devices`` of claims), None where they do not all fit. Raises
        UnjudgedError."""
        self._specs = specs
        self._taken = [[] for _ in specs]
        if not self._continue(0, 0):
            return None
        return [[taken.result for taken in each] for each in self._taken]

    def _continue(self, claim: int, request: int) -> bool:
        if claim == len(self._specs):
            return True
        requests = self._specs[claim]["requests"]
        if request == len(requests):
            return self._continue(claim + 1, 0)
        return any(self._satisfy(claim, request, device_ask) for device_ask in alternatives(requests[request]))

    def _satisfy(self, claim: int, request: int, device_ask: DeviceAsk) -> bool:
        mode = device_ask.given.get("allocationMode") or "ExactCount"
        if device_ask.given.get("capacity") or mode not in ("ExactCount", "All"):
            return False
        if mode == "ExactCount":
            return self._fill(claim, request, device_ask, self._devices, device_ask.given.get("count") or 1)
        every = [candidate for candidate in self._devices if self._selected(device_ask, *candidate)]
        return bool(every) and self._fill(claim, request, device_ask, every, len(every))

    def _fill(
        self, claim: int, request: int, device_ask: DeviceAsk, candidates: Sequence[tuple[DeviceId, JSON]], count: int
    ) -> bool:
        """Take *count* of *candidates*, then go on with the next request."""
        if not count:
            return self._continue(claim, request + 1)
        for n in range(len(candidates) - count + 1):  # where all are needed, that is the first one alone
            if self._take(claim, device_ask, *candidates[n]):
                if self._fill(claim, request, device_ask, candidates[n + 1 :], count - 1):
                    return True
                self._give_back(claim)
        return False

    def _take(self, claim: int, device_ask: DeviceAsk, name: DeviceId, device: JSON) -> bool:
        mine = self._taken[claim]
        if name in ({taken.id for taken in mine} if device_ask.admin else self._busy) or not self._selected(
            device_ask, name, device
        ):
            return False
        if not all(tolerated(taint, device_ask.given.get("tolerations") or ()) for taint in device.get("taints") or ()):
            return False
        if any(self._left.get(counter, 0) < value for counter, value in _costs(name, device)):
            return False
        together = [*mine, Taken(device_ask, name, device)]
        if not all(_holds(constraint, together) for constraint in self._specs[claim].get("constraints") or ()):
            return False
        mine.append(together[-1])
        if not device_ask.admin:
            self._busy.add(name)
            self._consume(name, device, 1)
        return True

    def _give_back(self, claim: int) -> None:
        allocated = self._taken[claim].pop()
        if not allocated.asked.admin:
            self._busy.discard(allocated.id)
            self._consume(allocated.id, allocated.device, -1)

    def _consume(self, name: DeviceId, device: JSON, times: int) -> None:
        for counter, value in _costs(name, device):
            self._left[counter] = self._left.get(counter, Decimal(0)) - times * value

    def _selected(self, device_ask: DeviceAsk, name: DeviceId, device: JSON) -> bool:
        of_class = self._classes[device_ask.given["deviceClassName"]]["spec"].get("selectors") or ()
        for selector in (*of_class, *(device_ask.given.get("selectors") or ())):
            expression = selector["cel"]["expression"]
            judged = self._judge(expression, {**device, "driver": name.driver})
            if judged is None:
                raise UnjudgedError(f"request {device_ask.name}: device {name.name}: CEL runtime error: {expression}")
            if not judged:
                return False
        return True


def _costs(name: DeviceId, device: JSON) -> Iterable[tuple[Counter, Decimal]]:
    for used in device.get("consumesCounters") or ():
        for counter, value in used["counters"].items():
            yield (name.driver, name.pool, used["counterSet"], counter), amount(value["value"])


def _holds(constraint: JSON, together: Sequence[Taken]) -> bool:
    wanted = constraint.get("requests") or ()
    concerned = [t for t in together if not wanted or t.asked.name in wanted or t.asked.base in wanted]
    name = constraint.get("matchAttribute") or constraint["distinctAttribute"]
    values = [attribute(t.device, t.id.driver, name) for t in concerned]
    if None in values:
        return False
    return len(set(values)) <= 1 if "matchAttribute" in constraint else len(set(values)) == len(values)
