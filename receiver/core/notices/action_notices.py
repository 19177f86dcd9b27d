"""Messages about an action that ended: what changed, or what did not and when it is tried again."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from receiver.core.explain.rules import why
from receiver.core.explain.staying import spared
from receiver.core.model.actions import (
    Action,
    ActionKind,
    Because,
    Decision,
    Outcome,
    OutcomeKind,
    VictimStage,
    without_repeated_code,
)
from receiver.core.model.model import Backoff, Facts, PoolState
from receiver.core.model.policy import Policy, Pool
from receiver.core.model.text import listed, some, span
from receiver.core.money.budget import Budgets, BudgetStage
from receiver.core.notices import wording
from receiver.core.notices.notice import Cause, Notice, Severity
from receiver.core.scaling.demand import refusal
from receiver.core.scaling.waits import Shortage, refused_counts, shortage_of, smaller_request
from receiver.core.scaling.wanted import Wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What is known around an action that ended. *decision* is the one that wanted it, None where it is not kept;
    *state* the pool as found, None for a pool that left the configuration; *backoff* until when it is left off now;
    *instead* names the pools that could take the work meanwhile."""

    policy: Policy
    budgets: Budgets = field(default_factory=Budgets)
    decision: Decision | None = None
    state: PoolState | None = None
    backoff: Backoff | None = None
    instead: tuple[str, ...] = ()


def ended(action: Action, outcome: Outcome, around: Around) -> Notice:
    """The notice of an *action* that ended with *outcome*."""
    pool, evidence = around.policy.pool(action.pool), around.decision.evidence if around.decision else {}
    cause, title, severity, after = _news(action, outcome, pool, around)
    asking = wording.asked_in(evidence.get("workloads", ()))
    confirmed, grows = outcome.kind is OutcomeKind.CONFIRMED, action.kind is ActionKind.GROW
    told_again = confirmed or outcome.kind is OutcomeKind.WITHDRAWN
    subject = ",".join(v.instance for v in action.victims) or ",".join(evidence.get("asking", ()))
    spared_parts = [f"{listed(nodes)} kept: {because}" for because, nodes in spared(action.victims).items()]
    summary = "; ".join([f"{listed(_gone(action))} removed", *spared_parts]) if confirmed and spared_parts else ""
    error = ""
    if grows and outcome.kind is OutcomeKind.FAILED:  # the title says what that means
        error = f"Error: {wording.named(without_repeated_code(outcome.detail), around.policy)}"
    elif not confirmed and outcome.kind is not OutcomeKind.OBSERVED:
        summary = wording.named(without_repeated_code(outcome.detail), around.policy)
    return Notice(
        cause=cause,
        topic=f"action:{action.pool}",
        key=f"{action.kind}:{action.from_count}:{action.to_count}:{outcome.kind}:"
        + (action.id if told_again else f"{subject}:{outcome.detail}"),
        title=f"GPU pool {pool.name if pool else action.pool}: {title}",
        body=wording.worded(
            summary,
            why=_why(action, outcome, around.decision),
            whose=wording.whose(asking) if grows else "",
            cost=_cost(action, outcome, pool, around, wording.teams_asking(asking)),
            after=after if pool else "nothing: the pool is no longer in the configuration",
            do=wording.sentence(error) if error else "",
        ),
        severity=severity,
        pool=action.pool,
        decision=action.decision,
    )


def instead_of(pool: Pool, wanted: Wanted, facts: Facts, policy: Policy) -> tuple[str, ...]:
    """Names of the other pools that could take what waits for *pool*: they fit it, have a price and are not full."""
    pods = [pod for workload in wanted.work.asking for pod in workload.pods]
    return tuple(
        other.name
        for other in policy.pools
        if pods
        and other.id != pool.id
        and other.price_usd_per_hour is not None
        and facts.pool(other.id).required < other.max_nodes
        and not ((backoff := facts.pool(other.id).backoffs.growth) and facts.at < backoff.until)
        and not any(refusal(pod, other, facts.pool(other.id)) for pod in pods)
    )


def removals_stop(state: PoolState, backoff: Backoff, policy: Policy, now: datetime) -> Notice:
    """The notice of a pool whose removals are answered with replacements, or are not counted."""
    pool_id, pool = state.pool, policy.pool(state.pool)
    return Notice(
        cause=Cause.REMOVAL_STOPPED,
        topic=f"removals:{pool_id}",
        key=backoff.until.isoformat(),
        title=f"GPU pool {pool.name if pool else pool_id}: removals stop until {backoff.until:%Y-%m-%d %H:%M} UTC",
        body=wording.worded(
            why=backoff.reason,
            cost=f"{wording.an_hour(pool, len(state.living))}, idle nodes included",
            after=f"no node is removed before {wording.moment(backoff.until, now)}; growth continues",
            do="Look at: the pool and its instances at Civo",
        ),
        severity=Severity.WARNING,
        pool=pool_id,
    )


def _gone(action: Action) -> list[str]:
    return [v.node for v in action.victims if v.stage in (VictimStage.DELETED, VictimStage.GONE)]


def _news(action: Action, outcome: Outcome, pool: Pool | None, around: Around) -> tuple[Cause, str, Severity, str]:
    """What kind of news it is, in a title without the pool, and what happens next."""
    grows, wanted = action.kind is ActionKind.GROW, some(action.to_count, "node")
    change = f"{action.from_count} -> {action.to_count} nodes"
    match outcome.kind:
        case OutcomeKind.CONFIRMED if grows:
            after = _usable(pool, around.state, outcome.at) if pool else ""
            return Cause.GREW, change, Severity.SUCCESS, after
        case OutcomeKind.CONFIRMED:
            change = f"{action.from_count} -> {action.from_count - len(_gone(action))} nodes"
            because = {v.because for v in action.victims}
            if because <= {Because.STUCK, Because.LOST}:
                did = "never became usable" if because == {Because.STUCK} else "no longer worked"
                title = f"{change}: removed {'a node' if len(_gone(action)) == 1 else 'nodes'} that {did}"
                after = _grows_again(action.pool, around.budgets)
                if Because.STUCK in because:
                    after = _next_node(around, outcome.at)
                return Cause.REMOVED_STUCK, title, Severity.WARNING, after
            return Cause.SHRANK, change, Severity.SUCCESS, _grows_again(action.pool, around.budgets)
        case OutcomeKind.OBSERVED:
            title = f"would go {change} (observing, nothing was changed)"
            after = "nothing while mode is observe; a message follows when the change or its reason differs"
            return Cause.WOULD_CHANGE, title, Severity.INFO, after
        case OutcomeKind.FAILED:
            free = f"too few {pool.size if pool else 'GPUs'} are free at Civo"
            refused = f"{action.from_count} -> {wanted} refused"
            cause, title = {
                Shortage.STOCK: (Cause.OUT_OF_STOCK, f"{free}, {refused}"),
                Shortage.QUOTA: (Cause.OUT_OF_STOCK, f"the account's quota at Civo is used up, {refused}"),
                Shortage.OTHER: (Cause.GROWTH_FAILED, f"could not grow to {wanted}"),
            }[shortage_of(outcome.detail)]
            if not grows:
                cause, title = Cause.REMOVAL_STOPPED, "removal stopped"
            alone = grows and bool(_asking(around)) and not around.instead
            severity = Severity.FAILURE if alone else Severity.WARNING  # it keeps work waiting, or costs money alone
            return cause, title, severity, _tried_again(action, outcome, around)
        case _:
            subject = f"growth to {wanted}" if grows else f"removal of {some(len(action.victims), 'node')}"
            return (
                Cause.WITHDRAWN,
                f"{subject} called off",
                Severity.INFO,
                "the next step decides again from the current state",
            )


def _grows_again(pool: str, budgets: Budgets) -> str:
    stopped = [view.title for view in budgets.touched(pool) if view.stage is BudgetStage.STOP]
    if not stopped:
        return "it grows again when GPU work waits"
    return f"no growth until the {listed(stopped)} {'is' if len(stopped) == 1 else 'are'} raised, or the month ends"


def _next_node(around: Around, now: datetime) -> str:
    """When another node is tried after one that never worked."""
    failed = around.state.backoffs.trial if around.state is not None else None
    if failed is None or not now < failed.until:
        return "one node at a time is tried until one works"
    return f"the next single node is tried at {wording.moment(failed.until, now)}"


def _why(action: Action, outcome: Outcome, decision: Decision | None) -> str:
    if decision is None:
        removed = _gone(action)
        reason = f"{listed(removed)} removed" if removed else outcome.detail
        return reason if outcome.kind is OutcomeKind.CONFIRMED else ""
    if action.kind is not ActionKind.RETIRE:
        return why(decision)
    over = outcome.kind is OutcomeKind.CONFIRMED  # then it is about those that went alone
    going = [v for v in action.victims if not (over and v.stage is VictimStage.SPARED)]
    reason, idle = why(decision, [v.node for v in going]), {v.instance for v in going if v.because is Because.IDLE}
    since = [n["idle_since"] for n in decision.evidence.get("nodes", ()) if n["instance"] in idle and n["idle_since"]]
    if not since:
        return reason
    latest = wording.moment(datetime.fromisoformat(max(since)), outcome.at)
    return f"{reason}; idle since {latest}" + (" or earlier" if len(since) > 1 else "")


def _cost(action: Action, outcome: Outcome, pool: Pool | None, around: Around, teams: Collection[str]) -> str:
    if pool is None:
        return ""
    if outcome.kind is OutcomeKind.CONFIRMED and action.kind is ActionKind.RETIRE:
        return wording.costs(pool, around.budgets, action.from_count - len(_gone(action)), action.from_count)
    if outcome.kind in (OutcomeKind.CONFIRMED, OutcomeKind.OBSERVED):
        return wording.costs(pool, around.budgets, action.to_count, action.from_count, teams)
    return wording.costs(pool, around.budgets, action.from_count, teams=teams)


def _usable(pool: Pool, state: PoolState | None, now: datetime) -> str:
    late = wording.moment(now + pool.provision_timeout, now)
    if state is None or state.startup.usual is None:
        return f"usable by {late}; if not, a message follows"
    about = wording.moment(now + state.startup.usual, now)
    usual = f"usable in about {wording.minutes(state.startup.usual)} min ({about})"
    return f"{usual}; if not by {late}, a message follows"


def _tried_again(action: Action, outcome: Outcome, around: Around) -> str:
    backoff, again, when = around.backoff, "it is retried", ""
    if backoff is not None:
        lasts = span((backoff.until - outcome.at).total_seconds())
        when = f"{wording.moment(backoff.until, outcome.at)} (in {lasts})"
        again = f"the next attempt{' on these nodes' if backoff.instances else ''} is at {when}"
    if action.kind is not ActionKind.GROW:
        return f"{again}; the nodes stay and cost money"
    asking = _asking(around)
    gang_alone = len(asking) == 1 and asking[0]["pods"] > 1
    refused = refused_counts([(action, outcome)], outcome.at).get(action.pool, 0)
    if not gang_alone and smaller_request(action.from_count, refused) is not None:
        smaller = "a smaller request is sent immediately; a message follows if it succeeds"
        again = f"{smaller}. The full request is retried{f' after {when}' if when else ''}"
    if around.instead:
        return f"{again}. Until then {listed(around.instead)} can take the work"
    return f"{again}. No other pool can take the work now, so it waits" if asking else again


def _asking(around: Around) -> Sequence[Mapping[str, Any]]:
    """The work that the decision wanted nodes for."""
    return around.decision.evidence.get("workloads", ()) if around.decision is not None else ()
