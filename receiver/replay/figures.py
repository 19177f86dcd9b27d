"""What a played trace came to: nodes paid for, utilization, waits, what went wrong; and how policies compare."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

from receiver.replay.play import Placement, Played
from receiver.replay.world.config import Job
from receiver.replay.world.objects import VM

HOUR = timedelta(hours=1)
A_SECOND = 1.0  # added to both waits of a ratio, so that a policy under which no job waits can be compared with


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One policy on one trace.

    Hours are node-hours and GPU-hours as billed per second and per started hour, *usd_second* and *usd_started* what
    they cost, *usd* the one of them that the replay's billing asks for. *utilization* is the ratio (0-1) of GPU-hours
    that jobs held while running to those that existed; waits are seconds from submission until all pods of a job ran;
    *kills* are GPU pods that lost their node; *jobs_lost* those that had not finished at the end.
    """

    name: str
    node_hours_second: float
    node_hours_started: int
    gpu_hours_second: float
    gpu_hours_started: int
    usd: Decimal | None
    utilization: float
    wait_mean_s: float
    wait_p50_s: float
    wait_p95_s: float
    wait_max_s: float
    node_starts: int
    actions: int
    kills: int
    jobs: int
    jobs_lost: int
    usd_second: Decimal | None = None
    usd_started: Decimal | None = None

    def document(self) -> Mapping[str, Any]:
        """JSON-able, in the order of the fields; money as text."""
        return {name: str(value) if isinstance(value, Decimal) else value for name, value in asdict(self).items()}


def figures(name: str, played: Played, prices: Mapping[str, Decimal | None], *, by_the_hour: bool) -> Figures:
    """Return what *played* came to. *prices* are USD per node-hour by size; with one unknown there is no *usd*."""
    lasted = [(vm, _until(vm, played.end) - vm.created_at) for vm in played.lives if vm.created_at < played.end]
    seconds = sum((length.total_seconds() for _, length in lasted), 0.0)
    gpu_seconds = sum(length.total_seconds() * _gpus(vm) for vm, length in lasted)
    started = [(vm, max(1, math.ceil(length / HOUR))) for vm, length in lasted]
    held = sum(
        p.gpus * (p.ended_at - p.started_at).total_seconds()
        for p in played.placements.all
        if p.started_at is not None and p.ended_at is not None
    )
    usd_second, usd_started = _usd([(vm, length / HOUR) for vm, length in lasted], prices), _usd(started, prices)
    waits = sorted(job.wait.total_seconds() for job in played.finished)
    return Figures(
        name=name,
        node_hours_second=round(seconds / 3600, 3),
        node_hours_started=sum(hours for _, hours in started),
        gpu_hours_second=round(gpu_seconds / 3600, 3),
        gpu_hours_started=sum(hours * _gpus(vm) for vm, hours in started),
        usd=usd_started if by_the_hour else usd_second,
        utilization=round(held / gpu_seconds, 4) if gpu_seconds else 0.0,
        wait_mean_s=round(sum(waits) / len(waits), 3) if waits else 0.0,
        wait_p50_s=quantile(waits, 0.5),
        wait_p95_s=quantile(waits, 0.95),
        wait_max_s=round(waits[-1], 3) if waits else 0.0,
        node_starts=len(lasted),
        actions=played.actions,
        kills=len(played.kills),
        jobs=len(played.finished) + len(played.left),
        jobs_lost=len(played.left),
        usd_second=usd_second,
        usd_started=usd_started,
    )


def quantile(ordered: Sequence[float], part: float) -> float:
    """The smallest of *ordered* that at least *part* (0-1) of them do not exceed; 0 of nothing."""
    return round(ordered[max(0, math.ceil(part * len(ordered)) - 1)], 3) if ordered else 0.0


def _until(vm: VM, end: datetime) -> datetime:
    return min(vm.gone_at or end, end)


def _gpus(vm: VM) -> int:
    return sum(vm.spec.resources.values())


def _usd(hours: Sequence[tuple[VM, float]], prices: Mapping[str, Decimal | None]) -> Decimal | None:
    total = Decimal(0)
    for vm, count in hours:
        price = prices.get(vm.size)
        if price is None:
            return None
        total += price * Decimal(str(count))
    return total.quantize(Decimal("0.01"))


@dataclass(frozen=True, slots=True, kw_only=True)
class HourOfDay:
    """The jobs submitted in one hour of the day (UTC) that finished: waits in seconds."""

    hour: int
    jobs: int
    wait_mean_s: float
    wait_p95_s: float


def by_hour(played: Played) -> tuple[HourOfDay, ...]:
    """Return the waits of all 24 hours, those without a job as 0."""
    waits: list[list[float]] = [[] for _ in range(24)]
    for job in played.finished:
        waits[job.submitted_at.hour].append(job.wait / timedelta(seconds=1))
    return tuple(_hour(hour, sorted(of_hour)) for hour, of_hour in enumerate(waits))


def _hour(hour: int, waits: Sequence[float]) -> HourOfDay:
    mean = round(sum(waits) / len(waits), 3) if waits else 0.0
    return HourOfDay(hour=hour, jobs=len(waits), wait_mean_s=mean, wait_p95_s=quantile(waits, 0.95))


@dataclass(frozen=True, slots=True)
class Ratio:
    """One policy's figures by another's: paid GPU-hours, mean wait (one second added to both), nodes started."""

    cost: float
    wait: float
    starts: float


def ratio(one: Figures, other: Figures, *, by_the_hour: bool) -> Ratio | None:
    """Return *one* by *other*; None where *other* paid for nothing or started nothing."""
    paid, base = ((f.gpu_hours_started if by_the_hour else f.gpu_hours_second) for f in (one, other))
    if not base or not other.node_starts:
        return None
    return Ratio(
        cost=round(paid / base, 4),
        wait=round((one.wait_mean_s + A_SECOND) / (other.wait_mean_s + A_SECOND), 4),
        starts=round(one.node_starts / other.node_starts, 4),
    )


def over_all(found: Iterable[Ratio]) -> Ratio:
    """Return the geometric mean of the ratios of at least one trace."""
    ratios = list(found)
    return Ratio(
        cost=_geometric_mean([r.cost for r in ratios]),
        wait=_geometric_mean([r.wait for r in ratios]),
        starts=_geometric_mean([r.starts for r in ratios]),
    )


def _geometric_mean(values: Sequence[float]) -> float:
    if min(values) <= 0:
        return 0.0
    return round(math.exp(sum(math.log(v) for v in values) / len(values)), 4)


ROUNDING = timedelta(seconds=1)


def violations(jobs: Sequence[Job], played: Played, most: Mapping[str, int] | None = None) -> list[str]:
    """Return what does not add up, in sentences; nothing when all does.

    Every job finished once or is reported as left; every node that started lived once, in order, under a name of its
    own, and is the one that registered; no pool had more nodes than *most* (by pool id) allow; no GPU was held twice;
    no pod was on a node before its GPUs were usable or after it was gone; a job that nobody disturbed held its GPUs for
    as long as it runs; what was held existed, and what existed was paid.
    """
    return [
        *_jobs(jobs, played),
        *_starts(played),
        *_caps(played, most or {}),
        *_nodes(played),
        *_held(jobs, played),
        *_paid(played),
    ]


def _jobs(jobs: Sequence[Job], played: Played) -> Iterator[str]:
    over = [job.id for job in played.finished]
    if len(over) != len(set(over)):
        yield "a job finished twice"
    told = {*over, *(job.id for job in played.left)}
    lost = [job.id for job in jobs if job.id not in told]
    if lost or len(over) + len(played.left) != len(jobs):
        yield f"of {len(jobs)} jobs {len(over)} finished and {len(played.left)} are left; lost: {', '.join(lost[:5])}"


def _starts(played: Played) -> Iterator[str]:
    """Node starts by two accounts, the cloud's and the cluster's; nodes that a world begins with are in the first."""
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
            known = [at for at in stages if at is not None]
            if any(later < earlier for earlier, later in pairwise(known)):
                yield f"{vm.hostname} lived in the wrong order"


def _caps(played: Played, most: Mapping[str, int]) -> Iterator[str]:
    for pool, limit in most.items():
        here = [vm for vm in played.lives if vm.pool == pool]
        at_once = _most_at_once([(vm.created_at, vm.deleted_at or played.end, 1) for vm in here])
        if at_once > limit:
            yield f"{pool} may have {limit} nodes and had {at_once}"


def _nodes(played: Played) -> Iterator[str]:
    nodes = {vm.hostname: vm for vm in played.lives}
    by_node: dict[str, list[Placement]] = {}
    for placed in played.placements.all:
        by_node.setdefault(placed.node, []).append(placed)
    for name, here in by_node.items():
        vm = nodes.get(name)
        if vm is None:
            yield f"{name} holds pods and never was"
            continue
        early = [p.pod for p in here if vm.usable_at is None or p.bound_at < vm.usable_at]
        late = [p.pod for p in here if vm.gone_at is not None and (p.ended_at or played.end) > vm.gone_at]
        if early:
            yield f"{early[0]} was on {name} before its GPUs were usable"
        if late:
            yield f"{late[0]} was on {name} after it was gone"
        most, gpus = _most_at_once([(p.bound_at, p.ended_at or played.end, p.gpus) for p in here]), _gpus(vm)
        if most > gpus:
            yield f"{name} has {gpus} GPUs, and {most} were held at once"


def _most_at_once(spans: Iterable[tuple[datetime, datetime, int]]) -> int:
    """Ends before beginnings: what is given back at a moment may be taken at that moment."""
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
    held = sum(
        p.gpus * (p.ended_at - p.started_at).total_seconds() for p in ran if p.started_at is not None and p.ended_at
    )
    if abs(held - wanted) > ROUNDING.total_seconds() * max(1, len(ran)):
        yield f"jobs held {held:.0f} GPU-seconds and should have held {wanted:.0f}"


def _paid(played: Played) -> Iterator[str]:
    existed = sum(
        _gpus(vm) * (min(vm.gone_at or played.end, played.end) - vm.created_at).total_seconds() for vm in played.lives
    )
    used = sum(p.gpus * ((p.ended_at or played.end) - p.bound_at).total_seconds() for p in played.placements.all)
    if used > existed + 1:
        yield f"{used:.0f} GPU-seconds were held and only {existed:.0f} existed"
    if existed > played.paid_gpu_seconds + 1:
        yield f"{existed:.0f} GPU-seconds existed and only {played.paid_gpu_seconds:.0f} were paid"
