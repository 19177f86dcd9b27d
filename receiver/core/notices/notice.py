"""What a notice is: cause, severity and text; the page that says what to do; and sentences that several share."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Self

from receiver.core.explain.explain import Fate, State
from receiver.core.model.actions import Decision
from receiver.core.model.configuration import ConfigurationFile
from receiver.core.model.model import Drift, Facts
from receiver.core.model.policy import Policy, Pool
from receiver.core.model.text import some
from receiver.core.money.budget import Key
from receiver.core.promises.promise import Promise
from receiver.core.scaling.wanted import Assignment

ODD = "troubleshooting.md"
OF_TEAMS = ("report", "budget", "budget-change")  # topics that name a scope


class Severity(StrEnum):
    """How a notice is coloured."""

    INFO = "info"
    SUCCESS = "success"
    WARNING = "warning"
    FAILURE = "failure"


class Cause(StrEnum):
    """What kind of news a notice is: with its pool, what messages are grouped by. *guide* is the page below ``docs/``
    that says what to do."""

    guide: str

    def __new__(cls, word: str, guide: str) -> Self:
        cause = str.__new__(cls, word)
        cause._value_, cause.guide = word, guide
        return cause

    GREW = "grew", f"{ODD}#a-cold-start-takes-long"
    SHRANK = "shrank", "guardrails.md#idle_nodes"
    WOULD_CHANGE = "would_change", "operations.md#observe-first"
    GROWTH_FAILED = "growth_failed", f"{ODD}#civo-refuses"
    OUT_OF_STOCK = "out_of_stock", "runbooks/GpuPoolOutOfStock.md"
    REMOVAL_STOPPED = "removal_stopped", f"{ODD}#removals-have-stopped"
    REMOVED_STUCK = "removed_stuck", "runbooks/GpuScaleUpStuck.md"
    WITHDRAWN = "withdrawn", "how-it-decides.md#one-step"
    HELD = "held", "runbooks/GpuPodsPending.md"
    MISFIT = "misfit", f"{ODD}#no-pool-can-hold-a-pod"
    STUCK = "stuck", "runbooks/GpuScaleUpStuck.md"
    UNKNOWN = "unknown", f"{ODD}#a-node-is-neither-busy-nor-idle"
    MISDESCRIBED = "misdescribed", f"{ODD}#a-node-offers-other-gpus-than-configured"
    NOT_DRAINED = "not_drained", "how-it-decides.md#what-drains-and-what-keeps-a-node"
    UNJOINED = "unjoined", f"{ODD}#nodes-that-belong-to-no-instance"
    SLOW_TO_START = "slow_to_start", f"{ODD}#a-pod-has-its-node-and-does-not-start"
    STUCK_POD = "stuck_pod", f"{ODD}#a-pod-stays-terminating"
    NOMINATION = "nomination", f"{ODD}#a-pod-is-nominated-to-a-node-that-it-cannot-get"
    SICK = "sick", "how-it-decides.md#sick-nodes"
    CORDONED = "cordoned", f"{ODD}#a-node-stays-closed"
    UNUSED = "unused", f"{ODD}#a-pod-waits-beside-a-usable-node"
    DRIFT = "drift", f"{ODD}#another-system-changes-a-pool"
    SOURCE_SILENT = "source_silent", "runbooks/GpuAutoscalerSourceDown.md"
    SOURCE_BACK = "source_back", "runbooks/GpuAutoscalerSourceDown.md"
    RIGHTS_MISSING = "rights_missing", "operations.md#rights-in-the-cluster"
    INSTALLATION = "installation", "operations.md#two-installations-in-one-cluster"
    RIGHTS_BACK = "rights_back", "operations.md#rights-in-the-cluster"
    BUDGET_WARN = "budget_warn", "runbooks/GpuBudgetWarn.md"
    BUDGET_HOLD = "budget_hold", "runbooks/GpuBudgetHold.md"
    BUDGET_STOP = "budget_stop", "runbooks/GpuBudgetStop.md"
    BUDGET_CLEAR = "budget_clear", "operations.md#raise-this-months-budget"
    BUDGET_CHANGED = "budget_changed", "operations.md#raise-this-months-budget"
    KEPT_OUT = "kept_out", "operations.md#keep-new-work-out-while-the-budget-holds"
    CLOSED = "closed", "runbooks/GpuBudgetStop.md"
    REOPENED = "reopened", f"{ODD}#a-node-stays-closed"
    NOT_CLOSED = "not_closed", f"{ODD}#a-node-stays-closed"
    ASKS = "asks", "operations.md#when-you-are-asked"
    ANSWERED = "answered", "operations.md#when-you-are-asked"
    OVERRIDE_SET = "override_set", "operations.md#override-policy-for-a-while"
    OVERRIDE_ENDED = "override_ended", "operations.md#override-policy-for-a-while"
    EVICTS = "evicts", "how-it-decides.md#windows-that-evict"
    EVICTS_NO_MORE = "evicts_no_more", "how-it-decides.md#windows-that-evict"
    KEEP_UNTIL_IGNORED = "keep_until_ignored", "operations.md#keep-a-node-for-a-while"
    IDLE_TOLD = "idle_told", "operations.md#keep-an-idle-workload"
    IDLE_WARNED = "idle_warned", "operations.md#keep-an-idle-workload"
    IDLE_KEPT = "idle_kept", "operations.md#keep-an-idle-workload"
    IDLE_STAYS = "idle_stays", "operations.md#keep-an-idle-workload"
    IDLE_CANNOT = "idle_cannot", f"{ODD}#an-idle-workload-is-not-scaled-to-zero"
    IDLE_SHUT_DOWN = "idle_shut_down", "operations.md#keep-an-idle-workload"
    IDLE_FAILED = "idle_failed", f"{ODD}#an-idle-workload-is-not-scaled-to-zero"
    NOT_ADMITTED = "not_admitted", "operations.md#rights-in-the-cluster"
    CHARGES_DIFFER = "charges_differ", f"{ODD}#civos-charges-differ-from-ours"
    CHARGES_SILENT = "charges_silent", "operations.md#the-ledger-differs-from-civos-charges"
    CHARGES_BACK = "charges_back", "operations.md#the-ledger-differs-from-civos-charges"
    REPORT = "report", "costs.md"
    DIGEST = "digest", "costs.md#monthly-messages"
    CONFIGURATION_CHANGED = "configuration_changed", "configuration.md#change-the-configuration"
    CONFIGURATION_REFUSED = "configuration_refused", "runbooks/GpuAutoscalerConfigurationRefused.md"
    CONFIGURATION_BACK = "configuration_back", "configuration.md#change-the-configuration"


GUIDES: Mapping[str, str] = {cause: cause.guide for cause in Cause}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A message for people. The outbox drops one whose *key* equals the last of its *topic*: told once.

    *cause* is what kind of news it is, a word of `Cause`. *guide* is the page below ``docs/`` that says what to do,
    such as ``runbooks/GpuScaleUpStuck.md``; *question* the id of one that people may answer from the message.
    *all_clear* marks one that only makes sense after another of its topic: dropped when it would be the first.
    """

    topic: str
    key: str
    title: str
    body: str
    severity: Severity = Severity.INFO
    pool: str | None = None
    decision: int | None = None
    all_clear: bool = False
    cause: str
    guide: str = ""
    question: str | None = None

    @property
    def team(self) -> str | None:
        """The team that it is about, by its topic (``report:team:vision``); None when it is about no single one."""
        words = self.topic.split(":", 2)
        return words[2] if len(words) == 3 and words[0] in OF_TEAMS and words[1] == "team" else None


class Level(StrEnum):
    """How bad a concern is; also the name of its look. `Seen.level` tells BAD from the others."""

    BAD = "bad"  # it keeps work waiting, or stops all growth against the configuration: the next work will wait
    WARN = "warn"  # it costs money, may become bad, or is a mistake in a pod
    NOTE = "note"  # as requested

    @property
    def rank(self) -> int:
        """Its place: the worst first."""
        return list(Level).index(self)

    @property
    def word(self) -> str:
        """The word in front of it, so that its colour is not its only sign."""
        return {"bad": "Problem", "warn": "Warning", "note": "Note"}[self.value]

    @property
    def severity(self) -> Severity:
        """The severity of its message."""
        return {"bad": Severity.FAILURE, "warn": Severity.WARNING, "note": Severity.INFO}[self.value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Concern:
    """One thing that needs attention. *what* is a clause, behind the name of *pool* (an id) where it is about one.

    *why* says what is known, *doing* what happens next, *todo* what a person can do, *guide* where that is explained (a
    path below ``docs/``, by default that of its *kind*), *page* which of our pages has more; *whose* and *cost* are for
    messages alone. *rule* is the guardrail that keeps work waiting, *also* what else does so in the same pool. A
    message is sent where there is a *topic*, once per *key*, titled *title* unless it is *what*; its *severity* is that
    of the *level* unless a person need not act at once.
    """

    kind: str
    what: str
    level: Level = Level.WARN
    pool: str = ""
    since: datetime | None = None
    why: str = ""
    doing: str = ""
    todo: str = ""
    guide: str = ""
    page: str = ""
    whose: str = ""
    cost: str = ""
    decision: int | None = None
    question: str | None = None
    topic: str = ""
    key: str = ""
    title: str = ""
    severity: Severity | None = None
    rule: str = ""
    also: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.guide:
            object.__setattr__(self, "guide", GUIDES.get(self.kind, ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """All that concerns are found in. *drifts* are the counts that changed in this step, *numbers* the ids of the
    stored decisions, *reopened* when nodes of a pool were last opened after a budget's stop; all by pool id. *behind*
    is what keeps work waiting, by `behind`, *file* what the last look at the configuration file found."""

    facts: Facts
    assignment: Assignment
    decisions: Mapping[str, Decision]
    policy: Policy
    drifts: Mapping[str, Drift]
    numbers: Mapping[str, int]
    reopened: Mapping[str, datetime]
    behind: Collection[tuple[str, str]] = ()
    file: ConfigurationFile = field(default_factory=ConfigurationFile)

    @property
    def now(self) -> datetime:
        """The time of the facts."""
        return self.facts.at

    def level(self, *rules: str, pool: str = "", otherwise: Level = Level.WARN) -> Level:
        """BAD if work waits behind one of *rules* in *pool* (an id; empty: in any), else *otherwise*."""
        waits = any(rule in rules and pool in ("", where) for where, rule in self.behind)
        return Level.BAD if waits else otherwise

    def refusing(self) -> frozenset[Key]:
        """The budgets that keep work waiting."""
        pools = {pool for pool, rule in self.behind if rule in OF_MONEY}
        return frozenset(r.view.key for pool in pools for r in self.assignment.pools[pool].money.uncovered)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolConcerns:
    """What a capability adds to what needs a person: *of* yields what is about one pool."""

    of: Callable[[Pool, Seen], Iterable[Concern]]


OF_MONEY = ("price_is_known", "spend_is_known", "within_budget")


def behind(fates: Iterable[Fate], assignment: Assignment) -> Collection[tuple[str, str]]:
    """What keeps work waiting by the *fates* of the waiting work: the pools (ids) with the rules that hold it. For a
    gang it is the rule that leaves it too few nodes, too."""
    held = {(fate.pool or "", fate.rule or "") for fate in fates if fate.state is State.HELD}
    return held | {(pool, h.met) for pool, wanted in assignment.pools.items() for h in wanted.work.held if h.met}


def scale_up_event(decision: Decision, policy: Policy, promise: Promise, now: datetime, bought_for: str = "") -> str:
    """The Kubernetes Event text for a pod that a growth is for, with the *promise* to it. *bought_for* says what of its
    work alone the nodes are for (empty: pods that wait)."""
    pool = policy.pool(decision.pool)
    name, when = pool.name if pool else decision.pool, promise.sentence(now)
    grows = f"grows from {decision.present} to {some(decision.target, 'node')}"
    sentence = f"GPU pool {name} {grows} {bought_for or 'for pending GPU pods'}"
    if promise.tells_start:
        return f"{sentence}. This pod {when}"
    return f"{sentence}. {when[:1].upper()}{when[1:]}" if when else sentence
