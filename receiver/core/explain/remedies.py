"""What would change the answer of each rule, as sentences from what was stored with its decision.

Each function is that of one rule, and stands in its record in `receiver.core.explain.rules`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from receiver.core.model.actions import Decision, Reason, Verdict
from receiver.core.money.budget import BudgetStage

Said = Iterator[tuple[str, str | None]]  # sentences, each with the moment (ISO 8601) at which it comes true by itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A decision's stored evidence, read with care: what an older version did not keep is unknown."""

    decision: Decision
    reason: Reason

    @property
    def grows(self) -> bool:
        """True when what was held back is growth."""
        wanted = [r.target for r in self.decision.reasons if r.verdict is Verdict.WANTS]
        return bool(wanted) and wanted[-1] > self.decision.present

    def of(self, name: str) -> Any:
        """The part *name* of the evidence, or None."""
        return self.decision.evidence.get(name)

    def part(self, name: str) -> Mapping[str, Any]:
        """The object *name* of the evidence; empty where there is none."""
        found = self.of(name)
        return found if isinstance(found, Mapping) else {}

    def each(self, name: str) -> Sequence[Mapping[str, Any]]:
        """The objects of the list *name* of the evidence."""
        found = self.of(name)
        return [x for x in found if isinstance(x, Mapping)] if isinstance(found, Sequence) else []

    def wait(self, kind: str) -> Mapping[str, Any]:
        """What holds the direction for a while by *kind*; empty where nothing does."""
        way = "grow" if self.grows else "shrink"
        return next((w for w in self.each("waits") if (w.get("kind"), w.get("direction")) == (kind, way)), {})

    def override(self, *kinds: str) -> Mapping[str, Any]:
        """The override of one of *kinds* that was in force; empty without one."""
        return next((o for o in self.each("overrides") if o.get("kind") in kinds), {})

    def alert(self, action: str) -> Mapping[str, Any]:
        """The first firing alert that asked for *action*."""
        return next((s for s in self.each("signals") if s.get("action") == action), {})


def ends(spoken: Mapping[str, Any]) -> str:
    """When the override *spoken* ends, by itself and by a person."""
    by = f"the {spoken.get('kind')} of {spoken.get('who')}"
    return f"the end of {by} at {clock(spoken.get('until'))}, or gpu-autoscaler override end {spoken.get('id')}"


def window(bounds: Mapping[str, Any]) -> str:
    """Which windows are open, and when that changes next."""
    names, at = ", ".join(map(str, bounds.get("windows") or ())), bounds.get("next_change_at")
    return f"window {names} is open; a window of the pool next opens or closes at {clock(at)}"


def alert_ends(signal: Mapping[str, Any], stored: Stored) -> str:
    """What ends the hold of the alert *signal*."""
    if not signal:
        return f"the end of the alert: {stored.reason.detail}"
    since = clock(signal.get("starts_at"))
    return f"the end of {signal.get('alertname')} ({signal.get('fingerprint')}), firing since {since}"


def clock(moment: Any) -> str:
    """A stored time in words."""
    if not isinstance(moment, str):
        return "an unknown time"
    return f"{datetime.fromisoformat(moment).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


# --- guardrails


def sources_answer(stored: Stored) -> Said:
    silent = [
        f"{name} ({said.get('detail') or 'no answer'})"
        for name, said in stored.part("sources").items()
        if not said.get("up") and said.get("configured") and name != "dcgm"
    ]
    yield f"the first step in which it answers again: {', '.join(silent) or stored.reason.detail}", None
    if stored.grows and "fallback" in stored.reason.detail:
        yield "with fallback: kubernetes in the configuration it would grow without Prometheus", None


def price_is_known(stored: Stored) -> Said:
    size = stored.part("pool").get("size")
    yield f"a price for size {size}: price_usd_per_hour of the pool, or a prices_file that has it, and a restart", None


def within_budget(stored: Stored) -> Said:
    month_ends = stored.of("month_ends_at")
    for budget in stored.each("uncovered"):
        title, short = budget.get("title"), budget.get("raise_usd")
        if budget.get("unpriced"):
            yield f"{title}: a price for {', '.join(budget['unpriced'])}, and a restart", None
        elif budget.get("unknown"):
            yield f"{title}: its spend must be known again: {budget['unknown']}", None
        elif short is not None:
            now = f"USD {budget.get('monthly_usd')}"
            yield f"{title}: raise it by at least USD {short} for this month (it is {now}): {BUDGET_SET}", None
        if (
            budget.get("stage") == BudgetStage.HOLD
            and not budget.get("passing")
            and not budget.get("unpriced")
            and not budget.get("unknown")
        ):
            yield f"{title}: work of a passing priority class (budget.passing) would be bought for up to the stop", None
    yield f"the next month, which starts at {clock(month_ends)}", month_ends


def spend_is_known(stored: Stored) -> Said:
    unknown = [budget for budget in stored.each("uncovered") if budget.get("unknown")]
    if not unknown or STATED in stored.reason.detail:
        yield f"Civo's charges of the month, once they can be read; or {STATED} and a restart", None
        return
    for budget in unknown:
        yield f"{budget.get('title')}: its spend must be known again: {budget['unknown']}", None


STATED = "budget.spent_usd_stated"
BUDGET_SET = "gpu-autoscaler budget set"


def within_maximum(stored: Stored) -> Said:
    bounds, spoken = stored.part("bounds"), stored.override("pin", "ceiling")
    if spoken:
        yield ends(spoken), spoken.get("until")
    elif bounds.get("windows"):
        yield window(bounds), bounds.get("next_change_at")
    most = stored.part("pool").get("max_nodes")
    if bounds.get("max_nodes") == most or not spoken:
        yield f"a higher max_nodes of the pool (it is {most}), and a restart", None
    yield "a free GPU of the pool, as far as the work fits", None


def within_limits(stored: Stored) -> Said:
    limits = stored.part("limits")
    if not stored.grows:
        yield (
            f"time: at most an hour; or a higher max_removals_per_hour ({limits.get('max_removals_per_hour')})",
            None,
        )
        return
    if limits.get("max_growth_per_hour") is not None:
        most = limits["max_growth_per_hour"]
        yield (
            f"time: at most an hour, if max_growth_per_hour ({most}) is used up; or a higher one",
            None,
        )
    if limits.get("max_gpus") is not None:
        yield f"if max_gpus ({limits['max_gpus']}) is used up: a higher one, or the removal of nodes of any pool", None


def not_frozen(stored: Stored) -> Said:
    yield alert_ends(stored.alert("freeze"), stored), None


def growth_is_not_paused(stored: Stored) -> Said:
    yield alert_ends(stored.alert("pause_scale_up"), stored), None


def not_silenced(stored: Stored) -> Said:
    silence = stored.part("silence")
    until = silence.get("until")
    yield f"the end of the silence of {silence.get('by')} ends at {clock(until)}", until
    yield f"sooner, if it is expired: amtool silence expire {silence.get('id')}", None


def not_paused(stored: Stored) -> Said:
    spoken = stored.override("pause")
    yield ends(spoken), spoken.get("until")


def removal_is_not_snoozed(stored: Stored) -> Said:
    spoken = stored.override("snooze")
    yield ends(spoken), spoken.get("until")


def above_the_floor(stored: Stored) -> Said:
    bounds, spoken = stored.part("bounds"), stored.override("pin", "floor")
    if spoken:
        yield ends(spoken), spoken.get("until")
    elif bounds.get("windows"):
        yield window(bounds), bounds.get("next_change_at")
    yield f"a lower min_nodes of the pool (it is {stored.part('pool').get('min_nodes')}), and a restart", None


def not_backing_off(stored: Stored) -> Said:
    wait = stored.wait("backoff")
    until = wait.get("until")
    yield f"the next try at {clock(until)}; the last error: {wait.get('reason')}", until


def not_undone_by_others(stored: Stored) -> Said:
    until = stored.wait("undone").get("until")
    yield f"the end of this pause at {clock(until)}, if the count at Civo is left alone until then", until


def provisioning_works(stored: Stored) -> Said:
    stuck, until = stored.of("stuck") or (), stored.wait("provisioning").get("until")
    if stuck:
        yield f"once it becomes usable or is gone: {', '.join(map(str, stuck))}", None
    if until:
        yield f"one node on trial at {clock(until)}, or any node of the pool that becomes usable", until
    elif not stuck:
        yield "the node on trial, once it is usable: then all wanted nodes are bought", None


def cooled_down(stored: Stored) -> Said:
    until = stored.wait("cooldown").get("until")
    yield f"the end of the cooldown at {clock(until)}", until


def approved(stored: Stored) -> Said:
    asked = [q for q in stored.each("questions") if q.get("answer") is None]
    for question in asked:
        yield f"an approval, from the message or with gpu-autoscaler answer {question.get('id')} approve", None
        goes = question.get("goes_unanswered_at")
        if goes:
            yield f"no answer until {clock(goes)}", goes
    if not asked:
        yield f"an approval, once it is requested: {stored.reason.detail}", None


def one_change_at_a_time(stored: Stored) -> Said:
    action = stored.part("open_action")
    if not action:
        yield "Civo's count, once it no longer has the removed nodes", None
        return
    failed = f"; its last error: {action['last_error']}" if action.get("last_error") else ""
    yield f"the end of action {action.get('id')}, open since {clock(action.get('opened_at'))}{failed}", None


# --- what wants a size, or is noted where nothing does


def standby(stored: Stored) -> Said:
    spare = stored.part("bounds").get("standby_nodes")
    yield f"no spare node would be bought with fewer standby_nodes than {spare}, and a restart", None


def override(stored: Stored) -> Said:
    spoken = stored.override("pin", "ceiling")
    yield ends(spoken), spoken.get("until")


def evict_after(stored: Stored) -> Said:
    bounds = stored.part("bounds")
    yield f"the nodes stay once the window is closed; {window(bounds)}", bounds.get("next_change_at")
    yield "a snooze of the pool keeps them: gpu-autoscaler override snooze", None


def gangs_whole(stored: Stored) -> Said:
    yield f"room for all of the gang at once: {stored.reason.detail}", None


def nothing_wanted(stored: Stored) -> Said:
    at = stored.decision.reconsider_at
    yield (
        "a waiting GPU pod that fits this pool and has no room on an existing node or one on its way",
        None,
    )
    if at is not None:
        yield f"the answer is re-evaluated at {clock(at.isoformat())} at the earliest", at.isoformat()


def always(*sentences: str) -> Callable[[Stored], Said]:
    """Say the same whatever the figures."""

    def said(_stored: Stored) -> Said:
        yield from ((sentence, None) for sentence in sentences)

    return said
