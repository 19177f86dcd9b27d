"""Each budget as a step sees it: what was spent, what is reserved, and what the month will come to."""

from collections.abc import Iterator, Mapping
from decimal import Decimal

from receiver.core.model.model import Facts
from receiver.core.model.policy import Budget, Policy, Pool, Scope
from receiver.core.model.resources import gpus_of
from receiver.core.money.budget import Budgets, BudgetView, month_of, stage_of, team_of
from receiver.core.money.cost import unit_price
from receiver.core.money.forecast import Outlook
from receiver.core.money.unanswered import kept_elsewhere, nodes_of, unseen

NOTHING = Decimal(0)


def views(facts: Facts, policy: Policy) -> Budgets:
    """Return the budgets as *facts* show them; none when the operator set none."""
    if policy.budget is None:
        return Budgets()
    seen = _Seen(facts, policy, policy.budget)
    return Budgets(views=(*seen.account(), *seen.cluster(), *seen.pools(), *seen.teams()))


class _Seen:
    """One moment of a month: the spend of each scope, and what its nodes cost by the hour."""

    def __init__(self, facts: Facts, policy: Policy, budget: Budget) -> None:
        self._facts, self._policy, self._budget, self._spend = facts, policy, budget, facts.spend
        self._month = month_of(facts.at, budget.timezone)
        self._changes = {
            (c.scope, c.name): c
            for c in facts.budget_changes
            if c.month == facts.spend.month and c.monthly_usd is not None
        }
        self._hourly = {p.id: _price(p) * nodes_of(facts.pool(p.id)) for p in policy.pools}
        coming = unseen(facts)
        self._kept = {p.id: coming.get(p.id, 0) * unit_price(_price(p), policy.billing) for p in policy.pools}
        self._all_kept = sum(self._kept.values(), kept_elsewhere(facts))
        self._everything = sum(self._hourly.values(), facts.spend.elsewhere_per_hour)
        self._unpriced = _unpriced(facts, policy)

    def account(self) -> Iterator[BudgetView]:
        spend = self._spend
        account = spend.account_at_least if spend.account is None else spend.account
        return self._view(
            Scope.ACCOUNT,
            "",
            self._budget.account_usd,
            account,
            self._everything,
            sum(spend.seen.values(), NOTHING),
            "" if spend.account is not None else "Civo's charges were not read yet",
            self._all_kept,
            beside=max(NOTHING, account - spend.usd),
            unpriced=self._unpriced,
            uncounted=spend.account_unpriced,
        )

    def cluster(self) -> Iterator[BudgetView]:
        return self._view(
            Scope.CLUSTER,
            "",
            self._budget.monthly_usd,
            self._spend.usd,
            self._everything,
            sum(self._spend.seen.values(), NOTHING),
            self._spend.unknown,
            self._all_kept,
            unpriced=self._unpriced,
        )

    def pools(self) -> Iterator[BudgetView]:
        for pool in self._policy.pools:
            yield from self._view(
                Scope.POOL,
                pool.id,
                pool.budget_usd,
                self._spend.pools.get(pool.id, Decimal(0)),
                self._hourly[pool.id],
                self._spend.seen.get(pool.id, NOTHING),
                self._spend.unknown,
                self._kept[pool.id],
                shown=pool.name,
            )

    def teams(self) -> Iterator[BudgetView]:
        """Whose the money before this ledger was is not known: it counts in full for each, as it may have been
        theirs."""
        spend, per_hour = self._spend, shares(self._facts, self._policy)
        unknown = "" if spend.teams is not None else "what teams use is not attributed yet"
        for team in sorted({*self._budget.teams, *(name for scope, name in self._changes if scope is Scope.TEAM)}):
            held, said = (spend.teams or {}).get(team, Decimal(0)), self._budget.teams.get(team)
            burn = per_hour.get(team, Decimal(0))
            yield from self._view(Scope.TEAM, team, said, held + spend.seeded, burn, held, unknown)

    def _view(
        self,
        scope: Scope,
        name: str,
        said: Decimal | None,
        spent: Decimal,
        per_hour: Decimal,
        seen: Decimal,
        unknown: str = "",
        kept: Decimal = NOTHING,
        beside: Decimal = NOTHING,
        **more: object,
    ) -> Iterator[BudgetView]:
        """The view of one budget; nothing where neither the configuration nor an operator set one. *seen* is what
        of it this ledger has watched, *beside* what of the account is not for nodes, in USD."""
        budget, policy, facts = self._budget, self._policy, self._facts
        change = self._changes.get((scope, name))
        monthly = change.monthly_usd if change is not None else said
        if monthly is None:
            return
        yield BudgetView(
            month=self._spend.month,
            monthly=monthly,
            spent=spent,
            reserved=unit_price(per_hour, policy.billing) + kept,
            stage=stage_of(spent, budget, monthly),
            warn_at=budget.warn_at,
            hold_at=budget.hold_at,
            stop_at=budget.stop_at,
            scope=scope,
            name=name,
            unknown=unknown,
            outlook=Outlook(
                at=facts.at,
                start=self._month.start,
                end=self._month.end,
                burn=per_hour,
                seen=seen,
                since=self._spend.seen_since,
                beside=beside,
            ),
            change=change,
            per_hour=per_hour,
            ends_at=self._month.end,
            **more,  # type: ignore[arg-type]  # the three that only some scopes have
        )


def _price(pool: Pool) -> Decimal:
    """USD per node-hour; 0 for an unpriced pool, whose nodes are named in `unpriced` and stop all growth."""
    return pool.price_usd_per_hour or Decimal(0)


def _unpriced(facts: Facts, policy: Policy) -> tuple[str, ...]:
    """Sizes without a price: of nodes in the ledger, and of pools with nodes whose size has lost its price since."""
    lost = (p.size for p in policy.pools if p.price_usd_per_hour is None and nodes_of(facts.pool(p.id)))
    return tuple(sorted({*facts.spend.unpriced, *lost}))


def shares(facts: Facts, policy: Policy) -> Mapping[str, Decimal]:
    """USD per hour of the nodes that the running pods of each team hold, by their share of the node's GPUs, in which
    a slice counts for what it is of a GPU, as it does in attribution."""
    found: dict[str, Decimal] = {}
    for pool in policy.pools:
        for node in facts.pool(pool.id).living:
            gpus = max(gpus_of(node.allocatable, node.labels), gpus_of(pool.resources, node.labels))
            for pod in node.pods:
                team = team_of(pod, policy)
                if team:
                    share = Decimal(gpus_of(pod.requests, node.labels)) / Decimal(gpus) * _price(pool)
                    found[team] = found.get(team, Decimal(0)) + share
    return found
