"""Notices of budgets: each line is told once per budget, month and allowance; the all-clear once it is behind."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from receiver.core.budget import Budgets, BudgetStage, BudgetView
from receiver.core.policy import BudgetChange, Scope
from receiver.core.tell import Cause, Notice, Severity

TOPIC = "budget:"
ORDER = tuple(BudgetStage)
CAUSES = {
    BudgetStage.OK: Cause.BUDGET_CLEAR,
    BudgetStage.WARN: Cause.BUDGET_WARN,
    BudgetStage.HOLD: Cause.BUDGET_HOLD,
    BudgetStage.STOP: Cause.BUDGET_STOP,
}
Told = Mapping[str, tuple[str, datetime]]  # by topic: the key of what was told last, and when


def lines(budgets: Budgets, told: Told, *, closes: bool = True) -> Iterable[Notice]:
    """The notices that are due, given what was *told* under TOPIC before, by whichever process.

    *closes* is False where no node is closed to new work at the stop: in observe mode, and without Kubernetes.
    """
    for view in budgets.views:
        found = _line(view, told.get(_topic(view)), closes=closes)
        if found is not None:
            yield found


def changed(change: BudgetChange, title: str) -> Notice:
    """The notice of an allowance that an operator set or took back; *title* is what people call the budget."""
    if change.monthly_usd is None:
        said = f"The {title} is what the configuration says again"
    else:
        said = f"The {title} of {change.month} was set to USD {change.monthly_usd:.2f}"
    return Notice(
        cause=Cause.BUDGET_CHANGED,
        topic=f"budget-change:{change.scope}:{change.name}",
        key=change.at.isoformat(),
        title=said,
        body=f"By {change.who}: {change.why}.\nIt holds for {change.month} only.",
        severity=Severity.WARNING,
        pool=change.name if change.scope is Scope.POOL else None,
    )


def _topic(view: BudgetView) -> str:
    return f"{TOPIC}{view.scope}:{view.name}"


def _line(view: BudgetView, told: tuple[str, datetime] | None, *, closes: bool) -> Notice | None:
    month, monthly, stage = _parts(told)
    same = (month, monthly) == (view.month, f"{view.monthly:f}")
    if view.unknown:
        return None  # neither a line nor an all-clear can be told
    if view.stage is not BudgetStage.OK and not (same and ORDER.index(view.stage) <= ORDER.index(stage)):
        return _reached(view, closes=closes)
    is_behind = stage is not BudgetStage.OK and view.stage is BudgetStage.OK and not same
    return _all_clear(view) if is_behind and not (view.uncounted or view.unpriced) else None


def _parts(told: tuple[str, datetime] | None) -> tuple[str, str, BudgetStage]:
    """Month, allowance and stage of the last notice; a key that an older version wrote says nothing."""
    parts = told[0].split("|") if told is not None else []
    if len(parts) != 3 or parts[2] not in set(BudgetStage):
        return "", "", BudgetStage.OK
    return parts[0], parts[1], BudgetStage(parts[2])


def _reached(view: BudgetView, *, closes: bool) -> Notice:
    ratio, effect, severity = {
        BudgetStage.WARN: (view.warn_at, "Growth goes on.", Severity.WARNING),
        BudgetStage.HOLD: (view.hold_at, _on_hold(view), Severity.WARNING),
        BudgetStage.STOP: (view.stop_at, _on_stop(view, closes=closes), Severity.FAILURE),
    }[view.stage]
    return Notice(
        cause=CAUSES[view.stage],
        topic=_topic(view),
        key=_key(view),
        title=f"GPU {view.title} {view.month} has reached its {view.stage} line ({ratio:.0%})",
        body=f"{_spent(view)}\n{effect}{_by_whom(view)}",
        severity=severity,
        pool=view.name if view.scope is Scope.POOL else None,
    )


def _all_clear(view: BudgetView) -> Notice:
    return Notice(
        cause=CAUSES[view.stage],
        topic=_topic(view),
        key=_key(view),
        title=f"GPU {view.title} {view.month}: below its lines again",
        body=f"{_spent(view)}{_by_whom(view)}",
        severity=Severity.SUCCESS,
        pool=view.name if view.scope is Scope.POOL else None,
        all_clear=True,
    )


def _key(view: BudgetView) -> str:
    return f"{view.month}|{view.monthly:f}|{view.stage}"


def _spent(view: BudgetView) -> str:
    more = f" Not counted: {', '.join(view.uncounted)}." if view.uncounted else ""
    return f"USD {view.spent:.2f} of {view.monthly:.2f} spent ({view.ratio:.0%}).{more}"


def _by_whom(view: BudgetView) -> str:
    change = view.change
    return f"\nThe allowance was set by {change.who}: {change.why}." if change is not None else ""


def _on_hold(view: BudgetView) -> str:
    whose = {Scope.POOL: "The pool no longer grows", Scope.TEAM: "No node is bought for the team"}
    return f"{whose.get(view.scope, 'Pools no longer grow')}, but for passing classes; running work goes on."


def _on_stop(view: BudgetView, *, closes: bool) -> str:
    if view.scope is Scope.TEAM:
        return "No node is bought for the team; running work goes on."
    what, whose = ("The pool does not grow", "its") if view.scope is Scope.POOL else ("Nothing grows", "all")
    closed = f"\nUntil the stop ends {whose} nodes are cordoned, so no new work begins on them." if closes else ""
    return f"{what} and no empty node enters another paid hour; running work goes on.{closed}"
