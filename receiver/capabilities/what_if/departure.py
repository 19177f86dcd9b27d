"""What would happen if a node went: which pods would move where, who would wait for what, what that saves, and what
blocks the removal now."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from receiver.core.explain.evidence import with_grounds
from receiver.core.explain.explain import Fate, fates
from receiver.core.explain.prospects import first_removal, held_by_guardrail, reasons_to_stay, repair_waits
from receiver.core.explain.rules import sentence
from receiver.core.explain.staying import obstacle
from receiver.core.model.actions import Action, Decision, Verdict, VictimStage
from receiver.core.model.model import Facts, Node, PoolState, Stage
from receiver.core.model.pods import Pod, PodPhase, Workload
from receiver.core.model.policy import Policy, Pool
from receiver.core.model.text import clock
from receiver.core.money.cost import next_unit_at, unit_price
from receiver.core.scaling.assign import assign
from receiver.core.scaling.decide import case_of, decide_all, removals_under_way
from receiver.core.scaling.guardrails.rule import AddedGuardrail, Case
from receiver.core.scaling.holds import removal_backs_off
from receiver.core.scaling.removal import way_of
from receiver.core.scaling.retirement import EMPTIED
from receiver.core.scaling.wanted import Assignment, SizeSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What becomes of a workload: *before* with the node (None: it runs there), *after* without it."""

    workload: Workload
    before: Fate | None
    after: Fate


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """The consequences if *node* of *pool* went now.

    *moved* are the workloads of the pods that run there, *affected* those that wait already and would fare otherwise,
    *lost* the pods that nothing starts again. *bought* counts the nodes by pool that would be bought for all of them.
    *usd_per_hour* is the node's price (None: unknown), *paid_until* when its next paid unit begins, *unused_usd* the
    part of the present one that would not be used. *blocks* are sentences on what prevents the removal now, none if it
    may go; *at* is when it may go if nothing happens before (None: not known).
    """

    node: Node
    pool: Pool
    moved: tuple[Turn, ...]
    affected: tuple[Turn, ...]
    lost: tuple[Pod, ...]
    bought: Mapping[str, int]
    usd_per_hour: Decimal | None
    paid_until: datetime
    unused_usd: Decimal | None
    blocks: tuple[str, ...]
    at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outlook:
    facts: Facts
    assignment: Assignment
    decisions: Mapping[str, Decision]
    fates: Sequence[tuple[Workload, Fate]]


def find_node(facts: Facts, name: str) -> tuple[PoolState, Node] | None:
    """Return the node of that name or instance id, with the state of its pool."""
    every = ((state, node) for state in facts.pools for node in state.nodes)
    return next(((s, n) for s, n in every if name in (n.name, n.instance)), None)


def departure(
    state: PoolState,
    node: Node,
    facts: Facts,
    policy: Policy,
    *,
    observing: bool = False,
    actions: Sequence[Action] = (),
    sources: Sequence[SizeSource] = (),
    guardrails: Sequence[AddedGuardrail] = (),
) -> Departure:
    """Return what would happen if *node* of the pool in *state* went now. Raises KeyError unless *policy* has the
    pool. *actions* are the latest of the pool, newest first: they know what an earlier removal failed on.
    Capabilities add *sources* of size and *guardrails*."""
    pool = policy.pool(state.pool)
    if pool is None:
        raise KeyError(state.pool)
    before = _outlook(facts, policy, observing, sources, guardrails)
    running = [pod for pod in node.pods if not pod.daemon and not pod.terminating]
    coming = tuple(_waiting(pod) for pod in running if pod.owner)
    after = _outlook(_without(node, state, coming, facts), policy, observing, sources, guardrails)
    earlier = {workload.key: fate for workload, fate in before.fates}
    ours = {pod.key for pod in coming}
    moved, affected = [], []
    for workload, fate in after.fates:
        turn = Turn(workload=workload, before=earlier.get(workload.key), after=fate)
        if ours & {pod.key for pod in workload.pods}:
            moved.append(replace(turn, before=None))
        elif turn.before is None or _differs(turn.before, fate):
            affected.append(turn)
    billing, price = policy.billing, pool.price_usd_per_hour
    paid_until = next_unit_at(node.created_at, facts.at, billing)
    share = Decimal((paid_until - facts.at) / billing.granularity)
    case = _case(state, before, policy)
    blocks, at = _blocks(node, case, before.decisions[state.pool], _failed(node, actions, facts.at))
    careful = repair_waits(node, case)
    blocks = [*blocks, careful] if careful and at != facts.at else blocks
    return Departure(
        node=node,
        pool=pool,
        moved=tuple(moved),
        affected=tuple(affected),
        lost=tuple(pod for pod in running if not pod.owner),
        bought={p: n for p in after.decisions if (n := _growth(after.decisions[p]) - _growth(before.decisions[p])) > 0},
        usd_per_hour=price,
        paid_until=paid_until,
        unused_usd=None if price is None else unit_price(price, billing) * share,
        blocks=tuple(blocks),
        at=at,
    )


def _outlook(
    facts: Facts,
    policy: Policy,
    observing: bool,
    sources: Sequence[SizeSource],
    guardrails: Sequence[AddedGuardrail],
) -> _Outlook:
    assignment = assign(facts, policy, sources=sources, guardrails=guardrails)
    decisions = decide_all(facts, assignment, policy, explained_by=with_grounds)
    workload_fates = tuple(fates(facts, assignment, decisions, policy, observing=observing))
    return _Outlook(facts=facts, assignment=assignment, decisions=decisions, fates=workload_fates)


def _without(node: Node, state: PoolState, waiting: Sequence[Pod], facts: Facts) -> Facts:
    other_nodes = tuple(n for n in state.nodes if n.instance != node.instance)
    smaller = replace(state, nodes=other_nodes, required=max(0, state.required - 1))
    bound = Counter(facts.other_work.bound_gangs)
    bound.subtract(pod.gang for pod in node.pods if pod.gang is not None and not pod.terminating)
    return replace(
        facts,
        pools=tuple(smaller if s.pool == state.pool else s for s in facts.pools),
        waiting=(*facts.waiting, *waiting),
        other_work=replace(facts.other_work, bound_gangs=+bound),
    )


def _waiting(pod: Pod) -> Pod:
    """*pod* as its controller would create it again."""
    return replace(
        pod,
        phase=PodPhase.WAITING,
        node=None,
        times=replace(pod.times, bound_at=None, running_since=None),
        scheduler_says="",
    )


def _differs(before: Fate, after: Fate) -> bool:
    return (before.state, before.pool, before.node) != (after.state, after.pool, after.node)


def _growth(decision: Decision) -> int:
    return max(0, decision.target - decision.present)


def _case(state: PoolState, outlook: _Outlook, policy: Policy) -> Case:
    facts, limit = outlook.facts, policy.limits.max_removals_per_hour
    under_way = sum(removals_under_way(s) for s in facts.pools)
    removals_left = None if limit is None else max(0, limit - facts.earlier.removed_last_hour - under_way)
    return case_of(state, outlook.assignment.pools[state.pool], facts, policy, removals_left)


def _blocks(node: Node, case: Case, decision: Decision, failed: str) -> tuple[Sequence[str], datetime | None]:
    """Return what prevents the removal of *node* now, in sentences, and when it may go (None: not known). *failed*
    says what the last removal failed on."""
    if node.instance in decision.candidates[: max(0, decision.present - decision.target)]:
        return _under_way(node, case)
    backoff = removal_backs_off(node, case)
    if backoff is not None and not failed:
        failed = f"an earlier try failed: {backoff.why}"
    earlier = [failed] if failed else []
    own = reasons_to_stay(node, case, way_of(node, case))
    guardrail = held_by_guardrail(case, sentence)
    if own:
        return [*own, *earlier, *([guardrail] if guardrail else [])], None
    if node.stage is Stage.USABLE:
        at, cause = first_removal([node], case, sentence)
    elif guardrail:
        return [*earlier, guardrail], None
    else:
        at, cause = case.now if backoff is None else backoff.until, ""
    if at == case.now and decision.deciding.verdict in (Verdict.HOLDS, Verdict.LIMITS):  # people, above all
        return [*earlier, sentence(decision.deciding, case)], None
    if at is None or at <= case.now:
        return [*earlier, cause] if at is None else earlier, at
    by_the_hour = case.policy.billing.by_the_hour and backoff is None
    reason = f": {cause}" if cause else ", shortly before its next paid hour" if by_the_hour else ""
    again = "it is tried again at" if failed else "it can be removed at"
    return [*earlier, f"{again} {clock(at, case.now)}{reason}"], at


def _under_way(node: Node, case: Case) -> tuple[Sequence[str], datetime | None]:
    """What the removal of *node* that has begun waits for, if anything, and when it is tried again."""
    action = case.state.open_action
    victims = action.victims if action is not None else ()
    reason = next((v.why for v in victims if v.instance == node.instance and v.stage is not VictimStage.SPARED), "")
    if action is None or not reason:
        return (), case.now
    at = max(case.now, action.retry_at or case.now)
    again = f"it is tried again at {clock(at, case.now)}" if at > case.now else "it is tried again in the next step"
    return [f"its removal has begun and waits: {reason}", again], at


def _failed(node: Node, actions: Sequence[Action], now: datetime) -> str:
    """What the last removal of *node* failed on, in a sentence; empty where it was given up for another reason, or work
    has run there since."""
    victims = (victim for action in actions for victim in action.victims if victim.instance == node.instance)
    last = next(victims, None)
    if last is None or last.stage is not VictimStage.SPARED or last.since is None or not obstacle(last):
        return ""
    if last.because not in EMPTIED and (node.busy or (node.idle_since is not None and node.idle_since > last.since)):
        return ""
    return f"its removal failed at {clock(last.since, now)}: {obstacle(last)}"
