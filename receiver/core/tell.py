"""Decisions and outcomes as sentences, the same for log, chat, page and command line."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from receiver.core.actions import Decision, Verdict
from receiver.core.policy import Policy

OF_TEAMS = ("report", "budget", "budget-change")  # topics that name a scope


# What a source of size says before its own sentence.
WANTED = {"standby": "to keep ready: ", "headroom": "for what comes next: ", "floor": "the pool's least size: "}


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


SPEAKS_UP = (Verdict.HOLDS, Verdict.LIMITS)
# What a rule means to somebody who does not know its name; docs/guardrails.md has each under its name.
PLAIN = {
    "sources_answer": "a source of facts does not answer",
    "nodes_may_be_removed": "no node could be removed again",
    "price_is_known": "its price is not known",
    "spend_is_known": "nobody knows what the month has cost",
    "within_budget": "the budget does not cover it",
    "within_maximum": "it is at its maximum",
    "within_limits": "the limits over all pools are reached",
    "not_frozen": "an alert stops every change",
    "not_silenced": "a silence in Alertmanager pauses it",
    "not_paused": "somebody paused it",
    "growth_is_not_paused": "an alert stops growth",
    "removal_is_not_snoozed": "somebody snoozed removals",
    "above_the_floor": "it is at its minimum",
    "approved": "it waits for an answer",
    "not_backing_off": "it waits after a failure",
    "not_undone_by_others": "somebody else keeps turning our changes back",
    "provisioning_works": "its last nodes never became usable",
    "cooled_down": "it changed a moment ago",
    "one_change_at_a_time": "another change of it is under way",
    "gangs_whole": "pods that start together do not all get room",
    "internal_error": "its decision failed with an internal error",
    "gang_is_complete": "pods that start together do not all exist yet",
}


def in_plain_words(rule: str) -> str:
    """What *rule* means to somebody who does not know its name."""
    return PLAIN.get(rule, rule.replace("_", " "))


def why(decision: Decision, going: Collection[str] | None = None) -> str:
    """The deciding reason and what wanted the change, in plain words; of a removal for the nodes *going* (names) alone,
    where not all that the decision names went."""
    wanted = [(r.rule, _of_those(going, r.detail, decision)) for r in decision.reasons if r.verdict is Verdict.WANTS]
    held = [r for r in decision.reasons if r.verdict in SPEAKS_UP]
    said = [f"{WANTED.get(rule, '')}{detail}" for rule, detail in wanted if detail]
    said += [f"{in_plain_words(r.rule)} ({r.detail})" for r in held]
    if not said:
        said = [r.detail for r in decision.reasons if r.verdict is Verdict.NOTES and r.detail][-1:]
    return "; ".join(said) or "nothing wanted a change"


def _of_those(going: Collection[str] | None, detail: str, decision: Decision) -> str:
    """*detail* with no other nodes before its colon than those *going*; empty where none of them do."""
    named, colon, because = detail.partition(": ")
    names = named.split(", ")
    known = {n["name"] for n in decision.evidence.get("nodes", ())}  # of a large pool not all
    if going is None or not colon or known.isdisjoint(names) or any(" " in name for name in names):
        return detail
    left = [name for name in names if name in going]
    return f"{', '.join(left)}: {because}" if left else ""


def scale_up_event(decision: Decision, policy: Policy, ready_in: timedelta | None) -> str:
    """The Kubernetes Event text for a pod that a growth is for; *ready_in* is how long a node usually takes."""
    pool = policy.pool(decision.pool)
    name = pool.name if pool else decision.pool
    if ready_in is not None:
        when = f"usable in about {max(1, round(ready_in / timedelta(minutes=1)))} min"
    else:
        when = f"usable within {pool.provision_timeout} at the latest" if pool else "on its way"
    return f"GPU pool {name} grows from {decision.present} to {decision.target} nodes for waiting GPU pods, {when}"
