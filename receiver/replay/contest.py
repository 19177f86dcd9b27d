"""Several policies on one trace, each in a world of its own: the product's step, peers and bounds."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Literal

from receiver.core.model.policy import Policy, Pool
from receiver.core.scaling.approval import without_approvals
from receiver.replay.delays import BudgetLog, Delays, delays
from receiver.replay.figures import Bound, Figures, figures, violations
from receiver.replay.kubernetes import WorldCluster
from receiver.replay.peers import PeerPolicy
from receiver.replay.play import Controller, Played, Reaction, Setting, play
from receiver.replay.ports import WorldAccounts, WorldAlarms, WorldCloud, WorldTelemetry
from receiver.replay.store import ReplayStore
from receiver.replay.world.objects import Job
from receiver.replay.world.world import World
from receiver.step.carry_out import Hands
from receiver.step.gather import Sources
from receiver.step.reconcile import step

Most = Mapping[str, int]  # the maximum number of nodes by pool id
Maker = Callable[[World, Most, Sequence[Job]], Controller]
Progress = Callable[[str, int], None]
Kind = Literal["policy", "peer", "bound"]


class Product:
    """The product's step under a policy. No approval is waited for, since there is no one to give it.

    *budgets* is the log of the policy's budgets, None where it sets none.
    """

    def __init__(self, world: World, policy: Policy) -> None:
        self._policy = without_approvals(policy)
        self.budgets = BudgetLog() if policy.budget is not None else None
        self._cloud, cluster = WorldCloud(world), WorldCluster(world)
        limits_account = policy.budget is not None and policy.budget.account_usd is not None
        self._sources = Sources(
            cloud=self._cloud,
            cluster=cluster,
            telemetry=WorldTelemetry(world),
            alarms=WorldAlarms(world),
            sizes=self._cloud,
            # Without a budget nothing depends on the cost of nodes that are gone.
            store=ReplayStore(priced=policy.budget is not None, finished=world.finished),
            accounts=WorldAccounts(world) if limits_account else None,
        )
        self._hands = Hands(cloud=self._cloud, cluster=cluster, may_write=lambda: True)

    @property
    def actions(self) -> int:
        """Calls that changed something at Civo."""
        return len(self._cloud.writes)

    def look(self, now: datetime) -> datetime | None:
        """Run one step at *now*."""
        stepped = step(self._sources, self._hands, self._policy, "act", now, chores=False)
        if self.budgets is not None:
            self.budgets.note(stepped.assignment, now)
        return stepped.reconsider_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """A policy: the *pools* it sizes and its controller. *every* is the interval of its loop; None is the product,
    which notices changes as `Setting.reaction` says."""

    name: str
    kind: Kind
    pools: tuple[Pool, ...]
    make: Maker
    every: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reckoned:
    """A bound on any policy with *pools*: it is computed, not played."""

    name: str
    pools: tuple[Pool, ...]
    bound: Bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of one policy. *violations* are sentences about what does not add up. A bound was not *played*.
    *delays* are those of the policy's budgets, None without any."""

    name: str
    kind: Kind
    figures: Figures
    played: Played | None
    violations: tuple[str, ...] = ()
    delays: Delays | None = None


def the_product(name: str, policy: Policy, setting: Setting) -> Contestant:
    """Return the product under *policy*, billed as *setting* says. Raises ValueError for budgets of teams: a
    replay does not account for who held what."""
    if policy.budget is not None and policy.budget.teams:
        raise ValueError("budgets of teams cannot be replayed: leave budget.teams out")
    billed = replace(policy, billing=replace(policy.billing, granularity=setting.unit))
    return Contestant(
        name=name, kind="policy", pools=policy.pools, make=lambda world, _most, _jobs: Product(world, billed)
    )


def a_peer(name: str, peer: PeerPolicy, pools: Iterable[Pool]) -> Contestant:
    """Return a peer on *pools*, which looks at its own interval."""
    return Contestant(name=name, kind="peer", pools=tuple(pools), make=peer, every=peer.every)


def contest(
    jobs: Sequence[Job],
    contestants: Iterable[Contestant | Reckoned],
    setting: Setting,
    progress: Progress | None = None,
) -> list[Result]:
    """Let each of *contestants* run *jobs*; *progress* takes its name and how many jobs have finished."""
    report = progress or (lambda _name, _done: None)
    return [_run(jobs, each, setting, report) for each in contestants]


def _run(jobs: Sequence[Job], one: Contestant | Reckoned, setting: Setting, progress: Progress) -> Result:
    if isinstance(one, Reckoned):
        bound = Result(name=one.name, kind="bound", figures=one.bound(jobs, one.pools, setting), played=None)
        progress(one.name, len(jobs))
        return bound
    world = setting.world(one.pools)
    most = {pool.id: pool.max_nodes for pool in one.pools}
    controller = one.make(world, most, jobs)
    reaction = setting.reaction() if one.every is None else Reaction(start=setting.start, tick=one.every)
    played = play(world, jobs, controller, reaction, lambda _now, done: progress(one.name, done))
    progress(one.name, len(played.finished))
    log = controller.budgets if isinstance(controller, Product) else None
    prices: dict[str, Decimal | None] = {pool.size: pool.price_usd_per_hour for pool in one.pools}
    return Result(
        name=one.name,
        kind=one.kind,
        figures=figures(one.name, played, prices, by_the_hour=setting.by_the_hour),
        played=played,
        violations=tuple(violations(jobs, played, most)),
        delays=None if log is None else delays(played, log),
    )
