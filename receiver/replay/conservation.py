"""Check a played trace by its log alone: what must hold whoever sized the pools."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from receiver.replay.play import Placement, Played
from receiver.replay.world.config import Job
from receiver.replay.world.objects import VM

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


def _gpus(vm: VM) -> int:
    return sum(vm.spec.resources.values())
