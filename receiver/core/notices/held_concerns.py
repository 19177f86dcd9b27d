"""Work that a guardrail keeps waiting: one problem per pool, named by the rule that leaves its decision least."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from receiver.core.explain.rules import GANGS_WHOLE, RULES, SPEAKS_UP, binding, cause_of, guide, plainly
from receiver.core.model.actions import Decision, Reason
from receiver.core.model.model import PoolState
from receiver.core.model.pods import Workload
from receiver.core.model.policy import USUAL_WAIT, Pool, longest_waits
from receiver.core.model.signals import Signal
from receiver.core.model.text import dollars, some
from receiver.core.money.budget import BudgetStage
from receiver.core.notices import wording
from receiver.core.notices.notice import Cause, Concern, Level, Seen, Severity
from receiver.core.notices.rollout_concerns import deadlocks, of_deadlocks
from receiver.core.scaling.capacity import HeldWorkload
from receiver.core.scaling.guardrails.limits import WITHIN_BUDGET, WITHIN_MAXIMUM
from receiver.core.scaling.wanted import Wanted

# The configuration limits growth here, and the work starts when GPUs are free: that wakes no person, and is no problem
# until the work has waited for longer than `queue_wait` allows.
AS_CONFIGURED = ("within_maximum", "within_limits", GANGS_WHOLE)


def how_far_it_grows(decision: Decision) -> str:
    """How far *decision* lets its pool grow, which wants more, as a clause."""
    grows = decision.target > decision.present
    return f"grows only to {some(decision.target, 'node')}" if grows else "does not grow"


def symptom(rule: str, pool: Pool, seen: Seen) -> str:
    """How far *pool* grows and why, as a clause, where *rule* is what binds it; else empty."""
    decision = seen.decisions[pool.id]
    reason = binding(decision)
    if reason is None or reason.rule != rule:
        return ""
    return f"{how_far_it_grows(decision)}: {cause_of(reason)}"


def one_cause(concerns: Sequence[Concern], decisions: Mapping[str, Decision]) -> list[Concern]:
    """Return *concerns* with one problem per pool: that of the rule which leaves its decision least, by pool id. What
    else keeps the pool from growing is its *also*. Problems that no rule makes stay."""
    problems: dict[str, list[Concern]] = {}
    for concern in concerns:
        if concern.pool and concern.rule and concern.level is Level.BAD:
            problems.setdefault(concern.pool, []).append(concern)
    causes: dict[int, Concern] = {}
    repeated: set[int] = set()
    for pool, in_pool in problems.items():
        decision = decisions.get(pool)
        reason = binding(decision) if decision is not None else None
        first = next((c for c in in_pool if reason is not None and c.rule == reason.rule), in_pool[0])
        others = {c.rule: c.what for c in in_pool if c.rule != first.rule}
        if decision is not None:
            others |= _other_causes(decision, first.rule)
        causes[id(first)] = replace(first, also=tuple(dict.fromkeys(others.values())))
        repeated |= {id(c) for c in in_pool if c is not first}
    return [causes.get(id(concern), concern) for concern in concerns if id(concern) not in repeated]


def _other_causes(decision: Decision, named: str) -> dict[str, str]:
    """What else keeps the pool of *decision* from growing, by rule: all but the one that is *named*, and what ends
    within seconds."""
    causes = {r.rule: cause_of(r) for r in decision.reasons if r.verdict in SPEAKS_UP}
    causes |= {behind["rule"]: behind["cause"] for behind in decision.evidence.get("behind", ()) if "cause" in behind}
    return {r: c for r, c in causes.items() if c and r != named and not (r in RULES and RULES[r].passing)}


def of_held(pool: Pool, state: PoolState, wanted: Wanted, seen: Seen) -> Iterator[Concern]:
    """Work that waits because of a guardrail that a person could change; a message is sent once per rule and day."""
    decision = seen.decisions[pool.id]
    reason = binding(decision)
    if reason is None or reason.rule not in RULES or not RULES[reason.rule].told:
        reason = next((r for r in decision.reasons if r.rule == GANGS_WHOLE), None)
    keys = dict.fromkeys(held.workload for held in wanted.work.held if held.refusal is None)  # they got no room
    waiting = wanted.work.asking or tuple(Workload(key=k, pods=p) for k in keys if (p := seen.facts.waiting_of(k)))
    if reason is None or not waiting:
        return
    what = f"{how_far_it_grows(decision)}: {cause_of(reason)}"
    updates = deadlocks(waiting, state, seen.now)
    yield from of_deadlocks(updates.values(), pool, wanted, reason.rule, what, seen)
    waiting = tuple(w for w in waiting if w.key not in updates)
    if waiting:
        yield _held(pool, reason, waiting, what, seen)


def _held(pool: Pool, reason: Reason, waiting: Sequence[Workload], what: str, seen: Seen) -> Concern:
    decision, pods = seen.decisions[pool.id], [p for w in waiting for p in w.pods]
    asking, because = wording.asked_by(pods, seen.policy), reason.because
    met = because.met if isinstance(because, HeldWorkload) and because.met else reason.rule
    refusals = because if met == WITHIN_BUDGET.name and isinstance(because, tuple) else ()
    stopped = any(refusal.view.stage is BudgetStage.STOP for refusal in refusals)
    as_configured = met in AS_CONFIGURED
    unnamed = reason.detail if cause_of(reason) == plainly(reason.rule) else ""  # else the cause has its values
    why = "; ".join(refusal.why for refusal in refusals) or unnamed
    return Concern(
        kind=Cause.HELD,
        level=Level.NOTE if as_configured and not _waits_for_long(waiting, seen) else Level.BAD,
        rule=reason.rule,
        severity=Severity.WARNING if as_configured else None,
        what=what,
        title=f"GPU pool {pool.name} {what}; {some(len(pods), 'pod')} {'waits' if len(pods) == 1 else 'wait'}",
        why=why,
        whose=wording.whose(asking),
        cost=wording.costs(pool, seen.assignment.budgets, decision.target, teams=wording.teams_asking(asking)),
        doing=_meanwhile(reason, decision),
        todo=_unblocked(pool, reason.rule, met, decision),
        guide=Cause.BUDGET_STOP.guide if stopped else guide(reason.rule),
        page="budgets" if met == WITHIN_BUDGET.name else "",
        decision=seen.numbers.get(pool.id),
        topic=f"held:{pool.id}:{reason.rule}",  # a topic of its own: rules that take turns are no news
        key=f"{decision.at:%Y-%m-%d}",
    )


def _meanwhile(reason: Reason, decision: Decision) -> str:
    """What happens as long as no person acts, or what is missing."""
    if reason.rule == GANGS_WHOLE:
        return "the gang waits until there is room for all of its pods at once"
    if isinstance(reason.because, Signal) and reason.because.pool is None:
        change = "growth" if reason.rule == "growth_is_not_paused" else "every change"
        return f"the alert stops {change} of all GPU pools until it resolves"
    if reason.rule == WITHIN_BUDGET.name:
        lacks = next((usd for u in decision.evidence.get("uncovered", ()) if (usd := u["raise_usd"]) is not None), None)
        return f"at least {dollars(lacks)} more is needed" if lacks is not None else ""
    return ""


def _unblocked(pool: Pool, rule: str, met: str, decision: Decision) -> str:
    """What a person can do, and what happens by itself."""
    if rule == GANGS_WHOLE:
        more = f"raise max_nodes of the pool (now {pool.max_nodes})"
        room = more if met == WITHIN_MAXIMUM.name else RULES[met].advice if met != rule else ""
        return f"To unblock it: {f'{room}; or ' if room else ''}make the gang smaller"
    remedies = decision.evidence.get("what_would_change", ())
    helps = [remedy["text"] for remedy in remedies if remedy["rule"] == rule]
    ways = dict.fromkeys([*helps[:1], *helps[-1:]])
    return f"To unblock it: {'; or '.join(ways)}" if ways else ""


def _waits_for_long(waiting: Iterable[Workload], seen: Seen) -> bool:
    """True if some of *waiting* has waited for longer than `queue_wait` allows for its priority class."""
    longest, pods = longest_waits(seen.policy), [pod for work in waiting for pod in work.pods]
    return any(seen.now - pod.created_at > longest.get(pod.priority_class, USUAL_WAIT) for pod in pods)
