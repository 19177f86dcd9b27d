"""The guardrail `approved`: removals and growth that costs much wait for people, where the policy asks for it."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from receiver.capabilities.approvals.coverage import approved_growth, approved_instances, growth_ever_approved
from receiver.capabilities.approvals.sentences import sentence, why_waiting
from receiver.core.explain.rules import RULES
from receiver.core.model.actions import Reason, Verdict
from receiver.core.model.model import ON_ITS_WAY, Facts, Node, PoolState, Stage
from receiver.core.model.overrides import Asks, Question
from receiver.core.model.policy import Pool
from receiver.core.model.text import moment
from receiver.core.scaling.bounds import BoundsInForce
from receiver.core.scaling.guardrails.rule import AddedGuardrail, Case, Guardrail, Held, Rule, Said
from receiver.core.scaling.removal import is_dead, removal_moment


def questions_of(case: Case) -> tuple[Question, ...]:
    """Return the requests about the pool of *case* that have not expired."""
    questions, at = case.facts.instructions.questions, case.facts.at
    return tuple(q for q in questions if q.pool == case.pool.id and at < q.expires_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class AsksFirst:
    """People are asked first: about *nodes* (names), or about growth where there are none."""

    nodes: tuple[str, ...]
    asks: Collection[Asks]
    questions: tuple[Question, ...]
    at: datetime


def approved(target: int, case: Case) -> Held[AsksFirst] | None:
    """Where the policy asks for it, people approve removals, and growth that costs much."""
    questions, now = questions_of(case), case.now
    if target < case.present:
        allowed_target = case.present - (case.going - len(case.held_back))
        if allowed_target <= target:
            return None
        kinds = frozenset(Asks.EMPTYING if n.busy else Asks.REMOVAL for n in case.held_back)
        names = tuple(n.name for n in case.held_back)
    else:
        allowed_target = grows_unasked(target, case.pool, case.state, case.wanted.bounds, case.facts)
        if allowed_target >= target:
            return None
        names, kinds = (), frozenset({Asks.GROWTH})
    return Held(left=allowed_target, because=AsksFirst(nodes=names, asks=kinds, questions=questions, at=now))


def _say_asked(request: AsksFirst, _case: Case) -> Said:
    sentence = why_waiting(request.nodes, request.asks, request.questions, request.at)
    changes: list[tuple[str, datetime | None]] = []
    for question in (q for q in request.questions if q.answer is None):
        answer = f"gpu-autoscaler approvals approve {question.id} --who YOU"
        changes.append((f"approve it, from the message or with {answer}", None))
        if question.proceeds_at:
            remedy = f"wait until {moment(question.proceeds_at)}: without an answer it proceeds then"
            changes.append((remedy, question.proceeds_at))
    changes += [
        (f"wait for a new request, sent at {moment(question.expires_at)} at the earliest", question.expires_at)
        for question in request.questions
        if question.is_rejected(request.at)
    ]
    return sentence, changes or [(f"approve it once the approval is requested: {sentence}", None)]


def grows_unasked(target: int, pool: Pool, state: PoolState, bounds: BoundsInForce, facts: Facts) -> int:
    """Return the size up to *target* (nodes) that needs no further answer; at least the present size.

    An answer is needed where the new nodes that no approval or override covers cost more than the policy allows.
    """
    policy, price = pool.approval, pool.price_usd_per_hour
    if target <= state.required or policy is None or policy.growth_above_usd_per_hour is None or price is None:
        return target
    mine, now = tuple(q for q in facts.instructions.questions if q.pool == pool.id), facts.at
    floor = bounds.min_nodes if bounds.overrides.least is not None else 0  # by a pin or floor
    under_way = len(state.of(*ON_ITS_WAY)) + state.unlisted
    approved = max(state.required - under_way, min(state.required, max(growth_ever_approved(mine, now), floor)))
    if (target - approved) * price <= policy.growth_above_usd_per_hour:
        return target
    return min(target, max(state.required, approved_growth(mine, now), floor))


def unapproved(going: Sequence[Node], announced: Collection[Node], case: Case) -> tuple[Node, ...]:
    """Those of *going* that still need an approval, where the policy asks for it. Dead and *announced* nodes need none,
    nor do empty nodes at a budget stop."""
    if case.pool.approval is None or not case.pool.approval.removals:
        return ()
    announced_instances = {n.instance for n in announced}
    alive = [n for n in going if n.instance not in announced_instances and not is_dead(n, case)]
    needs = [n for n in alive if n.busy or not case.wanted.money.stopped]
    may_go = {busy: approved_instances(questions_of(case), case.now, busy=busy) for busy in (False, True)}
    return tuple(n for n in needs if n.instance not in may_go[n.busy])


def moments(case: Case) -> Iterator[datetime]:
    """Yield when people are asked before a removal, and when what they were asked changes."""
    approval = case.pool.approval
    if approval is not None and approval.removals:
        for node in case.state.of(Stage.USABLE):
            yield removal_moment(node, case) - approval.wait
    for question in questions_of(case):
        yield from (question.asked_at, question.wait_ends, question.expires_at)


def notes(case: Case) -> Iterator[Reason]:
    """Note the requests that stand."""
    for question in questions_of(case):
        if question.stands(case.now) and question.done_at is None:
            yield Reason(rule=NOTE, verdict=Verdict.NOTES, target=case.present, because=question)


NOTE = "question"  # the rule of a note
APPROVED = AddedGuardrail(
    guardrail=Guardrail(
        check=approved, say=_say_asked, plain=RULES[approved.__name__].plain, meaning=RULES[approved.__name__].meaning
    ),
    before="one_change_at_a_time",  # only for what no other guardrail holds, so that nothing is asked in vain
    grows_to=grows_unasked,
    holds_back=unapproved,
    moments=moments,
    notes=notes,
    rules={NOTE: Rule(meaning=RULES[NOTE].meaning, say=lambda question, case: (sentence(question, case.now), ()))},
)
