"""Decisions and outcomes as sentences, the same for log, chat, page and command line."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from receiver.core.actions import Action, ActionKind, Decision, Outcome, OutcomeKind, Verdict, VictimStage
from receiver.core.assign import Assignment, Misfit
from receiver.core.budget import BudgetView
from receiver.core.policy import Policy, Pool
from receiver.core.words import some

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
    UNJOINED = "unjoined"
    SLOW_TO_START = "slow_to_start"
    UNUSED = "unused"
    DRIFT = "drift"
    SOURCE_SILENT = "source_silent"
    SOURCE_BACK = "source_back"
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
# Holds that a person may want to act on; cooldowns and back-offs end by themselves.
WORTH_TELLING = ("price_is_known", "spend_is_known", "within_budget", "within_maximum", "within_limits")


def money(budget: BudgetView | None) -> str:
    """The budget in one line."""
    if budget is None:
        return "No budget is set."
    return f"Budget {budget.month}: USD {budget.spent:.2f} of {budget.monthly:.2f} spent ({budget.ratio:.0%})."


def rate(pool: Pool, nodes: int) -> str:
    """What *nodes* nodes of *pool* cost an hour."""
    if pool.price_usd_per_hour is None:
        return "price unknown"
    return f"USD {pool.price_usd_per_hour * nodes:.2f} an hour"


def ended(
    action: Action, outcome: Outcome, decision: Decision | None, policy: Policy, budget: BudgetView | None
) -> Notice:
    """The notice of an action that ended. *decision* and *budget* are None when the look alone showed the end."""
    pool = policy.pool(action.pool)
    name = pool.name if pool else action.pool
    title, severity = _headline(name, action, outcome)
    lines = [outcome.detail[:1].upper() + outcome.detail[1:] + "."] if outcome.detail else []
    if decision is not None:
        lines.append(f"Why: {why(decision)}.")
    if pool is not None and outcome.kind in (OutcomeKind.CONFIRMED, OutcomeKind.OBSERVED):
        lines.append(f"The pool costs {rate(pool, action.to_count)} at {some(action.to_count, 'node')}.")
    if budget is not None:
        lines.append(money(budget))
    lines.append(_what_next(action, outcome, pool))
    facts = f"{action.kind}:{action.from_count}:{action.to_count}:{outcome.kind}"
    subject = ",".join(v.instance for v in action.victims) or ",".join(_asking(decision))
    told_again = outcome.kind in (OutcomeKind.CONFIRMED, OutcomeKind.WITHDRAWN)
    return Notice(
        cause=_cause(action, outcome),
        topic=f"action:{action.pool}",
        key=f"{facts}:{action.id}" if told_again else f"{facts}:{subject}:{outcome.detail}",
        title=title,
        body="\n".join(line for line in lines if line),
        severity=severity,
        pool=action.pool,
        decision=action.decision,
    )


def _cause(action: Action, outcome: Outcome) -> Cause:
    grows = action.kind is ActionKind.GROW
    match outcome.kind:
        case OutcomeKind.CONFIRMED:
            return Cause.GREW if grows else Cause.SHRANK
        case OutcomeKind.OBSERVED:
            return Cause.WOULD_CHANGE
        case OutcomeKind.FAILED:
            return Cause.GROWTH_FAILED if grows else Cause.REMOVAL_STOPPED
        case _:
            return Cause.WITHDRAWN


def _asking(decision: Decision | None) -> list[str]:
    return list(decision.evidence.get("asking", [])) if decision else []


def _headline(name: str, action: Action, outcome: Outcome) -> tuple[str, Severity]:
    gone = sum(1 for v in action.victims if v.stage in (VictimStage.DELETED, VictimStage.GONE))
    match outcome.kind, action.kind:
        case OutcomeKind.CONFIRMED, ActionKind.GROW:
            return f"GPU pool {name}: {action.from_count} -> {action.to_count} nodes", Severity.SUCCESS
        case OutcomeKind.CONFIRMED, ActionKind.RETIRE:
            return f"GPU pool {name}: {action.from_count} -> {action.from_count - gone} nodes", Severity.SUCCESS
        case OutcomeKind.OBSERVED, _:
            change = f"{action.from_count} -> {action.to_count} nodes"
            return f"GPU pool {name}: would go {change} (observing, nothing was changed)", Severity.INFO
        case OutcomeKind.FAILED, ActionKind.GROW:
            return f"GPU pool {name}: could not grow to {action.to_count} nodes", Severity.FAILURE
        case OutcomeKind.FAILED, _:
            return f"GPU pool {name}: removal stopped", Severity.FAILURE
        case _:
            return f"GPU pool {name}: {action.kind} {outcome.kind}", Severity.INFO


def _what_next(action: Action, outcome: Outcome, pool: Pool | None) -> str:
    if outcome.kind is OutcomeKind.CONFIRMED and action.kind is ActionKind.GROW and pool is not None:
        return (
            f"The pods start when the nodes' GPUs are allocatable; past {pool.provision_timeout} this is told as stuck."
        )
    if outcome.kind is OutcomeKind.FAILED:
        return "The pool backs off and is tried again; other pools that fit are used meanwhile."
    return ""


def why(decision: Decision) -> str:
    """The deciding reason and what wanted the change, in plain words."""
    wanted = [r for r in decision.reasons if r.verdict is Verdict.WANTS and r.detail]
    held = [r for r in decision.reasons if r.verdict in (Verdict.LIMITS, Verdict.HOLDS)]
    said = [f"{r.detail}" for r in wanted] + [f"{r.rule}: {r.detail}" for r in held]
    if not said:
        said = [r.detail for r in decision.reasons if r.verdict is Verdict.NOTES and r.detail][-1:]
    return "; ".join(said) or "nothing wanted a change"


def scale_up_event(decision: Decision, policy: Policy, ready_in: timedelta | None) -> str:
    """The Kubernetes Event text for a pod that a growth is for; *ready_in* is how long a node usually takes."""
    pool = policy.pool(decision.pool)
    name = pool.name if pool else decision.pool
    if ready_in is not None:
        when = f"usable in about {max(1, round(ready_in / timedelta(minutes=1)))} min"
    else:
        when = f"usable within {pool.provision_timeout} at the latest" if pool else "on its way"
    return f"GPU pool {name} grows from {decision.present} to {decision.target} nodes for waiting GPU pods, {when}"


def held_event(decision: Decision, policy: Policy) -> str:
    """The Kubernetes Event text for a pod that a guardrail keeps waiting."""
    pool, reason = policy.pool(decision.pool), decision.deciding
    return f"GPU pool {pool.name if pool else decision.pool} does not grow: {reason.rule}: {reason.detail}"


def refused_event(pool_id: str, why: str, policy: Policy) -> str:
    """The Kubernetes Event text for a pod that a budget keeps waiting, while the pool may grow for others."""
    pool = policy.pool(pool_id)
    return f"GPU pool {pool.name if pool else pool_id} does not grow for it: within_budget: {why}"


def misfit_groups(misfits: Sequence[Misfit]) -> list[list[Misfit]]:
    """Group what no pool can hold by owner and reason: one Job of many pods is one piece of news."""
    groups: dict[tuple[str, str, str], list[Misfit]] = {}
    for found in misfits:
        pod = found.workload.pods[0]
        key = (pod.namespace, pod.owner or pod.name, found.detail.replace(found.workload.key, ""))
        groups.setdefault(key, []).append(found)
    return list(groups.values())


def digest(text: str) -> str:
    """A short fingerprint of *text*, to tell reasons of one owner apart."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def misfit(group: Sequence[Misfit]) -> Notice:
    """The notice for work of one owner that no pool can ever hold; told once per owner, reason and oldest pod."""
    first = min(group, key=lambda m: (m.workload.since, m.workload.key))
    pod = first.workload.pods[0]
    more = f" and {len(group) - 1} more of {pod.owner or pod.namespace}" if len(group) > 1 else ""
    return Notice(
        cause=Cause.MISFIT,
        topic=f"misfit:{pod.namespace}/{pod.owner or pod.name}:{digest(first.detail.replace(first.workload.key, ''))}",
        key=f"{first.workload.since.isoformat()}:{first.detail.replace(first.workload.key, '')}",
        title=f"No GPU pool can hold {first.workload.key}{more}",
        body=f"{first.detail}\nChange the pod, or add a pool that offers this.",
        severity=Severity.WARNING,
    )


def held(decisions: Mapping[str, Decision], assignment: Assignment, policy: Policy) -> Iterable[Notice]:
    """Notices of work that waits because a rule holds it that a person could change; told once per rule and day."""
    for pool in policy.pools:
        decision, wanted = decisions[pool.id], assignment.pools[pool.id]
        spoke = [r for r in decision.reasons if r.rule in WORTH_TELLING and r.verdict in SPEAKS_UP]
        reason = next(iter(spoke + [r for r in decision.reasons if r.rule == "gangs_whole"]), None)
        waiting = [w.key for w in wanted.asking] or [h.workload for h in wanted.held]
        if reason is None or not waiting:
            continue
        yield Notice(
            cause=Cause.HELD,
            topic=f"held:{pool.id}:{reason.rule}",  # a topic of its own: rules that take turns are no news
            key=f"{decision.at:%Y-%m-%d}",
            title=f"GPU pool {pool.name} does not grow: {reason.rule}",
            body=f"{reason.detail}.\nWaiting: {', '.join(waiting[:5])}.\n{money(wanted.budget)}",
            severity=Severity.WARNING,
            pool=pool.id,
        )
