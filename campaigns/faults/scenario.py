"""A whole world as data: what exists, how it behaves, and every event with its time.

A scenario is made from a seed (`campaigns.faults.generate`) or read from a kept case. Nothing else decides what
happens, so a scenario replays the same whatever becomes of the generator. Times are seconds from the beginning.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

STARTUP_TAINTS = ("readiness.k8s.io/nvidia-gpu-not-ready", "node.cilium.io/agent-not-ready")
OTHER_STARTUP_TAINTS = (
    "startup-taint.cluster-autoscaler.kubernetes.io/storage",
    "ignore-taint.cluster-autoscaler.kubernetes.io/network",
    "node.cloudprovider.kubernetes.io/uninitialized",
    "example.com/not-set-up",  # the one that the configuration names
)

AGAIN = "again"  # the value of a taint that a used node gets for a while
NAMED_CONDITION = "example.com/GpuProblem"  # of the conditions that the configuration names


@dataclass(frozen=True, kw_only=True)
class PoolPlan:
    """One pool, at Civo and in the policy. Durations are seconds, *price* USD per node-hour (None: unknown).

    *budget* is its own allowance of a month in USD, where the scenario has one too. *window* is [from minute, to
    minute, max nodes] by the wall clock (UTC), and evicts after *evict_after* seconds (None: never). *true_labels* are
    what its nodes really carry where the configuration is wrong about them. *asks* is what people are asked about: the
    keys of `pools[].approval`, in seconds and USD. *startup_taint* is the key of a taint that new nodes carry at first.
    With *dra* a DRA driver serves the GPUs. *devices* is the kind of those that can be claimed, shown in as many
    *slices* (`campaigns.faults.claims`). Sick nodes are replaced, at most *repair_share* of them at a time (None: not
    replaced). *committed* is how many nodes are paid for anyway, and until which second.
    """

    name: str
    resources: dict[str, int]
    max_nodes: int
    price: str | None = "1.29"
    labels: dict[str, str] = field(default_factory=dict)
    true_labels: dict[str, str] | None = None
    taints: list[list[str]] = field(default_factory=list)
    min_nodes: int = 0
    standby_nodes: int = 0
    count: int = 0
    idle_for: int = 120
    provision_timeout: int = 900
    grow_cooldown: int = 30
    shrink_cooldown: int = 60
    window: list[int] | None = None
    budget: str | None = None
    evict_after: int | None = None
    asks: dict[str, Any] | None = None
    startup_taint: str | None = None
    dra: bool = False
    devices: str = ""
    slices: int = 1
    repair_share: float | None = None
    committed: list[int] | None = None

    @property
    def id(self) -> str:
        """The pool's id at Civo."""
        return f"{self.name}-id"


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happens at *at*, or right before the next *call* (``cluster.drain``) from then on."""

    at: float
    kind: str
    what: dict[str, Any] = field(default_factory=dict)
    call: str | None = None


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A world and its troubles. *ticks* are the seconds between steps, taken in turn while it is *troubled*. *watch* is
    how many seconds after a pod begins to wait the loop is woken (None: pods are not watched). *shelf* is how many
    nodes of a pool Civo has at a time once the troubles are over."""

    seed: int
    start: str
    pools: list[PoolPlan]
    events: list[Event]
    troubled: int
    ticks: list[int]
    timings: dict[str, float] = field(default_factory=dict)
    behaviour: dict[str, Any] = field(default_factory=dict)
    granularity: int = 3600
    removal_margin: int = 120
    budget: str | None = None
    limits: dict[str, int] = field(default_factory=dict)
    fallback: str = "none"
    mode: str = "act"
    packing: str = "most_allocated"
    objective: str = "balanced"
    watch: float | None = None
    shelf: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return the scenario as JSON text, one pool and one event a line."""
        plain = asdict(self)
        fields = [
            f"{json.dumps(k)}: {_rows(v) if k in ('pools', 'events') else json.dumps(v)}" for k, v in plain.items()
        ]
        return "{\n " + ",\n ".join(fields) + "\n}\n"

    @staticmethod
    def from_json(text: str) -> "Scenario":
        """Read what `to_json` wrote; keys that are not the scenario's own (why a case is kept) are left out."""
        return Scenario.from_plain(json.loads(text))

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> "Scenario":
        """Build a scenario from JSON values."""
        known = {k: v for k, v in plain.items() if k in Scenario.__dataclass_fields__}
        pools = [PoolPlan(**p) for p in known.pop("pools")]
        events = [Event(**e) for e in known.pop("events")]
        return Scenario(pools=pools, events=events, **known)

    def without(self, *events: Event) -> "Scenario":
        """The same scenario without *events*."""
        gone = {id(e) for e in events}
        return replace(self, events=[e for e in self.events if id(e) not in gone])


def _rows(found: list[dict[str, Any]]) -> str:
    return "[\n  " + ",\n  ".join(json.dumps(_without_defaults(row)) for row in found) + "\n ]" if found else "[]"


def _without_defaults(row: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in row.items() if k == "price" or (v not in (None, {}, []) and v is not False)}
