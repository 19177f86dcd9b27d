"""What a notice is: cause, severity and text; the page that says what to do; and sentences that several share."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from receiver.core.model.actions import Decision
from receiver.core.model.model import Drift, Facts
from receiver.core.model.policy import Policy
from receiver.core.scaling.assign import Assignment

OF_TEAMS = ("report", "budget", "budget-change")  # topics that name a scope


class Severity(StrEnum):
    """How a notice is coloured."""

    INFO = "info"
    SUCCESS = "success"
    WARNING = "warning"
    FAILURE = "failure"


class Cause(StrEnum):
    """What kind of news a notice is: with its pool, what messages are grouped by."""

    GREW = "grew"
    SHRANK = "shrank"
    WOULD_CHANGE = "would_change"
    GROWTH_FAILED = "growth_failed"
    OUT_OF_STOCK = "out_of_stock"
    REMOVAL_STOPPED = "removal_stopped"
    WITHDRAWN = "withdrawn"
    HELD = "held"
    MISFIT = "misfit"
    STUCK = "stuck"
    UNKNOWN = "unknown"
    MISDESCRIBED = "misdescribed"
    NOT_DRAINED = "not_drained"
    UNJOINED = "unjoined"
    SLOW_TO_START = "slow_to_start"
    UNUSED = "unused"
    DRIFT = "drift"
    SOURCE_SILENT = "source_silent"
    SOURCE_BACK = "source_back"
    RIGHTS_MISSING = "rights_missing"
    RIGHTS_BACK = "rights_back"
    BUDGET_WARN = "budget_warn"
    BUDGET_HOLD = "budget_hold"
    BUDGET_STOP = "budget_stop"
    BUDGET_CLEAR = "budget_clear"
    BUDGET_CHANGED = "budget_changed"
    KEPT_OUT = "kept_out"
    CLOSED = "closed"
    REOPENED = "reopened"
    NOT_CLOSED = "not_closed"
    ASKS = "asks"
    ANSWERED = "answered"
    OVERRIDE_SET = "override_set"
    OVERRIDE_ENDED = "override_ended"
    EVICTS = "evicts"
    EVICTS_NO_MORE = "evicts_no_more"
    KEEP_UNTIL_IGNORED = "keep_until_ignored"
    IDLE_WARNED = "idle_warned"
    IDLE_KEPT = "idle_kept"
    IDLE_STAYS = "idle_stays"
    IDLE_CANNOT = "idle_cannot"
    IDLE_SHUT_DOWN = "idle_shut_down"
    IDLE_FAILED = "idle_failed"
    CHARGES_DIFFER = "charges_differ"
    CHARGES_SILENT = "charges_silent"
    CHARGES_BACK = "charges_back"
    REPORT = "report"


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
        what = self.topic.split(":", 2)
        return what[2] if len(what) == 3 and what[0] in OF_TEAMS and what[1] == "team" else None


class Level(StrEnum):
    """How bad a concern is; also the name of its look."""

    BAD = "bad"  # something does not work, or work waits that nothing will serve
    WARN = "warn"  # it may become bad, or is a mistake
    NOTE = "note"  # as requested

    @property
    def rank(self) -> int:
        """Its place: the worst first."""
        return list(Level).index(self)

    @property
    def word(self) -> str:
        """The word in front of it, so that its colour is not its only sign."""
        return {"bad": "Wrong", "warn": "Look at", "note": "Note"}[self.value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Concern:
    """One thing that needs attention. *what* is a clause, behind the name of *pool* (an id) where it is about one.

    *why* says what is known, *doing* what happens next, *todo* what a person can do, *guide* where that is explained (a
    path below ``docs/``, by default that of its *kind*), *page* which of our pages has more; *whose* and *cost* are for
    messages alone. A message is sent where there is a *topic*, once per *key*, titled *title* unless it is *what*.
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
    severity: Severity = Severity.WARNING

    def __post_init__(self) -> None:
        """Fill in the page of its kind."""
        if not self.guide:
            object.__setattr__(self, "guide", GUIDES.get(self.kind, ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """All that concerns are found in. *drifts* are the counts that changed in this step, *numbers* the ids of the
    stored decisions, *reopened* when nodes of a pool were last opened after a budget's stop; all by pool id."""

    facts: Facts
    assignment: Assignment
    decisions: Mapping[str, Decision]
    policy: Policy
    drifts: Mapping[str, Drift]
    numbers: Mapping[str, int]
    reopened: Mapping[str, datetime]

    @property
    def now(self) -> datetime:
        """The time of the facts."""
        return self.facts.at


def scale_up_event(decision: Decision, policy: Policy, ready_in: timedelta | None) -> str:
    """The Kubernetes Event text for a pod that a growth is for; *ready_in* is how long a node usually takes."""
    pool = policy.pool(decision.pool)
    name = pool.name if pool else decision.pool
    if ready_in is not None:
        when = f"usable in about {max(1, round(ready_in / timedelta(minutes=1)))} min"
    else:
        when = f"usable within {pool.provision_timeout} at the latest" if pool else "on its way"
    return f"GPU pool {name} grows from {decision.present} to {decision.target} nodes for waiting GPU pods, {when}"


ODD = "troubleshooting.md"
GUIDES: Mapping[str, str] = {
    Cause.GREW: f"{ODD}#a-cold-start-takes-long",
    Cause.SHRANK: "guardrails.md#idle_nodes",
    Cause.WOULD_CHANGE: "operations.md#observe-first",
    Cause.GROWTH_FAILED: f"{ODD}#civo-refuses",
    Cause.OUT_OF_STOCK: "runbooks/GpuPoolOutOfStock.md",
    Cause.REMOVAL_STOPPED: f"{ODD}#removals-have-stopped",
    Cause.WITHDRAWN: "how-it-decides.md#one-step",
    Cause.HELD: "runbooks/GpuPodsPending.md",
    Cause.MISFIT: f"{ODD}#no-pool-can-hold-a-pod",
    Cause.STUCK: "runbooks/GpuScaleUpStuck.md",
    Cause.UNKNOWN: f"{ODD}#a-node-is-told-as-neither-busy-nor-idle",
    Cause.MISDESCRIBED: f"{ODD}#a-node-offers-other-gpus-than-configured",
    Cause.NOT_DRAINED: "how-it-decides.md#what-drains-and-what-keeps-a-node",
    Cause.UNJOINED: f"{ODD}#nodes-that-belong-to-no-instance",
    Cause.SLOW_TO_START: f"{ODD}#a-pod-has-its-node-and-does-not-start",
    Cause.UNUSED: f"{ODD}#a-pod-waits-beside-a-usable-node",
    Cause.DRIFT: f"{ODD}#somebody-else-changes-a-pool",
    Cause.SOURCE_SILENT: "runbooks/GpuAutoscalerSourceDown.md",
    Cause.SOURCE_BACK: "runbooks/GpuAutoscalerSourceDown.md",
    Cause.RIGHTS_MISSING: "operations.md#rights-in-the-cluster",
    Cause.RIGHTS_BACK: "operations.md#rights-in-the-cluster",
    Cause.BUDGET_WARN: "runbooks/GpuBudgetWarn.md",
    Cause.BUDGET_HOLD: "runbooks/GpuBudgetHold.md",
    Cause.BUDGET_STOP: "runbooks/GpuBudgetStop.md",
    Cause.BUDGET_CLEAR: "operations.md#raise-this-months-budget",
    Cause.BUDGET_CHANGED: "operations.md#raise-this-months-budget",
    Cause.KEPT_OUT: "operations.md#keep-new-work-out-while-the-budget-holds",
    Cause.CLOSED: "runbooks/GpuBudgetStop.md",
    Cause.REOPENED: f"{ODD}#a-node-stays-closed",
    Cause.NOT_CLOSED: f"{ODD}#a-node-stays-closed",
    Cause.OVERRIDE_SET: "operations.md#override-policy-for-a-while",
    Cause.OVERRIDE_ENDED: "operations.md#override-policy-for-a-while",
    Cause.EVICTS: "how-it-decides.md#windows-that-evict",
    Cause.EVICTS_NO_MORE: "how-it-decides.md#windows-that-evict",
    Cause.KEEP_UNTIL_IGNORED: "operations.md#keep-a-node-for-a-while",
    Cause.IDLE_WARNED: "operations.md#keep-an-idle-workload",
    Cause.IDLE_KEPT: "operations.md#keep-an-idle-workload",
    Cause.IDLE_STAYS: "operations.md#keep-an-idle-workload",
    Cause.IDLE_CANNOT: f"{ODD}#an-idle-workload-is-not-scaled-to-zero",
    Cause.IDLE_SHUT_DOWN: "operations.md#keep-an-idle-workload",
    Cause.IDLE_FAILED: f"{ODD}#an-idle-workload-is-not-scaled-to-zero",
    Cause.CHARGES_DIFFER: f"{ODD}#civos-charges-differ-from-ours",
    Cause.CHARGES_SILENT: "operations.md#the-ledger-differs-from-civos-charges",
    Cause.CHARGES_BACK: "operations.md#the-ledger-differs-from-civos-charges",
    Cause.ASKS: "operations.md#when-you-are-asked",
    Cause.ANSWERED: "operations.md#when-you-are-asked",
    Cause.REPORT: "reports.md",
}
