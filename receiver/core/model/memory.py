"""What a step reads from the store: the ledger, the state that the last step left (`Control`), and clock checks."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Protocol

from receiver.core.model.actions import Action
from receiver.core.model.charges import Charged, Seed
from receiver.core.model.flights import Flight
from receiver.core.model.model import Backoff, Drift, Offer, Source
from receiver.core.model.overrides import Override
from receiver.core.model.policy import Billing, BudgetChange, CommittedNodes
from receiver.core.model.refusals import SchedulerRefusal
from receiver.core.model.rights import Rights


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLife:
    """One instance's life as paid for. Moments but *created_at* (Civo's) are when something was first seen."""

    instance: str
    pool: str
    name: str
    size: str
    created_at: datetime
    price_usd_per_hour: Decimal | None = None  # in force when it was first seen
    gone_at: datetime | None = None
    active_at: datetime | None = None  # built
    registered_at: datetime | None = None  # in Kubernetes
    ready_at: datetime | None = None
    usable_at: datetime | None = None  # GPUs allocatable
    bound_at: datetime | None = None  # a GPU pod bound to it
    running_at: datetime | None = None  # that pod's containers running
    image: str | None = None  # of that pod, once they run (None: not known)
    idle_since: datetime | None = None  # its last GPU pod gone; None while busy or never usable
    lost_at: datetime | None = None  # no longer usable, or vanished from Kubernetes; None while it is well
    unknown_since: datetime | None = None  # GPUs in use without a pod
    seen_at: datetime | None = None  # what happened before was not watched
    gpus: float = 0.0  # that one node of its pool offers, slices and shares counted as such (0: unknown)
    kept_until: datetime | None = None  # by a workload
    kept_for: str = ""  # its pod
    sick_since: datetime | None = None  # when its sickness began; None after it was well for a while
    well_since: datetime | None = None  # when it was last seen to recover from that; None while it is sick
    maintained_since: datetime | None = None  # since when someone else works on it; None while none does


class EndedLives(Protocol):
    """Node lives that are over; `receiver.core.money.cost.EndedLog` counts what was paid for them."""

    @property
    def lives(self) -> Sequence[NodeLife]:
        """The lives added so far, in that order."""

    def paid_units(self, since: datetime, billing: Billing) -> tuple[Counter[tuple[str, Decimal]], frozenset[str]]:
        """Return the paid units begun since *since* by pool and price, and the sizes without a price."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolMemory:
    """What a pool did last, with the fields of `PoolState` and its parts; *required* is Civo's own number.

    Growth and removal back off separately: a node that cannot be drained must not keep work waiting.
    """

    required: int = 0
    required_since: datetime | None = None
    last_grow_at: datetime | None = None
    last_shrink_at: datetime | None = None
    backoff: Backoff | None = None
    removal_backoff: Backoff | None = None
    provisioning: Backoff | None = None
    late: Flight | None = None  # what Civo accepted and its count does not show
    ready_in: timedelta | None = None
    drifts: tuple[Drift, ...] = ()
    offer: Offer | None = None
    open_action: Action | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Everything a step needs from before it."""

    pools: Mapping[str, PoolMemory] = field(default_factory=dict)
    lives: tuple[NodeLife, ...] = ()  # living, and gone since the month began
    ended: EndedLives | None = None  # lives that ended, unless they are in *lives*
    grown_last_hour: int = 0
    removed_last_hour: int = 0
    first_changed_at: datetime | None = None  # when the first change that these two count ended
    watched_since: datetime | None = None  # when this ledger first read a pool's count
    heartbeat_at: datetime | None = None
    deliveries: tuple[int, ...] = ()  # stored and not considered yet
    overrides: tuple[Override, ...] = ()  # not ended, in force or not
    ran_out_early: tuple[Override, ...] = ()  # ended by a step whose clock was ahead: still in force
    budget_changes: tuple[BudgetChange, ...] = ()  # in force, whatever their month
    charged: Charged | None = None  # Civo's newest answer on what it charged
    unanswered: tuple[Action, ...] = ()  # growth that ended recently and that Civo may have accepted
    refused: Mapping[str, int] = field(default_factory=dict)  # by pool: `core.scaling.waits.refused_counts`
    seed: Seed | None = None  # the newest; without one the store knows nothing of earlier costs


# Stage: (where it begins, where it ends), as fields of NodeLife. `start` is the image pull of the first GPU pod.
STAGES = {
    "build": ("created_at", "active_at"),
    "boot": ("active_at", "ready_at"),
    "driver": ("ready_at", "usable_at"),
    "start": ("bound_at", "running_at"),
    "total": ("created_at", "usable_at"),
}
LAST_NODES = 50  # of a pool: sizes, images and drivers change
FEWEST_NODES = 5  # fewer say nothing of the spread


def slow_starts(lives: Iterable[NodeLife]) -> Mapping[str, timedelta]:
    """By pool, the time from creation within which nine of ten of its last nodes were usable."""
    starts_by_pool: dict[str, list[tuple[datetime, timedelta]]] = {}
    for life in lives:
        if life.usable_at is not None and life.seen_at is not None and life.usable_at > life.seen_at:
            starts_by_pool.setdefault(life.pool, []).append((life.usable_at, life.usable_at - life.created_at))
    last = {pool: sorted(span for _, span in sorted(starts)[-LAST_NODES:]) for pool, starts in starts_by_pool.items()}
    return {pool: spans[-(-9 * len(spans) // 10) - 1] for pool, spans in last.items() if len(spans) >= FEWEST_NODES}


UPPER_BOUNDS = (5, 15, 30, 60, 120, 180, 300, 420, 600, 900, 1200, 1800)  # seconds
BUCKETS = (*(f"{bound}.0" for bound in UPPER_BOUNDS), "+Inf")  # as Prometheus writes the label `le`
A_MILLISECOND = timedelta(milliseconds=1)


def passed(before: NodeLife | None, after: NodeLife, first_seen: datetime) -> Iterator[tuple[str, int]]:
    """Yield each stage that ended between *before* (None: not known yet) and *after*, with its milliseconds.

    A stage whose start or end was not watched, before *first_seen*, is left out. The clock may have been set back.
    """
    for stage, (begins, ends) in STAGES.items():
        began, ended = getattr(after, begins), getattr(after, ends)
        if began is None or ended is None or (before is not None and getattr(before, ends) is not None):
            continue
        if ended > first_seen and (begins == "created_at" or began > first_seen):
            yield stage, max(0, (ended - began) // A_MILLISECOND)


def bucket(milliseconds: int) -> str:
    """Return the smallest of BUCKETS that *milliseconds* fit into."""
    return next(b for b in BUCKETS if milliseconds <= float(b) * 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTurn:
    """Whether a source answers, and since when."""

    up: bool
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """The control state that the step at *at* leaves to the next one; *kept_out*, *rights* and *refusals* are as in
    `Facts` and its parts, *decisions* are the numbers of the stored decisions by pool, *committed* the commitments
    that were ever in force."""

    at: datetime
    sources: Mapping[Source, SourceTurn] = field(default_factory=dict)
    kept_out: Mapping[str, datetime] | None = None
    rights: Rights | None = None
    decisions: Mapping[str, int] = field(default_factory=dict)
    refusals: tuple[SchedulerRefusal, ...] = ()
    committed: tuple[CommittedNodes, ...] = ()


def is_new_minute(before: Control | None, now: datetime) -> bool:
    """True for the first step of a minute of the clock; *before* is the control state that the last step left."""
    return before is None or before.at.replace(second=0, microsecond=0) != now.replace(second=0, microsecond=0)


IN_A_ROW = timedelta(minutes=15)  # steps are seconds apart, five minutes at most
LONG = timedelta(hours=1)


def follows(before: datetime | None, now: datetime) -> bool:
    """True when the step *before* was a moment ago by the same clock: after a jump, two steps in a row must agree."""
    return before is not None and timedelta(0) <= now - before <= IN_A_ROW


def trusted_since(before: datetime | None, now: datetime, *, trusted: bool) -> datetime | None:
    """Since when the clock of every step was *trusted*, given that of the step *before*; None while it is not."""
    if not trusted:
        return None
    return now if before is None else min(before, now)


def is_sure(since: datetime | None, now: datetime) -> bool:
    """True when the clock has been trusted for so long (*since*) that rows may be deleted and reports sent."""
    return since is not None and now - since >= LONG
