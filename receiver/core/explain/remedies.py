"""What would change a decision's answer, and when that happens by itself: from what is stored with it, nothing else."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from receiver.core.explain.stored_decision import Stored, alert_ends, clock, ends, window
from receiver.core.model.actions import Change, Decision, Verdict
from receiver.core.money.budget import BudgetStage


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """What would change what *rule* said, in a sentence; *at* is when it happens unaided (ISO 8601), if known."""

    rule: str
    text: str
    at: str | None = None


Say = Callable[[Stored], Iterator[tuple[str, str | None]]]


def remedies(decision: Decision) -> tuple[Remedy, ...]:
    """Return what would have to be otherwise for another answer, the deciding rules first.

    Of a change that was held or cut: what would let it happen. Of one that happens: what would have kept it from
    happening. Of none: what would start one.
    """
    held = [r for r in decision.reasons if r.verdict in (Verdict.HOLDS, Verdict.LIMITS)]
    noted = [r for r in decision.reasons if r.verdict is Verdict.NOTES and r.rule in NOTED]
    wants = [r for r in decision.reasons if r.verdict is Verdict.WANTS and decision.change is not Change.HOLD]
    found: dict[tuple[str, str], Remedy] = {}
    for reason in (*held, *wants, *noted):
        for text, at in _said(Stored(decision=decision, reason=reason)):
            found.setdefault((reason.rule, text), Remedy(rule=reason.rule, text=text, at=at))
    for behind in Stored(decision=decision, reason=decision.deciding).each("behind"):
        text = f"then it would be asked next, and it objected too: {behind.get('detail')}"
        found.setdefault((str(behind.get("rule")), text), Remedy(rule=str(behind.get("rule")), text=text))
    return tuple(found.values())


def _said(stored: Stored) -> Iterator[tuple[str, str | None]]:
    rule = stored.reason.rule
    if rule in ALWAYS:
        yield from ((text, None) for text in ALWAYS[rule])
    else:
        yield from SAID.get(rule, _unknown)(stored)


# --- guardrails


def _sources(stored: Stored) -> Iterator[tuple[str, str | None]]:
    silent = [
        f"{name} ({said.get('detail') or 'no answer'})"
        for name, said in stored.part("sources").items()
        if not said.get("up") and said.get("configured") and name != "dcgm"
    ]
    yield f"by itself, in the first step in which it answers again: {', '.join(silent) or stored.reason.detail}", None
    if stored.grows and "fallback" in stored.reason.detail:
        yield "with fallback: kubernetes in the configuration it would grow without Prometheus", None


def _price(stored: Stored) -> Iterator[tuple[str, str | None]]:
    size = stored.part("pool").get("size")
    yield f"a price for size {size}: price_usd_per_hour of the pool, or a prices_file that has it, and a restart", None


def _budget(stored: Stored) -> Iterator[tuple[str, str | None]]:
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
    yield f"by itself, when the next month begins at {clock(month_ends)}", month_ends


def _spend(stored: Stored) -> Iterator[tuple[str, str | None]]:
    unknown = [budget for budget in stored.each("uncovered") if budget.get("unknown")]
    if not unknown or STATED in stored.reason.detail:
        yield f"by itself, once Civo's charges of the month can be read; or {STATED} and a restart", None
        return
    for budget in unknown:
        yield f"{budget.get('title')}: its spend must be known again: {budget['unknown']}", None


STATED = "budget.spent_usd_stated"
BUDGET_SET = "gpu-autoscaler budget set"


def _maximum(stored: Stored) -> Iterator[tuple[str, str | None]]:
    bounds, spoken = stored.part("bounds"), stored.override("pin", "ceiling")
    if spoken:
        yield ends(spoken), spoken.get("until")
    elif bounds.get("windows"):
        yield window(bounds), bounds.get("next_change_at")
    most = stored.part("pool").get("max_nodes")
    if bounds.get("max_nodes") == most or not spoken:
        yield f"a higher max_nodes of the pool (it is {most}), and a restart", None
    yield "by itself, as far as the work fits, when a GPU of the pool falls free", None


def _limits(stored: Stored) -> Iterator[tuple[str, str | None]]:
    limits = stored.part("limits")
    if not stored.grows:
        yield (
            f"by itself, within the hour; or a higher max_removals_per_hour ({limits.get('max_removals_per_hour')})",
            None,
        )
        return
    if limits.get("max_growth_per_hour") is not None:
        most = limits["max_growth_per_hour"]
        yield (
            f"by itself, within the hour, where max_growth_per_hour ({most}) is what is used up; or a higher one",
            None,
        )
    if limits.get("max_gpus") is not None:
        yield f"where max_gpus ({limits['max_gpus']}) is used up: a higher one, or nodes of any pool that go", None


def _frozen(stored: Stored) -> Iterator[tuple[str, str | None]]:
    yield alert_ends(stored.alert("freeze"), stored), None


def _growth_paused(stored: Stored) -> Iterator[tuple[str, str | None]]:
    yield alert_ends(stored.alert("pause_scale_up"), stored), None


def _silenced(stored: Stored) -> Iterator[tuple[str, str | None]]:
    silence = stored.part("silence")
    until = silence.get("until")
    yield f"by itself when the silence of {silence.get('by')} ends at {clock(until)}", until
    yield f"sooner, if somebody expires it: amtool silence expire {silence.get('id')}", None


def _paused(stored: Stored) -> Iterator[tuple[str, str | None]]:
    spoken = stored.override("pause")
    yield ends(spoken), spoken.get("until")


def _snoozed(stored: Stored) -> Iterator[tuple[str, str | None]]:
    spoken = stored.override("snooze")
    yield ends(spoken), spoken.get("until")


def _floor_held(stored: Stored) -> Iterator[tuple[str, str | None]]:
    bounds, spoken = stored.part("bounds"), stored.override("pin", "floor")
    if spoken:
        yield ends(spoken), spoken.get("until")
    elif bounds.get("windows"):
        yield window(bounds), bounds.get("next_change_at")
    yield f"a lower min_nodes of the pool (it is {stored.part('pool').get('min_nodes')}), and a restart", None


def _backing_off(stored: Stored) -> Iterator[tuple[str, str | None]]:
    wait = stored.wait("backoff")
    until = wait.get("until")
    yield f"by itself, it is tried again at {clock(until)}; what failed: {wait.get('reason')}", until


def _undone(stored: Stored) -> Iterator[tuple[str, str | None]]:
    until = stored.wait("undone").get("until")
    yield f"by itself at {clock(until)}, if whoever changes the count at Civo leaves it alone until then", until


def _provisioning(stored: Stored) -> Iterator[tuple[str, str | None]]:
    stuck, until = stored.of("stuck") or (), stored.wait("provisioning").get("until")
    if stuck:
        yield f"once it becomes usable or is gone: {', '.join(map(str, stuck))}", None
    if until:
        yield f"by itself at {clock(until)}, one node on trial; or as soon as a node of the pool becomes usable", until
    elif not stuck:
        yield "by itself, once the node on trial becomes usable: then all that is wanted is bought", None


def _cooled_down(stored: Stored) -> Iterator[tuple[str, str | None]]:
    until = stored.wait("cooldown").get("until")
    yield f"by itself at {clock(until)}, when the cooldown is over", until


def _approved(stored: Stored) -> Iterator[tuple[str, str | None]]:
    asked = [q for q in stored.each("questions") if q.get("answer") is None]
    for question in asked:
        yield f"an approval, from the message or with gpu-autoscaler answer {question.get('id')} approve", None
        goes = question.get("goes_unanswered_at")
        if goes:
            yield f"by itself at {clock(goes)}, if nobody answers until then", goes
    if not asked:
        yield f"by itself, once people were asked and let it go: {stored.reason.detail}", None


def _one_change(stored: Stored) -> Iterator[tuple[str, str | None]]:
    action = stored.part("open_action")
    if not action:
        yield "by itself, once Civo's count no longer has the nodes that were removed", None
        return
    failed = f"; its last error: {action['last_error']}" if action.get("last_error") else ""
    yield f"by itself, once action {action.get('id')}, open since {clock(action.get('opened_at'))}, ends{failed}", None


# --- what wants a size, or is noted where nothing does


def _floor(stored: Stored) -> Iterator[tuple[str, str | None]]:
    yield from _floor_held(stored)


def _standby(stored: Stored) -> Iterator[tuple[str, str | None]]:
    spare = stored.part("bounds").get("standby_nodes")
    yield f"no spare node would be bought with fewer standby_nodes than {spare}, and a restart", None


def _override(stored: Stored) -> Iterator[tuple[str, str | None]]:
    spoken = stored.override("pin", "ceiling")
    yield ends(spoken), spoken.get("until")


def _evict(stored: Stored) -> Iterator[tuple[str, str | None]]:
    bounds = stored.part("bounds")
    yield f"the nodes stay once the window is closed; {window(bounds)}", bounds.get("next_change_at")
    yield "a snooze of the pool keeps them: gpu-autoscaler override snooze", None


def _gangs_whole(stored: Stored) -> Iterator[tuple[str, str | None]]:
    yield f"room for all of the gang at once: {stored.reason.detail}", None


def _nothing(stored: Stored) -> Iterator[tuple[str, str | None]]:
    at = stored.decision.reconsider_at
    yield (
        "it grows for a GPU pod that waits, fits this pool and has no room on a node that is there or on its way",
        None,
    )
    if at is not None:
        yield f"by itself something can change at {clock(at.isoformat())} at the earliest", at.isoformat()


def _unknown(stored: Stored) -> Iterator[tuple[str, str | None]]:
    yield f"what this rule names: {stored.reason.detail}", None


# Rules of which there is one thing to say, whatever the figures.
ALWAYS: Mapping[str, tuple[str, ...]] = {
    "nodes_may_be_removed": (
        "the ClusterRole gpu-autoscaler-act, bound to our service account (k8s/overlays/act/rights), and no restart",
    ),
    "internal_error": (
        "by itself, in the first step without the error; the log has it with a traceback, and it is a bug to report",
    ),
    "demand": ("no node would be bought if the pods were gone, or had room on a usable node of a pool that fits them",),
    "headroom": ("no node would be bought for what may come with objective: cost, and a restart",),
    "dead_nodes": (
        "a node stays if it becomes usable before it is deleted, or is annotated gpu-autoscaler.io/protect",
    ),
    "idle_nodes": (
        "a node stays if a GPU pod begins on it or waits for it, or its last workload asked to keep it",
        "a snooze of the pool keeps all of them: gpu-autoscaler override snooze",
    ),
    "consolidation": (
        "a pod is not moved without its owner's consent (safe-to-evict), or where it fits on no other node",
    ),
    "gang_is_complete": (
        "the missing pods of the gang must exist: its controller, its queue or a quota keeps them back",
    ),
}
SAID: Mapping[str, Say] = {
    "sources_answer": _sources,
    "price_is_known": _price,
    "spend_is_known": _spend,
    "within_budget": _budget,
    "within_maximum": _maximum,
    "within_limits": _limits,
    "not_frozen": _frozen,
    "not_silenced": _silenced,
    "not_paused": _paused,
    "growth_is_not_paused": _growth_paused,
    "removal_is_not_snoozed": _snoozed,
    "above_the_floor": _floor_held,
    "not_backing_off": _backing_off,
    "not_undone_by_others": _undone,
    "provisioning_works": _provisioning,
    "cooled_down": _cooled_down,
    "approved": _approved,
    "one_change_at_a_time": _one_change,
    "floor": _floor,
    "standby": _standby,
    "override": _override,
    "evict_after": _evict,
    "gangs_whole": _gangs_whole,
    "nothing_wanted": _nothing,
}
NOTED = frozenset({"gang_is_complete", "gangs_whole", "nothing_wanted"})
