"""What an assignment says of each pool: the values that decisions, explanations and messages read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from receiver.core.model.pods import Workload
from receiver.core.money.budget import BudgetView, Refusal
from receiver.core.scaling.bounds import BoundsInForce, Grace
from receiver.core.scaling.capacity import Given, HeldWorkload
from receiver.core.scaling.market import Headroom


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """How many of the new nodes each check leaves, in that order: *budget* >= *maximum* >= *limits*. *stock* is how
    many to ask for right after Civo refused more (None: it did not)."""

    budget: int = 0
    maximum: int = 0
    limits: int = 0
    stock: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingWork:
    """Where the work that waits for a pool (*gpus* in all) goes: new nodes are for *asking* and the CapacityBuffers
    *buffers*. *settled* workloads fit existing or coming nodes, *placed* are those of them that fit a usable one:
    (workload, instance). *rooms* has the rooms of both. *held* got none, *refused* (by key) is what budgets refused."""

    asking: tuple[Workload, ...] = ()
    buffers: tuple[str, ...] = ()
    settled: tuple[str, ...] = ()
    placed: tuple[tuple[str, str], ...] = ()
    rooms: tuple[Given, ...] = field(default=(), compare=False)
    held: tuple[HeldWorkload, ...] = ()
    refused: Mapping[str, Refusal] = field(default_factory=dict)
    gpus: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Instances:
    """What the assignment says of single instances: *needed* by waiting work, *warm* for a buffer alone (its key);
    *movable* are busy ones whose pods consented to move and fit elsewhere, *unreturning* those with a pod that would be
    kept out if it started again, *repairs* sick ones that are cordoned, and removed once their work ends."""

    needed: frozenset[str] = frozenset()
    warm: Mapping[str, str] = field(default_factory=dict)
    movable: frozenset[str] = frozenset()
    unreturning: frozenset[str] = frozenset()
    repairs: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Funding:
    """The cluster's *budget*, one refusal of each budget that did not cover a node, and whether one is *stopped*."""

    budget: BudgetView | None = None
    uncovered: tuple[Refusal, ...] = ()
    stopped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the assignment asks of one pool: new nodes *by_source*, beyond those that exist or are on their way, and how
    many of them are *allowed*."""

    pool: str
    bounds: BoundsInForce
    by_source: Mapping[str, int] = field(default_factory=dict)  # in the order of service
    allowed: Allowed = field(default_factory=Allowed)
    work: WaitingWork = field(default_factory=WaitingWork)
    nodes: Instances = field(default_factory=Instances)
    money: Funding = field(default_factory=Funding)
    graces: tuple[Grace, ...] = ()  # of the open windows that evict
    headroom: Headroom | None = None  # None: it keeps nothing warm
    buys_at: datetime | None = None  # when nodes are bought for work that may still wait
    failed: str = ""  # the internal error for which the pool was set aside

    @property
    def for_demand(self) -> int:
        """New nodes for work that waits."""
        return self.by_source.get("demand", 0)

    @property
    def new_nodes(self) -> int:
        """All nodes wanted beyond those that exist."""
        return sum(self.by_source.values())
