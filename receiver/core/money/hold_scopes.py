"""Where new GPU work is kept out, which is while the budget of the cluster or the account is beyond its hold line."""

from dataclasses import dataclass

from receiver.core.model.policy import Policy, Scope
from receiver.core.money.budget import Budgets


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What should keep new work out now: nothing but for *passing* priority classes may ask for *resources* in
    *namespaces*, and *cluster_queues* are on Hold. *why* names the budgets, *month* is theirs."""

    month: str
    why: str = ""
    namespaces: tuple[str, ...] = ()
    cluster_queues: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    passing: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """True when anything should be kept out of anywhere."""
        return bool(self.namespaces or self.cluster_queues)


def intent(budgets: Budgets, policy: Policy, month: str) -> Intent | None:
    """Return what should keep new work out; None while nothing known is beyond its hold and a spend is unknown.

    An unknown spend neither begins nor ends a hold. A pool's or a team's hold keeps nobody else's work out.
    """
    if not budgets.holding and any(v.unknown for v in budgets.views if v.scope in (Scope.ACCOUNT, Scope.CLUSTER)):
        return None
    if policy.budget is None or not budgets.holding:
        return Intent(month=month)
    return Intent(
        month=month,
        why="; ".join(view.why_not() for view in budgets.holding),
        namespaces=policy.budget.keep_out.namespaces,
        cluster_queues=policy.budget.keep_out.cluster_queues,
        resources=tuple(sorted({resource for pool in policy.pools for resource in pool.resources})),
        passing=tuple(sorted(policy.budget.passing)),
    )
