"""Several policies on one trace, each in a world of its own: the product's step, peers and bounds."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Literal

from receiver.core.model.pods import Workload
from receiver.core.model.policy import Anchor, Policy, Pool, Rounding
from receiver.core.money.budget import BudgetStage, BudgetView, Key
from receiver.core.scaling.wanted import Assignment
from receiver.replay.figures import Bound, Figures, figures, violations
from receiver.replay.kubernetes import WorldCluster
from receiver.replay.peers import PeerPolicy
from receiver.replay.play import Controller, Played, Reaction, Setting, play
from receiver.replay.ports import WorldAccounts, WorldAlarms, WorldCloud, WorldTelemetry
from receiver.replay.store import ReplayStore
from receiver.replay.world.objects import Job
from receiver.replay.world.world import World
from receiver.step.gather import Sources
from receiver.step.parts import Additions, Hands
from receiver.step.reconcile import Stepped, step

HOUR = timedelta(hours=1)
PAUSING = (BudgetStage.HOLD, BudgetStage.STOP)
SHOWN = 10  # jobs that a sentence names


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A time in *month* (``2026-01``) in which *budget* (its title) was beyond its hold or stop line. *goes_on*: it had
    not ended when the replay did."""

    budget: str
    stage: BudgetStage
    month: str
    since: datetime
    until: datetime
    goes_on: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """A job that no budget covered, first *since* and last *until*, for *waited* altogether. *gpu_hours* are the
    refused GPUs times that time. *ran* is False for a job that had not begun at the end.

    A job is delayed from the first step at which no budget covers a node for one of its pods to the first at which none
    refuses it: the month has turned, or the nodes that it needs became free. The start of the node after that is not
    part of the delay.
    """

    job: str
    since: datetime
    until: datetime
    waited: timedelta
    gpu_hours: float
    ran: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """The pauses of a replay in order, and the delayed jobs by the beginning of their delay."""

    pauses: tuple[Pause, ...] = ()
    jobs: tuple[Delay, ...] = ()

    @property
    def job_hours(self) -> float:
        return sum((delay.waited / HOUR for delay in self.jobs), 0.0)

    @property
    def gpu_hours(self) -> float:
        return sum((delay.gpu_hours for delay in self.jobs), 0.0)

    @property
    def never_ran(self) -> tuple[str, ...]:
        return tuple(delay.job for delay in self.jobs if not delay.ran)

    def document(self) -> dict[str, Any]:
        """Return the JSON: times are ISO 8601 in UTC, durations hours or seconds as their names say."""
        return {
            "pauses": [_plain(pause) for pause in self.pauses],
            "delayed_jobs": len(self.jobs),
            "job_hours": round(self.job_hours, 3),
            "gpu_hours": round(self.gpu_hours, 3),
            "never_ran": list(self.never_ran),
            "sentences": list(self.sentences()),
            "jobs": [_plain(delay) for delay in self.jobs],
        }

    def sentences(self) -> Iterator[str]:
        """Yield one line per pause, one on the delayed jobs, one on those that never ran; nothing without any."""
        for pause in self.pauses:
            until = "the end of the replay" if pause.goes_on else f"{pause.until:%Y-%m-%d %H:%M} UTC"
            yield (
                f"{pause.budget} {pause.stage.value} in {pause.month}: {pause.since:%Y-%m-%d %H:%M} UTC to {until} "
                f"({(pause.until - pause.since) / HOUR:.1f} h)"
            )
        if self.jobs:
            yield (
                f"delayed jobs: {len(self.jobs)}, for {self.job_hours:.1f} job-hours ({self.gpu_hours:.1f} GPU-hours) "
                "altogether"
            )
        if never := self.never_ran:
            overflow = f" and {len(never) - SHOWN} more" if len(never) > SHOWN else ""
            yield f"never ran: {', '.join(never[:SHOWN])}{overflow}"


def _plain(record: Pause | Delay) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for name, value in asdict(record).items():
        if isinstance(value, timedelta):
            document[f"{name}_s"] = round(value.total_seconds(), 3)
        elif isinstance(value, datetime):
            document[name] = value.isoformat()
        elif isinstance(value, float):
            document[name] = round(value, 3)
        else:
            document[name] = value.value if isinstance(value, BudgetStage) else value
    return document


@dataclass(slots=True)
class _Refused:
    """A workload that no budget covers."""

    job: str
    gpus: int
    since: datetime
    until: datetime | None = None


@dataclass(slots=True)
class BudgetLog:
    """The pauses and refusals of a replay, step by step."""

    _pauses: list[Pause] = field(default_factory=list)
    _paused: dict[Key, tuple[BudgetView, datetime]] = field(default_factory=dict)
    _refused: dict[str, _Refused] = field(default_factory=dict)  # by workload, while it is
    _over: list[_Refused] = field(default_factory=list)

    def note(self, assignment: Assignment, now: datetime) -> None:
        for view in assignment.budgets.views:
            self._pause(view, now)
        if not self._refused and not any(w.work.refused or w.work.held for w in assignment.pools.values()):
            return
        refused = _refused(assignment)
        for key in self._refused.keys() - refused.keys():
            ended = self._refused.pop(key)
            ended.until = now
            self._over.append(ended)
        for key, workload in refused.items():
            self._refused.setdefault(key, _Refused(workload.pods[0].owner.partition("/")[2], workload.gpus, now))

    def _pause(self, view: BudgetView, now: datetime) -> None:
        past = self._paused.get(view.key)
        if past is not None and (past[0].stage, past[0].month) != (view.stage, view.month):
            del self._paused[view.key]
            self._pauses.append(_paused(*past, now))
            past = None
        if past is None and view.stage in PAUSING:
            self._paused[view.key] = view, now

    def refused(self) -> Sequence[_Refused]:
        """Return the times of refusal of each workload; those without an end go on."""
        return [*self._over, *self._refused.values()]

    def pauses(self, end: datetime) -> Iterator[Pause]:
        """Yield all pauses; those that have not ended go on at *end*."""
        yield from self._pauses
        for view, since in self._paused.values():
            yield _paused(view, since, end, goes_on=True)


def delays(played: Played, log: BudgetLog) -> Delays:
    """Return the delays that *log* recorded in *played*."""
    ran = (p.pod for p in played.placements.all if p.started_at is not None)
    waiting = {job.id for job in played.left} - {name.partition("/")[2].rpartition("-")[0] for name in ran}
    began = {job.id: job.started_at for job in played.finished}
    spans: dict[str, list[tuple[datetime, datetime]]] = {}
    gpu_hours: dict[str, float] = {}
    for refused in log.refused():
        job, since, seen_until = refused.job, refused.since, refused.until or played.end
        until = min(seen_until, max(since, began.get(job, seen_until)))  # a pod that found room began before the step
        spans.setdefault(job, []).append((since, until))
        gpu_hours[job] = gpu_hours.get(job, 0.0) + refused.gpus * ((until - since) / HOUR)
    job_delays = (
        Delay(
            job=job,
            since=min(since for since, _ in times),
            until=max(until for _, until in times),
            waited=_covered(times),
            gpu_hours=gpu_hours[job],
            ran=job not in waiting,
        )
        for job, times in spans.items()
    )
    return Delays(
        pauses=tuple(sorted(log.pauses(played.end), key=lambda p: (p.since, p.budget))),
        jobs=tuple(sorted(job_delays, key=lambda d: (d.since, d.job))),
    )


def _refused(assignment: Assignment) -> dict[str, Workload]:
    """Return the workloads that a budget refuses in a pool and that no other pool takes."""
    works = [wanted.work for wanted in assignment.pools.values()]
    taken = {w.key for work in works for w in work.asking if w.key not in work.refused}
    refused = [w for work in works for w in work.asking if w.key in work.refused]
    refused += [held.uncovered for work in works for held in work.held if held.uncovered is not None]
    return {w.key: w for w in refused if w.key not in taken}


def _paused(view: BudgetView, since: datetime, until: datetime, *, goes_on: bool = False) -> Pause:
    return Pause(budget=view.title, stage=view.stage, month=view.month, since=since, until=until, goes_on=goes_on)


def _covered(times: Iterable[tuple[datetime, datetime]]) -> timedelta:
    """Return how long at least one of *times* lasted."""
    total = timedelta(0)
    reached: datetime | None = None
    for since, until in sorted(times):
        begin = since if reached is None else max(since, reached)
        total += max(until - begin, timedelta(0))
        reached = until if reached is None else max(reached, until)
    return total


Most = Mapping[str, int]  # the maximum number of nodes by pool id
Maker = Callable[[World, Most, Sequence[Job]], Controller]
Progress = Callable[[str, int], None]
Kind = Literal["policy", "peer", "bound"]


class Product:
    """The product's step under a policy, with the *additions* of capabilities, unattended: no person answers.
    *budgets* is the log of the policy's budgets, None where it sets none."""

    def __init__(self, world: World, policy: Policy, additions: Additions, *, priced: bool = False) -> None:
        self.policy, self._additions = policy, additions.unattended
        # Without a budget nothing depends on the cost of nodes that are gone.
        self.store = ReplayStore(priced=priced or policy.budget is not None, finished=world.finished)
        self.stepped: Stepped | None = None  # the last step
        self.budgets = BudgetLog() if policy.budget is not None else None
        self._cloud, cluster = WorldCloud(world), WorldCluster(world)
        limits_account = policy.budget is not None and policy.budget.account_usd is not None
        self._sources = Sources(
            cloud=self._cloud,
            cluster=cluster,
            telemetry=WorldTelemetry(world),
            alarms=WorldAlarms(world),
            sizes=self._cloud,
            store=self.store,
            readers=False,
            never_jumps=True,
            accounts=WorldAccounts(world) if limits_account else None,
        )
        self._hands = Hands(cloud=self._cloud, cluster=cluster, may_write=lambda: True)

    @property
    def actions(self) -> int:
        return len(self._cloud.writes)

    def look(self, now: datetime) -> datetime | None:
        self.stepped = stepped = step(self._sources, self._hands, self.policy, "act", now, self._additions)
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


def the_product(name: str, policy: Policy, setting: Setting, additions: Additions) -> Contestant:
    """Return the product under *policy* with the *additions* of capabilities, billed as *setting* says. Raises
    ValueError for budgets of teams: a replay does not account for who held what."""
    if policy.budget is not None and policy.budget.teams:
        raise ValueError("budgets of teams cannot be replayed: leave budget.teams out")
    billing = replace(policy.billing, granularity=setting.unit, anchor=Anchor.INSTANCE, rounding=Rounding.CEIL)
    billed = replace(policy, billing=billing)
    return Contestant(
        name=name, kind="policy", pools=policy.pools, make=lambda world, _most, _jobs: Product(world, billed, additions)
    )


def a_peer(name: str, peer: PeerPolicy, pools: Iterable[Pool]) -> Contestant:
    return Contestant(name=name, kind="peer", pools=tuple(pools), make=peer, every=peer.every)


def contest(
    jobs: Sequence[Job],
    contestants: Iterable[Contestant | Reckoned],
    setting: Setting,
    progress: Progress | None = None,
) -> list[Result]:
    """Let each of *contestants* run *jobs*; *progress* takes its name and how many jobs have finished."""
    report = progress or (lambda _name, _done: None)
    return [_run(jobs, contestant, setting, report) for contestant in contestants]


def _run(jobs: Sequence[Job], contestant: Contestant | Reckoned, setting: Setting, progress: Progress) -> Result:
    if isinstance(contestant, Reckoned):
        bound = Result(
            name=contestant.name, kind="bound", figures=contestant.bound(jobs, contestant.pools, setting), played=None
        )
        progress(contestant.name, len(jobs))
        return bound
    world = setting.world(contestant.pools)
    most = {pool.id: pool.max_nodes for pool in contestant.pools}
    controller = contestant.make(world, most, jobs)
    reaction = setting.reaction() if contestant.every is None else Reaction(start=setting.start, tick=contestant.every)
    played = play(
        world, jobs, controller, reaction, lambda _now, finished_jobs: progress(contestant.name, finished_jobs)
    )
    progress(contestant.name, len(played.finished))
    log = controller.budgets if isinstance(controller, Product) else None
    prices: dict[str, Decimal | None] = {pool.size: pool.price_usd_per_hour for pool in contestant.pools}
    return Result(
        name=contestant.name,
        kind=contestant.kind,
        figures=figures(
            contestant.name, played, prices, by_the_hour=setting.by_the_hour, granularity=setting.granularity
        ),
        played=played,
        violations=tuple(violations(jobs, played, most)),
        delays=None if log is None else delays(played, log),
    )
