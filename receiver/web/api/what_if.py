"""What if: the facts of the last step decided by another configuration (POST /api/v1/what-if), and without one node
(GET /api/v1/nodes/{name}/what-if). Nothing is stored, asked or changed."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Annotated, Any

from flask import Blueprint, Response, g, jsonify, request

from receiver.config.live import differences
from receiver.config.settings import FileSettings
from receiver.config.values import ConfigError
from receiver.core.explain.departure import Departure, Turn, departure, find_node
from receiver.core.explain.explain import Fate, State, fates
from receiver.core.explain.rules import why
from receiver.core.explain.what_if import at_the_end, facts_under, not_rederived, per_hour
from receiver.core.model.model import Facts
from receiver.core.model.pods import Workload
from receiver.core.model.policy import Policy
from receiver.core.money.budget import BudgetStage, nodes_of
from receiver.core.scaling.approval import without_approvals
from receiver.ports import StoredAction
from receiver.reports.document import Cents, Count, Instant, Listed, Published, Usd, says, word
from receiver.step.decide import Decided, decide
from receiver.step.parts import Parts
from receiver.web.api.request_parts import read_body
from receiver.web.errors import Problem
from receiver.web.parts import LastStep, WebParts

LARGEST_CONFIGURATION = 64 * 1024  # bytes
# Of one configuration, unless the one in force has more: each takes time to be considered.
MOST: Mapping[str, int] = {"nodes": 20_000, "pools": 100, "windows": 300, "teams": 300}
MOST_WORKLOADS = 500
RECENT_ACTIONS = 50  # of a pool: a node's last removal is one of them
OBSERVE = "observe"
ONE = threading.Lock()  # for the API and the pages: a question takes up to a second of the processor that steps need
TOO_LARGE = f"a configuration has at most {LARGEST_CONFIGURATION // 1024} KiB"


class PoolSide(Published):
    """What one configuration decides for a pool."""

    nodes: Annotated[Count, says("the size that it wants")]
    rule: Annotated[str, says("the deciding rule")]
    because: Annotated[str, says("why, in a sentence")]
    usd_per_hour: Annotated[Usd, says("of that size")]


class PoolWhatIf(Published):
    """One pool under both configurations. A side is null where that configuration does not have the pool."""

    pool: Annotated[str, says("its id at Civo")]
    name: str
    nodes: Annotated[Count, says("that it has now or has requested")]
    in_force: PoolSide | None
    other: PoolSide | None


class FateDocument(Published):
    """What becomes of a workload that waits."""

    state: Annotated[str, word(State)]
    detail: Annotated[str, says("in a sentence")]
    pool: Annotated[str | None, says("the name of the pool that it is about")]
    node: Annotated[str | None, says("the name of the node that has room for it")]
    rule: Annotated[str | None, says("the rule that holds it")]


class WorkloadWhatIf(Published):
    """A workload that waits, under both configurations."""

    workload: str
    gpus: Count
    pods: Count
    in_force: FateDocument
    other: FateDocument

    @property
    def differs(self) -> bool:
        """True where its outcome differs under the other configuration, whatever the sentences say."""
        sides = ((f.state, f.pool, f.node, f.rule) for f in (self.in_force, self.other))
        return len(set(sides)) > 1


class BudgetSide(Published):
    """One budget under a configuration."""

    title: str
    stage: Annotated[str, word(BudgetStage)]
    spent_usd: Cents
    monthly_usd: Usd


class MoneySide(Published):
    """What a configuration costs once every pool has its size. Nodes that are not managed count too."""

    usd_per_hour: Usd
    month_usd: Annotated[Cents | None, says("the month's cost if that is paid until its end; null: unknown")]
    budgets: Listed[BudgetSide]


class WhatIfDocument(Published):
    """The facts of one step, decided by the configuration in force and by another one."""

    at: Annotated[Instant, says("of the facts")]
    changes: Annotated[Listed[str], says("the keys that differ")]
    warnings: Annotated[Listed[str], says("that only the other configuration causes")]
    assumptions: Annotated[Listed[str], says("what stays as under the configuration in force")]
    pools: Listed[PoolWhatIf]
    waiting: Annotated[Listed[WorkloadWhatIf], says("500, a different outcome first, in the order of service")]
    waiting_total: Count
    differs_total: Annotated[Count, says("of all: those with a different outcome")]
    in_force: MoneySide
    other: MoneySide


class TurnDocument(Published):
    """A workload without the node. *before* is null for one that runs there."""

    workload: str
    gpus: Count
    before: FateDocument | None
    after: FateDocument


class BoughtDocument(Published):
    """Nodes that would be bought."""

    pool: Annotated[str, says("the pool's name")]
    nodes: Count
    usd_per_hour: Annotated[Usd | None, says("of all of them; null without a price")]


class NodeWhatIfDocument(Published):
    """What would happen if a node were removed now."""

    at: Annotated[Instant, says("of the facts")]
    node: str
    pool: Annotated[str, says("the pool's name")]
    stage: str
    blocks: Annotated[Listed[str], says("what prevents its removal now; empty if it may go")]
    may_go_at: Annotated[Instant | None, says("unless something changes; null: not known")]
    moved: Annotated[Listed[TurnDocument], says("the work that runs on it")]
    affected: Annotated[Listed[TurnDocument], says("work that waits already and would have a different outcome")]
    lost: Annotated[Listed[str], says("pods on it that no controller recreates")]
    bought: Listed[BoughtDocument]
    usd_per_hour: Annotated[Usd | None, says("what the node costs; null without a price")]
    saves_usd_per_hour: Annotated[Usd | None, says("that, less the nodes bought; negative: it costs more")]
    paid_until: Annotated[Instant, says("when its next paid unit begins: nothing is saved before")]
    unused_usd: Annotated[Cents | None, says("paid for the time until then")]


class Side:
    """The facts decided under one configuration."""

    def __init__(self, facts: Facts, settings: FileSettings, mode: str) -> None:
        observing = mode == OBSERVE
        self.policy: Policy = without_approvals(settings.policy) if observing else settings.policy
        self.decided: Decided = decide(facts, self.policy, Parts(), asks=True, chores=True)
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
    before = Side(last.facts, last.settings, last.mode)
    after = Side(facts_under(last.facts, policy_in_force, proposed_policy), proposed, mode)
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
    ruled = without_approvals(policy) if observing else policy
    actions = [stored.action for stored in actions_of(node_in_pool[0].pool)]
    node_departure = departure(*node_in_pool, last.facts, ruled, observing=observing, actions=actions)
    return _departure_document(node_departure, last.facts, ruled)


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


class WhatIf:
    """Answers what-if questions from the last step of this process, one at a time in the whole process."""

    def __init__(self, parts: WebParts) -> None:
        self._parts = parts

    @contextmanager
    def _last(self) -> Iterator[LastStep]:
        """Yield the last step. Raises Problem 503 where this process has none, or answers another question."""
        last = self._parts.last_step()
        if last is None:
            leader = self._parts.heartbeat().leader
            leads = leader is not None and not leader.mine
            problem = "this replica takes no steps" if leads else "no step has finished yet"
            ask = f"ask the replica that leads, {leader.name}" if leader is not None and leads else "ask again soon"
            raise Problem(503, problem, ask)
        if not ONE.acquire(blocking=False):
            raise Problem(503, "another what-if question is being answered", "ask again in a moment", retry_after=1)
        try:
            g.step_at = last.facts.at
            yield last
        finally:
            ONE.release()

    def of_text(self, text: str, *, changes: bool) -> WhatIfDocument:
        """Compare with the configuration in *text*, or with the one in force and the *changes* in it. Raises
        ConfigError, and Problem 413 or 503."""
        if len(text) > LARGEST_CONFIGURATION:
            problem = f"the configuration is larger than {LARGEST_CONFIGURATION} bytes"
            raise Problem(413, problem, TOO_LARGE, limit_bytes=LARGEST_CONFIGURATION)
        with self._last() as last:
            settings = self._parts.other_settings(text, changes)
            require_few(settings.policy, last.settings.policy)
            return compare(last, settings)

    def of_node(self, name: str) -> NodeWhatIfDocument:
        """Raises Problem 404 or 503."""
        with self._last() as last:
            return without_node(last, name, self._actions_of)

    def _actions_of(self, pool: str) -> Sequence[StoredAction]:
        return self._parts.store.actions(pool=pool, limit=RECENT_ACTIONS)


def problem_of(error: ConfigError) -> Problem:
    """Return the 400 that lists the mistakes of a configuration."""
    mistakes: Sequence[Mapping[str, Any]] = [
        {"field": mistake.path, "problem": mistake.problem, "remedy": mistake.remedy} for mistake in error.mistakes
    ]
    many = "1 mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
    first = error.mistakes[0]
    remedy = first.remedy or "check the file with gpu-autoscaler check-config"
    return Problem(400, f"invalid configuration: {many}", remedy, field=first.path, mistakes=mistakes)


def add_what_if(routes: Blueprint, parts: WebParts) -> None:
    """Add both routes to *routes*."""
    evaluator = WhatIf(parts)

    @routes.post("/what-if")
    def what_if() -> Response:
        body = read_body(request, LARGEST_CONFIGURATION, TOO_LARGE)
        kind = request.args.get("as", "file")
        if kind not in ("file", "changes"):
            raise Problem(400, "as is neither file nor changes", "write changes, or leave it out", field="as")
        try:
            return jsonify(evaluator.of_text(body.decode(), changes=kind == "changes"))
        except UnicodeDecodeError:
            raise Problem(400, "the body is not UTF-8", "save the file as UTF-8") from None
        except ConfigError as error:
            raise problem_of(error) from None

    @routes.get("/nodes/<name>/what-if")
    def node_what_if(name: str) -> Response:
        return jsonify(evaluator.of_node(name))
