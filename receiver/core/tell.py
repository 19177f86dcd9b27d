"""Decisions and outcomes as sentences, the same for log, chat, page and command line."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from receiver.core.actions import Action, ActionKind, Decision, Outcome, OutcomeKind, Verdict, VictimStage
from receiver.core.assign import Assignment, Misfit
from receiver.core.budget import BudgetStage, BudgetView
from receiver.core.model import Facts
from receiver.core.policy import Policy, Pool


class Severity(StrEnum):
    """How a notice is coloured."""

    INFO = "info"
    SUCCESS = "success"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A message for people. The outbox drops one whose *key* equals the last of its *topic*: told once.

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


# A source must be silent for this long before people are told: one lost answer is no news.
SILENT_FOR = timedelta(minutes=2)
RETURN_IS_NEWS_FOR = timedelta(minutes=5)
CLEAR = "clear"


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
        lines.append(f"The pool costs {rate(pool, action.to_count)} at {action.to_count} nodes.")
    if budget is not None:
        lines.append(money(budget))
    lines.append(_what_next(action, outcome, pool))
    facts = f"{action.kind}:{action.from_count}:{action.to_count}:{outcome.kind}"
    subject = ",".join(v.instance for v in action.victims) or ",".join(_asking(decision))
    told_again = outcome.kind in (OutcomeKind.CONFIRMED, OutcomeKind.WITHDRAWN, OutcomeKind.SUPERSEDED)
    return Notice(
        topic=f"action:{action.pool}",
        key=f"{facts}:{action.id}" if told_again else f"{facts}:{subject}:{outcome.detail}",
        title=title,
        body="\n".join(line for line in lines if line),
        severity=severity,
        pool=action.pool,
        decision=action.decision,
    )


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


def scale_up_event(decision: Decision, policy: Policy) -> str:
    """The Kubernetes Event text for a pod that a growth is for."""
    pool = policy.pool(decision.pool)
    name = pool.name if pool else decision.pool
    return f"GPU pool {name} grows from {decision.present} to {decision.target} nodes for waiting GPU pods"


def misfit(found: Misfit) -> Notice:
    """The notice for work that no pool can ever hold; told once per workload."""
    uids = ",".join(sorted(p.uid for p in found.workload.pods))
    return Notice(
        topic=f"misfit:{found.workload.key}",
        key=uids or found.workload.key,
        title=f"No GPU pool can hold {found.workload.key}",
        body=f"{found.detail}\nChange the pod, or add a pool that offers this.",
        severity=Severity.WARNING,
    )


def budget_stage(budget: BudgetView | None) -> Iterable[Notice]:
    """The notice of the budget's stage; told once per stage and month. A calm month is not told."""
    if budget is None or budget.stage is BudgetStage.OK:
        return
    meaning = {
        BudgetStage.WARN: (f"warn line ({budget.warn_at:.0%})", "Growth goes on.", Severity.WARNING),
        BudgetStage.HOLD: (
            f"hold line ({budget.hold_at:.0%})",
            "Pools no longer grow; running work goes on.",
            Severity.WARNING,
        ),
        BudgetStage.STOP: (
            f"stop line ({budget.stop_at:.0%})",
            "Nothing grows and no empty node enters another paid hour; running work goes on.",
            Severity.FAILURE,
        ),
    }
    line, effect, severity = meaning[budget.stage]
    yield Notice(
        topic="budget",
        key=f"{budget.month}:{budget.stage}",
        title=f"GPU budget {budget.month} has reached its {line}",
        body=f"{money(budget)}\n{effect}",
        severity=severity,
    )


def silent_sources(facts: Facts) -> Iterable[Notice]:
    """Notices of sources that have been silent for a while, and of their return; each spell is told once."""
    for state in facts.sources.values():
        if not state.configured or state.since is None:
            continue
        lasted = facts.at - state.since
        if state.up and lasted < RETURN_IS_NEWS_FOR:
            yield Notice(
                topic=f"source:{state.source}",
                key=CLEAR,
                title=f"{state.source} answers again",
                body=f"Since {state.since:%H:%M:%S} UTC.",
                all_clear=True,
            )
        elif not state.up and lasted >= SILENT_FOR:
            yield Notice(
                topic=f"source:{state.source}",
                key=f"silent since {state.since.isoformat()}",
                title=f"{state.source} is silent",
                body=f"{state.detail}\nWhat this stops is listed under 'Sources' in docs/guardrails.md.",
                severity=Severity.WARNING,
            )


def held(assignment: Assignment, policy: Policy) -> Iterable[Notice]:
    """Notices of work that waits because a rule holds it that a person could change; told once per rule and work."""
    for pool in policy.pools:
        wanted = assignment.pools[pool.id]
        rule, detail = _hold_worth_telling(
            wanted.new_nodes, wanted.within_budget, wanted.within_maximum, wanted.within_limits
        )
        waiting = [w.key for w in wanted.asking]
        if wanted.held:
            rule, detail = wanted.held[0].rule, wanted.held[0].detail
            waiting = [h.workload for h in wanted.held]
        if pool.price_usd_per_hour is None and wanted.new_nodes:
            rule, detail = "price_is_known", f"size {pool.size} has no price"
        if not rule or not waiting:
            continue
        yield Notice(
            topic=f"held:{pool.id}",
            key=f"{rule}:{','.join(sorted(waiting))}",
            title=f"GPU pool {pool.name} does not grow: {rule}",
            body=f"{detail}.\nWaiting: {', '.join(waiting[:5])}.\n{money(wanted.budget)}",
            severity=Severity.WARNING,
            pool=pool.id,
        )


def _hold_worth_telling(new: int, budget: int, maximum: int, limits: int) -> tuple[str, str]:
    if budget < new:
        return "within_budget", f"{new - budget} of {new} nodes are not covered by the budget"
    if maximum < budget:
        return "within_maximum", f"{budget - maximum} of {new} nodes are beyond the pool's maximum"
    if limits < maximum:
        return "within_limits", f"{maximum - limits} of {new} nodes are beyond the limits over all pools"
    return "", ""
