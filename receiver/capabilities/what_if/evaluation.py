"""The facts of the last step decided by another configuration, and without one node. Nothing is stored or changed."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

from receiver.capabilities.what_if.departure import Departure, Turn, departure, find_node
from receiver.capabilities.what_if.documents import (
    BoughtDocument,
    BudgetSide,
    FateDocument,
    MoneySide,
    NodeWhatIfDocument,
    PoolSide,
    PoolWhatIf,
    TurnDocument,
    WhatIfDocument,
    WorkloadWhatIf,
)
from receiver.capabilities.what_if.facts_under import at_the_end, facts_under, not_rederived, per_hour
from receiver.config.live import differences
from receiver.config.settings import FileSettings
from receiver.core.explain.explain import Fate, fates
from receiver.core.explain.rules import why
from receiver.core.model.model import Facts
from receiver.core.model.pods import Workload
from receiver.core.model.policy import Policy
from receiver.core.money.budget import nodes_of
from receiver.ports import StoredAction
from receiver.step.decide import Decided, decide
from receiver.step.parts import Additions, Parts
from receiver.web.errors import Problem
from receiver.web.parts import LastStep

# Of one configuration, unless the one in force has more: each takes time to be considered.
MOST: Mapping[str, int] = {"nodes": 20_000, "pools": 100, "windows": 300, "teams": 300}
MOST_WORKLOADS = 500
OBSERVE = "observe"


class Side:
    """The facts decided under one configuration."""

    def __init__(self, facts: Facts, settings: FileSettings, mode: str, additions: Additions) -> None:
        observing = mode == OBSERVE
        self.policy: Policy = settings.policy
        additions = additions.unattended if observing else additions
        self.decided: Decided = decide(
            facts, self.policy, Parts(), asks=not observing, chores=True, additions=additions
        )
        self.facts = self.decided.facts
        self.fates: Mapping[str, tuple[Workload, Fate]] = {
            workload.key: (workload, fate)
            for workload, fate in fates(
                self.facts, self.decided.assignment, self.decided.decisions, self.policy, observing=observing
            )
        }

    def pool(self, pool_id: str) -> PoolSide | None:
        """What it decides for that pool, None for one that it does not have."""
        decision = self.decided.decisions.get(pool_id)
        pool = self.policy.pool(pool_id)
        if decision is None or pool is None:
            return None
        return PoolSide(
            nodes=decision.target,
            rule=decision.deciding.rule,
            because=decision.evidence.get("because") or why(decision),
            usd_per_hour=per_hour(pool, self.facts.pool(pool_id), decision.target),
        )

    def fate(self, key: str) -> FateDocument:
        return _fate(self.fates[key][1], self.policy)

    @property
    def money(self) -> MoneySide:
        sides = [self.pool(pool.id) for pool in self.policy.pools]
        usd = self.facts.spend.elsewhere_per_hour + sum((s.usd_per_hour for s in sides if s is not None), Decimal(0))
        views = self.decided.assignment.budgets.views
        return MoneySide(
            usd_per_hour=usd,
            month_usd=at_the_end(self.facts, usd, self.policy).usd,
            budgets=tuple(
                BudgetSide(title=v.title, stage=v.stage.value, spent_usd=v.spent, monthly_usd=v.monthly) for v in views
            ),
        )


def require_few(policy: Policy, in_force: Policy) -> None:
    """Raise Problem 400 for a *policy* that would take seconds of the processor."""
    counts, counts_in_force = _counts(policy), _counts(in_force)
    for kind, most in MOST.items():
        if counts[kind] > max(most, counts_in_force[kind]):
            problem = f"the configuration has {counts[kind]:,} {kind} together"
            raise Problem(
                400, problem, f"ask about at most {most:,}", field="budget.teams" if kind == "teams" else "pools"
            )


def _counts(policy: Policy) -> Mapping[str, int]:
    return {
        "nodes": sum(pool.max_nodes for pool in policy.pools),
        "pools": len(policy.pools),
        "windows": sum(len(pool.windows) for pool in policy.pools),
        "teams": len(policy.budget.teams) if policy.budget is not None else 0,
    }


def compare(last: LastStep, proposed: FileSettings) -> WhatIfDocument:
    """Return the facts of the *last* step as decided by its settings and by *proposed*."""
    policy_in_force, proposed_policy = last.settings.policy, proposed.policy
    assumptions = list(not_rederived(last.facts, policy_in_force, proposed_policy))
    warming_up = last.mode != last.settings.configuration.mode.value
    mode = last.mode if warming_up else proposed.configuration.mode.value
    if last.mode == OBSERVE != mode:
        assumptions.append("the RBAC permissions to remove nodes are not checked in observe mode")
    before = Side(last.facts, last.settings, last.mode, last.additions)
    after = Side(facts_under(last.facts, policy_in_force, proposed_policy), proposed, mode, last.additions)
    pools = {pool.id: pool for pool in (*proposed_policy.pools, *policy_in_force.pools)}
    states = {state.pool: state for state in last.facts.pools}
    waiting = [_both(before, after, key) for key in before.fates if key in after.fates]
    waiting.sort(key=lambda work: not work.differs)
    return WhatIfDocument(
        at=last.facts.at,
        changes=tuple(differences(last.settings, proposed)),
        warnings=tuple(warning for warning in proposed.warnings if warning not in last.settings.warnings),
        assumptions=tuple(assumptions),
        pools=tuple(
            PoolWhatIf(
                pool=pool.id,
                name=pool.name,
                nodes=nodes_of(states[pool.id]) if pool.id in states else 0,
                in_force=before.pool(pool.id),
                other=after.pool(pool.id),
            )
            for pool in pools.values()
        ),
        waiting=tuple(waiting[:MOST_WORKLOADS]),
        waiting_total=len(waiting),
        differs_total=sum(work.differs for work in waiting),
        in_force=before.money,
        other=after.money,
    )


def _both(before: Side, after: Side, key: str) -> WorkloadWhatIf:
    workload = before.fates[key][0]
    return WorkloadWhatIf(
        workload=key, gpus=workload.gpus, pods=len(workload.pods), in_force=before.fate(key), other=after.fate(key)
    )


def _fate(fate: Fate, policy: Policy) -> FateDocument:
    pool = policy.pool(fate.pool) if fate.pool else None
    return FateDocument.of(fate, state=fate.state.value, pool=pool.name if pool else None)


def without_node(last: LastStep, name: str, actions_of: Callable[[str], Sequence[StoredAction]]) -> NodeWhatIfDocument:
    """Return what would happen if that node were removed. *actions_of* gives the last actions of a pool by its id.
    Raises Problem 404 for a node that no configured pool has."""
    node_in_pool, policy = find_node(last.facts, name), last.settings.policy
    if node_in_pool is None:
        node_names = [str(node.name) for state in last.facts.pools for node in state.nodes]
        remedy = "`gpu-autoscaler explain pool NAME` lists the nodes of a configured pool"
        raise Problem(
            404, "no GPU pool has a node of this name", remedy, field="name", known=node_names[:MOST_WORKLOADS]
        )
    observing = last.mode == OBSERVE
    additions = last.additions.unattended if observing else last.additions
    actions = [stored.action for stored in actions_of(node_in_pool[0].pool)]
    node_departure = departure(
        *node_in_pool,
        last.facts,
        policy,
        observing=observing,
        actions=actions,
        sources=additions.sources,
        guardrails=additions.guardrails,
    )
    return _departure_document(node_departure, last.facts, policy)


def _departure_document(node_departure: Departure, facts: Facts, policy: Policy) -> NodeWhatIfDocument:
    bought = [_bought(pool_id, nodes, policy) for pool_id, nodes in node_departure.bought.items()]
    prices = [node_departure.usd_per_hour, *(purchase.usd_per_hour for purchase in bought)]
    known_prices = [price for price in prices if price is not None]
    return NodeWhatIfDocument(
        at=facts.at,
        node=node_departure.node.name,
        pool=node_departure.pool.name,
        stage=node_departure.node.stage.value,
        blocks=node_departure.blocks,
        may_go_at=node_departure.at,
        moved=tuple(_turn(turn, policy) for turn in node_departure.moved),
        affected=tuple(_turn(turn, policy) for turn in node_departure.affected[:MOST_WORKLOADS]),
        lost=tuple(pod.key for pod in node_departure.lost),
        bought=tuple(bought),
        usd_per_hour=node_departure.usd_per_hour,
        saves_usd_per_hour=known_prices[0] - sum(known_prices[1:], Decimal(0))
        if len(known_prices) == len(prices)
        else None,
        paid_until=node_departure.paid_until,
        unused_usd=node_departure.unused_usd,
    )


def _turn(turn: Turn, policy: Policy) -> TurnDocument:
    before = None if turn.before is None else _fate(turn.before, policy)
    return TurnDocument(
        workload=turn.workload.key, gpus=turn.workload.gpus, before=before, after=_fate(turn.after, policy)
    )


def _bought(pool_id: str, nodes: int, policy: Policy) -> BoughtDocument:
    pool = policy.pool(pool_id)
    price = pool.price_usd_per_hour if pool is not None else None
    usd = None if price is None else nodes * price
    return BoughtDocument(pool=pool.name if pool is not None else pool_id, nodes=nodes, usd_per_hour=usd)
