"""The figures of panels that the HTTP API has too: money, GPUs and nodes, as sums and by what owns them.

Left out is what differs each second: ages and waits, utilization, and the cost of always-on.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from demo.stack import Stack

JSON = Mapping[str, Any]
Key = tuple[str, ...]
Read = Callable[["Documents"], Mapping[Key, float]]

OWNERS = ("team", "namespace", "project", "workload_class", "environment", "cost_center", "workload", "priority_class")
CENT = 0.005  # USD: the API gives some sums in whole cents
SECONDS = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """What the HTTP API of one cluster answers at one moment. *costs* are by what they are grouped by."""

    pools: tuple[JSON, ...]
    waiting: tuple[JSON, ...]
    budget: JSON
    costs: Mapping[str, JSON]
    always_on: JSON


def documents(stack: Stack) -> Documents:
    """Ask the autoscaler of *stack*. Raises requests.RequestException."""

    def get(path: str, **query: Any) -> Any:
        return stack.get("receiver", f"/api/v1/{path}", **query)

    return Documents(
        pools=tuple(get("pools")),
        waiting=tuple(get("waiting", limit=500)),
        budget=get("budget"),
        costs={by: get("costs", by=by) for by in (*OWNERS, "gpu_kind")},
        always_on=get("report")["always_on"],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What one query shows: a value for each combination of *labels*, and of clusters if it is *by_cluster*.

    *read* takes the same from the API, and values agree *within* that much. A figure *at_rest* is a minute old, or
    grows with each paid unit, so that it is the API's only while nothing is paid for.
    """

    dashboard: str
    panel: str
    ref: str
    read: Read
    labels: Key = ()
    by_cluster: bool = False
    within: float = 1e-6
    at_rest: bool = False


def _added(pairs: Iterable[tuple[Key, Any]]) -> Mapping[Key, float]:
    found: defaultdict[Key, float] = defaultdict(float)
    for key, value in pairs:
        if value is not None:
            found[key] += float(value)
    return found


def _of_pools(value: Callable[[JSON], Any], *labels: str) -> Read:
    return lambda of: _added((tuple(pool[label] for label in labels), value(pool)) for pool in of.pools)


def _of_waiting(value: Callable[[JSON], Any], *labels: str) -> Read:
    def read(of: Documents) -> Mapping[Key, float]:
        found = _added((tuple(pod[label] or "" for label in labels), value(pod)) for pod in of.waiting)
        return found if labels else {(): found.get((), 0.0)}

    return read


def _of_costs(by: str, value: str, *parts: str, keyed: bool = True) -> Read:
    def read(of: Documents) -> Mapping[Key, float]:
        lines = (line for line in of.costs[by]["lines"] if not parts or line["part"] in parts)
        return _added(((line["key"],) if keyed else (), line[value]) for line in lines)

    return read


def _idle(of: Documents) -> Mapping[Key, float]:
    lines = of.costs["team"]["lines"]
    unallocated = sum(float(line["usd"]) for line in lines if line["part"] == "unallocated")
    return {(): unallocated + sum(float(line["idle_usd"]) for line in lines if line["part"] == "held")}


def _by_part(of: Documents) -> Mapping[Key, float]:
    return _added(((line["part"],), line["usd"]) for line in of.costs["gpu_kind"]["lines"])


def _by_kind(of: Documents) -> Mapping[Key, float]:
    return _added(((line["key"],), line["usd"]) for line in of.costs["gpu_kind"]["lines"] if line["key"])


def _held_seconds(of: Documents) -> Mapping[Key, float]:
    lines = (line for line in of.costs["team"]["lines"] if line["part"] == "held")
    return _added(((line["key"],), SECONDS * line["gpu_hours"]) for line in lines)


def _always_on(of: Documents) -> Mapping[Key, float]:
    return {(): float(of.always_on["spent_usd"])}


def _of_budget(name: str) -> Read:
    return lambda of: _added([((), of.budget[name])])


def _billed(pool: JSON) -> float:
    nodes: int = pool["ready"] + pool["building"] + pool["unknown"]
    return nodes * float(pool["price_usd_per_hour"])


def _gpus(pool: JSON) -> int:
    gpus: int = pool["ready"] * pool["gpus_per_node"]
    return gpus


COUNTS = ("required", "ready", "building", "busy", "idle", "unknown", "sick", "wanted", "min_nodes", "max_nodes")
OWNED = {  # panel, label of its series, dimension of the API
    "By team": ("team", "team"),
    "By project": ("project", "project"),
    "By environment": ("environment", "environment"),
    "By class of work": ("workload_class", "workload_class"),
    "By cost center": ("cost_center", "cost_center"),
    "By priority class": ("priority_class", "priority_class"),
    "Month's cost by team": ("team", "team"),
    "Month's cost by namespace": ("workload_namespace", "namespace"),
}


def _pools() -> Iterator[Figure]:
    stats = ("required", "ready", "busy", "idle", "building", "unknown", "sick")
    titles = ("Desired", "Ready", "Busy", "Idle", "Building", "Unknown", "Sick")
    for title, name in zip(titles, stats, strict=True):
        yield Figure(dashboard="pools", panel=title, ref="A", read=_of_pools(itemgetter(name)))
    names = ("pool_name",)
    for ref, name in zip("ABCDEFGHIJK", (*COUNTS, "pending_gpus"), strict=True):
        read = _of_pools(itemgetter(name), "name")
        yield Figure(dashboard="pools", panel="Pools now", ref=ref, read=read, labels=names, by_cluster=True)
    for panel, ref, value in (
        ("Desired and ready by pool", "A", itemgetter("ready")),
        ("Desired and ready by pool", "B", itemgetter("required")),
        ("GPUs allocated and allocatable by pool", "A", itemgetter("held_gpus")),
        ("GPUs allocated and allocatable by pool", "B", _gpus),
    ):
        read = _of_pools(value, "name")
        yield Figure(dashboard="pools", panel=panel, ref=ref, read=read, labels=names, by_cluster=True)
    for dashboard, panel, value in (
        ("pools", "GPUs pending", itemgetter("gpus")),
        ("queues", "GPUs requested", itemgetter("gpus")),
        ("queues", "GPU pods waiting", lambda _: 1),
    ):
        yield Figure(dashboard=dashboard, panel=panel, ref="A", read=_of_waiting(value))
    read = _of_waiting(itemgetter("gpus"), "namespace")
    yield Figure(dashboard="queues", panel="GPUs pending by namespace", ref="A", read=read, labels=("namespace",))


def _money() -> Iterator[Figure]:
    per_hour = _of_pools(_billed)
    yield Figure(dashboard="cost", panel="Budget", ref="A", read=_of_budget("monthly_usd"))
    yield Figure(dashboard="cost", panel="Cost per hour", ref="A", read=per_hour)
    read = _of_pools(_billed, "name")
    labels = ("pool_name",)
    yield Figure(dashboard="cost", panel="Cost per hour by pool", ref="A", read=read, labels=labels, by_cluster=True)
    yield Figure(dashboard="cost", panel="Burn and cost per hour", ref="B", read=per_hour)
    for panel, ref, read in (
        ("Spent", "A", _of_budget("spent_usd")),
        ("Spend and forecast against the budget", "A", _of_budget("spent_usd")),
        ("Idle this month", "A", _idle),
        ("This month against always-on", "B", _always_on),
    ):
        yield Figure(dashboard="cost", panel=panel, ref=ref, read=read, within=CENT, at_rest=True)
    for panel, (label, by) in OWNED.items():
        read = _of_costs(by, "usd", "held")
        yield Figure(dashboard="cost", panel=panel, ref="A", read=read, labels=(label,), at_rest=True)
    for panel, labels, read in (
        ("By use", ("part",), _by_part),
        ("By kind of GPU", ("gpu_kind",), _by_kind),
        ("Held but unused, by team", ("team",), _of_costs("team", "idle_usd", "held")),
        ("GPU time by team", ("team",), _held_seconds),
    ):
        yield Figure(dashboard="cost", panel=panel, ref="A", read=read, labels=labels, at_rest=True)
    read = _of_costs("workload", "usd", "held")
    labels = ("workload",)
    yield Figure(
        dashboard="cost", panel="Top consumers", ref="A", read=read, labels=labels, by_cluster=True, at_rest=True
    )


FIGURES = (*_pools(), *_money())
