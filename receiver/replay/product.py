"""The product itself as what sizes a world's pools: its own step over in-memory ports."""

from datetime import datetime

from receiver.core.model.policy import Policy
from receiver.core.scaling.approval import asking_nobody
from receiver.replay.delays import BudgetLog
from receiver.replay.ports import WorldAccounts, WorldAlarms, WorldCloud, WorldCluster, WorldTelemetry
from receiver.replay.store import ReplayStore
from receiver.replay.world.world import World
from receiver.step.carry_out import Hands
from receiver.step.gather import Sources
from receiver.step.reconcile import step


class Product:
    """`receiver.step.reconcile.step` under a policy. There is nobody to ask, so that no approval is waited for.

    *budgets* is the log of what the policy's budgets held up, None where it sets none.

    Raises ValueError for a policy with budgets of teams: who held what is not accounted for here.
    """

    def __init__(self, world: World, policy: Policy) -> None:
        if policy.budget is not None and policy.budget.teams:
            raise ValueError("budgets of teams cannot be replayed: leave budget.teams out")
        self._policy = asking_nobody(policy)
        self.budgets = BudgetLog() if policy.budget is not None else None
        self._cloud, cluster = WorldCloud(world), WorldCluster(world)
        # Without a budget nothing depends on what nodes that are gone have cost.
        store = ReplayStore(priced=policy.budget is not None, finished=world.finished)
        self._sources = Sources(
            cloud=self._cloud,
            cluster=cluster,
            telemetry=WorldTelemetry(world),
            alarms=WorldAlarms(world),
            sizes=self._cloud,
            store=store,
            accounts=WorldAccounts(world) if _limits_account(policy) else None,
        )
        self._hands = Hands(cloud=self._cloud, cluster=cluster, may_write=lambda: True)

    @property
    def actions(self) -> int:
        """Calls that changed something at Civo."""
        return len(self._cloud.writes)

    def look(self, now: datetime) -> datetime | None:
        """One step at *now*."""
        stepped = step(self._sources, self._hands, self._policy, "act", now, chores=False)
        if self.budgets is not None:
            self.budgets.note(stepped.assignment, now)
        return stepped.reconsider_at


def _limits_account(policy: Policy) -> bool:
    """True when the account's charges matter: nothing is in a replayed cluster that its own ledger has not seen."""
    return policy.budget is not None and policy.budget.account_usd is not None
