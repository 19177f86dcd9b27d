"""What an assignment says of each pool: the values that decisions, explanations and messages read. And its draft."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import TYPE_CHECKING

from receiver.core.model.model import Facts
from receiver.core.model.pods import Pod, Workload
from receiver.core.model.policy import Policy, Scope
from receiver.core.model.room_requests import RoomAnswer
from receiver.core.model.text import lasting
from receiver.core.money.budget import Budgets, BudgetView, Refusal
from receiver.core.scaling.bounds import BoundsInForce, Grace
from receiver.core.scaling.capacity import Allowance, HeldWorkload, Placement, Tally
from receiver.core.scaling.failures import Failure, LeftOut
from receiver.core.scaling.market import Matching
from receiver.core.scaling.witness import Barred

if TYPE_CHECKING:  # it reads what is wanted
    from receiver.core.scaling.guardrails.rule import AddedGuardrail

ASKED_WITHIN = timedelta(minutes=10)
USED_WITHIN = timedelta(hours=3)  # so long after its last pod, a pool keeps one node's GPUs free


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
    rooms: tuple[Placement, ...] = field(default=(), compare=False)
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
class Headroom:
    """What a pool keeps warm: *gpus*, because *asked* were requested within `ASKED_WITHIN`, or its last pod came or
    ended within `USED_WITHIN`.

    *spare_nodes* may go and leave enough; *falls_at* is when the headroom next shrinks unless more work comes.
    """

    gpus: int
    asked: int
    unit: int = 1  # GPUs of the largest recent request: a smaller rest of a node does not count as free
    spare_nodes: int = 0
    falls_at: datetime | None = None

    def __str__(self) -> str:
        came = f"{self.asked} asked for within {lasting(ASKED_WITHIN)}"
        if not self.asked:
            came = f"work within {lasting(USED_WITHIN)}" if self.gpus else f"no work within {lasting(USED_WITHIN)}"
        return f"{self.gpus} GPU{'' if self.gpus == 1 else 's'} kept warm ({came})"


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
    added: tuple["AddedGuardrail", ...] = field(default=(), compare=False)  # to the guardrails, by capabilities

    @property
    def for_demand(self) -> int:
        """New nodes for work that waits."""
        return self.by_source.get("demand", 0)

    @property
    def new_nodes(self) -> int:
        """All nodes wanted beyond those that exist."""
        return sum(self.by_source.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedWork:
    """The keys of refused pods and of their gangs, and the ids of the *pools* whose nodes they could start on."""

    pods: frozenset[str] = frozenset()
    gangs: frozenset[str] = frozenset()
    pools: frozenset[str] = frozenset()

    def holds(self, pod: Pod) -> bool:
        """True for a refused pod, and for a pod of a refused gang that got a node anyway."""
        return pod.gang in self.gangs if pod.node is not None else pod.key in self.pods


@dataclass(frozen=True, slots=True, kw_only=True)
class PatientWork:
    """A workload that may still wait: it is to start by *starts_by*, so nodes are bought for it at *buys_at* (None:
    never). *why* is a sentence, *gated*: our scheduling gate holds it back."""

    workload: Workload
    why: str
    starts_by: datetime | None = None
    buys_at: datetime | None = None
    gated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """A workload that no pool can ever hold: a sentence, and *why*, which names no workload."""

    workload: Workload
    detail: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The whole assignment: one Wanted per pool, what fits nowhere, what may still wait, and the budgets they share."""

    pools: Mapping[str, Wanted]
    misfits: tuple[Misfit, ...] = ()
    patient: tuple[PatientWork, ...] = ()  # without room that exists or is on its way
    budgets: Budgets = field(default_factory=Budgets)
    answers: tuple[RoomAnswer, ...] = ()  # to requests of the cluster's API

    @property
    def budget(self) -> BudgetView | None:
        return self.budgets.of(Scope.CLUSTER)


@dataclass(slots=True, kw_only=True, eq=False)
class Draft:
    """The facts and the policy of an assignment, what all pools share, and what became of each source of size so far.

    *waiting* is urgent work in the order of service, *patient* work that may still wait. *aside* are the ids of pools
    that are set aside: their tallies have room and do not grow. *added* are the guardrails of capabilities.
    """

    facts: Facts
    policy: Policy
    allowance: Allowance
    left_out: LeftOut
    aside: Mapping[str, Failure]
    waiting: Sequence[Workload]
    barred: Barred
    patient: tuple[PatientWork, ...] = ()
    tallies: dict[str, Tally] = field(default_factory=dict)
    misfits: tuple[Misfit, ...] = ()
    answers: tuple[RoomAnswer, ...] = ()
    refused: RefusedWork = field(default_factory=RefusedWork)  # known once all work has been served
    headroom: Mapping[str, Headroom] = field(default_factory=dict)
    added: tuple["AddedGuardrail", ...] = ()

    @property
    def served(self) -> Mapping[str, Tally]:
        """The tallies of the pools that are not set aside."""
        return {pool: tally for pool, tally in self.tallies.items() if pool not in self.aside}

    def matching(self, tallies: Sequence[Tally]) -> Matching:
        """Return the markets of *tallies*; what fails together is kept apart."""
        return Matching(tallies, self.left_out.pairs)

    def grows_to(self, target: int, tally: Tally) -> int:
        """Up to which size of *target* (nodes) the guardrails of capabilities let a pool grow."""
        sizes = [each.grows_to(target, tally.pool, tally.state, tally.bounds, self.facts) for each in self.added]
        return min(sizes, default=target)

    def postpone(self, source: "SizeSource") -> None:
        """Let what *source* postpones be no demand. What the scheduler refused is not postponed: that is reported."""
        postponed = tuple(source.postpone([w for w in self.waiting if w.key not in self.barred.workloads], self))
        later = {work.workload.key for work in postponed}
        self.waiting = tuple(w for w in self.waiting if w.key not in later)
        self.patient = (*self.patient, *postponed)

    def answer(self, answers: Iterable[RoomAnswer]) -> None:
        """Add *answers* to those of the sources before."""
        self.answers = (*self.answers, *answers)


class Rank(Enum):
    """When a source of size is served."""

    WORK = auto()  # after the work that waits, before everything that is spare
    SPARE = auto()  # after the headroom: the first that a budget drops


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeSource:
    """What a capability adds to an assignment: *serve* gives room. If it fails, the rest is assigned without the
    requests of *kind*; without a kind, without what the exception is attributed to. *postpone* yields those workloads
    of a draft that may still wait: they are no demand of this assignment. *replaced* tells which instances of a pool
    are cordoned, and removed once their work ends."""

    rank: Rank = Rank.SPARE
    serve: Callable[[Draft], None] = lambda _: None
    kind: str | None = None
    postpone: Callable[[Sequence[Workload], Draft], Iterable[PatientWork]] = lambda _, __: ()
    replaced: Callable[[Tally, Draft], frozenset[str]] = lambda _, __: frozenset()
