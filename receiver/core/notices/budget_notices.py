"""Notices of budgets: each line is told once per budget, month and allowance; the all-clear once it is behind."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal

from receiver.core.model.policy import BudgetChange, Scope
from receiver.core.money.budget import Budgets, BudgetStage, BudgetView
from receiver.core.notices import wording
from receiver.core.notices.sentences import Cause, Notice, Severity

TOPIC = "budget:"
ORDER = tuple(BudgetStage)
CAUSES = {
    BudgetStage.OK: Cause.BUDGET_CLEAR,
    BudgetStage.WARN: Cause.BUDGET_WARN,
    BudgetStage.HOLD: Cause.BUDGET_HOLD,
    BudgetStage.STOP: Cause.BUDGET_STOP,
}
Told = Mapping[str, tuple[str, datetime]]  # by topic: the key of what was told last, and when


def lines(budgets: Budgets, told: Told, now: datetime, *, closes: bool = True) -> Iterable[Notice]:
    """The notices that are due, given what was *told* under TOPIC before, by whichever process.

    *closes* is False where no node is closed to new work at the stop: in observe mode, and without Kubernetes.
    """
    for view in budgets.views:
        found = _line(view, told.get(_topic(view)), now, closes=closes)
        if found is not None:
            yield found


def changed(change: BudgetChange, title: str) -> Notice:
    """The notice of an allowance that an operator set or took back; *title* is what people call the budget."""
    if change.monthly_usd is None:
        said = f"The {title} is what the configuration says again"
    else:
        said = f"The {title} of {change.month} was set to {wording.usd(change.monthly_usd)}"
    return Notice(
        cause=Cause.BUDGET_CHANGED,
        topic=f"budget-change:{change.scope}:{change.name}",
        key=change.at.isoformat(),
        title=said,
        body=wording.worded(
            why=f"{change.who}: {change.why}",
            after=f"it holds for {change.month} only, from the next step on; then the configured one is back",
            do=f"To take it back: gpu-autoscaler budget reset{_of(change.scope, change.name)} --why REASON"
            if change.monthly_usd is not None
            else "",
        ),
        severity=Severity.WARNING,
        pool=change.name if change.scope is Scope.POOL else None,
    )


def _topic(view: BudgetView) -> str:
    return f"{TOPIC}{view.scope}:{view.name}"


def _line(view: BudgetView, told: tuple[str, datetime] | None, now: datetime, *, closes: bool) -> Notice | None:
    month, monthly, stage = _parts(told)
    same = (month, monthly) == (view.month, f"{view.monthly:f}")
    if view.unknown:
        return None  # neither a line nor an all-clear can be told
    if view.stage is not BudgetStage.OK and not (same and ORDER.index(view.stage) <= ORDER.index(stage)):
        return _reached(view, now, closes=closes)
    is_behind = stage is not BudgetStage.OK and view.stage is BudgetStage.OK and not same
    return _all_clear(view) if is_behind and not (view.uncounted or view.unpriced) else None


def _parts(told: tuple[str, datetime] | None) -> tuple[str, str, BudgetStage]:
    """Month, allowance and stage of the last notice; a key that an older version wrote says nothing."""
    parts = told[0].split("|") if told is not None else []
    if len(parts) != 3 or parts[2] not in set(BudgetStage):
        return "", "", BudgetStage.OK
    return parts[0], parts[1], BudgetStage(parts[2])


def _reached(view: BudgetView, now: datetime, *, closes: bool) -> Notice:
    ratio, severity = {
        BudgetStage.WARN: (view.warn_at, Severity.WARNING),
        BudgetStage.HOLD: (view.hold_at, Severity.WARNING),
        BudgetStage.STOP: (view.stop_at, Severity.FAILURE),
    }[view.stage]
    if view.stage is BudgetStage.WARN:
        effect, after = "", f"growth goes on; from {_line_ahead(view, view.hold_at, now)} on it is held"
    else:
        effect = _on_hold(view) if view.stage is BudgetStage.HOLD else _on_stop(view, closes=closes)
        until = f"the month ends ({wording.moment(view.ends_at, now)})" if view.ends_at else "the month ends"
        after = f"this lasts until {until} or somebody raises the allowance"
    raise_it = f"To raise it: gpu-autoscaler budget set USD{_of(view.scope, view.shown or view.name)} --why REASON"
    return Notice(
        cause=CAUSES[view.stage],
        topic=_topic(view),
        key=_key(view),
        title=f"GPU {view.title} {view.month} has reached its {view.stage} line ({ratio:.0%})",
        body=wording.worded(_spent(view), effect, why=_by_whom(view), cost=_rate(view), after=after, do=raise_it),
        severity=severity,
        pool=view.name if view.scope is Scope.POOL else None,
    )


def _all_clear(view: BudgetView) -> Notice:
    return Notice(
        cause=CAUSES[view.stage],
        topic=_topic(view),
        key=_key(view),
        title=f"GPU {view.title} {view.month}: below its lines again",
        body=wording.worded(_spent(view), why=_by_whom(view), cost=_rate(view), after="growth goes on as before"),
        severity=Severity.SUCCESS,
        pool=view.name if view.scope is Scope.POOL else None,
        all_clear=True,
    )


def _key(view: BudgetView) -> str:
    return f"{view.month}|{view.monthly:f}|{view.stage}"


def _of(scope: Scope, name: str) -> str:
    """The option of ``gpu-autoscaler budget`` that names the budget of *scope*."""
    return {Scope.CLUSTER: "", Scope.ACCOUNT: " --account"}.get(scope, f" --{scope} {name}")


def _spent(view: BudgetView) -> str:
    left = view.monthly - view.spent
    rest = f"{wording.usd(left)} left" if left >= 0 else f"{wording.usd(-left)} too much"
    more = f". Not counted: {wording.named(view.uncounted)}" if view.uncounted else ""
    return f"{wording.usd(view.spent)} of {view.monthly:,.2f} spent ({view.ratio:.0%}), {rest}{more}"


def _rate(view: BudgetView) -> str:
    """What runs now costs an hour, and what that comes to by the month's end."""
    now = f"{wording.usd(view.per_hour)} an hour now"
    return (
        now
        if view.forecast.burn is None
        else f"{now}; at this rate {wording.usd(view.forecast.burn)} by the month's end"
    )


def _line_ahead(view: BudgetView, ratio: Decimal, now: datetime) -> str:
    """The next line, and when it is reached at the rate of now."""
    ahead = view.monthly * ratio - view.spent
    line = f"{ratio:.0%} ({wording.usd(view.monthly * ratio)})"
    if view.per_hour <= 0 or ahead <= 0:
        return line
    at = now + timedelta(hours=float(ahead / view.per_hour))
    within = view.ends_at is None or at < view.ends_at
    return f"{line}, at this rate {wording.moment(at, now)}," if within else line


def _by_whom(view: BudgetView) -> str:
    change = view.change
    return f"the allowance was set by {change.who}: {change.why}" if change is not None else ""


def _on_hold(view: BudgetView) -> str:
    whose = {Scope.POOL: "The pool no longer grows", Scope.TEAM: "No node is bought for the team"}
    passing = ", but for priority classes that may pass"
    return f"{whose.get(view.scope, 'Pools no longer grow')}{passing}; running work goes on"


def _on_stop(view: BudgetView, *, closes: bool) -> str:
    if view.scope is Scope.TEAM:
        return "No node is bought for the team; running work goes on"
    what, whose = ("The pool does not grow", "its") if view.scope is Scope.POOL else ("Nothing grows", "all")
    closed = f". Until the stop ends {whose} nodes are cordoned, so no new work begins on them" if closes else ""
    return f"{what} and no empty node enters another paid hour; running work goes on{closed}"
