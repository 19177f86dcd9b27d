"""Every rule by its name: guardrails (`core.scaling.rules`), sources of a size, and notes; what they say of a decision,
and what would change it. docs/guardrails.md has each."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from receiver.core.explain.prospects import Say, about_idle, planned, why_kept
from receiver.core.explain.rollouts import Rollouts, surge
from receiver.core.model.actions import Change, Decision, Reason, Verdict
from receiver.core.model.model import Node, Source
from receiver.core.model.overrides import Override
from receiver.core.model.refusals import SchedulerRefusal
from receiver.core.model.signals import SignalAction
from receiver.core.model.text import lasting, listed, moment, some
from receiver.core.money.cost import HOUR
from receiver.core.scaling.bounds import Grace
from receiver.core.scaling.capacity import HeldWorkload
from receiver.core.scaling.decide import AskedByAlerts
from receiver.core.scaling.guardrails import GUARDRAILS
from receiver.core.scaling.guardrails.limits import answer_of, say_least, window_change
from receiver.core.scaling.guardrails.rule import Case, Guardrail, Rule, Said
from receiver.core.scaling.holds import kept_by_a_workload, removal_backs_off
from receiver.core.scaling.market import goes_early

# What a source of size says before its own sentence.
WANTED = {
    "standby": "standby: ",
    "headroom": "headroom for expected demand: ",
    "buffer": "CapacityBuffer: ",
    "floor": "minimum size: ",
}
SPEAKS_UP = (Verdict.HOLDS, Verdict.LIMITS)
GANGS_WHOLE = "gangs_whole"  # noted where a gang waits because too few nodes are left for all of it
NOTED = {
    SignalAction.SCALE_UP: "look for growth",
    SignalAction.SCALE_DOWN: "look for nodes to remove",
    SignalAction.HOLD: "busy nodes are not drained",
    SignalAction.FALLBACK: "activity is unknown: pod counts decide",
}


def sentence(reason: Reason, case: Case) -> str:
    """Return the sentence of *reason*, which was given for *case*."""
    if reason.detail or reason.verdict is Verdict.ALLOWS or (rule := _rule(reason.rule, case)) is None:
        return reason.detail
    return rule.said(reason, case)[0]


def _rule(name: str, case: Case) -> Rule[Any] | None:
    """The rule of that *name* for *case*; where a capability adds it, it has a sentence."""
    for addition in case.wanted.added:
        if name in (addition.guardrail.name, *addition.rules):
            return addition.rules.get(name, addition.guardrail)
    return RULES.get(name)


def with_sentences(reasons: Iterable[Reason], case: Case) -> tuple[Reason, ...]:
    """Return *reasons*, each with its sentence, and what keeps the pool from changing with its cause."""
    explained = ((reason, sentence(reason, case), _cause(reason, case)) for reason in reasons)
    return tuple(replace(r, detail=detail, cause=cause) if detail or cause else r for r, detail, cause in explained)


def _cause(reason: Reason, case: Case) -> str:
    rule = _rule(reason.rule, case) if reason.verdict in SPEAKS_UP or reason.rule == GANGS_WHOLE else None
    return rule.cause_of(reason, case) if rule is not None else ""


def plainly(rule: str) -> str:
    """What *rule* means, for readers who do not know its name."""
    return (rule in RULES and RULES[rule].plain) or rule.replace("_", " ")


def cause_of(reason: Reason) -> str:
    """What keeps a pool from changing, as a clause, by a *reason* that may be one of an older version."""
    return reason.cause or plainly(reason.rule)


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
    bound = binding(decision)
    others = [cause_of(r) for r in decision.reasons if r.verdict in SPEAKS_UP and r is not bound]
    if bound is not None:
        clauses.append(f"{cause_of(bound)}{f' (also: {listed(others)})' if others else ''}")
    if not clauses:
        clauses = [r.cause or r.detail for r in decision.reasons if r.verdict is Verdict.NOTES and r.detail][-1:]
    return "; ".join(clauses) or "nothing wanted a change"


def _of_those(going: Collection[str] | None, reason: Reason, decision: Decision) -> str:
    """The sentence of *reason*, about no other nodes than those *going*; empty if it names none of them."""
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
        rule = _rule(reason.rule, case)
        fixed = [(text, None) for text in rule.changes] if rule is not None else []
        # A sentence may take a look into the future, so none is made for remedies that do not depend on it.
        for text, at in fixed or (rule.said(reason, case)[1] if rule is not None else ()):
            changes.setdefault((reason.rule, text), at.isoformat() if at else None)
        if reason.rule == "nothing_wanted" and decision.reconsider_at is not None:
            text = f"the answer can change by itself at {moment(decision.reconsider_at)}, earlier if the facts change"
            changes.setdefault((reason.rule, text), decision.reconsider_at.isoformat())
    for behind in decision.evidence["behind"]:
        changes.setdefault((behind["rule"], f"this guardrail is next, and blocks too: {behind['detail']}"), None)
    return [{"rule": rule, "text": text, "at": at} for (rule, text), at in changes.items()]


def _say_floor(_: None, case: Case) -> Said:
    bounds = case.wanted.bounds
    sentence, changes = say_least(bounds, case)
    if bounds.overrides.least is None:
        sentence = f"at least {some(bounds.min_nodes, 'node')}"
    return sentence, changes


def _say_scheduler_refuses(refusal: SchedulerRefusal, _case: Case) -> Said:
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


def _say_demand(_: None, case: Case) -> Said:
    wanted = case.wanted
    names = [w.key for w in wanted.work.asking]
    gpus = sum(w.gpus for w in wanted.work.asking)
    wait = "waits" if len(names) == 1 else "wait"
    sentence = f"{listed(names)} {wait} for {some(gpus, 'GPU')}: {some(wanted.for_demand, 'more node')}"
    bought_for = surge(wanted.work.asking, Rollouts(case.state.nodes, case.now), case.pool.price_usd_per_hour)
    return f"{sentence}, {bought_for}" if bought_for else sentence, ()


def _say_standby(_: None, case: Case) -> Said:
    spare = case.wanted.bounds.standby_nodes
    fewer = f"no spare node would be bought with fewer standby_nodes than {spare}"
    return some(spare, "spare node"), [(fewer, None)]


def _named(nodes: Iterable[Node], cause: str) -> str:
    return f"{names_of(nodes)}{cause}"


def names_of(nodes: Iterable[Node]) -> str:
    """How a sentence about *nodes* begins."""
    return f"{', '.join(map(called, nodes))}: "


def called(node: Node) -> str:
    return f"{node.name} ({node.note})" if node.health.sick else node.name


def _say_dead_nodes(dead: tuple[Node, ...], case: Case) -> Said:
    without = [n for n in dead if not n.registered and n.times.lost_at is not None]
    others, limit = [n for n in dead if n not in without and not n.health.sick], lasting(case.pool.provision_timeout)
    late = [f"not usable within {limit}"] if any(not n.was_usable for n in others) else []
    late += [f"not usable any more for {limit}"] if any(n.was_usable for n in others) else []
    late += ["to be replaced, and no GPU pod runs there"] if any(n.health.sick for n in dead) else []
    late += ["no Node object in Kubernetes any more"] if without else []
    return _named(dead, ", or ".join(late)), ()


def _say_override(because: Override | tuple[Node, ...], case: Case) -> Said:
    """What a person asked for: the override itself, or the nodes that it removes."""
    if isinstance(because, Override):
        return str(because), ()
    most = case.wanted.bounds.overrides.most
    return _named(because, str(most)), [most.ends] if most is not None else ()


def _say_idle_nodes(idle: tuple[Node, ...], case: Case) -> Said:
    if case.policy.billing.by_the_hour:
        unit = "hour" if case.policy.billing.granularity == HOUR else "unit"
        if goes_early(case.pool, case.policy):
            cause = f"no GPU pod, and beyond its first paid {unit} a node this wide is not kept for small pods"
        else:
            cause = f"no GPU pod, and the next paid {unit} begins within {lasting(case.policy.billing.removal_margin)}"
    elif case.wanted.money.stopped:
        cause = "no GPU pod, and no new one may start: a budget is at its stop"
    else:
        cause = f"no GPU pod for {lasting(case.pool.idle_for)}"
    return _named(idle, cause), ()


def _say_consolidation(emptied: tuple[Node, ...], _case: Case) -> Said:
    sick = all(n.health.sick for n in emptied)
    cause = "to be replaced, and its pods may be moved" if sick else "its pods may be moved and fit on other nodes"
    return _named(emptied, cause), ()


def _say_alert_asks(asked: AskedByAlerts, _case: Case) -> Said:
    many = f" ({asked.alerts} alerts)" if asked.alerts > 1 else ""
    return f"{asked.alertname}{many}: {NOTED[asked.action]}", ()


def _say_keep_until(kept: tuple[Node, ...], _case: Case) -> Said:
    keeps = ((n.name, n.keep.until, f" for {n.keep.pod}" if n.keep.pod else "") for n in kept)
    return "; ".join(f"{name} is kept until {until:%Y-%m-%d %H:%M} UTC{whom}" for name, until, whom in keeps), ()


def _say_evict_after(because: tuple[Grace, ...] | tuple[Node, ...], case: Case, say: Say) -> Said:
    """What a window evicts: its graces while they run, or the nodes that go now."""
    window, at = window_change(case)
    command = f"gpu-autoscaler override set {case.pool.name} --keep --for 2h --why REASON --who YOU"
    snooze = f"a snooze of the pool keeps them: {command}"
    changes = [(f"the nodes stay once the window is closed; {window}", at), (snooze, None)]
    running, nodes = [g for g in because if isinstance(g, Grace)], [n for n in because if isinstance(n, Node)]
    if running:
        return "; ".join(planned(grace, case, say) for grace in running), changes
    graces = case.wanted.graces
    over = [g for g in graces if g.ends_at is not None and g.ends_at <= case.now] or graces  # what was begun goes on
    allows = (f"window {g.window} allows {some(g.max_nodes, 'node')}, and its grace is over" for g in over)
    return _named(nodes, "; ".join(allows)), changes


def _say_nothing_wanted(case: Case, say: Say) -> str:
    wanted, resting = case.wanted, [n for n in case.state.nodes if n.idle]
    kept_nodes = [n for n in resting if kept_by_a_workload(n, case)]
    others = [n for n in resting if not kept_by_a_workload(n, case)]
    refused = [n for n in others if removal_backs_off(n, case)]
    idle = [n for n in others if not removal_backs_off(n, case)]
    on_the_way = len(case.state.coming) + case.state.unlisted
    backoff = case.state.backoffs.removal
    if not case.up(Source.CIVO):
        return f"nothing is known: {answer_of(Source.CIVO, case.source(Source.CIVO))}"
    if wanted.work.settled and on_the_way:
        return f"{some(wanted.work.gpus, 'GPU')} waiting, {some(on_the_way, 'node')} on the way"
    if (
        wanted.work.settled
        and not wanted.work.placed
        and any(r.vacant_at for placement in wanted.work.rooms for r in placement.rooms)
    ):
        return f"{some(wanted.work.gpus, 'GPU')} waiting, for pods that are Terminating to leave their nodes"
    if wanted.work.settled:
        names = ", ".join(wanted.work.settled[:3])
        return f"{names} would fit a usable node as configured: see why it is not placed there"
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


def _say_gang(gang: HeldWorkload, _case: Case) -> Said:
    return gang.detail, [(f"make room for the whole gang at once: {gang.detail}", None)]


def cause_of_gang(gang: HeldWorkload) -> str:
    """Why a *gang* does not fit as a whole, as a clause for readers who do not know the rule that it met."""
    if not gang.met:
        return gang.detail
    rule = RULES.get(gang.met)
    allows = rule.allows if isinstance(rule, Guardrail) and rule.allows else f"{plainly(gang.met)}:"
    return f"{gang.needs}, {allows} {gang.allows}"


SOURCES_AND_NOTES: Mapping[str, Rule[Any]] = {
    "internal_error": Rule(
        meaning="A bug stopped the decision for this pool, so the pool keeps its size until the next step.",
        plain="its decision failed with an internal error",
        advice="find `part of a step failed` in the server's log and report that bug; each step tries again",
        page="runbooks/GpuAutoscalerPartFails.md",
        told=True,
    ),
    "demand": Rule(
        meaning="GPU pods that fit this pool wait, and no free GPU or node on its way serves them.",
        say=_say_demand,
        changes=(
            "no node would be bought if the pods were gone, or had room on a usable node of a pool that fits them",
        ),
    ),
    "floor": Rule(meaning="The pool has fewer nodes than its minimum.", say=_say_floor),
    "standby": Rule(meaning="The pool has fewer empty spare nodes than it should keep.", say=_say_standby),
    "headroom": Rule(
        meaning="Fewer GPUs are free than recent demand suggests will be needed next.",
        say=lambda _, case: (f"{case.wanted.headroom}: {some(case.wanted.by_source['headroom'], 'more node')}", ()),
        changes=("no node would be bought for what may come with objective: cost",),
    ),
    "buffer": Rule(
        meaning="A CapacityBuffer asks for more free room than the nodes have.",
        say=lambda _, case: (
            f"{some(case.wanted.by_source['buffer'], 'more node')} for {listed(case.wanted.work.buffers)}",
            (),
        ),
        changes=("no node would be bought with fewer replicas in that CapacityBuffer, or without it",),
    ),
    "dead_nodes": Rule(
        meaning="Nodes that never became usable, or broke and did not recover, cost money for nothing.",
        say=_say_dead_nodes,
        changes=("a node stays if it becomes usable before it is deleted, or is annotated gpu-autoscaler.io/protect",),
    ),
    "override": Rule(meaning="A person's temporary request: pin, floor, ceiling, pause or snooze.", say=_say_override),
    "silence": Rule(
        meaning="A silence in Alertmanager that names the pool is in force.",
        say=lambda silence, _: (str(silence), ()),
    ),
    "question": Rule(
        meaning="An approval is requested, or was answered.",
    ),
    "evict_after": Rule(
        meaning="A window allows fewer nodes, and the grace that it gives running work is over or runs.",
        say=lambda because, case: _say_evict_after(because, case, sentence),
    ),
    "idle_nodes": Rule(
        meaning="Nodes without a GPU pod have been idle for long enough to be removed now.",
        say=_say_idle_nodes,
        changes=(
            "a node stays if a GPU pod starts on it or waits for it, or its last workload asked to keep it",
            "a snooze keeps all of them: gpu-autoscaler override set POOL --keep --for 2h --why REASON --who YOU",
        ),
    ),
    "consolidation": Rule(
        meaning="The pods of busy nodes may be moved, and fit on other nodes.",
        say=_say_consolidation,
        changes=("a pod is not moved without its owner's consent (safe-to-evict), or where it fits on no other node",),
    ),
    "gang_is_complete": Rule(
        meaning="Pods of a gang do not exist yet, so no node would help it.",
        plain="not all pods of a gang exist yet",
        changes=("the missing pods of the gang must be created: check its controller, its queue and quotas",),
        noted=True,
    ),
    GANGS_WHOLE: Rule(
        meaning="A gang gets all the nodes it needs at once, or none.",
        plain="a gang does not fit as a whole",
        advice="make room for all of it at once (the reason names what is short), or make the gang smaller",
        say=_say_gang,
        cause=lambda gang, _: cause_of_gang(gang),
        noted=True,
    ),
    "scheduler_refuses": Rule(
        meaning="The scheduler leaves pods waiting although a usable node has room, so they need no node.",
        say=_say_scheduler_refuses,
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
        say=lambda _, case: (_say_nothing_wanted(case, sentence), ()),
        changes=("a waiting GPU pod that fits this pool and has no room on an existing node or one on its way",),
        noted=True,
    ),
    "keep_until": Rule(meaning="A workload asked that its node stays for a while.", say=_say_keep_until),
    "scale_up": Rule(
        meaning="An alert asks to look for growth; how much is worked out from the pods that wait.",
        say=_say_alert_asks,
    ),
    "scale_down": Rule(meaning="An alert asks to look for nodes to remove.", say=_say_alert_asks),
    "hold": Rule(meaning="An alert says that busy nodes should stay where they are.", say=_say_alert_asks),
    "fallback": Rule(meaning="GPU activity is not known everywhere, so pod counts decide.", say=_say_alert_asks),
}
# What `receiver.capabilities.approvals` adds, in the words of those who read decisions that are stored.
APPROVED: Rule[Any] = Rule(
    meaning="If the policy requires it, removals and expensive growth need an approval.",
    plain="it waits for an approval",
    advice="approve it, from the message or with `gpu-autoscaler approvals approve ID --who YOU`; the reason says "
    "until when",
)
*_others, _last = GUARDRAILS
RULES: Mapping[str, Rule[Any]] = {
    **{guardrail.name: guardrail for guardrail in _others},
    "approved": APPROVED,
    _last.name: _last,
    **SOURCES_AND_NOTES,
}
