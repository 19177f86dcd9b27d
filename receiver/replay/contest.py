"""Several policies on one trace, each in a world of its own, under the same circumstances: the product's step, peers,
bounds."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Literal

from receiver.core.model.policy import Policy, Pool
from receiver.core.scaling.approval import without_approvals
from receiver.replay.bounds import Bound
from receiver.replay.delays import BudgetLog, Delays, delays
from receiver.replay.figures import Figures, figures, violations
from receiver.replay.kubernetes import WorldCluster
from receiver.replay.peers import PeerPolicy
from receiver.replay.play import Controller, Played, Reaction, Setting, play
from receiver.replay.ports import WorldAccounts, WorldAlarms, WorldCloud, WorldTelemetry
from receiver.replay.store import ReplayStore
from receiver.replay.world.config import Job
from receiver.replay.world.world import World
from receiver.step.carry_out import Hands
from receiver.step.gather import Sources
from receiver.step.reconcile import step

Most = Mapping[str, int]  # the maximum number of nodes by pool id
Maker = Callable[[World, Most, Sequence[Job]], Controller]
Progress = Callable[[str, int], None]
Kind = Literal["policy", "peer", "bound"]


class Product:
    """`receiver.step.reconcile.step` under a policy. There is nobody to ask, so that no approval is waited for.

    *budgets* is the log of what the policy's budgets held up, None where it sets none.

    Raises ValueError for a policy with budgets of teams: who held what is not accounted for here.
    """

    def __init__(self, world: World, policy: Policy) -> None:
        if policy.budget is not None and policy.budget.teams:
            raise ValueError("budgets of teams cannot be replayed: leave budget.teams out")
        self._policy = without_approvals(policy)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """One policy: the *pools* it sizes, what it is made by, and how soon it notices changes."""

    name: str
    kind: Kind
    pools: tuple[Pool, ...]
    make: Maker
    reaction: Reaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Reckoned:
    """A bound on what any policy could do with *pools*: it is worked out and not played."""

    name: str
    pools: tuple[Pool, ...]
    bound: Bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one policy came to. *violations* are sentences about what does not add up; a bound was not *played*, and
    *delays* are those of the budgets of a policy that sets some."""

    name: str
    kind: Kind
    figures: Figures
    played: Played | None
    violations: tuple[str, ...] = field(default=())
    delays: Delays | None = None


def the_product(name: str, policy: Policy, setting: Setting) -> Contestant:
    """The product under *policy*, which is told how the cloud of *setting* charges."""
    said = replace(policy, billing=replace(policy.billing, granularity=setting.unit))
    return Contestant(
        name=name,
        kind="policy",
        pools=policy.pools,
        make=lambda world, _most, _jobs: Product(world, said),
        reaction=setting.reaction(),
    )


def a_peer(name: str, peer: PeerPolicy, pools: Iterable[Pool], setting: Setting) -> Contestant:
    """A peer on *pools*, which looks at its own interval and is told by nobody."""
    reaction = Reaction(start=setting.start, tick=peer.every)
    return Contestant(name=name, kind="peer", pools=tuple(pools), make=peer, reaction=reaction)


def contest(
    jobs: Sequence[Job],
    contestants: Iterable[Contestant | Reckoned],
    setting: Setting,
    progress: Progress | None = None,
) -> list[Result]:
    """Let each of *contestants* run *jobs*; *progress* is told its name and how many jobs have finished."""
    return [
        _one(jobs, each, setting, progress)
        if isinstance(each, Contestant)
        else _reckoned(jobs, each, setting, progress)
        for each in contestants
    ]


def _reckoned(jobs: Sequence[Job], those: Reckoned, setting: Setting, progress: Progress | None) -> Result:
    found = those.bound.reckon(jobs, those.pools, setting)
    if progress is not None:
        progress(those.name, len(jobs))
    return Result(name=those.name, kind="bound", figures=found, played=None)


def _one(jobs: Sequence[Job], contestant: Contestant, setting: Setting, progress: Progress | None) -> Result:
    world = setting.world(contestant.pools)
    most = {pool.id: pool.max_nodes for pool in contestant.pools}
    controller = contestant.make(world, most, jobs)

    def told(_now: datetime, done: int) -> None:
        if progress is not None:
            progress(contestant.name, done)

    played = play(world, jobs, controller, contestant.reaction, told)
    told(played.end, len(played.finished))
    log = controller.budgets if isinstance(controller, Product) else None
    prices: dict[str, Decimal | None] = {pool.size: pool.price_usd_per_hour for pool in contestant.pools}
    return Result(
        name=contestant.name,
        kind=contestant.kind,
        figures=figures(contestant.name, played, prices, by_the_hour=setting.by_the_hour),
        played=played,
        violations=tuple(violations(jobs, played, most)),
        delays=None if log is None else delays(played, log),
    )
