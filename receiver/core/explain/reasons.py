"""What a rule says of its answer: a sentence made from the values that it rests on, and what would change the answer.
Each function is that of one rule, and stands in its record in `receiver.core.explain.rules`."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from receiver.core.explain.prospects import Say, about_idle, planned, why_kept
from receiver.core.explain.rollouts import Rollouts, surge
from receiver.core.model.actions import Reason, Verdict
from receiver.core.model.model import BIND, Node, Source, SourceState
from receiver.core.model.overrides import Override, why_waiting
from receiver.core.model.refusals import SchedulerRefusal
from receiver.core.model.signals import SignalAction
from receiver.core.model.text import dollars, lasting, listed, some
from receiver.core.model.windows import next_change
from receiver.core.money.budget import BudgetStage, BudgetView, Refusal, month_of
from receiver.core.money.cost import HOUR, unit_price
from receiver.core.scaling.guardrails import Case, FewerRequested, StuckNodes, Uncounted
from receiver.core.scaling.market import goes_early
from receiver.core.scaling.removal import is_kept, removal_backs_off
from receiver.core.scaling.waits import MUST_FALL_WITHIN, Direction, Wait, WaitKind

# Sentences on what would change an answer, each with the moment at which it comes true by itself.
Changes = Sequence[tuple[str, datetime | None]]
Said = tuple[str, Changes]
NOTED = {
    SignalAction.SCALE_UP: "look for growth",
    SignalAction.SCALE_DOWN: "look for nodes to remove",
    SignalAction.HOLD: "busy nodes are not drained",
    SignalAction.FALLBACK: "activity is unknown: pod counts decide",
}
CENT = Decimal("0.01")


def moment(at: datetime) -> str:
    """*at* with its date, in UTC."""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def answer_of(source: Source, state: SourceState | None) -> str:
    """What is known about *source*."""
    return f"{source.value}: {state.detail or 'no answer'}" if state else f"{source.value}: never asked"


def _ends(override: Override) -> tuple[str, datetime | None]:
    by = f"the {override.kind} of {override.who}"
    remedy = f"wait until {by} ends at {moment(override.until)}, or end it: gpu-autoscaler override end {override.id}"
    return remedy, override.until


def _window(case: Case) -> tuple[str, datetime | None]:
    at = next_change(case.pool.windows, case.now) if case.pool.windows else None
    changes = moment(at) if at else "an unknown time"
    names = ", ".join(case.wanted.bounds.names)
    return f"window {names} is open; the next window change is at {changes}", at


def _bound_ends(override: Override | None, case: Case) -> list[tuple[str, datetime | None]]:
    """What ends a bound that *override* (None: a window, or the pool itself) sets."""
    if override is not None:
        return [_ends(override)]
    if not case.wanted.bounds.names:
        return []
    window, at = _window(case)
    return [(f"wait for the next window change: {window}", at)]


def sources_answer(reason: Reason, case: Case) -> Said:
    silent = reason.because
    answer, without = answer_of(silent.source, silent.state), []
    if silent.other is not None:
        sentence = "no growth while neither Kubernetes nor Prometheus reports the demand"
    elif silent.direction is Direction.GROW:
        sentence = f"no growth while {answer} (fallback: kubernetes would allow it)"
        without = ["set fallback: kubernetes in the configuration to let it grow without Prometheus"]
    else:
        sentence = f"no {'removal' if silent.direction is Direction.SHRINK else 'change'} while {answer}"
    sources = [s for s in case.facts.sources.values() if not s.up and s.configured and s.source is not Source.DCGM]
    names = ", ".join(f"{s.source.value} ({s.detail or 'no answer'})" for s in sources)
    answers = f"wait until it answers again: {names or sentence}"
    return sentence, [(text, None) for text in (answers, *without)]


def nodes_may_be_removed(reason: Reason, _case: Case) -> Said:
    rights = reason.because
    if rights.holds_until is not None:
        return f"{rights}; growth waits until {rights.holds_until:%H:%M:%S} UTC at most", ()
    return f"{rights} (needed to remove nodes): {BIND}", ()


def price_is_known(reason: Reason, _case: Case) -> Said:
    size, price = reason.because.size, "price_usd_per_hour of the pool, or a prices_file that has it"
    sentence = f"size {size} has no price: add price_usd_per_hour to the pool"
    return sentence, [(f"set a price for size {size}: {price}", None)]


def spend_is_known(reason: Reason, _case: Case) -> Said:
    if isinstance(reason.because, str):
        sentence = f"the cost of the month before this store existed is unknown: {reason.because}"
        remedy = "wait until Civo's charges of the month can be read, or set budget.spent_usd_stated"
        return f"{sentence}; budget.spent_usd_stated can state it", [(remedy, None)]
    changes = [(_known_again(refusal.view), None) for refusal in reason.because]
    return "; ".join(refusal.why for refusal in reason.because), changes


def _known_again(view: BudgetView) -> str:
    return f"wait until the spend of the {view.title} is known again: {view.unknown}"


def within_budget(reason: Reason, case: Case) -> Said:
    changes: list[tuple[str, datetime | None]] = []
    for refusal in reason.because:
        view, title = refusal.view, refusal.view.title
        if view.unpriced:
            changes.append((f"{title}: set a price for size {', '.join(view.unpriced)}", None))
        elif view.unknown:
            changes.append((_known_again(view), None))
        elif case.pool.price_usd_per_hour is not None:
            lacks = lacking(refusal, case)
            to, command = dollars(view.monthly + lacks), view.setting(f"{view.monthly + lacks:f}")
            changes.append((f"raise the {title} by at least {dollars(lacks)} to {to} ({command})", None))
        if view.stage is BudgetStage.HOLD and not (refusal.passing or view.unpriced or view.unknown):
            passing = "give the work a priority class in budget.passing_priority_classes"
            changes.append((f"{title}: {passing}, for which nodes are bought up to the stop line", None))
    month_ends = month_of(case.now, case.policy.timezone).end
    changes.append((f"wait for the next month ({moment(month_ends)})", month_ends))
    return "; ".join(refusal.why for refusal in reason.because), changes


def lacking(refusal: Refusal, case: Case) -> Decimal:
    """USD by which the allowance that refuses would have to be raised at least, so that the nodes that it leaves out of
    the pool of *case* are bought: spent below the hold line unless they are for passing work, and their first paid unit
    below the stop line, beside those that the step buys."""
    view = refusal.view
    price = case.pool.price_usd_per_hour or Decimal(0)
    missing = case.wanted.new_nodes - case.wanted.within_budget
    cost = unit_price(price, case.policy.billing) * missing + refusal.bought
    needed = [((view.spent + view.reserved + cost) / view.stop_at).quantize(CENT, ROUND_CEILING)]
    if view.stage in (BudgetStage.HOLD, BudgetStage.STOP) and not refusal.passing:  # less must be spent than the line
        needed.append((view.spent / view.hold_at).quantize(CENT, ROUND_FLOOR) + CENT)
    return max(max(needed) - view.monthly, Decimal(0))


def within_maximum(reason: Reason, case: Case) -> Said:
    bounds, most = reason.because, case.pool.max_nodes
    changes = _bound_ends(bounds.overrides.most, case)
    if bounds.max_nodes == most or bounds.overrides.most is None:
        changes.append((f"raise max_nodes of the pool (now {most})", None))
    changes.append(("wait for a free GPU in the pool", None))
    return f"at most {some(bounds.max_nodes, 'node')}{_in_brackets(bounds.why_most)}", changes


def _in_brackets(text: str) -> str:
    return f" ({text})" if text else ""


def within_limits(reason: Reason, _case: Case) -> Said:
    limits, hour = reason.because, "wait at most an hour, or raise"
    removals, growth, gpus = limits.max_removals_per_hour, limits.max_growth_per_hour, limits.max_gpus
    if removals is not None:
        higher = f"{hour} limits.max_removals_per_hour (now {removals})"
        return f"limits.max_removals_per_hour ({some(removals, 'node')} per hour) is used up", [(higher, None)]
    changes: list[tuple[str, datetime | None]] = []
    either = growth is not None and gpus is not None
    reached = []
    if gpus is not None:
        reached.append(f"limits.max_gpus ({some(gpus, 'GPU')})")
    if growth is not None:
        reached.append(f"limits.max_growth_per_hour ({some(growth, 'node')} per hour)")
        raised = f"{hour} limits.max_growth_per_hour (now {growth})"
        changes.append((f"if max_growth_per_hour is used up: {raised}" if either else raised, None))
    if gpus is not None:
        raised = f"raise limits.max_gpus (now {gpus}), or remove nodes of any pool"
        changes.append((f"if max_gpus is used up: {raised}" if either else raised, None))
    return f"{' or '.join(reached)} is used up", changes


def alert_holds(reason: Reason, _case: Case) -> Said:
    alert = reason.because
    end = f"wait until alert {alert.alertname} resolves (firing since {moment(alert.starts_at)})"
    sentence = f"alert {alert.alertname} is firing (action: {alert.action.value})"
    return sentence, [(f"{end}, or silence it in Alertmanager", None)]


def not_silenced(reason: Reason, _case: Case) -> Said:
    silence = reason.because
    end = f"wait until the silence of {silence.by} ends at {moment(silence.until)}"
    sooner = f"expire the silence: amtool silence expire {silence.id}"
    return str(silence), [(end, silence.until), (sooner, None)]


def override_holds(reason: Reason, _case: Case) -> Said:
    return str(reason.because), [_ends(reason.because)]


def above_the_floor(_reason: Reason, case: Case) -> Said:
    bounds = case.wanted.bounds
    lower = f"lower min_nodes of the pool (now {case.pool.min_nodes})"
    changes = [*_bound_ends(bounds.overrides.least, case), (lower, None)]
    return f"at least {some(bounds.min_nodes, 'node')}{_in_brackets(bounds.why_least)}", changes


def floor(reason: Reason, case: Case) -> Said:
    sentence, changes = above_the_floor(reason, case)
    bounds = case.wanted.bounds
    if bounds.overrides.least is None:
        sentence = f"at least {some(bounds.min_nodes, 'node')}"
    return sentence, changes


def not_backing_off(reason: Reason, _case: Case) -> Said:
    wait, until = reason.because, reason.until
    assert until is not None
    if isinstance(wait, FewerRequested):
        sentence = f"Civo has just refused {some(wait.refused, 'node')}, so fewer are requested: {wait.reason}"
    else:
        failures = some(wait.failures, "failure")
        sentence = f"backing off until {moment(until)} after {failures}: {wait.reason}"
    return sentence, [(f"wait for the next attempt at {moment(until)}; the last error: {wait.reason}", until)]


def not_undone_by_others(reason: Reason, _case: Case) -> Said:
    wait: Wait = reason.because
    change, way = ("growth", "lowered") if wait.direction is Direction.GROW else ("removals", "raised")
    until = f"none before {wait.until:%Y-%m-%d %H:%M} UTC"
    end = f"wait until {moment(wait.until)}, and let only the autoscaler change the count at Civo"
    return f"another system {way} the count repeatedly after our {change}: {until}", [(end, wait.until)]


def scheduler_refuses(reason: Reason, _case: Case) -> Said:
    refusal: SchedulerRefusal = reason.because
    tried_again = f"wait until {moment(refusal.until)}, when one more node is tried" if refusal.until else ""
    changes: list[tuple[str, datetime | None]] = [
        ("remove the obstacle that the scheduler names: once its words change, the pods are demand again", None),
        ("create the pods anew under another owner or template", None),
        *([(tried_again, refusal.until)] if tried_again else []),
    ]
    return f"{listed(refusal.pods)}: {why_refused(refusal)}", changes


def why_refused(refusal: SchedulerRefusal) -> str:
    """Why no node is bought or kept for pods that the scheduler refuses: its own words first."""
    words = f"the scheduler says: {refusal.says.rstrip('.')}; " if refusal.says else ""
    until = f" before {refusal.until:%Y-%m-%d %H:%M} UTC, unless that changes" if refusal.until else ""
    return f"{words}it leaves free room on {refusal.node} unused, so no node is bought or kept for them{until}"


def provisioning_works(reason: Reason, case: Case) -> Said:
    failed, sentence = reason.because, ""
    changes: list[tuple[str, datetime | None]] = []
    if isinstance(failed, StuckNodes):
        nodes = ", ".join(failed.nodes)
        sentence = f"not usable after {lasting(failed.within)}: {nodes}"
        changes.append((f"wait until this is usable or gone: {nodes}", None))
        failed = case.wait(WaitKind.PROVISIONING, case.present + 1)
    failure = f"{failed.reason} ({some(failed.failures, 'failure')} in a row)" if failed is not None else ""
    if isinstance(failed, Wait):
        at = moment(failed.until)
        ill = case.state.sickened is not None and case.state.trial == case.state.sickened
        another = "one that stays well for 30 minutes" if ill else "any node of the pool that becomes usable"
        changes.append((f"wait until {at}, when the next single node is tried, or for {another}", failed.until))
        return sentence or f"{failure}: no other node before {at}", changes
    if failed is not None:
        changes.append(("wait for the test node: once it is usable, all wanted nodes are bought", None))
    return sentence or f"{failure}: one node at a time is tried until one becomes usable", changes


def cooled_down(reason: Reason, _case: Case) -> Said:
    wait: Wait = reason.because
    end = f"wait until the cooldown ends at {moment(wait.until)}"
    return f"cooldown.{wait.direction} until {wait.until:%H:%M:%S} UTC", [(end, wait.until)]


def approved(reason: Reason, case: Case) -> Said:
    request = reason.because
    sentence = why_waiting(request.nodes, request.asks, request.questions, request.at)
    changes: list[tuple[str, datetime | None]] = []
    for question in (q for q in case.questions if q.answer is None):
        answer = f"gpu-autoscaler answer {question.id} approve --who YOU"
        changes.append((f"approve it, from the message or with {answer}", None))
        if question.proceeds_at:
            remedy = f"wait until {moment(question.proceeds_at)}: without an answer it proceeds then"
            changes.append((remedy, question.proceeds_at))
    changes += [
        (f"wait for a new request, sent at {moment(question.expires_at)} at the earliest", question.expires_at)
        for question in case.questions
        if question.is_rejected(request.at)
    ]
    return sentence, changes or [(f"approve it once the approval is requested: {sentence}", None)]


def one_change_at_a_time(reason: Reason, _case: Case) -> Said:
    action = reason.because
    if isinstance(action, Uncounted):
        wait = f"the pool grows to {some(action.target, 'node')} once its count has fallen"
        minutes = f"{int(MUST_FALL_WITHIN.total_seconds() // 60)} minutes"
        helps = f"wait until Civo no longer counts the removed nodes: {minutes} at most, then its count is believed"
        return f"Civo still counts {some(action.nodes, 'removed node')}: {wait}", [(helps, None)]
    failed = f"; its last error: {action.last_error}" if action.last_error else ""
    end = f"wait until action {action.id} ends, open since {moment(action.opened_at)}{failed}"
    return f"action {action.id} is open", [(end, None)]


def demand(_reason: Reason, case: Case) -> Said:
    wanted = case.wanted
    names = [w.key for w in wanted.asking]
    gpus = sum(w.gpus for w in wanted.asking)
    wait = "waits" if len(names) == 1 else "wait"
    sentence = f"{listed(names)} {wait} for {some(gpus, 'GPU')}: {some(wanted.for_demand, 'more node')}"
    bought_for = surge(wanted.asking, Rollouts(case.state.nodes, case.now), case.pool.price_usd_per_hour)
    return f"{sentence}, {bought_for}" if bought_for else sentence, ()


def standby(_reason: Reason, case: Case) -> Said:
    spare = case.wanted.bounds.standby_nodes
    fewer = f"no spare node would be bought with fewer standby_nodes than {spare}"
    return some(spare, "spare node"), [(fewer, None)]


def _named(nodes: tuple[Node, ...], cause: str) -> str:
    return f"{names_of(nodes)}{cause}"


def names_of(nodes: Iterable[Node]) -> str:
    """How a sentence about *nodes* begins."""
    return f"{', '.join(map(called, nodes))}: "


def called(node: Node) -> str:
    return f"{node.name} ({node.note})" if node.sick else node.name


def dead_nodes(reason: Reason, case: Case) -> Said:
    dead: tuple[Node, ...] = reason.because
    without = [n for n in dead if not n.registered and n.lost_at is not None]
    others, limit = [n for n in dead if n not in without and not n.sick], lasting(case.pool.provision_timeout)
    late = [f"not usable within {limit}"] if any(not n.was_usable for n in others) else []
    late += [f"not usable any more for {limit}"] if any(n.was_usable for n in others) else []
    late += ["to be replaced, and no GPU pod runs there"] if any(n.sick for n in dead) else []
    late += ["no Node object in Kubernetes any more"] if without else []
    return _named(dead, ", or ".join(late)), ()


def override(reason: Reason, case: Case) -> Said:
    most = case.wanted.bounds.overrides.most
    if reason.verdict is Verdict.NOTES:
        return str(reason.because), ()
    return _named(reason.because, str(most)), [_ends(most)] if most is not None else ()


def idle_nodes(reason: Reason, case: Case) -> Said:
    if case.policy.billing.by_the_hour:
        unit = "hour" if case.policy.billing.granularity == HOUR else "unit"
        if goes_early(case.pool, case.policy):
            cause = f"no GPU pod, and beyond its first paid {unit} a node this wide is not kept for small pods"
        else:
            cause = f"no GPU pod, and the next paid {unit} begins within {lasting(case.policy.billing.removal_margin)}"
    elif case.wanted.stopped:
        cause = "no GPU pod, and no new one may start: a budget is at its stop"
    else:
        cause = f"no GPU pod for {lasting(case.pool.idle_for)}"
    return _named(reason.because, cause), ()


def consolidation(reason: Reason, _case: Case) -> Said:
    sick = all(n.sick for n in reason.because)
    cause = "to be replaced, and its pods may be moved" if sick else "its pods may be moved and fit on other nodes"
    return _named(reason.because, cause), ()


def alert_asks(reason: Reason, _case: Case) -> Said:
    name, many = reason.because
    return f"{name}{f' ({many} alerts)' if many > 1 else ''}: {NOTED[SignalAction(reason.rule)]}", ()


def keep_until(reason: Reason, _case: Case) -> Said:
    sentences = (
        f"{n.name} is kept until {n.kept_until:%Y-%m-%d %H:%M} UTC{f' for {n.kept_for}' if n.kept_for else ''}"
        for n in reason.because
    )
    return "; ".join(sentences), ()


def evict_after(reason: Reason, case: Case, say: Say) -> Said:
    window, at = _window(case)
    command = f"gpu-autoscaler override snooze {case.pool.name} --for 2h --why REASON --who YOU"
    snooze = f"a snooze of the pool keeps them: {command}"
    changes = [(f"the nodes stay once the window is closed; {window}", at), (snooze, None)]
    if reason.verdict is Verdict.NOTES:
        return "; ".join(planned(grace, case, say) for grace in reason.because), changes
    graces = case.wanted.graces
    over = [g for g in graces if g.ends_at is not None and g.ends_at <= case.now] or graces  # what was begun goes on
    allows = (f"window {g.window} allows {some(g.max_nodes, 'node')}, and its grace is over" for g in over)
    return _named(reason.because, "; ".join(allows)), changes


def nothing_wanted(case: Case, say: Say) -> str:
    wanted, resting = case.wanted, [n for n in case.state.nodes if n.idle_since is not None]
    kept_nodes = [n for n in resting if is_kept(n, case)]
    refused = [n for n in resting if not is_kept(n, case) and removal_backs_off(n, case)]
    idle = [n for n in resting if not is_kept(n, case) and not removal_backs_off(n, case)]
    on_the_way = len(case.state.coming) + case.state.unlisted
    backoff = case.state.removal_backoff
    if not case.up(Source.CIVO):
        return f"nothing is known: {answer_of(Source.CIVO, case.source(Source.CIVO))}"
    if wanted.settled and on_the_way:
        return f"{some(wanted.waiting_gpus, 'GPU')} waiting, {some(on_the_way, 'node')} on the way"
    if wanted.settled and not wanted.placed and any(r.vacant_at for placement in wanted.given for r in placement.rooms):
        return f"{some(wanted.waiting_gpus, 'GPU')} waiting, for pods that are Terminating to leave their nodes"
    if wanted.settled:
        return f"{', '.join(wanted.settled[:3])} would fit a usable node as configured: see why it is not placed there"
    if idle:
        return about_idle(idle, case, say)
    if refused and backoff is not None:
        after = f"after {some(backoff.failures, 'failure')}: {backoff.reason}"
        return f"{', '.join(n.name for n in refused)} may not be removed until {backoff.until:%H:%M:%S} UTC {after}"
    if kept_nodes:
        return f"{some(len(kept_nodes), 'idle node')}, kept because workloads asked for it"
    low = case.firing(SignalAction.SCALE_DOWN)
    if low is not None and (held := why_kept(case, say)):
        return f"alert {low.alertname} is firing (action: scale_down), and {held}"
    waiting = "no pods waiting for it" if case.facts.waiting else "no pods waiting"
    return f"{waiting}, no idle nodes"
