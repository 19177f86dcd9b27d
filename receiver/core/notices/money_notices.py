"""Messages about money: budgets, nodes closed at a stop, new work kept out, Civo's charges, the monthly report."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from receiver.core.model.charges import EXPLAINED, WORTH_TELLING
from receiver.core.model.model import Facts
from receiver.core.model.policy import Budget, BudgetChange, Policy, Pool, Scope, Unallocated
from receiver.core.model.text import dollars, listed, percent, some, span
from receiver.core.money.budget import Budgets, BudgetStage, BudgetView, Intent, Key, option_of, stage_of
from receiver.core.notices import wording
from receiver.core.notices.notice import Cause, Notice, Severity
from receiver.core.report.lines import PaidFor, Subtotal
from receiver.core.report.report import Report

BUDGET_TOPIC = "budget:"
_STAGES = tuple(BudgetStage)
_BUDGET_CAUSES = {
    BudgetStage.OK: Cause.BUDGET_CLEAR,
    BudgetStage.WARN: Cause.BUDGET_WARN,
    BudgetStage.HOLD: Cause.BUDGET_HOLD,
    BudgetStage.STOP: Cause.BUDGET_STOP,
}
REFUSES = "the budget does not cover another node, so pending work waits; running work continues"
Told = Mapping[str, tuple[str, datetime]]  # by topic: the key of what was told last, and when


def budget_lines(
    budgets: Budgets, last_notices: Told, now: datetime, *, refusing: Collection[Key] = (), closes: bool = True
) -> Iterable[Notice]:
    """The notices that are due, given the *last_notices* under BUDGET_TOPIC, by whichever process.

    *refusing* are the budgets that keep work waiting.
    *closes* is False where no node is closed to new work at the stop: in observe mode, and without Kubernetes.
    """
    for view in budgets.views:
        if view.unknown:
            continue  # neither a line nor an all-clear can be told
        topic = f"{BUDGET_TOPIC}{view.scope}:{view.name}"
        parts = last_notices[topic][0].split("|") if topic in last_notices else []
        if len(parts) != 3 or parts[2] not in set(BudgetStage):
            parts = ["", "", BudgetStage.OK]  # a key that an older version wrote cannot be read
        same, stage = parts[:2] == [view.month, f"{view.monthly:f}"], BudgetStage(parts[2])
        if view.stage is not BudgetStage.OK:
            due = not (same and _STAGES.index(view.stage) <= _STAGES.index(stage))
        else:
            due = stage is not BudgetStage.OK and not (same or view.uncounted or view.unpriced)
        if due:
            yield _budget_line(view, topic, now, refuses=view.key in refusing, closes=closes)


@dataclass(frozen=True, slots=True)
class Stops:
    """What a new amount stops that goes on now: where the amount lies, as a predicate, and the effect."""

    because: str
    effect: str

    def __str__(self) -> str:
        return f"{self.because}: {self.effect}"


def stops(
    scope: Scope, monthly: Decimal, spent: Decimal, before: BudgetStage | None, budget: Budget, *, closes: bool
) -> Stops | None:
    """What *monthly* USD stop in the budget of *scope* with *spent* USD in the stage *before*, None if nothing. An
    amount that leaves the budget at its stop counts always. *closes*: nodes are cordoned at the stop."""
    grows = {Scope.POOL: "the pool does not grow", Scope.TEAM: "no nodes are bought for the team"}
    effect, stage = grows.get(scope, "no pool grows"), stage_of(spent, budget, monthly)
    if stage is BudgetStage.STOP:
        nodes = {Scope.POOL: " and its nodes are cordoned", Scope.TEAM: ""}.get(scope, " and all nodes are cordoned")
        where = "below" if monthly < spent else "not above" if monthly == spent else "at its stop line by"
        return Stops(f"{where} the {dollars(spent)} spent", effect + (nodes if closes else ""))
    if stage is BudgetStage.HOLD and before not in (BudgetStage.HOLD, BudgetStage.STOP):
        effect += ", except for priority classes in budget.passing_priority_classes"
        return Stops(f"at its hold line ({budget.hold_at:.0%}) by the {dollars(spent)} spent", effect)
    return None


def budget_changed(change: BudgetChange, title: str, stopped: Stops | None = None) -> Notice:
    """The notice of an amount that an operator set or reset; *title* is what people call the budget, *stopped* what the
    amount stops."""
    headline, after, reset = f"The {title} is back to the configured amount", "takes effect in the next step", ""
    if stopped is not None:
        after = f"in the next step {stopped.effect}, because the amount is {stopped.because}"
    if change.monthly_usd is not None:
        headline = f"The {title} of {change.month} was set to {dollars(change.monthly_usd)}"
        after += f", for {change.month} only; from the next month on the configured amount applies"
        option = option_of(change.scope, change.name)
        reset = f"To reset it: gpu-autoscaler budget reset{option} --why REASON --who YOU"
    return Notice(
        cause=Cause.BUDGET_CHANGED,
        topic=f"budget-change:{change.scope}:{change.name}",
        key=change.at.isoformat(),
        title=headline,
        body=wording.worded(
            why=f"{change.who}: {change.why}",
            after=after,
            do=reset,
        ),
        severity=Severity.WARNING,
        pool=change.name if change.scope is Scope.POOL else None,
    )


def _budget_line(view: BudgetView, topic: str, now: datetime, *, refuses: bool, closes: bool) -> Notice:
    title, effect, do = f"{view.month}: below its lines again", "", ""
    after, severity = "pools grow as before", Severity.SUCCESS
    if view.stage is not BudgetStage.OK:
        ratio = {BudgetStage.WARN: view.warn_at, BudgetStage.HOLD: view.hold_at}.get(view.stage, view.stop_at)
        title = f"{view.month} has reached its {view.stage} line ({percent(ratio)})"
        severity = Severity.FAILURE if refuses else Severity.WARNING
        do = f"To raise it: {view.setting()}"
        if view.stage is BudgetStage.WARN:
            held = f"beyond {_line_ahead(view, view.hold_at, now)} only {PASSING_ALONE} get nodes"
            after = REFUSES if refuses else f"growth continues; {held}"
        else:
            effect = effect_of(view, closes=closes)
            until = f"the month ends ({wording.moment(view.ends_at, now)})" if view.ends_at else "the month ends"
            after = f"this lasts until {until} or the budget is raised"
    remaining = view.monthly - view.spent
    balance = f"{dollars(remaining)} left" if remaining >= 0 else f"overspent by {dollars(-remaining)}"
    uncounted = f". Not counted: {listed(view.uncounted)}" if view.uncounted else ""
    cost, ahead = f"{dollars(view.per_hour)} an hour now", view.forecast.usd
    return Notice(
        cause=_BUDGET_CAUSES[view.stage],
        topic=topic,
        key=f"{view.month}|{view.monthly:f}|{view.stage}",
        title=f"GPU {view.title} {title}",
        body=wording.worded(
            f"{dollars(view.spent)} of {dollars(view.monthly)} spent ({percent(view.ratio)}), {balance}{uncounted}",
            effect,
            why=f"{view.change.who} set this amount: {view.change.why}" if view.change is not None else "",
            cost=cost if ahead is None else f"{cost}; forecast for the month: {dollars(ahead)}",
            after=after,
            do=do,
        ),
        severity=severity,
        pool=view.name if view.scope is Scope.POOL else None,
        all_clear=view.stage is BudgetStage.OK,
    )


def _line_ahead(view: BudgetView, ratio: Decimal, now: datetime) -> str:
    ahead = view.monthly * ratio - view.spent
    line = f"{percent(ratio)} ({dollars(view.monthly * ratio)})"
    mean = view.forecast.burn
    if mean is None or mean <= 0 or ahead <= 0:
        return line
    at = now + timedelta(hours=float(ahead / mean))
    within = view.ends_at is None or at < view.ends_at
    return f"{line}, reached at the month's average rate at {wording.moment(at, now)}," if within else line


PASSING_ALONE = "priority classes in budget.passing_priority_classes"
PASSING = f"except for {PASSING_ALONE}"


def effect_of(view: BudgetView, *, closes: bool = False) -> str:
    """What *view* does at its hold or stop line; *closes*: nodes are cordoned at the stop."""
    scope_effects = {Scope.POOL: "the pool does not grow", Scope.TEAM: "no nodes are bought for the team"}
    effect, runs = scope_effects.get(view.scope, "no pool grows"), "running work continues"
    if view.stage is BudgetStage.HOLD:
        return f"{effect}, {PASSING}; {runs}"
    if view.scope is Scope.TEAM:
        return f"{effect}; {runs}"
    own = "its " if view.scope is Scope.POOL else ""
    closed = f". Until the stop ends {own or 'all '}nodes are cordoned, so no new work starts on them" if closes else ""
    return f"{effect}, and {own}idle nodes are removed before their next paid hour; {runs}{closed}"


CLOSED_TOPIC = "closed:"
NODES_IN_KEY = 5  # further nodes at the end are no news
NO_STOP = "no budget for this pool is at its limit any more"
REOPENED = "reopened:"


def _closing(
    pool: Pool, key: str, title: str, body: str, *, cause: Cause = Cause.CLOSED, severity: Severity = Severity.WARNING
) -> Notice:
    topic = f"{'not-' if cause is Cause.NOT_CLOSED else ''}{CLOSED_TOPIC}{pool.id}"
    title = f"GPU pool {pool.name}{title}"
    return Notice(cause=cause, topic=topic, key=key, title=title, body=body, severity=severity, pool=pool.id)


def reopened(pool: Pool, nodes: int, now: datetime) -> Notice:
    """The notice that new work may start again on *nodes* nodes of *pool*."""
    after = f"{some(nodes, 'node')} uncordoned; the pool grows again when GPU work waits"
    body, key = wording.worded(why=NO_STOP, after=after), f"{REOPENED}{now:%Y-%m-%dT%H:%M}"
    return _closing(pool, key, ": nodes are uncordoned", body, cause=Cause.REOPENED, severity=Severity.SUCCESS)


def closed_again(pool: Pool, why: str, budgets: Budgets) -> Notice:
    """The notice that nodes of *pool* take no new work again, after a notice that they do. Those of *budgets* that are
    at their stop are to be raised."""
    after = "its nodes stay cordoned until the stop is over; running work continues"
    stopped = [view.setting() for view in budgets.touched(pool.id) if view.stage is BudgetStage.STOP]
    do = f"To raise the budget: {' and '.join(stopped)}" if stopped else ""
    body = wording.worded(why=why, after=after, do=do)
    return _closing(pool, f"again:{why}", ": nodes are cordoned again", body)


def stay_closed(pool: Pool, unpriced: Sequence[str]) -> Notice:
    """The notice that nodes of *pool* stay closed: without the price of the sizes *unpriced* the end of the stop is
    unknown."""
    sizes = ", ".join(unpriced)
    body = wording.worded(
        why=f"it is unknown whether a budget is still at its limit: size {sizes} has no price",
        after="they are uncordoned once the size has a price (price_usd_per_hour or prices_file) and the stop is over",
    )
    return _closing(pool, f"unpriced:{','.join(unpriced)}", ": nodes stay cordoned", body)


def not_closed(pool: Pool, refused: Mapping[str, Exception], why: str) -> Notice:
    """The notice that nodes of *pool* could not be closed (or opened, where *why* is empty); *refused* is the error of
    each, by name."""
    by_answer: dict[str, list[str]] = {}
    for node in sorted(refused):
        by_answer.setdefault(str(refused[node]), []).append(node)
    errors = "; ".join(f"{listed(nodes)}: {answer}" for answer, nodes in by_answer.items())
    after = "each step tries again" + ("; until then new work may start on them" if why else "")
    title = f": could not {'cordon' if why else 'uncordon'} nodes"
    key = f"{why}:{','.join(sorted(refused)[:NODES_IN_KEY])}"
    return _closing(pool, key, title, wording.worded(errors, why=why or NO_STOP, after=after), cause=Cause.NOT_CLOSED)


def would_be_closed(pool: Pool, nodes: int, why: str) -> Notice:
    """The notice of what would be closed, or opened where *why* is empty, in observe mode."""
    title = f": {some(nodes, 'node')} would be {'cordoned' if why else 'uncordoned'} (observing)"
    body = wording.worded(why=why or NO_STOP, after="nothing while mode is observe")
    cause = Cause.CLOSED if why else Cause.REOPENED
    return _closing(pool, f"observed:{why}", title, body, cause=cause, severity=Severity.INFO)


def when_reopened(last_notices: Mapping[str, tuple[str, datetime]]) -> Mapping[str, datetime]:
    """When nodes of a pool (by id) were last opened again, from the *last_notices* under CLOSED_TOPIC."""
    return {t.removeprefix(CLOSED_TOPIC): at for t, (key, at) in last_notices.items() if key.startswith(REOPENED)}


def kept_out(place: str, did: str, sentence: str, wanted: Intent, *, over: bool = False) -> Notice:
    """The notice of what was done at *place*; *did* is a word of `receiver.ports.Did` or ``failed``."""
    way = "allowed again in" if over else "blocked in"
    after = "new GPU pods may start there" if over else "running work continues; new work may start after the hold"
    title = f"New GPU pods are {way} {place}"
    if did == "observed":
        title, after = f"New GPU pods would be {way} {place} (observing)", "nothing while mode is observe"
    elif did != "done":
        title = f"Could not block new GPU pods in {place}: they might still start"
        if over:
            title = f"Could not unblock new GPU pods in {place}: they might still be blocked"
        after = "temporary errors are retried automatically; for any other error, fix the cause above"
    return Notice(
        cause=Cause.KEPT_OUT,
        topic=f"kept-out:{place}",
        key=f"{wanted.month}:{'over' if over else 'held'}:{did}",
        title=title,
        body=wording.worded(sentence, why="the budget hold is over" if over else wanted.why, after=after),
        severity=Severity.INFO if did in ("done", "observed") else Severity.WARNING,
    )


CHARGES_SILENT_FOR = timedelta(hours=1)  # only a lost store waits for the charges, and says so itself
DIFFERENCES_NAMED = 3  # differences that a message names


def of_charges(facts: Facts, policy: Policy) -> Iterable[Notice]:
    """Notices of differences that a person should look into, once per month and size, and of silent charges."""
    compared = facts.spend.charges
    if compared is None:
        return
    charged = compared.charged
    if charged.failing_since is not None and facts.at - charged.failing_since >= CHARGES_SILENT_FOR:
        yield Notice(
            cause=Cause.CHARGES_SILENT,
            topic="charges",
            key=f"silent since {charged.failing_since.isoformat()}",
            title="Cannot read Civo's charges",
            body=wording.worded(
                f"since {wording.moment(charged.failing_since, facts.at)}",
                why=charged.failure,
                after="no pool is affected. Until the charges can be read again, our ledger is not checked against"
                " them, and the account's other costs are those of the last answer",
            ),
            severity=Severity.WARNING,
        )
    elif charged.answered_at == facts.at:  # once per answer, not with every step
        body = wording.worded(after="our ledger is checked against Civo's charges again")
        title = "Civo's charges can be read again"
        yield Notice(cause=Cause.CHARGES_BACK, topic="charges", key="clear", title=title, body=body, all_clear=True)
    for size in compared.sizes:
        lines = [d for d in compared.differences if d.size == size.size and d.cause in WORTH_TELLING]
        off = sum((abs(d.usd) for d in lines if d.usd is not None), Decimal(0))
        if off <= policy.billing.charges_tolerance_usd:
            continue
        most = sorted(lines, key=lambda d: (-abs(d.charged_hours - d.ledger_hours), d.name))[:DIFFERENCES_NAMED]
        named = []
        for d in most:
            ours = f"our ledger has {d.ledger_hours.normalize():f} h; {EXPLAINED[d.cause]}"
            named.append(f"{d.name}: Civo charges {d.charged_hours.normalize():f} h, {ours}")
        if len(lines) > DIFFERENCES_NAMED:
            named.append(f"and {some(len(lines) - DIFFERENCES_NAMED, 'more node')}")
        after = "no pool is affected; this message is sent at most once a month"
        yield Notice(
            cause=Cause.CHARGES_DIFFER,
            topic=f"charges:{size.size}",
            key=charged.month,
            title=f"Civo's charges and our ledger differ by {dollars(off)} for {size.size} in {charged.month}",
            body=wording.worded(*named, after=after, do="All of them: GET /api/v1/charges"),
            severity=Severity.WARNING,
        )


REPORT_TOPIC = "report:"
CONSUMERS = 5


def report_topic(team: str | None) -> str:
    """The topic under which the reports of a scope are told, each month once."""
    return f"{REPORT_TOPIC}everybody" if team is None else f"{REPORT_TOPIC}team:{team}"


def report_notice(report: Report) -> Notice:
    """Return *report* as a notice; its key is the month, so that it is sent once, whatever restarts."""
    of_team = "" if report.team is None else f" of team {report.team}"
    below = report.everything.efficiency is not None and report.everything.efficiency < report.efficiency_target
    return Notice(
        cause=Cause.REPORT,
        topic=report_topic(report.team),
        key=report.month.name,
        title=f"GPU costs{of_team} in {report.month.name}: {dollars(report.everything.total.usd)}",
        body="\n".join(_report_lines(report)),
        severity=Severity.WARNING if below or report.unpriced else Severity.INFO,
    )


def _report_lines(report: Report) -> Iterator[str]:
    if report.unpriced:
        yield f"This total is too low: nodes of size {', '.join(report.unpriced)} have no price."
    if report.budget is not None and report.budget.ratio is not None:
        yield f"Budget: {percent(report.budget.ratio)} of {dollars(report.budget.monthly_usd)}."
    whole = report.everything
    if whole.efficiency is None:
        yield "No GPU-hours were paid for."
    else:
        idle, free = whole.of(PaidFor.IDLE), whole.of(PaidFor.UNALLOCATED)
        is_shared = report.unallocated is Unallocated.SHARE
        unheld = f", {dollars(free.usd)} for GPUs that no pod held" if report.team is None or is_shared else ""
        unheld += " (shared among teams by what they held)" if is_shared else ""
        ratios = f"{percent(whole.efficiency)} (target {percent(report.efficiency_target)})"
        yield f"Efficiency {ratios}: {dollars(idle.usd)} paid for idle GPUs that pods held{unheld}."
    jobs, waits = report.jobs, report.waits
    waited = f"; the median wait was {span(waits.p50.total_seconds())}" if waits.p50 is not None else ""
    yield f"{some(jobs.completed, 'workload')} completed, {jobs.failed} failed{waited}."
    if report.team is None and report.teams:
        yield f"Teams: {_costs_of(report.teams, 'no label')}."
    if report.workloads:
        yield f"Most: {_costs_of(report.workloads, '?')}."
    for cost in report.units:
        if cost.usd_per is not None:
            per = f"{cost.unit.per} {cost.unit.name}" if cost.unit.per != 1 else cost.unit.name
            yield f"Cost per {per}: {dollars(cost.usd_per)}."
    smaller = [change.sentence for change in report.pool_changes[:1]]
    if report.right_sizes:
        saves = dollars(sum(size.saves_usd for size in report.right_sizes))
        smaller.insert(0, f"{some(len(report.right_sizes), 'workload')} would fit a smaller size and save {saves}.")
    if smaller:
        yield " ".join(smaller)
    team = f" --team {report.team}" if report.team else ""
    yield f"Full report: gpu-autoscaler report --month {report.month.name}{team}; or /costs on the server."


def _costs_of(parts: Sequence[Subtotal], unnamed: str) -> str:
    return ", ".join(f"{part.name or unnamed} {dollars(part.total.usd)}" for part in parts[:CONSUMERS])
