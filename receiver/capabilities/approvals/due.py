"""Which approvals to request, and when: before idle nodes are removed or busy ones emptied, and before expensive
growth.

An approval is requested only for a change that every other guardrail would let through at its moment. Where hours are
paid, that moment is the end of one, so the request is sent ahead of it.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from receiver.capabilities.approvals.coverage import covered_instances, growth_covered, growth_rejected
from receiver.capabilities.approvals.guardrail import approved, questions_of, unapproved
from receiver.core.model.actions import Decision, Verdict
from receiver.core.model.model import Facts, Node, PoolState
from receiver.core.model.overrides import Asks, Question
from receiver.core.model.policy import Approval, Policy, Pool
from receiver.core.money.cost import next_unit_at
from receiver.core.scaling.decide import case_of, later
from receiver.core.scaling.guardrails import GUARDRAILS, LASTING, apply
from receiver.core.scaling.guardrails.rule import Case
from receiver.core.scaling.removal import SAFETY_MINIMUM, is_dead, removable, removable_at
from receiver.core.scaling.wanted import Assignment, Wanted

TIME_TO_ANSWER = timedelta(minutes=1)  # with less time left, no request is sent
STANDS_FOR = timedelta(hours=1)  # after its wait, unless a paid unit ends it
GROWS_FOR = timedelta(minutes=5)  # at most one request in this time while demand comes in


def due_requests(
    facts: Facts, assignment: Assignment, decisions: Mapping[str, Decision], policy: Policy
) -> tuple[Question, ...]:
    """Return the requests that are due now; *decisions* (by pool id) follow from the known answers."""
    requests: list[Question] = []
    for pool in policy.pools:
        wanted = assignment.pools[pool.id]
        if pool.approval is None or wanted.failed:
            continue
        case = case_of(facts.pool(pool.id), wanted, facts, policy)
        decision = decisions[pool.id]
        held = [r.rule for r in decision.reasons if r.verdict is not Verdict.ALLOWS and r.target == decision.present]
        full = any(rule in LASTING for rule in held)
        requests += _removals(replace(case, growth_held=full, full=full), pool.approval)
        requests += _growth(decision, case, pool.approval)
    return tuple(requests)


def _removals(case: Case, approval: Approval) -> Sequence[Question]:
    wanted, now = case.wanted, case.now
    if not approval.removals or (wanted.new_nodes and not wanted.money.stopped and not case.full):
        return ()
    soon = removable(case, 2 * approval.wait)  # one request covers what would be asked during this wait
    coming = soon.nodes
    covered = {busy: covered_instances(questions_of(case), now, busy=busy) for busy in (False, True)}
    asks = [n for n in unapproved(coming, soon.announced, case) if n.instance not in covered[n.busy]]
    rests = min(SAFETY_MINIMUM, case.pool.idle_for)
    asks = [n for n in asks if n.idle_since is None or now >= n.idle_since + rests]
    waits = [n for n in asks if _over_at(n, case, approval) - now >= TIME_TO_ANSWER]
    if not any(removable_at(n, case) - approval.wait <= now for n in waits):
        return ()
    last = {n.instance for n in waits}
    others = [n for n in coming if n.instance not in last]
    # Those that every other guardrail lets go when their moment comes, as far as is known now; the others go first.
    then = later(case, max(now, *(removable_at(n, case) for n in waits)))
    then = replace(then, dead=sum(is_dead(n, case) for n in coming), empty=sum(not n.busy for n in coming))
    target = apply(case.present - len(coming), then, GUARDRAILS)[-1].target
    goes = [*others, *waits][: max(0, case.present - target)][len(others) :]
    requests: list[Question] = []
    for kind, nodes in ((Asks.REMOVAL, [n for n in goes if not n.busy]), (Asks.EMPTYING, [n for n in goes if n.busy])):
        if nodes:
            question = _question(kind, case.present, case.present - len(nodes), case, approval, nodes)
            due_at = max(now, min(removable_at(n, case) for n in nodes))
            expires_at = max(_over_at(n, case, approval) for n in nodes)
            requests.append(replace(question, due_at=due_at, expires_at=expires_at))
    return requests


def _over_at(node: Node, case: Case, approval: Approval) -> datetime:
    """When a request about *node* expires: at the end of its paid unit."""
    if case.policy.billing.by_the_hour:
        return next_unit_at(node.created_at, case.now, case.policy.billing)
    return max(case.now, removable_at(node, case)) + approval.wait + STANDS_FOR


def _question(
    asks: Asks, from_count: int, to_count: int, case: Case, approval: Approval, nodes: Sequence[Node] = ()
) -> Question:
    price, now, instances = case.pool.price_usd_per_hour, case.now, tuple(n.instance for n in nodes)
    return Question(
        id=_id_of(case.pool, asks, from_count, to_count, instances, now),
        pool=case.pool.id,
        asks=asks,
        from_count=from_count,
        to_count=to_count,
        asked_at=now,
        due_at=now,
        wait_ends=now + approval.wait,
        expires_at=now + approval.wait + STANDS_FOR,
        unanswered=approval.unanswered,
        instances=instances,
        nodes=tuple(n.name for n in nodes),
        usd_per_hour=None if price is None else abs(to_count - from_count) * price,
    )


def _id_of(pool: Pool, asks: Asks, from_count: int, to_count: int, instances: Iterable[str], at: datetime) -> str:
    text = f"{pool.id} {asks} {from_count} {to_count} {sorted(instances)} {at.isoformat()}"
    return f"{pool.name}-{asks}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _growth(decision: Decision, case: Case, approval: Approval) -> Sequence[Question]:
    """The request for growth that only a missing approval holds; a new one for more than was asked before."""
    targets = [r.target for r in decision.reasons]
    held = next((n for n, r in enumerate(decision.reasons) if r.rule == approved.__name__), None)
    if not held or targets[held - 1] <= max(decision.present, targets[held]):
        return ()
    to_count, now, questions = targets[held - 1], case.now, questions_of(case)
    newest = max((q.asked_at for q in questions if q.asks is Asks.GROWTH and q.is_open(now)), default=None)
    covered = growth_rejected(questions, now) or growth_covered(questions, now) >= to_count
    if covered or (newest is not None and now - newest < GROWS_FOR):
        return ()
    return (_question(Asks.GROWTH, targets[held], to_count, case, approval),)


def is_done(question: Question, facts: Facts) -> bool:
    """True when nothing is left of *question*: growth has reached its count, or its nodes are gone."""
    state = next((s for s in facts.pools if s.pool == question.pool), None)
    if state is None:
        return True
    if question.asks is Asks.GROWTH:
        return state.required >= question.to_count
    return not {n.instance for n in state.nodes} & set(question.instances)


def is_wanted(question: Question, state: PoolState, wanted: Wanted) -> bool:
    """True while an approval of *question* would still help: its nodes are idle or could be emptied, or work waits."""
    if question.asks is Asks.GROWTH:
        return state.required + wanted.new_nodes > question.from_count
    if wanted.new_nodes and not wanted.money.stopped:
        return False
    nodes = (n for n in state.living if n.instance in question.instances)
    return any(not n.busy or n.instance in wanted.nodes.movable | wanted.nodes.repairs for n in nodes)
