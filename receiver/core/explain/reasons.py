"""The sentence of each reason of a decision, made from the values that its rule rests on, and what would change it.

A function is named after its rule; ``change_`` begins those that say what would change the rule's answer.
"""

from collections.abc import Iterable
from datetime import datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from receiver.core.explain.prospects import Say, about_idle, planned, why_kept
from receiver.core.model.actions import Reason, Verdict
from receiver.core.model.approval_request import why_waiting
from receiver.core.model.model import BIND, Node, Source, SourceState
from receiver.core.model.overrides import Override
from receiver.core.model.signals import Signal, SignalAction
from receiver.core.model.text import lasting, some
from receiver.core.model.windows import next_change
from receiver.core.money.budget import BudgetStage, Refusal, month_of
from receiver.core.money.cost import HOUR, amount, unit_price
from receiver.core.scaling.guardrails import Case, FewerRequested, StuckNodes, Uncounted
from receiver.core.scaling.market import goes_early
from receiver.core.scaling.removal import is_kept, removal_backs_off
from receiver.core.scaling.waits import Direction, Wait, failed_nodes

Changes = Iterable[tuple[str, datetime | None]]  # sentences, each with the moment at which it comes true by itself
NOTED = {
    SignalAction.SCALE_UP: "look for growth",
    SignalAction.SCALE_DOWN: "look for nodes to remove",
    SignalAction.HOLD: "busy nodes are not emptied",
    SignalAction.FALLBACK: "activity is unknown: pod counts decide",
}
CENT = Decimal("0.01")


def moment(at: datetime) -> str:
    """*at* with its date, in UTC."""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def answer_of(source: Source, state: SourceState | None) -> str:
    """What is known about *source*."""
    return f"{source.value}: {state.detail or 'no answer'}" if state else f"{source.value}: never asked"


def _override_ends(override: Override) -> str:
    by = f"the {override.kind} of {override.who}"
    return f"the end of {by} at {moment(override.until)}, or gpu-autoscaler override end {override.id}"


def _window(case: Case) -> tuple[str, datetime | None]:
    """Which windows are open, and when that changes next."""
    at = next_change(case.pool.windows, case.now) if case.pool.windows else None
    changes = moment(at) if at else "an unknown time"
    names = ", ".join(case.wanted.bounds.names)
    return f"window {names} is open; a window of the pool next opens or closes at {changes}", at


# --- guardrails


def sources_answer(reason: Reason, _case: Case) -> str:
    silent = reason.because
    if silent.other is not None:
        return "no growth while neither Kubernetes nor Prometheus reports the demand"
    answer = answer_of(silent.source, silent.state)
    if silent.direction is Direction.GROW:
        return f"no growth while {answer} (fallback: kubernetes would allow it)"
    return f"no {'removal' if silent.direction is Direction.SHRINK else 'change'} while {answer}"


def change_sources_answer(reason: Reason, case: Case) -> Changes:
    silent = [
        f"{s.source.value} ({s.detail or 'no answer'})"
        for s in case.facts.sources.values()
        if not s.up and s.configured and s.source is not Source.DCGM
    ]
    yield f"the first step in which it answers again: {', '.join(silent) or reason.detail}", None
    if reason.because.direction is Direction.GROW and reason.because.other is None:
        yield "with fallback: kubernetes in the configuration it would grow without Prometheus", None


def nodes_may_be_removed(reason: Reason, _case: Case) -> str:
    rights = reason.because
    if rights.holds_until is not None:
        return f"{rights}; growth waits until {rights.holds_until:%H:%M:%S} UTC at most"
    return f"{rights}, and a removal needs that: {BIND}"


def change_price_is_known(_reason: Reason, case: Case) -> Changes:
    price = "price_usd_per_hour of the pool, or a prices_file that has it"
    yield f"a price for size {case.pool.size}: {price}, and a restart", None


def spend_is_known(reason: Reason, case: Case) -> str:
    if not isinstance(reason.because, str):
        return within_budget(reason, case)
    why = f"the cost of the month before this store existed is unknown: {reason.because}"
    return f"{why}; budget.spent_usd_stated can state it"


def change_spend_is_known(reason: Reason, _case: Case) -> Changes:
    if isinstance(reason.because, str):
        yield "Civo's charges of the month, once they can be read; or budget.spent_usd_stated and a restart", None
    else:
        for refusal in reason.because:
            yield f"{refusal.view.title}: its spend must be known again: {refusal.view.unknown}", None


def within_budget(reason: Reason, _case: Case) -> str:
    return "; ".join(refusal.why for refusal in reason.because)


def change_within_budget(reason: Reason, case: Case) -> Changes:
    for refusal in reason.because:
        view, title = refusal.view, refusal.view.title
        if view.unpriced:
            yield f"{title}: a price for {', '.join(view.unpriced)}, and a restart", None
        elif view.unknown:
            yield f"{title}: its spend must be known again: {view.unknown}", None
        elif case.pool.price_usd_per_hour is not None:
            raise_by = f"raise it by at least USD {amount(lacking(refusal, case))} for this month"
            yield f"{title}: {raise_by} (it is USD {amount(view.monthly)}): gpu-autoscaler budget set", None
        if view.stage is BudgetStage.HOLD and not (refusal.passing or view.unpriced or view.unknown):
            yield f"{title}: work of a passing priority class (budget.passing) would be bought for up to the stop", None
    month_ends = month_of(case.now, case.policy.timezone).end
    yield f"the next month, which starts at {moment(month_ends)}", month_ends


def lacking(refusal: Refusal, case: Case) -> Decimal:
    """USD by which the allowance that refuses would have to be raised at least, so that the nodes that it leaves out of
    the pool of *case* are bought: spent below the hold line unless they are for passing work, and their first paid unit
    below the stop line."""
    view = refusal.view
    price = case.pool.price_usd_per_hour or Decimal(0)
    missing = case.wanted.new_nodes - case.wanted.within_budget
    cost = unit_price(price, case.policy.billing) * missing
    needed = [((view.spent + view.reserved + cost) / view.stop_at).quantize(CENT, ROUND_CEILING)]
    if view.stage in (BudgetStage.HOLD, BudgetStage.STOP) and not refusal.passing:  # less must be spent than the line
        needed.append((view.spent / view.hold_at).quantize(CENT, ROUND_FLOOR) + CENT)
    return max(max(needed) - view.monthly, Decimal(0))


def change_within_maximum(_reason: Reason, case: Case) -> Changes:
    bounds, most = case.wanted.bounds, case.pool.max_nodes
    override = bounds.overrides.most
    if override is not None:
        yield _override_ends(override), override.until
    elif bounds.names:
        yield _window(case)
    if bounds.max_nodes == most or override is None:
        yield f"a higher max_nodes of the pool (it is {most}), and a restart", None
    yield "a free GPU of the pool, as far as the work fits", None


def within_limits(reason: Reason, _case: Case) -> str:
    limits = reason.because
    if limits.max_removals_per_hour is not None:
        return f"at most {limits.max_removals_per_hour} removals an hour"
    said = (("max_gpus", limits.max_gpus), ("max_growth_per_hour", limits.max_growth_per_hour))
    return "limits: " + ", ".join(f"{name} {most}" for name, most in said if most is not None)


def change_within_limits(reason: Reason, _case: Case) -> Changes:
    limits, hour = reason.because, "time: at most an hour"
    if limits.max_removals_per_hour is not None:
        yield f"{hour}; or a higher max_removals_per_hour ({limits.max_removals_per_hour})", None
    if limits.max_growth_per_hour is not None:
        yield f"{hour}, if max_growth_per_hour ({limits.max_growth_per_hour}) is used up; or a higher one", None
    if limits.max_gpus is not None and limits.max_removals_per_hour is None:
        yield f"if max_gpus ({limits.max_gpus}) is used up: a higher one, or the removal of nodes of any pool", None


def alert_holds(reason: Reason, _case: Case) -> str:
    return f"{reason.because.alertname} fires: {reason.because.action.value}"


def change_alert_holds(reason: Reason, _case: Case) -> Changes:
    alert: Signal = reason.because
    yield f"the end of {alert.alertname} ({alert.fingerprint}), firing since {moment(alert.starts_at)}", None


def change_not_silenced(reason: Reason, _case: Case) -> Changes:
    silence = reason.because
    yield f"the end of the silence of {silence.by} ends at {moment(silence.until)}", silence.until
    yield f"sooner, if it is expired: amtool silence expire {silence.id}", None


def change_override(_reason: Reason, case: Case) -> Changes:
    override = case.wanted.bounds.overrides.most
    assert override is not None
    yield _override_ends(override), override.until


def change_paused(reason: Reason, _case: Case) -> Changes:
    yield _override_ends(reason.because), reason.because.until


def change_above_the_floor(_reason: Reason, case: Case) -> Changes:
    override = case.wanted.bounds.overrides.least
    if override is not None:
        yield _override_ends(override), override.until
    elif case.wanted.bounds.names:
        yield _window(case)
    yield f"a lower min_nodes of the pool (it is {case.pool.min_nodes}), and a restart", None


def not_backing_off(reason: Reason, _case: Case) -> str:
    wait = reason.because
    if isinstance(wait, FewerRequested):
        return f"Civo has just refused {some(wait.refused, 'node')}, so fewer are requested: {wait.reason}"
    return f"backing off until {moment(wait.until)} after {wait.failures} failures: {wait.reason}"


def change_not_backing_off(reason: Reason, _case: Case) -> Changes:
    assert reason.until is not None
    yield f"the next try at {moment(reason.until)}; the last error: {reason.because.reason}", reason.until


def not_undone_by_others(reason: Reason, _case: Case) -> str:
    wait: Wait = reason.because
    change, way = ("growth", "lowered") if wait.direction is Direction.GROW else ("removals", "raised")
    return f"another system {way} the count repeatedly after our {change}: none before {wait.until:%Y-%m-%d %H:%M} UTC"


def change_not_undone_by_others(reason: Reason, _case: Case) -> Changes:
    until = reason.because.until
    yield f"the end of this pause at {moment(until)}, if the count at Civo is left alone until then", until


def provisioning_works(reason: Reason, _case: Case) -> str:
    failed = reason.because
    if isinstance(failed, StuckNodes):
        return f"{', '.join(failed.nodes)}: not usable within {lasting(failed.within)}"
    said = f"{failed.reason} ({some(failed.failures, 'failure')} in a row)"
    if isinstance(failed, Wait):
        return f"{said}: no other node before {moment(failed.until)}"
    return f"{said}: one node on trial until one becomes usable"


def change_provisioning_works(reason: Reason, case: Case) -> Changes:
    failed = reason.because
    if isinstance(failed, StuckNodes):
        yield f"once it becomes usable or is gone: {', '.join(failed.nodes)}", None
        failed = failed_nodes(Direction.GROW, case.pool, case.state, case.policy, case.now)
    if isinstance(failed, Wait):
        at = moment(failed.until)
        yield f"one node on trial at {at}, or any node of the pool that becomes usable", failed.until
    elif failed is not None:
        yield "the node on trial, once it is usable: then all wanted nodes are bought", None


def cooled_down(reason: Reason, _case: Case) -> str:
    return f"cooldown.{reason.because.direction} until {reason.because.until:%H:%M:%S} UTC"


def change_cooled_down(reason: Reason, _case: Case) -> Changes:
    yield f"the end of the cooldown at {moment(reason.because.until)}", reason.because.until


def approved(reason: Reason, _case: Case) -> str:
    asked = reason.because
    return why_waiting(asked.nodes, asked.asks, asked.questions, asked.at)


def change_approved(reason: Reason, case: Case) -> Changes:
    asked = [q for q in case.questions if q.answer is None]
    for question in asked:
        yield f"an approval, from the message or with gpu-autoscaler answer {question.id} approve", None
        if question.proceeds_at:
            yield f"no answer until {moment(question.proceeds_at)}", question.proceeds_at
    if not asked:
        yield f"an approval, once it is requested: {reason.detail}", None


def one_change_at_a_time(reason: Reason, _case: Case) -> str:
    found = reason.because
    if isinstance(found, Uncounted):
        return f"Civo still counts {some(found.nodes, 'removed node')}: {found.target} would lower its count"
    return f"action {found.id} is open"


def change_one_change_at_a_time(reason: Reason, _case: Case) -> Changes:
    action = reason.because
    if isinstance(action, Uncounted):
        yield "Civo's count, once it no longer has the removed nodes", None
    else:
        failed = f"; its last error: {action.last_error}" if action.last_error else ""
        yield f"the end of action {action.id}, open since {moment(action.opened_at)}{failed}", None


# --- what wants a size, or is noted


def demand(_reason: Reason, case: Case) -> str:
    wanted = case.wanted
    names = [w.key for w in wanted.asking]
    gpus = sum(w.gpus for w in wanted.asking)
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    wait = "GPU waits" if gpus == 1 else "GPUs wait"
    return f"{gpus} {wait} for {', '.join(names[:3])}{more}: {some(wanted.for_demand, 'more node')}"


def floor(_reason: Reason, case: Case) -> str:
    bounds = case.wanted.bounds
    least = bounds.why_least if bounds.overrides.least is not None else ""
    return f"at least {some(bounds.min_nodes, 'node')}{least}"


def change_standby(_reason: Reason, case: Case) -> Changes:
    spare = case.wanted.bounds.standby_nodes
    yield f"no spare node would be bought with fewer standby_nodes than {spare}, and a restart", None


def _named(nodes: tuple[Node, ...], why: str) -> str:
    return f"{', '.join(n.name for n in nodes)}: {why}"


def dead_nodes(reason: Reason, case: Case) -> str:
    dead: tuple[Node, ...] = reason.because
    late = [f"not usable within {lasting(case.pool.provision_timeout)}"] if any(not n.vanished for n in dead) else []
    gone = ["no Node object in Kubernetes any more"] if any(n.vanished for n in dead) else []
    return _named(dead, ", or ".join((*late, *gone)))


def override(reason: Reason, case: Case) -> str:
    if reason.verdict is Verdict.NOTES:
        return str(reason.because)
    return _named(reason.because, str(case.wanted.bounds.overrides.most))


def idle_nodes(reason: Reason, case: Case) -> str:
    if case.policy.billing.by_the_hour:
        unit = "hour" if case.policy.billing.granularity == HOUR else "unit"
        if goes_early(case.pool, case.policy):
            why = f"no GPU pod, and beyond its first paid {unit} a node this wide is not kept for small pods"
        else:
            why = f"no GPU pod, and the next paid {unit} begins within {lasting(case.policy.billing.removal_margin)}"
    elif case.wanted.stopped:
        why = "no GPU pod, and no new one may start: a budget is at its stop"
    else:
        why = f"no GPU pod for {lasting(case.pool.idle_for)}"
    return _named(reason.because, why)


def consolidation(reason: Reason, _case: Case) -> str:
    return _named(reason.because, "its pods may be moved and fit on other nodes")


def alert_asks(reason: Reason, _case: Case) -> str:
    name, many = reason.because
    return f"{name}{f' ({many} alerts)' if many > 1 else ''}: {NOTED[SignalAction(reason.rule)]}"


def keep_until(reason: Reason, _case: Case) -> str:
    return "; ".join(
        f"{n.name} is kept until {n.kept_until:%Y-%m-%d %H:%M} UTC{f' for {n.kept_for}' if n.kept_for else ''}"
        for n in reason.because
    )


def evict_after(reason: Reason, case: Case, say: Say) -> str:
    if reason.verdict is Verdict.NOTES:
        return "; ".join(planned(grace, case, say) for grace in reason.because)
    graces = case.wanted.graces
    over = [g for g in graces if g.ends_at is not None and g.ends_at <= case.now] or graces  # what was begun goes on
    allows = (f"window {g.window} allows {some(g.max_nodes, 'node')}, and its grace is over" for g in over)
    return _named(reason.because, "; ".join(allows))


def change_evict_after(_reason: Reason, case: Case) -> Changes:
    window, at = _window(case)
    yield f"the nodes stay once the window is closed; {window}", at
    yield "a snooze of the pool keeps them: gpu-autoscaler override snooze", None


def nothing_wanted(case: Case, say: Say) -> str:
    wanted, resting = case.wanted, [n for n in case.state.nodes if n.idle_since is not None]
    kept = [n for n in resting if is_kept(n, case)]
    refused = [n for n in resting if not is_kept(n, case) and removal_backs_off(n, case)]
    idle = [n for n in resting if not is_kept(n, case) and not removal_backs_off(n, case)]
    on_the_way = len(case.state.coming) + case.state.unlisted
    backoff = case.state.removal_backoff
    if not case.up(Source.CIVO):
        return f"nothing is known: {answer_of(Source.CIVO, case.facts.sources.get(Source.CIVO))}"
    if wanted.settled and on_the_way:
        return f"{some(wanted.waiting_gpus, 'GPU')} waiting, {some(on_the_way, 'node')} on the way"
    if wanted.settled:
        return f"{', '.join(wanted.settled[:3])} would fit a usable node as configured: see why it is not placed there"
    if idle:
        return about_idle(idle, case, say)
    if refused and backoff is not None:
        after = f"after {some(backoff.failures, 'failure')}: {backoff.reason}"
        return f"{', '.join(n.name for n in refused)} may not be removed until {backoff.until:%H:%M:%S} UTC {after}"
    if kept:
        return f"{some(len(kept), 'idle node')}, kept because workloads asked for it"
    low = case.firing(SignalAction.SCALE_DOWN)
    if low is not None and (held := why_kept(case, say)):
        return f"{low.alertname} fires (scale_down), and {held}"
    return "no pods waiting, no idle nodes"
