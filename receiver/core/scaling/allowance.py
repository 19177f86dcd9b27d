"""How far pools may grow: what they share (budgets, GPUs, growth per hour), and what needs an approval."""

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal

from receiver.core.model.approval_request import Question, approved_growth, growth_ever_approved
from receiver.core.model.model import ON_ITS_WAY, Facts, PoolState
from receiver.core.model.pods import Workload
from receiver.core.model.policy import Policy, Pool, Scope
from receiver.core.money.budget import Budgets, BudgetView, Key, Refusal, passes_hold, teams_of, unseen
from receiver.core.money.cost import unit_price
from receiver.core.scaling.bounds import BoundsInForce
from receiver.core.scaling.capacity import Tally

RULES = ("within_budget", "within_maximum", "within_limits")
Left = tuple[dict[Key, Decimal], int | None, int | None, dict[str, int]]


class Allowance:
    """What all pools share while nodes are opened: the money of every budget, GPUs, growth per hour."""

    def __init__(self, facts: Facts, policy: Policy, budgets: Budgets, *, closed: bool = False) -> None:
        limits = policy.limits
        self.policy = policy
        self.budgets = budgets
        self.closed = closed  # nothing may be opened at all
        self.left: dict[Key, Decimal] = {view.key: view.left for view in budgets.views}
        self._unit = {
            p.id: None if p.price_usd_per_hour is None else unit_price(p.price_usd_per_hour, policy.billing)
            for p in policy.pools
        }
        self._teams_matter = any(view.scope is Scope.TEAM for view in budgets.views)
        self._of_pools = {p.id: budgets.touched(p.id) for p in policy.pools}
        self._kept = dict(unseen(facts))  # nodes by pool that are already subtracted from what is left
        existing = sum(
            (max(s.required, len(s.living)) + self._kept.get(s.pool, 0)) * p.gpus_per_node
            for s in facts.pools
            if (p := policy.pool(s.pool))
        )
        self.gpus = None if limits.max_gpus is None else limits.max_gpus - existing
        per_hour = limits.max_growth_per_hour
        grown = facts.grown_last_hour + sum(self._kept.values())
        self.nodes = None if per_hour is None else per_hour - grown

    def _touched(self, tally: Tally, workload: Workload | None) -> tuple[BudgetView, ...]:
        """The budgets that must cover a node of the tally's pool for *workload* (None: for floor or standby)."""
        if workload is None or not self._teams_matter:
            return self._of_pools[tally.pool.id]
        return self.budgets.touched(tally.pool.id, teams_of(workload, self.policy, self.budgets))

    def refusing(self, tally: Tally, count: int, workload: Workload | None) -> Refusal | None:
        """The first budget that does not cover *count* more nodes of the tally's pool, or None."""
        unit = self._unit[tally.pool.id]
        passing = workload is not None and passes_hold(workload, self.policy)
        for view in self._touched(tally, workload):
            if unit is None or view.closed_to(passing=passing):
                return Refusal(view=view, passing=passing)
            if self._paid_by(view, tally, count) * unit > self.left[view.key]:
                return Refusal(view=view, passing=passing)
        return None

    def _more(self, tally: Tally, count: int) -> int:
        """How many of *count* nodes exceed what unanswered growth of the pool may bring: the same PUT again costs
        nothing more."""
        return max(0, count - self._kept.get(tally.pool.id, 0))

    def _paid_by(self, view: BudgetView, tally: Tally, count: int) -> int:
        """How many of *count* nodes *view* must cover; teams have paid nothing for unanswered growth."""
        return count if view.scope is Scope.TEAM else self._more(tally, count)

    def passes(self, tally: Tally, count: int, workload: Workload | None = None) -> int:
        """How many of the three checks (in order) *count* more nodes of the tally's pool pass; 3 is all."""
        if self.closed or self.refusing(tally, count, workload) is not None:
            return 0
        if tally.state.required + tally.within[2] + count > tally.bounds.max_nodes:
            return 1
        more = self._more(tally, count)
        gpus_fit = self.gpus is None or more * tally.pool.gpus_per_node <= self.gpus
        rate_fits = self.nodes is None or more <= self.nodes
        return 3 if gpus_fit and rate_fits else 2

    def mark(self) -> Left:
        """What is left now."""
        return dict(self.left), self.gpus, self.nodes, dict(self._kept)

    def return_to(self, left: Left) -> None:
        """Undo what was spent since *left* was marked."""
        self.left, self.gpus, self.nodes, self._kept = left

    def reserve(self, team: str, usd: Decimal) -> None:
        """Keep *usd* of a team's budget aside for nodes that its waiting work will hold."""
        if (Scope.TEAM, team) in self.left:
            self.left[Scope.TEAM, team] -= usd

    def spend(self, tally: Tally, count: int, workload: Workload | None = None) -> None:
        """Subtract *count* nodes from what is shared."""
        unit = self._unit[tally.pool.id]
        if unit is not None:
            for view in self._touched(tally, workload):
                self.left[view.key] -= self._paid_by(view, tally, count) * unit
        more = self._more(tally, count)
        if self.gpus is not None:
            self.gpus -= more * tally.pool.gpus_per_node
        if self.nodes is not None:
            self.nodes -= more
        if tally.pool.id in self._kept:
            self._kept[tally.pool.id] -= count - more

    def open(
        self, tally: Tally, why: str, count: int = 1, workload: Workload | None = None, passed: int | None = None
    ) -> int:
        """Request *count* more nodes; return how many checks they passed (3: they may be requested).

        *passed* is what `passes` has just returned for them (None: not asked yet).
        """
        passed = self.passes(tally, count, workload) if passed is None else passed
        room = min(count, tally.room_left)
        tally.counts[why] += count
        for check in range(passed):
            tally.within[check] += count
        if passed == len(RULES):  # nodes that a guardrail will hold must not use up the other pools' share
            self.spend(tally, int(room), workload)
        elif passed == 0:
            self.refuse(tally, count, workload)
        return passed

    def refuse(self, tally: Tally, count: int, workload: Workload | None) -> None:
        """Record which budget does not cover *count* more nodes of the tally's pool."""
        refusal = self.refusing(tally, count, workload)
        if refusal is not None and tally.pool.price_usd_per_hour is not None:  # a missing price has its own rule
            known = tally.uncovered.get(refusal.view.key)
            if known is None or known.passing:  # ordinary work needs more than passing work does
                tally.uncovered[refusal.view.key] = refusal
            if workload is not None:
                tally.refused.setdefault(workload.key, refusal)


def grows_unasked(
    target: int,
    pool: Pool,
    state: PoolState,
    bounds: BoundsInForce,
    questions: Iterable[Question],
    now: datetime,
) -> int:
    """Return the size up to *target* (nodes) that needs no further answer; at least the present size."""
    mine = tuple(q for q in questions if q.pool == pool.id)
    said = bounds.min_nodes if bounds.overrides.least is not None else 0  # by a pin or floor
    if not _costs_much(target, pool, state, max(growth_ever_approved(mine, now), said)):
        return target
    return min(target, max(state.required, approved_growth(mine, now), said))


def _costs_much(target: int, pool: Pool, state: PoolState, stood_for: int) -> bool:
    """True when the new nodes that no approval or override covers cost more than the pool's policy allows."""
    policy, price = pool.approval, pool.price_usd_per_hour
    if target <= state.required or policy is None or policy.growth_above_usd_per_hour is None or price is None:
        return False
    under_way = len(state.of(*ON_ITS_WAY)) + state.unlisted
    known = max(state.required - under_way, min(state.required, stood_for))
    return (target - known) * price > policy.growth_above_usd_per_hour
