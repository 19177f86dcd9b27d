"""Check a played trace by its placements alone: what must hold whoever sized the pools."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from receiver.replay.placements import Placement
from receiver.replay.play import Played
from receiver.replay.world.config import Job
from receiver.replay.world.objects import VM

ROUNDING = timedelta(seconds=1)


def violations(jobs: Sequence[Job], played: Played) -> list[str]:
    """Return what does not add up, in sentences; nothing when all does.

    Every job finished once or is reported as left; no GPU held twice; no pod on a node before its GPUs were usable or
    after it was gone; a job that nobody disturbed held its GPUs for as long as it runs; what was held existed.
    """
    return [*_jobs(jobs, played), *_nodes(played), *_held(jobs, played)]


def _jobs(jobs: Sequence[Job], played: Played) -> Iterator[str]:
    over = [job.id for job in played.finished]
    if len(over) != len(set(over)):
        yield "a job finished twice"
    told = {*over, *(job.id for job in played.left)}
    lost = [job.id for job in jobs if job.id not in told]
    if lost or len(over) + len(played.left) != len(jobs):
        yield f"of {len(jobs)} jobs {len(over)} finished and {len(played.left)} are left; lost: {', '.join(lost[:5])}"


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
        most, gpus = _most_at_once(here, played.end), _gpus(vm)
        if most > gpus:
            yield f"{name} has {gpus} GPUs, and {most} were held at once"


def _most_at_once(here: Iterable[Placement], end: datetime) -> int:
    """Ends before beginnings: what is given back at a moment may be taken at that moment."""
    moments = sorted([(p.bound_at, p.gpus) for p in here] + [(p.ended_at or end, -p.gpus) for p in here])
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
    existed = sum(
        _gpus(vm) * (min(vm.gone_at or played.end, played.end) - vm.created_at).total_seconds() for vm in played.lives
    )
    used = sum(p.gpus * ((p.ended_at or played.end) - p.bound_at).total_seconds() for p in played.placements.all)
    if used > existed + 1:
        yield f"{used:.0f} GPU-seconds were held and only {existed:.0f} existed"


def _gpus(vm: VM) -> int:
    return sum(vm.spec.resources.values())
