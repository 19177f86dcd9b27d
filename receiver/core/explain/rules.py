"""Every rule in one place: its sentence, what it means, what a person can do about it, what would change its answer.
A rule is a guardrail (`core.scaling.guardrails`), a source of size, or a note; docs/guardrails.md has each by name."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from receiver.core.explain import reasons as says
from receiver.core.explain.reasons import Changes, Said
from receiver.core.model.actions import Change, Decision, Reason, Verdict
from receiver.core.model.overrides import sentence as asked
from receiver.core.model.text import listed, some
from receiver.core.scaling.guardrails import Case

# What a source of size says before its own sentence.
WANTED = {
    "standby": "standby: ",
    "headroom": "headroom for expected demand: ",
    "buffer": "CapacityBuffer: ",
    "floor": "minimum size: ",
}
SPEAKS_UP = (Verdict.HOLDS, Verdict.LIMITS)
# To a gang: these leave the pool other nodes.
FEWER = {"within_maximum": "its maximum allows fewer", "within_limits": "a cluster-wide limit allows fewer"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. *says* makes the sentence of its reason, and what would change its answer unless *changes* says so
    whatever the figures. *meaning* is a sentence for the decision's page, *plain* a clause for titles, *advice* what
    the owner of a held pool does.

    *page* is the page below ``docs/`` that says what to do, if not docs/guardrails.md. *told* is True if a hold needs
    a message, *passing* if it ends within seconds. *noted* is True for a note that says what would start a change,
    *uncounted* for a guardrail that leaves nothing for those behind it to count.
    """

    meaning: str
    says: Callable[[Reason, Case], Said] | None = None
    plain: str = ""
    advice: str = ""
    changes: tuple[str, ...] = ()
    page: str = ""
    told: bool = False
    passing: bool = False
    noted: bool = False
    uncounted: bool = False


def sentence(reason: Reason, case: Case) -> str:
    """Return the sentence of *reason*, which was given for *case*."""
    rule = RULES.get(reason.rule)
    if reason.detail or reason.verdict is Verdict.ALLOWS or rule is None or rule.says is None:
        return reason.detail
    return rule.says(reason, case)[0]


def with_sentences(reasons: Iterable[Reason], case: Case) -> tuple[Reason, ...]:
    """Return *reasons*, each with its sentence."""
    pairs = ((reason, sentence(reason, case)) for reason in reasons)
    return tuple(reason if detail == reason.detail else replace(reason, detail=detail) for reason, detail in pairs)


def plainly(rule: str) -> str:
    """What *rule* means, for readers who do not know its name."""
    return (rule in RULES and RULES[rule].plain) or rule.replace("_", " ")


def without_names(needs: str, met: str) -> str:
    """What a gang *needs*, which the rule *met* leaves too few nodes, for readers who do not know the rule's name."""
    return f"{needs}, but the pool cannot grow by that many: {FEWER.get(met) or plainly(met)}"


def binding(decision: Decision) -> Reason | None:
    """The reason that left *decision* its target: the first that blocks the change, or else the last that left a part
    of it; None where nothing was held. One that only left a part is not why nothing happens."""
    held = [r for r in decision.reasons if r.verdict in SPEAKS_UP]
    return next((r for r in held if r.verdict is Verdict.HOLDS), held[-1] if held else None)


def guide(rule: str) -> str:
    """The page below ``docs/`` that says what to do about a hold of *rule*."""
    return (rule in RULES and RULES[rule].page) or f"guardrails.md#{rule}"


def why(decision: Decision, going: Collection[str] | None = None) -> str:
    """The deciding reason and what wanted the change, in plain words; of a removal for the nodes *going* (names) alone,
    where not all that the decision names went."""
    wanted = [(r.rule, _of_those(going, r, decision)) for r in decision.reasons if r.verdict is Verdict.WANTS]
    clauses = [f"{WANTED.get(rule, '')}{detail}" for rule, detail in wanted if detail]
    clauses += [f"{plainly(r.rule)} ({r.detail})" for r in decision.reasons if r.verdict in SPEAKS_UP]
    if not clauses:
        clauses = [r.detail for r in decision.reasons if r.verdict is Verdict.NOTES and r.detail][-1:]
    return "; ".join(clauses) or "nothing wanted a change"


def _of_those(going: Collection[str] | None, reason: Reason, decision: Decision) -> str:
    """The sentence of *reason*, about no other nodes than those *going*; empty where none of its nodes do."""
    removal = decision.evidence.get("removals", {}).get(reason.rule)  # decisions of older versions have none
    if going is None or removal is None:
        return reason.detail
    names = [clause for name, clause in removal["nodes"].items() if name in going]
    return f"{', '.join(names)}: {removal['why']}" if names else ""


def remedies(decision: Decision, case: Case) -> list[dict[str, Any]]:
    """Return what would have to be otherwise for another answer, the deciding rules first: *rule*, *text*, and *at*
    (ISO 8601) if it happens by itself. The reasons of *decision* have their sentences.

    Of a change that was held or cut: what would let it happen. Of one that happens: what would have kept it from
    happening. Of none: what would start one.
    """
    held = [r for r in decision.reasons if r.verdict in SPEAKS_UP]
    noted = [r for r in decision.reasons if r.verdict is Verdict.NOTES and r.rule in RULES and RULES[r.rule].noted]
    wants = [r for r in decision.reasons if r.verdict is Verdict.WANTS and decision.change is not Change.HOLD]
    changes: dict[tuple[str, str], str | None] = {}
    for reason in (*held, *wants, *noted):
        for text, at in _changes(reason, case):
            changes.setdefault((reason.rule, text), at.isoformat() if at else None)
        if reason.rule == "nothing_wanted" and decision.reconsider_at is not None:
            text = (
                f"the answer can change by itself at {says.moment(decision.reconsider_at)}, earlier if the facts change"
            )
            changes.setdefault((reason.rule, text), decision.reconsider_at.isoformat())
    for behind in decision.evidence["behind"]:
        changes.setdefault((behind["rule"], f"this guardrail is next, and blocks too: {behind['detail']}"), None)
    return [{"rule": rule, "text": text, "at": at} for (rule, text), at in changes.items()]


def _changes(reason: Reason, case: Case) -> Changes:
    rule = RULES.get(reason.rule)
    if rule is not None and rule.says is not None and not rule.changes:
        return rule.says(reason, case)[1]
    return [(text, None) for text in rule.changes] if rule is not None else ()


RULES: Mapping[str, Rule] = {
    # guardrails, in the order in which they are asked
    "sources_answer": Rule(
        meaning="Every source that this change needs must answer.",
        says=says.sources_answer,
        plain="a source does not answer",
        advice="bring back the source that the reason names; the Sources page shows what each one answered",
    ),
    "nodes_may_be_removed": Rule(
        meaning="A pool grows only while RBAC allows removing its nodes.",
        says=says.nodes_may_be_removed,
        plain="RBAC does not allow the autoscaler to remove nodes",
        advice=(
            "bind the ClusterRole gpu-autoscaler-act (chart: mode=act; else k8s/install/act-rights.yaml); "
            "no restart is needed"
        ),
        changes=(
            (
                "bind the ClusterRole gpu-autoscaler-act to the autoscaler's service account "
                "(chart: mode=act; else k8s/install/act-rights.yaml); no restart is needed"
            ),
        ),
    ),
    "price_is_known": Rule(
        meaning="A pool without a known price does not grow: unknown never counts as 0.",
        says=says.price_is_known,
        plain="its price is unknown",
        advice="set price_usd_per_hour of the pool, or a prices_file that has its size",
        told=True,
        uncounted=True,
    ),
    "spend_is_known": Rule(
        meaning="Under a budget nothing is bought while the month's spend is unknown.",
        says=says.spend_is_known,
        plain="the month's spend is unknown",
        advice="see the reason; Civo's charges are read again every minute, or state budget.spent_usd_stated",
        page="runbooks/GpuSpendUnknown.md",
        told=True,
        uncounted=True,
    ),
    "within_budget": Rule(
        meaning="Every budget that a new node touches must cover its first paid hour.",
        says=says.within_budget,
        plain="the budget does not cover it",
        advice="raise the budget (gpu-autoscaler budget set USD --why REASON --who YOU), end other GPU work, or wait "
        "for the next month",
        page="runbooks/GpuBudgetHold.md",
        told=True,
        uncounted=True,
    ),
    "within_maximum": Rule(
        meaning="The pool never has more nodes than its maximum, an open window, a ceiling or a pin allows.",
        says=says.within_maximum,
        plain="it is at its maximum",
        advice="raise max_nodes, or wait for a free GPU, or until the window or override ends",
        told=True,
        uncounted=True,
    ),
    "within_limits": Rule(
        meaning="All pools together stay within the limits on GPUs, and on purchases and removals per hour.",
        says=says.within_limits,
        plain="a cluster-wide limit is reached",
        advice="wait, or raise limits.max_gpus or limits.max_growth_per_hour",
        told=True,
        uncounted=True,
    ),
    "not_frozen": Rule(
        meaning="An alert with action freeze stops every change.",
        says=says.alert_holds,
        plain="an alert stops every change",
        advice="find out why the alert in the reason fires; it freezes the pool",
        told=True,
    ),
    "not_silenced": Rule(
        meaning="A silence in Alertmanager that names the pool pauses it.",
        says=says.not_silenced,
        plain="a silence in Alertmanager pauses it",
        advice="expire the silence in Alertmanager (`amtool silence expire`) if the pool may grow again",
    ),
    "not_paused": Rule(
        meaning="A person's pause stops every change.",
        says=says.override_holds,
        plain="it is paused by an override",
        advice="end the pause in the reason (`gpu-autoscaler override list`, then `gpu-autoscaler override end ID`)",
    ),
    "growth_is_not_paused": Rule(
        meaning="An alert with action pause_scale_up stops growth.",
        says=says.alert_holds,
        plain="an alert stops growth",
        advice="find out why the alert in the reason fires; it pauses growth",
        told=True,
    ),
    "removal_is_not_snoozed": Rule(
        meaning="A person's snooze keeps every node that is not dead.",
        says=says.override_holds,
        plain="removals are snoozed by an override",
    ),
    "above_the_floor": Rule(
        meaning="The pool does not shrink below its minimum.", says=says.above_the_floor, plain="it is at its minimum"
    ),
    "not_backing_off": Rule(
        meaning="A failed change is not tried again before its back-off ends.",
        says=says.not_backing_off,
        plain="it waits after a failure",
        advice="read the error in the reason; the change is tried again when the back-off ends",
    ),
    "not_undone_by_others": Rule(
        meaning="A change that another system reverted three times in a day is not tried again for a day.",
        says=says.not_undone_by_others,
        plain="another system keeps reverting our changes",
        advice="find out what else changes the pool's count at Civo, and let only one system size the pool",
    ),
    "provisioning_works": Rule(
        meaning="While nodes of the pool do not become usable, no others are bought.",
        says=says.provisioning_works,
        plain="its last nodes never became usable",
        advice="check the node in the reason, at Civo and with `kubectl describe node`",
    ),
    "cooled_down": Rule(
        meaning="A pool that has just changed is left alone for its cooldown.",
        says=says.cooled_down,
        plain="it changed a moment ago",
        advice="nothing: it ends at the time in the reason",
        passing=True,
    ),
    "approved": Rule(
        meaning="If the policy requires it, removals and expensive growth need an approval.",
        says=says.approved,
        plain="it waits for an approval",
        advice="approve it, from the message or with `gpu-autoscaler answer ID approve --who YOU`; the reason says "
        "until when",
    ),
    "one_change_at_a_time": Rule(
        meaning="A change under way is finished before another starts.",
        says=says.one_change_at_a_time,
        plain="another change is under way",
        advice="nothing, if it ends within a minute; else look at the open action's last error",
        passing=True,
    ),
    "internal_error": Rule(
        meaning="A bug stopped the decision for this pool, so the pool keeps its size until the next step.",
        plain="its decision failed with an internal error",
        advice="find `part of a step failed` in the server's log and report that bug; each step tries again",
        page="runbooks/GpuAutoscalerPartFails.md",
        told=True,
    ),
    "demand": Rule(
        meaning="GPU pods that fit this pool wait, and no free GPU or node on its way serves them.",
        says=says.demand,
        changes=(
            "no node would be bought if the pods were gone, or had room on a usable node of a pool that fits them",
        ),
    ),
    "floor": Rule(meaning="The pool has fewer nodes than its minimum.", says=says.floor),
    "standby": Rule(meaning="The pool has fewer empty spare nodes than it should keep.", says=says.standby),
    "headroom": Rule(
        meaning="Fewer GPUs are free than recent demand suggests will be needed next.",
        says=lambda _, case: (f"{case.wanted.headroom}: {some(case.wanted.for_headroom, 'more node')}", ()),
        changes=("no node would be bought for what may come with objective: cost",),
    ),
    "buffer": Rule(
        meaning="A CapacityBuffer asks for more free room than the nodes have.",
        says=lambda _, case: (f"{some(case.wanted.for_buffer, 'more node')} for {listed(case.wanted.buffers)}", ()),
        changes=("no node would be bought with fewer replicas in that CapacityBuffer, or without it",),
    ),
    "dead_nodes": Rule(
        meaning="Nodes that never became usable, or broke and did not recover, cost money for nothing.",
        says=says.dead_nodes,
        changes=("a node stays if it becomes usable before it is deleted, or is annotated gpu-autoscaler.io/protect",),
    ),
    "override": Rule(meaning="A person's temporary request: pin, floor, ceiling, pause or snooze.", says=says.override),
    "silence": Rule(
        meaning="A silence in Alertmanager that names the pool is in force.",
        says=lambda reason, _: (str(reason.because), ()),
    ),
    "question": Rule(
        meaning="An approval is requested, or was answered.",
        says=lambda reason, case: (asked(reason.because, case.now), ()),
    ),
    "evict_after": Rule(
        meaning="A window allows fewer nodes, and the grace that it gives running work is over or runs.",
        says=lambda reason, case: says.evict_after(reason, case, sentence),
    ),
    "idle_nodes": Rule(
        meaning="Nodes without a GPU pod have been idle for long enough to be removed now.",
        says=says.idle_nodes,
        changes=(
            "a node stays if a GPU pod starts on it or waits for it, or its last workload asked to keep it",
            "a snooze keeps all of them: gpu-autoscaler override snooze POOL --for 2h --why REASON --who YOU",
        ),
    ),
    "consolidation": Rule(
        meaning="The pods of busy nodes may be moved, and fit on other nodes.",
        says=says.consolidation,
        changes=("a pod is not moved without its owner's consent (safe-to-evict), or where it fits on no other node",),
    ),
    "gang_is_complete": Rule(
        meaning="Pods of a gang do not exist yet, so no node would help it.",
        plain="not all pods of a gang exist yet",
        changes=("the missing pods of the gang must be created: check its controller, its queue and quotas",),
        noted=True,
    ),
    "gangs_whole": Rule(
        meaning="A gang gets all the nodes it needs at once, or none.",
        plain="a gang does not fit as a whole",
        advice="make room for all of it at once (the reason names what is short), or make the gang smaller",
        says=lambda r, _: (r.detail, [(f"make room for the whole gang at once: {r.detail}", None)]),
        noted=True,
    ),
    "scheduler_refuses": Rule(
        meaning="The scheduler leaves pods waiting although a usable node has room, so they need no node.",
        says=says.scheduler_refuses,
        plain="the scheduler refuses the pods although a node has room",
        advice=(
            "`kubectl describe pod -n {namespace} {pod}` has the scheduler's words: check volumes and their claims, "
            "pod affinity, topology spread, ports, and resources that no node has"
        ),
        page="troubleshooting.md#a-pod-waits-beside-a-usable-node",
        noted=True,
    ),
    "nothing_wanted": Rule(
        meaning="Nothing asks for another size.",
        says=lambda _, case: (says.nothing_wanted(case, sentence), ()),
        changes=("a waiting GPU pod that fits this pool and has no room on an existing node or one on its way",),
        noted=True,
    ),
    "keep_until": Rule(meaning="A workload asked that its node stays for a while.", says=says.keep_until),
    "scale_up": Rule(
        meaning="An alert asks to look for growth; how much is worked out from the pods that wait.",
        says=says.alert_asks,
    ),
    "scale_down": Rule(meaning="An alert asks to look for nodes to remove.", says=says.alert_asks),
    "hold": Rule(meaning="An alert says that busy nodes should stay where they are.", says=says.alert_asks),
    "fallback": Rule(meaning="GPU activity is not known everywhere, so pod counts decide.", says=says.alert_asks),
}
