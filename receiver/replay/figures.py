"""The figures of a played trace and of the bounds on any policy, their comparison, and the check that they add up."""

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

from receiver.core.model.policy import Pool
from receiver.replay.play import SECOND, Binding, Played, Setting
from receiver.replay.world.objects import VM, Job

HOUR = timedelta(hours=1)
A_SECOND = 1.0  # added to both waits of a ratio, so that a policy without waits can be compared
ROUNDING_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One policy on one trace.

    Hours are node-hours and GPU-hours billed per second and per started unit, an hour unless configured otherwise;
    *usd_second* and *usd_started* are their cost, *usd* the one that the replay's billing selects (None: a price is
    unknown). *utilization* is the ratio (0-1) of GPU-hours held by running pods to those that existed. Waits are
    seconds from submission until all pods of a job ran, or until the end. *kills* are GPU pods that lost their node,
    *jobs_lost* the jobs that had not finished at the end, *jobs_unstarted* those of them of which no pod ever ran.
    """

    name: str
    node_hours_second: float
    node_hours_started: float
    gpu_hours_second: float
    gpu_hours_started: float
    usd: Decimal | None
    utilization: float
    wait_mean_s: float = 0.0
    wait_p50_s: float = 0.0
    wait_p95_s: float = 0.0
    wait_max_s: float = 0.0
    node_starts: int
    actions: int = 0
    kills: int = 0
    jobs: int
    jobs_lost: int = 0
    jobs_unstarted: int = 0
    usd_second: Decimal | None = None
    usd_started: Decimal | None = None

    def paid(self, *, by_the_hour: bool) -> float:
        return self.gpu_hours_started if by_the_hour else self.gpu_hours_second

    def document(self) -> Mapping[str, Any]:
        """Return the JSON of these figures, in the order of the fields, money as text."""
        return {name: str(value) if isinstance(value, Decimal) else value for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class Billed:
    """Nodes of one size: GPUs of each, USD per node-hour, and their seconds and hours of started units together."""

    gpus: int
    price: Decimal | None
    seconds: float
    started: float


def cost(nodes: Sequence[Billed], *, by_the_hour: bool) -> dict[str, Any]:
    """Return the hours and costs of `Figures` for *nodes*."""
    second = _usd((node.price, node.seconds / 3600) for node in nodes)
    started = _usd((node.price, node.started) for node in nodes)
    return {
        "node_hours_second": round(sum((node.seconds for node in nodes), 0.0) / 3600, 3),
        "node_hours_started": _tidy(sum(node.started for node in nodes)),
        "gpu_hours_second": round(sum(node.seconds * node.gpus for node in nodes) / 3600, 3),
        "gpu_hours_started": _tidy(sum(node.started * node.gpus for node in nodes)),
        "usd": started if by_the_hour else second,
        "usd_second": second,
        "usd_started": started,
    }


def _tidy(hours: float) -> float:
    """Return *hours* to three places, a whole number without any."""
    return int(hours) if hours == int(hours) else round(hours, 3)


def started_hours(length: timedelta, unit: timedelta = HOUR) -> float:
    """Return the hours of the *unit*s that have started in *length*."""
    return max(1, math.ceil(length / unit)) * (unit / HOUR)


def figures(
    name: str,
    played: Played,
    prices: Mapping[str, Decimal | None],
    *,
    by_the_hour: bool,
    granularity: timedelta = HOUR,
) -> Figures:
    """Return the figures of *played*; *prices* are USD per node-hour by size, *granularity* is the unit that is paid
    once it started."""
    lasted = [(vm, _until(vm, played.end) - vm.created_at) for vm in played.lives if vm.created_at < played.end]
    nodes = [
        Billed(vm.gpus, prices.get(vm.size), length.total_seconds(), started_hours(length, granularity))
        for vm, length in lasted
    ]
    gpu_seconds = sum(node.seconds * node.gpus for node in nodes)
    held = sum(_ran_for(placed) for placed in played.placements.all)
    waited, unstarted = _waits(played)
    waits = sorted(wait for _, wait in waited)
    return Figures(
        name=name,
        **cost(nodes, by_the_hour=by_the_hour),
        utilization=round(held / gpu_seconds, 4) if gpu_seconds else 0.0,
        wait_mean_s=mean(waits),
        wait_p50_s=quantile(waits, 0.5),
        wait_p95_s=quantile(waits, 0.95),
        wait_max_s=quantile(waits, 1),
        node_starts=len(lasted),
        actions=played.actions,
        kills=len(played.kills),
        jobs=len(played.finished) + len(played.left),
        jobs_lost=len(played.left),
        jobs_unstarted=unstarted,
    )


def _waits(played: Played) -> tuple[list[tuple[datetime, float]], int]:
    """Return when each job was submitted and the seconds until all of its pods ran, or until the end, and the number of
    jobs of which no pod ever ran."""
    began: dict[str, datetime] = {}  # by pod, when it first ran
    for placed in played.placements.all:
        if placed.started_at is not None:
            began.setdefault(placed.pod, placed.started_at)
    waits = [(job.submitted_at, job.wait.total_seconds()) for job in played.finished]
    unstarted = 0
    for job in played.left:
        names = (f"{job.namespace}/{job.id}-{index}" for index in range(job.pods))
        starts = [began[name] for name in names if name in began]
        until = max(starts) if len(starts) == job.pods else played.end
        waits.append((job.submit_at, max(0.0, (until - job.submit_at).total_seconds())))
        unstarted += not starts
    return waits, unstarted


def mean(values: Sequence[float]) -> float:
    """Return the mean to three places; 0 for no values."""
    return round(sum(values) / len(values), 3) if values else 0.0


def quantile(ordered: Sequence[float], part: float) -> float:
    """Return the smallest of *ordered* that at least *part* (0-1) of them do not exceed; 0 for no values."""
    return round(ordered[max(0, math.ceil(part * len(ordered)) - 1)], 3) if ordered else 0.0


def _until(vm: VM, end: datetime) -> datetime:
    return min(vm.gone_at or end, end)


def _ran_for(placed: Binding) -> float:
    """Return the GPU-seconds that a pod held while it ran; 0 when it has not ended."""
    if placed.started_at is None or placed.ended_at is None:
        return 0.0
    return placed.gpus * (placed.ended_at - placed.started_at).total_seconds()


def _usd(hours: Iterable[tuple[Decimal | None, float]]) -> Decimal | None:
    total = Decimal(0)
    for price, count in hours:
        if price is None:
            return None
        total += price * Decimal(str(count))
    return total.quantize(Decimal("0.01"))


def by_hour(played: Played) -> list[dict[str, float]]:
    """Return, for each hour of the day (UTC), the number of jobs that were submitted in it and their waits in seconds,
    0 without a job."""
    hours = []
    waited, _ = _waits(played)
    for hour in range(24):
        waits = sorted(wait for submitted_at, wait in waited if submitted_at.hour == hour)
        hour_figures = {
            "hour": hour,
            "jobs": len(waits),
            "wait_mean_s": mean(waits),
            "wait_p95_s": quantile(waits, 0.95),
        }
        hours.append(hour_figures)
    return hours


@dataclass(frozen=True, slots=True)
class Ratio:
    """Figures of one policy divided by another's: paid GPU-hours, mean wait (each plus one second), nodes started."""

    cost: float
    wait: float
    starts: float


def ratio(one: Figures, other: Figures, *, by_the_hour: bool) -> Ratio | None:
    """Return *one* divided by *other*; None where *other* paid nothing or started no node."""
    base = other.paid(by_the_hour=by_the_hour)
    if not base or not other.node_starts:
        return None
    return Ratio(
        cost=round(one.paid(by_the_hour=by_the_hour) / base, 4),
        wait=round((one.wait_mean_s + A_SECOND) / (other.wait_mean_s + A_SECOND), 4),
        starts=round(one.node_starts / other.node_starts, 4),
    )


def over_all(ratios: Iterable[Ratio]) -> Ratio:
    """Return the geometric means of at least one ratio; a ratio of 0 makes its mean 0."""
    columns = zip(*(astuple(ratio) for ratio in ratios), strict=True)
    return Ratio(*(round(math.exp(sum(map(math.log, v)) / len(v)), 4) if min(v) > 0 else 0.0 for v in columns))


# --- the check ---


def violations(jobs: Sequence[Job], played: Played, most: Mapping[str, int] | None = None) -> list[str]:
    """Return what does not add up, in sentences. The log of placements alone is checked, whatever the policy.

    Every job finished once or is reported as left. Every node that started lived once, in order, under its own name,
    and registered. No pool had more nodes than *most* (by pool id). No GPU was held twice. No pod was on a node before
    its GPUs were usable or after it was gone. A job that lost no pod held its GPUs for its duration. GPUs that were
    held existed, and GPUs that existed were paid.
    """
    return [
        *_jobs(jobs, played),
        *_starts(played),
        *_nodes(played, most or {}),
        *_held(jobs, played),
        *_paid(played),
    ]


def _jobs(jobs: Sequence[Job], played: Played) -> Iterator[str]:
    over = [job.id for job in played.finished]
    if len(over) != len(set(over)):
        yield "a job finished twice"
    accounted = {*over, *(job.id for job in played.left)}
    lost = [job.id for job in jobs if job.id not in accounted]
    if lost or len(over) + len(played.left) != len(jobs):
        yield f"of {len(jobs)} jobs {len(over)} finished and {len(played.left)} are left; lost: {', '.join(lost[:5])}"


def _starts(played: Played) -> Iterator[str]:
    """Compare the cloud's log of node starts with the cluster's. Nodes of the beginning are in the first alone."""
    for what, names in (("called", [vm.hostname for vm in played.lives]), ("with id", [vm.id for vm in played.lives])):
        for name, times in Counter(names).items():
            if times > 1:
                yield f"{times} nodes were {what} {name}"
    registered = Counter(played.placements.registered)
    started = {vm.hostname: vm for vm in played.lives}
    for name, times in registered.items():
        if name not in started:
            yield f"{name} registered and was never started"
        if times > 1:
            yield f"{name} registered {times} times"
    for vm in played.lives:
        if vm.ready_at is not None and vm.ready_at > played.start and vm.hostname not in registered:
            yield f"{vm.hostname} was started and never registered"
        moments = [vm.created_at, vm.active_at, vm.ready_at, vm.usable_at]
        for stages in (moments, [vm.created_at, vm.deleted_at, vm.gone_at]):
            reached = [at for at in stages if at is not None]
            if any(later < earlier for earlier, later in pairwise(reached)):
                yield f"{vm.hostname} lived in the wrong order"


def _nodes(played: Played, most: Mapping[str, int]) -> Iterator[str]:
    for pool, limit in most.items():
        spans = [(vm.created_at, vm.deleted_at or played.end, 1) for vm in played.lives if vm.pool == pool]
        if (at_once := _most_at_once(spans)) > limit:
            yield f"{pool} may have {limit} nodes and had {at_once}"
    nodes = {vm.hostname: vm for vm in played.lives}
    by_node: dict[str, list[Binding]] = {}
    for placed in played.placements.all:
        by_node.setdefault(placed.node, []).append(placed)
    for name, placements in by_node.items():
        vm = nodes.get(name)
        if vm is None:
            yield f"{name} holds pods and never was"
            continue
        early = [p.pod for p in placements if vm.usable_at is None or p.bound_at < vm.usable_at]
        late = [p.pod for p in placements if vm.gone_at is not None and (p.ended_at or played.end) > vm.gone_at]
        if early:
            yield f"{early[0]} was on {name} before its GPUs were usable"
        if late:
            yield f"{late[0]} was on {name} after it was gone"
        held = _most_at_once([(p.bound_at, p.ended_at or played.end, p.gpus) for p in placements])
        if held > vm.gpus:
            yield f"{name} has {vm.gpus} GPUs, and {held} were held at once"


def _most_at_once(spans: Sequence[tuple[datetime, datetime, int]]) -> int:
    """Return the peak. Ends count before beginnings: a GPU may be taken at the moment at which it is freed."""
    moments = sorted(moment for begin, end, count in spans for moment in ((begin, count), (end, -count)))
    most = held = 0
    for _, change in moments:
        held += change
        most = max(most, held)
    return most


def _held(jobs: Sequence[Job], played: Played) -> Iterator[str]:
    undisturbed = {job.id for job in played.finished if not job.restarts}
    wanted = sum(job.gpus * job.duration.total_seconds() for job in jobs if job.id in undisturbed)
    names = {f"{job.namespace}/{job.id}-{index}" for job in jobs if job.id in undisturbed for index in range(job.pods)}
    ran = [p for p in played.placements.all if p.pod in names]
    held = sum(map(_ran_for, ran))
    if abs(held - wanted) > ROUNDING_S * max(1, len(ran)):
        yield f"jobs held {held:.0f} GPU-seconds and should have held {wanted:.0f}"


def _paid(played: Played) -> Iterator[str]:
    existed = sum(vm.gpus * (_until(vm, played.end) - vm.created_at).total_seconds() for vm in played.lives)
    used = sum(p.gpus * ((p.ended_at or played.end) - p.bound_at).total_seconds() for p in played.placements.all)
    if used > existed + 1:
        yield f"{used:.0f} GPU-seconds were held and only {existed:.0f} existed"
    if existed > played.paid_gpu_seconds + 1:
        yield f"{existed:.0f} GPU-seconds existed and only {played.paid_gpu_seconds:.0f} were paid"


Bound = Callable[[Sequence[Job], Sequence[Pool], Setting], Figures]  # raises ValueError for a pod that fits no pool


def fluid_gpu_hours(jobs: Sequence[Job]) -> float:
    """Return the GPU-hours that the jobs hold: the bill when no paid GPU-second is unused."""
    return sum(job.gpus * (job.duration / HOUR) for job in jobs)


@dataclass(slots=True)
class _Open:
    """A node of the schedule: it runs from *start*, and is busy until *end* so far."""

    start: datetime
    end: datetime
    free: int
    ending: list[tuple[datetime, int]] = field(default_factory=list)  # a heap of the GPUs that become free


def schedule(jobs: Sequence[Job], gpus: int, lead: timedelta, *, unit: timedelta) -> list[timedelta]:
    """Place every pod at its submission where it adds least to the bill, on nodes of *gpus* GPUs ordered *lead* ahead.
    Nothing moves and nothing waits. Return how long each node runs.

    It is greedy, so the best such schedule may cost less. A node stays idle between two pods when that is cheaper than
    a new one. Nodes are paid by the started *unit*. Raises ValueError for a pod that is larger than a node.
    """
    nodes: list[_Open] = []
    over: list[_Open] = []
    for job in sorted(jobs, key=lambda j: j.submit_at):
        now, end = job.submit_at, job.submit_at + job.duration
        nodes, expired = _still_useful(nodes, now, unit=unit)
        over += expired
        for _ in range(job.pods):
            if job.gpus_per_pod > gpus:
                raise ValueError(f"a pod of {job.id} requests {job.gpus_per_pod} GPUs, nodes have {gpus}")
            chosen = _cheapest(nodes, job.gpus_per_pod, end, now, lead, unit=unit)
            if chosen is None:
                chosen = _Open(start=now - lead, end=end, free=gpus)
                nodes.append(chosen)
            chosen.free -= job.gpus_per_pod
            chosen.end = max(chosen.end, end)
            heapq.heappush(chosen.ending, (end, job.gpus_per_pod))
    return [node.end - node.start for node in over + nodes]


def _still_useful(nodes: list[_Open], now: datetime, *, unit: timedelta) -> tuple[list[_Open], list[_Open]]:
    """Free the GPUs of pods that ended by *now*. Split the nodes into those still worth keeping and the others."""
    useful: list[_Open] = []
    expired: list[_Open] = []
    for node in nodes:
        while node.ending and node.ending[0][0] <= now:
            node.free += heapq.heappop(node.ending)[1]
        limit = node.start + _bill(node.end - node.start, unit=unit) + max(unit, HOUR)
        (useful if node.ending or now <= limit else expired).append(node)
    return useful, expired


def _cheapest(
    nodes: Sequence[_Open], gpus: int, end: datetime, now: datetime, lead: timedelta, *, unit: timedelta
) -> _Open | None:
    """Return the node with room to whose bill the pod adds least, then the fullest; None when a new one is
    cheaper."""
    best: tuple[timedelta, int] | None = None
    chosen: _Open | None = None
    for node in nodes:
        if node.free < gpus:
            continue
        before = _bill(node.end - node.start, unit=unit)
        extra_bill = _bill(max(node.end, end) - node.start, unit=unit) - before
        if best is None or (extra_bill, node.free) < best:
            best, chosen = (extra_bill, node.free), node
    new = _bill(end - now + lead, unit=unit)
    return chosen if best is not None and best[0] <= new else None


def _bill(length: timedelta, *, unit: timedelta) -> timedelta:
    return max(1, math.ceil(length / unit)) * unit if unit > SECOND else length


def _clairvoyant(jobs: Sequence[Job], pools: Sequence[Pool], setting: Setting) -> Figures:
    """Return the cheaper of two schedules that know the future: every pod on the largest nodes, or on the smallest that
    it fits. No job waits, and nodes start where that is cheapest."""
    sizes = sorted(pools, key=lambda pool: pool.gpus_per_node)
    fitting: dict[str, list[Job]] = {}
    for job in jobs:
        smallest = next((p for p in sizes if p.gpus_per_node >= job.gpus_per_pod), sizes[-1])
        fitting.setdefault(smallest.id, []).append(job)
    candidates = []
    for jobs_of in ({sizes[-1].id: list(jobs)}, fitting):
        nodes, starts = [], 0
        for pool in sizes:
            if pool.id in jobs_of:
                lasted = schedule(jobs_of[pool.id], pool.gpus_per_node, setting.lead, unit=setting.unit)
                starts += len(lasted)
                hours = sum((length / HOUR for length in lasted), 0.0)
                started = sum(started_hours(length, setting.granularity) for length in lasted)
                nodes.append(_billed(pool, hours, started))
        candidates.append(_figures("clairvoyant", jobs, nodes, setting, starts))
    return min(candidates, key=lambda f: f.paid(by_the_hour=setting.by_the_hour))


def _fluid(jobs: Sequence[Job], pools: Sequence[Pool], setting: Setting) -> Figures:
    """Return the figures when every paid GPU-second of the cheapest GPUs is used; waits do not count."""
    cheapest = min(pools, key=lambda p: (p.price_usd_per_hour or Decimal(0)) / max(1, p.gpus_per_node))
    hours = fluid_gpu_hours(jobs) / cheapest.gpus_per_node
    unit = setting.granularity / HOUR
    return _figures("fluid", jobs, [_billed(cheapest, hours, math.ceil(hours / unit) * unit)], setting, starts=0)


def _billed(pool: Pool, hours: float, started: float) -> Billed:
    return Billed(pool.gpus_per_node, pool.price_usd_per_hour, hours * 3600, started)


def _figures(name: str, jobs: Sequence[Job], nodes: Sequence[Billed], setting: Setting, starts: int) -> Figures:
    gpu_hours = sum(node.seconds * node.gpus for node in nodes) / 3600
    return Figures(
        name=name,
        **cost(nodes, by_the_hour=setting.by_the_hour),
        utilization=round(fluid_gpu_hours(jobs) / gpu_hours, 4) if gpu_hours else 0.0,
        node_starts=starts,
        jobs=len(jobs),
    )


BOUNDS: Mapping[str, Bound] = {"clairvoyant": _clairvoyant, "fluid": _fluid}
