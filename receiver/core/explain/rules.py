"""Every rule in one place: what it means, what a person can do about it, and what would change its answer.

A rule is what a reason of a decision is named after: a guardrail (`core.scaling.guardrails`), what wants a size, or
what is only noted. docs/guardrails.md has each under its name.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from receiver.core.explain.stored_decision import Stored, alert_ends, clock, ends, window
from receiver.core.model.actions import Change, Decision, Verdict
from receiver.core.money.budget import BudgetStage

Said = Iterator[tuple[str, str | None]]  # sentences, each with the moment (ISO 8601) at which it comes true unaided


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. *meaning* is a sentence for the decision's page, *plain* what it says in a message's title, *advice*
    what the owner of a pod that it holds can do. *changes* says what would change its answer.

    *page* is the page below ``docs/`` that says what to do, if not docs/guardrails.md. *told* is True for a hold that a
    person may want to act on, *shown_elsewhere* for one whose cause the overview shows by itself, or that ends within
    moments.
    """

    meaning: str
    plain: str = ""
    advice: str = ""
    changes: Callable[[Stored], Said] | None = None
    page: str = ""
    told: bool = False
    shown_elsewhere: bool = False


def plainly(rule: str) -> str:
    """What *rule* means to somebody who does not know its name."""
    known = RULES.get(rule)
    return known.plain if known is not None and known.plain else rule.replace("_", " ")


def guide(rule: str) -> str:
    """The page below ``docs/`` that says what to do about a hold of *rule*."""
    known = RULES.get(rule)
    return known.page if known is not None and known.page else f"guardrails.md#{rule}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """What would change what *rule* said, in a sentence; *at* is when it happens unaided (ISO 8601), if known."""

    rule: str
    text: str
    at: str | None = None


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


def _said(stored: Stored) -> Said:
    rule = RULES.get(stored.reason.rule)
    if rule is None or rule.changes is None:
        yield f"what this rule names: {stored.reason.detail}", None
    else:
        yield from rule.changes(stored)


# --- guardrails


def _sources(stored: Stored) -> Said:
    silent = [
        f"{name} ({said.get('detail') or 'no answer'})"
        for name, said in stored.part("sources").items()
        if not said.get("up") and said.get("configured") and name != "dcgm"
    ]
    yield f"by itself, in the first step in which it answers again: {', '.join(silent) or stored.reason.detail}", None
    if stored.grows and "fallback" in stored.reason.detail:
        yield "with fallback: kubernetes in the configuration it would grow without Prometheus", None


def _price(stored: Stored) -> Said:
    size = stored.part("pool").get("size")
    yield f"a price for size {size}: price_usd_per_hour of the pool, or a prices_file that has it, and a restart", None


def _budget(stored: Stored) -> Said:
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


def _spend(stored: Stored) -> Said:
    unknown = [budget for budget in stored.each("uncovered") if budget.get("unknown")]
    if not unknown or STATED in stored.reason.detail:
        yield f"by itself, once Civo's charges of the month can be read; or {STATED} and a restart", None
        return
    for budget in unknown:
        yield f"{budget.get('title')}: its spend must be known again: {budget['unknown']}", None


STATED = "budget.spent_usd_stated"
BUDGET_SET = "gpu-autoscaler budget set"


def _maximum(stored: Stored) -> Said:
    bounds, spoken = stored.part("bounds"), stored.override("pin", "ceiling")
    if spoken:
        yield ends(spoken), spoken.get("until")
    elif bounds.get("windows"):
        yield window(bounds), bounds.get("next_change_at")
    most = stored.part("pool").get("max_nodes")
    if bounds.get("max_nodes") == most or not spoken:
        yield f"a higher max_nodes of the pool (it is {most}), and a restart", None
    yield "by itself, as far as the work fits, when a GPU of the pool falls free", None


def _limits(stored: Stored) -> Said:
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


def _frozen(stored: Stored) -> Said:
    yield alert_ends(stored.alert("freeze"), stored), None


def _growth_paused(stored: Stored) -> Said:
    yield alert_ends(stored.alert("pause_scale_up"), stored), None


def _silenced(stored: Stored) -> Said:
    silence = stored.part("silence")
    until = silence.get("until")
    yield f"by itself when the silence of {silence.get('by')} ends at {clock(until)}", until
    yield f"sooner, if somebody expires it: amtool silence expire {silence.get('id')}", None


def _paused(stored: Stored) -> Said:
    spoken = stored.override("pause")
    yield ends(spoken), spoken.get("until")


def _snoozed(stored: Stored) -> Said:
    spoken = stored.override("snooze")
    yield ends(spoken), spoken.get("until")


def _floor_held(stored: Stored) -> Said:
    bounds, spoken = stored.part("bounds"), stored.override("pin", "floor")
    if spoken:
        yield ends(spoken), spoken.get("until")
    elif bounds.get("windows"):
        yield window(bounds), bounds.get("next_change_at")
    yield f"a lower min_nodes of the pool (it is {stored.part('pool').get('min_nodes')}), and a restart", None


def _backing_off(stored: Stored) -> Said:
    wait = stored.wait("backoff")
    until = wait.get("until")
    yield f"by itself, it is tried again at {clock(until)}; what failed: {wait.get('reason')}", until


def _undone(stored: Stored) -> Said:
    until = stored.wait("undone").get("until")
    yield f"by itself at {clock(until)}, if whoever changes the count at Civo leaves it alone until then", until


def _provisioning(stored: Stored) -> Said:
    stuck, until = stored.of("stuck") or (), stored.wait("provisioning").get("until")
    if stuck:
        yield f"once it becomes usable or is gone: {', '.join(map(str, stuck))}", None
    if until:
        yield f"by itself at {clock(until)}, one node on trial; or as soon as a node of the pool becomes usable", until
    elif not stuck:
        yield "by itself, once the node on trial becomes usable: then all that is wanted is bought", None


def _cooled_down(stored: Stored) -> Said:
    until = stored.wait("cooldown").get("until")
    yield f"by itself at {clock(until)}, when the cooldown is over", until


def _approved(stored: Stored) -> Said:
    asked = [q for q in stored.each("questions") if q.get("answer") is None]
    for question in asked:
        yield f"an approval, from the message or with gpu-autoscaler answer {question.get('id')} approve", None
        goes = question.get("goes_unanswered_at")
        if goes:
            yield f"by itself at {clock(goes)}, if nobody answers until then", goes
    if not asked:
        yield f"by itself, once people were asked and let it go: {stored.reason.detail}", None


def _one_change(stored: Stored) -> Said:
    action = stored.part("open_action")
    if not action:
        yield "by itself, once Civo's count no longer has the nodes that were removed", None
        return
    failed = f"; its last error: {action['last_error']}" if action.get("last_error") else ""
    yield f"by itself, once action {action.get('id')}, open since {clock(action.get('opened_at'))}, ends{failed}", None


# --- what wants a size, or is noted where nothing does


def _standby(stored: Stored) -> Said:
    spare = stored.part("bounds").get("standby_nodes")
    yield f"no spare node would be bought with fewer standby_nodes than {spare}, and a restart", None


def _override(stored: Stored) -> Said:
    spoken = stored.override("pin", "ceiling")
    yield ends(spoken), spoken.get("until")


def _evict(stored: Stored) -> Said:
    bounds = stored.part("bounds")
    yield f"the nodes stay once the window is closed; {window(bounds)}", bounds.get("next_change_at")
    yield "a snooze of the pool keeps them: gpu-autoscaler override snooze", None


def _gangs_whole(stored: Stored) -> Said:
    yield f"room for all of the gang at once: {stored.reason.detail}", None


def _nothing(stored: Stored) -> Said:
    at = stored.decision.reconsider_at
    yield (
        "it grows for a GPU pod that waits, fits this pool and has no room on a node that is there or on its way",
        None,
    )
    if at is not None:
        yield f"by itself something can change at {clock(at.isoformat())} at the earliest", at.isoformat()


def _always(*sentences: str) -> Callable[[Stored], Said]:
    """Say the same whatever the figures."""

    def said(_stored: Stored) -> Said:
        yield from ((sentence, None) for sentence in sentences)

    return said


RULES: Mapping[str, Rule] = {
    # guardrails, in the order in which they are asked
    "sources_answer": Rule(
        meaning="No change without eyes: the sources that this change needs must answer.",
        plain="a source of facts does not answer",
        advice="bring back the source that the reason names; the page of sources shows what each one answered",
        changes=_sources,
        shown_elsewhere=True,
    ),
    "nodes_may_be_removed": Rule(
        meaning="Nothing is bought that the cluster would not let us remove again.",
        plain="no node could be removed again",
        advice="bind the ClusterRole gpu-autoscaler-act (k8s/overlays/act/rights); no restart is needed",
        changes=_always(
            "the ClusterRole gpu-autoscaler-act, bound to our service account (k8s/overlays/act/rights), and no restart"
        ),
        shown_elsewhere=True,
    ),
    "price_is_known": Rule(
        meaning="A pool whose price nobody knows does not grow: unknown is never taken for 0.",
        plain="its price is not known",
        advice="set price_usd_per_hour of the pool, or a prices_file that has its size, and restart",
        changes=_price,
        told=True,
        shown_elsewhere=True,
    ),
    "spend_is_known": Rule(
        meaning="Under a budget nothing is bought while nobody can tell what the month has cost.",
        plain="nobody knows what the month has cost",
        advice=(
            "see the reason; Civo's charges are asked again every minute, or state budget.spent_usd_stated and restart"
        ),
        changes=_spend,
        page="runbooks/GpuSpendUnknown.md",
        told=True,
    ),
    "within_budget": Rule(
        meaning="Every budget that a new node touches must cover its first paid hour.",
        plain="the budget does not cover it",
        advice="raise the budget (gpu-autoscaler budget set), end other GPU work, or wait for the next month",
        changes=_budget,
        page="runbooks/GpuBudgetHold.md",
        told=True,
    ),
    "within_maximum": Rule(
        meaning="The pool never has more nodes than its maximum, an open window, a ceiling or a pin allows.",
        plain="it is at its maximum",
        advice="raise max_nodes and restart, or wait for a free GPU, or until the window or override ends",
        changes=_maximum,
        told=True,
    ),
    "within_limits": Rule(
        meaning="All pools together stay within the limits on GPUs, purchases and removals an hour.",
        plain="the limits over all pools are reached",
        advice="wait, or raise limits.max_gpus or limits.max_growth_per_hour and restart",
        changes=_limits,
        told=True,
    ),
    "not_frozen": Rule(
        meaning="An alert with action freeze stops every change.",
        plain="an alert stops every change",
        advice="see why the alert fires that the reason names; it freezes the pool",
        changes=_frozen,
        told=True,
    ),
    "not_silenced": Rule(
        meaning="A silence in Alertmanager that names the pool pauses it.",
        plain="a silence in Alertmanager pauses it",
        advice="expire the silence in Alertmanager (`amtool silence expire`) if the pool may grow again",
        changes=_silenced,
        shown_elsewhere=True,
    ),
    "not_paused": Rule(
        meaning="A person's pause stops every change.",
        plain="somebody paused it",
        advice="end the pause that the reason names (`gpu-autoscaler override list`, then `override end ID`)",
        changes=_paused,
        shown_elsewhere=True,
    ),
    "growth_is_not_paused": Rule(
        meaning="An alert with action pause_scale_up stops growth.",
        plain="an alert stops growth",
        advice="see why the alert fires that the reason names; it pauses growth",
        changes=_growth_paused,
        told=True,
    ),
    "removal_is_not_snoozed": Rule(
        meaning="A person's snooze keeps every node that is not dead.",
        plain="somebody snoozed removals",
        changes=_snoozed,
    ),
    "above_the_floor": Rule(
        meaning="The pool does not shrink below its minimum.",
        plain="it is at its minimum",
        changes=_floor_held,
    ),
    "not_backing_off": Rule(
        meaning="What failed is not tried again before its back-off ends.",
        plain="it waits after a failure",
        advice="read the error in the reason; the pool is tried again by itself when the back-off ends",
        changes=_backing_off,
        shown_elsewhere=True,
    ),
    "not_undone_by_others": Rule(
        meaning="What somebody else turned back three times in a day is left alone for a day.",
        plain="somebody else keeps turning our changes back",
        advice="find out who or what changes the pool's count at Civo, and leave it to one of you",
        changes=_undone,
        shown_elsewhere=True,
    ),
    "provisioning_works": Rule(
        meaning="While nodes of the pool do not come up, no others are bought.",
        plain="its last nodes never became usable",
        advice="look at the node that the reason names, at Civo and with `kubectl describe node`",
        changes=_provisioning,
        shown_elsewhere=True,
    ),
    "cooled_down": Rule(
        meaning="A pool that has just changed is left alone for its cooldown.",
        plain="it changed a moment ago",
        advice="nothing: it ends by itself at the time that the reason names",
        changes=_cooled_down,
        shown_elsewhere=True,
    ),
    "approved": Rule(
        meaning="Where the policy asks for it, a person is asked before nodes go and before growth that costs much.",
        plain="it waits for an answer",
        advice="approve it, from the message or with `gpu-autoscaler answer`; the reason names until when",
        changes=_approved,
        shown_elsewhere=True,
    ),
    "one_change_at_a_time": Rule(
        meaning="A change under way is finished before another begins.",
        plain="another change of it is under way",
        advice="nothing, if it ends within a minute; else look at the open action's last error",
        changes=_one_change,
        shown_elsewhere=True,
    ),
    "internal_error": Rule(
        meaning="A bug stopped the decision for this pool, so the pool keeps its size until the next step.",
        plain="its decision failed with an internal error",
        advice="find `part of a step failed` in the server's log and report that bug; each step tries again",
        changes=_always(
            "by itself, in the first step without the error; the log has it with a traceback, and it is a bug to report"
        ),
        page="runbooks/GpuAutoscalerPartFails.md",
        told=True,
    ),
    "demand": Rule(
        meaning="GPU pods wait that fit this pool, and neither a free GPU nor a node on its way serves them.",
        changes=_always(
            "no node would be bought if the pods were gone, or had room on a usable node of a pool that fits them"
        ),
    ),
    "floor": Rule(
        meaning="The pool has fewer nodes than its minimum.",
        changes=_floor_held,
    ),
    "standby": Rule(
        meaning="Fewer spare nodes are empty than the pool should keep.",
        changes=_standby,
    ),
    "headroom": Rule(
        meaning="Fewer GPUs are free than are usually asked for next, by what came in the last minutes.",
        changes=_always("no node would be bought for what may come with objective: cost, and a restart"),
    ),
    "dead_nodes": Rule(
        meaning="Nodes cost money and serve nobody: they never came up, or broke and stayed so.",
        changes=_always(
            "a node stays if it becomes usable before it is deleted, or is annotated gpu-autoscaler.io/protect"
        ),
    ),
    "override": Rule(
        meaning="A person's word for a while: pin, floor, ceiling, pause or snooze.",
        changes=_override,
    ),
    "silence": Rule(
        meaning="A silence in Alertmanager that names the pool is in force.",
    ),
    "question": Rule(
        meaning="People are asked whether the pool may change, or have answered.",
    ),
    "evict_after": Rule(
        meaning="A window allows fewer nodes, and the grace that it gives running work is over or runs.",
        changes=_evict,
    ),
    "idle_nodes": Rule(
        meaning="Nodes without a GPU pod have been idle for long enough and may go now.",
        changes=_always(
            "a node stays if a GPU pod begins on it or waits for it, or its last workload asked to keep it",
            "a snooze of the pool keeps all of them: gpu-autoscaler override snooze",
        ),
    ),
    "consolidation": Rule(
        meaning="The pods of busy nodes consented to be moved, and fit on other nodes.",
        changes=_always(
            "a pod is not moved without its owner's consent (safe-to-evict), or where it fits on no other node"
        ),
    ),
    "gang_is_complete": Rule(
        meaning="Pods of a gang do not exist yet, so no node would help it.",
        plain="pods that start together do not all exist yet",
        changes=_always(
            "the missing pods of the gang must exist: its controller, its queue or a quota keeps them back"
        ),
    ),
    "gangs_whole": Rule(
        meaning="A gang gets all the nodes it needs at once, or none.",
        plain="pods that start together do not all get room",
        advice="make room for all of it at once (the reason names what is short), or make the gang smaller",
        changes=_gangs_whole,
    ),
    "nothing_wanted": Rule(
        meaning="Nothing asks for another size.",
        changes=_nothing,
    ),
    "keep_until": Rule(
        meaning="A workload asked that its node stays for a while.",
    ),
    "scale_up": Rule(
        meaning="An alert asks to look for growth; how much is worked out from the pods that wait.",
    ),
    "scale_down": Rule(
        meaning="An alert asks to look for nodes that may go.",
    ),
    "hold": Rule(
        meaning="An alert says that busy nodes should stay where they are.",
    ),
    "fallback": Rule(
        meaning="GPU activity is not known everywhere, so pod counts decide.",
    ),
}
NOTED = frozenset({"gang_is_complete", "gangs_whole", "nothing_wanted"})
