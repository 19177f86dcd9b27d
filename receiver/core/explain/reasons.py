"""The sentence of each reason of a decision, made from the values that its rule rests on.

Each function is that of one rule, and stands in its record in `receiver.core.explain.rules`.
"""

from datetime import datetime

from receiver.core.explain.prospects import Say, about_idle, planned, why_kept
from receiver.core.model.actions import Action, Reason, Verdict
from receiver.core.model.approval_request import sentence, why_waiting
from receiver.core.model.model import BIND, Node, Source, SourceState
from receiver.core.model.signals import SignalAction
from receiver.core.model.text import lasting, some
from receiver.core.money.cost import HOUR
from receiver.core.scaling.guardrails import Case, FewerRequested, StuckNodes, Uncounted
from receiver.core.scaling.market import goes_early
from receiver.core.scaling.removal import is_kept, removal_backs_off
from receiver.core.scaling.waits import Direction, Wait

NOTED = {
    SignalAction.SCALE_UP: "look for growth",
    SignalAction.SCALE_DOWN: "look for nodes to remove",
    SignalAction.HOLD: "busy nodes are not emptied",
    SignalAction.FALLBACK: "activity is unknown: pod counts decide",
}


def moment(at: datetime) -> str:
    """*at* with its date, in UTC."""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def answer_of(source: Source, state: SourceState | None) -> str:
    """What is known about *source*."""
    return f"{source.value}: {state.detail or 'no answer'}" if state else f"{source.value}: never asked"


# --- guardrails


def sources_answer(reason: Reason, _case: Case) -> str:
    """Which source does not answer."""
    silent = reason.because
    if silent.other is not None:
        return "no growth while neither Kubernetes nor Prometheus reports the demand"
    answer = answer_of(silent.source, silent.state)
    if silent.direction is Direction.GROW:
        return f"no growth while {answer} (fallback: kubernetes would allow it)"
    return f"no {'removal' if silent.direction is Direction.SHRINK else 'change'} while {answer}"


def nodes_may_be_removed(reason: Reason, _case: Case) -> str:
    """Which rights are missing, or until when they are waited for."""
    rights = reason.because
    if rights.holds_until is not None:
        return f"{rights}; growth waits until {rights.holds_until:%H:%M:%S} UTC at most"
    return f"{rights}, and a removal needs that: {BIND}"


def price_is_known(reason: Reason, _case: Case) -> str:
    """Which size has no price."""
    return f"size {reason.because.size} has no price: add price_usd_per_hour to the pool"


def spend_is_known(reason: Reason, case: Case) -> str:
    """Which spend is unknown."""
    if not isinstance(reason.because, str):
        return within_budget(reason, case)
    why = f"the cost of the month before this store existed is unknown: {reason.because}"
    return f"{why}; budget.spent_usd_stated can state it"


def within_budget(reason: Reason, _case: Case) -> str:
    """Which budgets do not cover the growth, with their figures."""
    return "; ".join(refusal.why for refusal in reason.because)


def within_maximum(reason: Reason, _case: Case) -> str:
    """The maximum, and who set it."""
    return f"at most {some(reason.because.max_nodes, 'node')}{reason.because.why_most}"


def within_limits(reason: Reason, _case: Case) -> str:
    """The limits that are reached."""
    limits = reason.because
    if limits.max_removals_per_hour is not None:
        return f"at most {limits.max_removals_per_hour} removals an hour"
    said = (("max_gpus", limits.max_gpus), ("max_growth_per_hour", limits.max_growth_per_hour))
    return "limits: " + ", ".join(f"{name} {most}" for name, most in said if most is not None)


def alert_holds(reason: Reason, _case: Case) -> str:
    """Which alert fires, with what action."""
    return f"{reason.because.alertname} fires: {reason.because.action.value}"


def as_said(reason: Reason, _case: Case) -> str:
    """The override or silence in its own words."""
    return str(reason.because)


def above_the_floor(reason: Reason, _case: Case) -> str:
    """The minimum, and who set it."""
    return f"at least {some(reason.because.min_nodes, 'node')}{reason.because.why_least}"


def not_backing_off(reason: Reason, _case: Case) -> str:
    """What failed, and when it is tried again."""
    wait = reason.because
    if isinstance(wait, FewerRequested):
        return f"Civo has just refused {some(wait.refused, 'node')}, so fewer are requested: {wait.reason}"
    return f"backing off until {moment(wait.until)} after {wait.failures} failures: {wait.reason}"


def not_undone_by_others(reason: Reason, _case: Case) -> str:
    """That another system reverts our changes, and until when we leave them."""
    wait: Wait = reason.because
    change, way = ("growth", "lowered") if wait.direction is Direction.GROW else ("removals", "raised")
    return f"another system {way} the count repeatedly after our {change}: none before {wait.until:%Y-%m-%d %H:%M} UTC"


def provisioning_works(reason: Reason, _case: Case) -> str:
    """Which nodes did not become usable, and when the next is bought."""
    failed = reason.because
    if isinstance(failed, StuckNodes):
        return f"{', '.join(failed.nodes)}: not usable within {lasting(failed.within)}"
    said = f"{failed.reason} ({some(failed.failures, 'failure')} in a row)"
    if isinstance(failed, Wait):
        return f"{said}: no other node before {moment(failed.until)}"
    return f"{said}: one node on trial until one becomes usable"


def cooled_down(reason: Reason, _case: Case) -> str:
    """Which cooldown runs, and until when."""
    return f"cooldown.{reason.because.direction} until {reason.because.until:%H:%M:%S} UTC"


def approved(reason: Reason, _case: Case) -> str:
    """The questions that are open."""
    asked = reason.because
    return why_waiting(asked.nodes, asked.asks, asked.questions, asked.at)


def one_change_at_a_time(reason: Reason, _case: Case) -> str:
    """The change that is under way."""
    found: Action | Uncounted = reason.because
    if isinstance(found, Uncounted):
        return f"Civo still counts {some(found.nodes, 'removed node')}: {found.target} would lower its count"
    return f"action {found.id} is open"


# --- what wants a size


def demand(_reason: Reason, case: Case) -> str:
    """Which work waits for how many GPUs."""
    wanted = case.wanted
    names = [w.key for w in wanted.asking]
    gpus = sum(w.gpus for w in wanted.asking)
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    wait = "GPU waits" if gpus == 1 else "GPUs wait"
    return f"{gpus} {wait} for {', '.join(names[:3])}{more}: {some(wanted.for_demand, 'more node')}"


def floor(_reason: Reason, case: Case) -> str:
    """The minimum, and the override that set it."""
    bounds = case.wanted.bounds
    least = bounds.why_least if bounds.overrides.least is not None else ""
    return f"at least {some(bounds.min_nodes, 'node')}{least}"


def standby(_reason: Reason, case: Case) -> str:
    """How many spare nodes the pool keeps."""
    return some(case.wanted.bounds.standby_nodes, "spare node")


def headroom(_reason: Reason, case: Case) -> str:
    """How many GPUs are kept free."""
    return f"{case.wanted.headroom}: {some(case.wanted.for_headroom, 'more node')}"


def _named(nodes: tuple[Node, ...], why: str) -> str:
    return f"{', '.join(n.name for n in nodes)}: {why}"


def dead_nodes(reason: Reason, case: Case) -> str:
    """Which nodes failed, and how."""
    dead: tuple[Node, ...] = reason.because
    late = [f"not usable within {lasting(case.pool.provision_timeout)}"] if any(not n.vanished for n in dead) else []
    gone = ["no Node object in Kubernetes any more"] if any(n.vanished for n in dead) else []
    return _named(dead, ", or ".join((*late, *gone)))


def override(reason: Reason, case: Case) -> str:
    """The override, and the nodes that go for it."""
    if reason.verdict is Verdict.NOTES:
        return str(reason.because)
    return _named(reason.because, str(case.wanted.bounds.overrides.most))


def idle_nodes(reason: Reason, case: Case) -> str:
    """Which idle nodes go, and why now."""
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
    """Which busy nodes are emptied."""
    return _named(reason.because, "its pods may be moved and fit on other nodes")


# --- what is only noted


def alert_asks(reason: Reason, _case: Case) -> str:
    """Which alerts fire, and what they ask for."""
    name, many = reason.because
    return f"{name}{f' ({many} alerts)' if many > 1 else ''}: {NOTED[SignalAction(reason.rule)]}"


def keep_until(reason: Reason, _case: Case) -> str:
    """Which idle nodes are kept, until when and for which pod."""
    return "; ".join(
        f"{n.name} is kept until {n.kept_until:%Y-%m-%d %H:%M} UTC{f' for {n.kept_for}' if n.kept_for else ''}"
        for n in reason.because
    )


def question(reason: Reason, case: Case) -> str:
    """The question, and how it stands."""
    return sentence(reason.because, case.now)


def evict_after(reason: Reason, case: Case, say: Say) -> str:
    """Which nodes a window takes, and when."""
    if reason.verdict is Verdict.NOTES:
        return "; ".join(planned(grace, case, say) for grace in reason.because)
    graces = case.wanted.graces
    over = [g for g in graces if g.ends_at is not None and g.ends_at <= case.now] or graces  # what was begun goes on
    allows = (f"window {g.window} allows {some(g.max_nodes, 'node')}, and its grace is over" for g in over)
    return _named(reason.because, "; ".join(allows))


def nothing_wanted(case: Case, say: Say) -> str:
    """Why the size stays, when nothing asks for another."""
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
