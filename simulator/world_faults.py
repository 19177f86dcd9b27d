"""Faults of the world: empty shelves, refusals, machines that never come, and switches turned while it runs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any, Literal

from receiver.replay.world.objects import Behaviour
from simulator.dcgm import FIELDS, XID
from simulator.live import Live
from simulator.reading import Unreadable, read

WorldKind = Literal[
    "stock",
    "quota",
    "refuse_rescale",
    "stuck_building",
    "gpu_never",
    "odd_status",
    "partial",
    "bare_labels",
    "slices_incomplete",
    "taint_device",
    "lose_gpu",
    "not_ready",
    "condition",
    "unhealthy",
    "agent_phase",
    "use_gpu",
    "work",
    "bind",
    "telemetry_gone",
    "behaviour",
    "deny",
    "expired",
    "compact",
    "watches",
    "xid",
    "reading",
    "stall",
    "leak",
]


PARTIAL = ("id", "hostname", "status", "created_at", "count")  # fields that Civo's answer on a pool may lack


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldFault:
    """One change of the world; which fields it reads depends on its *kind*, see `KINDS`."""

    kind: WorldKind
    size: str = ""
    units: int | None = None
    field: str = ""
    limit: int | None = None
    pool: str = ""
    times: int | None = 1
    code: str | int = "cannot_scale_already_rescaling_cluster"
    status: int | str = 409
    reason: str = "The cluster is already being rescaled"
    switches: Mapping[str, Any] | None = None
    right: str = ""
    how: Literal["event", "status"] = "event"
    do: Literal["hang", "close", "error"] = "hang"
    node: str = ""
    gpu: int = 0
    engine: float = 0.9
    memory: float | None = None
    namespace: str = "default"
    pod: str = ""
    value: float | None = None
    effect: str = ""
    instead: str | int | None = None


def _stock(live: Live, fault: WorldFault) -> None:
    live.world.faults.stock[_named(fault.size, "size")] = fault.units


def _quota(live: Live, fault: WorldFault) -> None:
    name = _named(fault.field, "field")
    others = {k: v for k, v in live.world.config.quota.items() if k != name}
    live.world.limit(others if fault.limit is None else {**others, name: fault.limit})


def _refuse_rescale(live: Live, fault: WorldFault) -> None:
    status = fault.status if isinstance(fault.status, int) else 409
    live.world.faults.refuse_rescale(str(fault.code), status=status, reason=fault.reason, times=fault.times)


def _stuck(live: Live, fault: WorldFault) -> None:
    live.world.faults.stuck_building(_pool(live, fault), _often(fault))


def _gpu_never(live: Live, fault: WorldFault) -> None:
    live.world.faults.gpu_never(_pool(live, fault), _often(fault))


def _odd(live: Live, fault: WorldFault) -> None:
    word = fault.status if isinstance(fault.status, str) else "ERROR"
    live.world.faults.odd_status(_pool(live, fault), _often(fault), word)


def _partial(live: Live, fault: WorldFault) -> None:
    if fault.field not in PARTIAL:
        raise Unreadable([f"field: {fault.field!r} is none of {', '.join(PARTIAL)}"])
    live.partial.setdefault(_pool(live, fault), {})[fault.field] = fault.instead


def _bare(live: Live, fault: WorldFault) -> None:
    live.world.faults.bare_labels(_pool(live, fault), _often(fault))


def _slices(live: Live, fault: WorldFault) -> None:
    live.world.faults.slices_incomplete(_pool(live, fault), _often(fault))


def _taint_device(live: Live, fault: WorldFault) -> None:
    taint = {"key": fault.field or "gpu.nvidia.com/unhealthy", "effect": fault.effect} if fault.effect else None
    live.world.taint_device(_named(fault.node, "node"), f"gpu-{fault.gpu}", taint)


def _lose_gpu(live: Live, fault: WorldFault) -> None:
    live.world.faults.lose_gpu(_named(fault.node, "node"))


def _not_ready(live: Live, fault: WorldFault) -> None:
    live.world.faults.not_ready(_named(fault.node, "node"))


def _condition(live: Live, fault: WorldFault) -> None:
    status = fault.status if isinstance(fault.status, str) else "True"
    live.world.faults.condition(_named(fault.node, "node"), _named(fault.field, "field"), status)


def _unhealthy(live: Live, fault: WorldFault) -> None:
    live.world.faults.unhealthy(_named(fault.node, "node"), 1 if fault.units is None else fault.units)


def _agent_phase(live: Live, fault: WorldFault) -> None:
    live.world.faults.recovering[_named(fault.node, "node")] = _named(fault.field, "field")


def _use_gpu(live: Live, fault: WorldFault) -> None:
    memory = 0.5 if fault.memory is None else fault.memory
    live.world.use_gpu(_named(fault.node, "node"), engine=fault.engine, memory=memory)


def _work(live: Live, fault: WorldFault) -> None:
    live.world.work(fault.namespace, _named(fault.pod, "pod"), engine=fault.engine, memory=fault.memory)


def _bind(live: Live, fault: WorldFault) -> None:
    live.world.bind(fault.namespace, _named(fault.pod, "pod"), _named(fault.node, "node"))


def _telemetry(live: Live, _fault: WorldFault) -> None:
    live.world.faults.telemetry_gone = True


def _behaviour(live: Live, fault: WorldFault) -> None:
    given = read(Behaviour, fault.switches or {}, "switches")
    named = {name: getattr(given, name) for name in fault.switches or {}}
    live.world.behave(replace(live.world.config.behaviour, **named))


def _deny(live: Live, fault: WorldFault) -> None:
    live.denied.add(_named(fault.right, "right"))


def _expired(live: Live, fault: WorldFault) -> None:
    live.expired = fault.how


def _compact(live: Live, _fault: WorldFault) -> None:
    live.world.compact(live.world.version + 1)


def _watches(live: Live, fault: WorldFault) -> None:
    live.watches = fault.do
    live.changed.notify_all()


def _xid(live: Live, fault: WorldFault) -> None:
    code = int(fault.code) if str(fault.code).isdigit() else 79
    if fault.pool:
        live.coming_xids[_pool(live, fault)] = (fault.gpu, code)
    else:
        live.xids[_named(fault.node, "node"), fault.gpu] = code


def _reading(live: Live, fault: WorldFault) -> None:
    known = FIELDS.keys() - {XID}  # which is a fault of its own, with labels of its own
    if fault.field not in known:
        raise Unreadable([f"field: {fault.field!r} is none of {', '.join(sorted(known))}"])
    live.readings.setdefault((_named(fault.node, "node"), fault.gpu), {})[fault.field] = fault.value


def _stall(live: Live, fault: WorldFault) -> None:
    live.stalls[_named(fault.node, "node"), fault.gpu] = fault.engine


def _leak(live: Live, fault: WorldFault) -> None:
    if fault.value is None:
        raise Unreadable(["value: Field required"])
    live.leaks[_named(fault.node, "node"), fault.gpu] = (live.world.now, fault.value)


KINDS: Mapping[WorldKind, Callable[[Live, WorldFault], None]] = {
    "stock": _stock,  # size, units: GPU units of that size that can still be bought (null: endless)
    "quota": _quota,  # field, limit: instance_count, cpu_core, ram_mb or disk_gb (null: endless)
    "refuse_rescale": _refuse_rescale,  # code, status, reason, times (null: until cleared)
    "stuck_building": _stuck,  # pool, times: the next instances never leave BUILDING
    "gpu_never": _gpu_never,  # pool, times: the next nodes never offer a GPU
    "odd_status": _odd,  # pool, times, status: the next instances go to an undocumented status
    "partial": _partial,  # pool, field (of the pool's instances, or "count"), instead: shown so (null: left out)
    "bare_labels": _bare,  # pool, times: the next nodes come without the pool's labels and taints
    "slices_incomplete": _slices,  # pool, times: the next nodes publish every ResourceSlice but the last
    "taint_device": _taint_device,  # node, gpu, field (key), effect (empty: no taint any more): in a new generation
    "lose_gpu": _lose_gpu,  # node: its driver crashes
    "not_ready": _not_ready,  # node: its kubelet stops answering
    "condition": _condition,  # node, field, status: a condition of that type, such as GpuMemWatch ("True")
    "unhealthy": _unhealthy,  # node, units: so many of its GPUs fail (1), and its device plugin or DRA driver says so
    "agent_phase": _agent_phase,  # node, field: the phase in which Civo's node agent restarts it, such as WaitingReboot
    "use_gpu": _use_gpu,  # node, engine, memory (ratios): something outside Kubernetes uses its GPUs
    "work": _work,  # namespace, pod, engine, memory (null: as before): what its GPUs do (cannot be lifted)
    "bind": _bind,  # namespace, pod, node: the pod starts there whatever the node's cordon (cannot be lifted)
    "telemetry_gone": _telemetry,  # dcgm-exporter answers 503
    "behaviour": _behaviour,  # switches: any of receiver.replay.world.Behaviour, such as {"decrement": "15m"}
    "deny": _deny,  # right: "patch nodes", "create pods/eviction"
    "expired": _expired,  # how: a watch that is too old gets an ERROR event or HTTP 410
    "compact": _compact,  # the journal forgets everything: older watches are expired
    "watches": _watches,  # do: those under way and new ones hang (open, without a word), close (cut off) or error
    "xid": _xid,  # node, gpu, code: the last XID that this GPU reports; pool: of its first node, or of the next one
    "reading": _reading,  # node, gpu, field, value: what DCGM says there, whatever happens (null: nothing)
    "stall": _stall,  # node, gpu, engine: its engine does that (ratio), tensor cores and memory traffic nothing
    "leak": _leak,  # node, gpu, value: from now on it takes that many MiB of its memory more in each hour
}


def impose(live: Live, given: Mapping[str, Any]) -> None:
    """Bring a world fault about. Raises Unreadable."""
    fault = read(WorldFault, given)
    with live.moved():
        KINDS[fault.kind](live, fault)


def lift(live: Live) -> None:
    """Undo every world fault; what is stuck or gone stays so."""
    with live.moved():
        live.world.faults.clear()
        for node in list(live.world.used_outside):
            live.world.stop_using(node)
        live.world.limit(live.config.quota)
        live.world.behave(live.config.behaviour)
        live.denied.clear()
        live.denied.update(live.config.kubernetes.denied)
        live.expired = live.config.kubernetes.expired
        live.watches = "live"
        live.changed.notify_all()
        live.partial.clear()
        live.xids.clear()
        live.coming_xids.clear()
        live.readings.clear()
        live.stalls.clear()
        live.leaks.clear()


def shown(live: Live) -> dict[str, Any]:
    """Return what differs from an untroubled world."""
    with live.moved() as world:
        original, present = live.config.behaviour, world.config.behaviour
        return {
            "stock": dict(world.faults.stock),
            "quota": dict(world.config.quota),
            "telemetry_gone": world.faults.telemetry_gone,
            "lost_gpus": sorted(world.crashed_nodes),
            "not_ready": sorted(world.silent_nodes),
            "ailing": sorted(world.ailing_nodes),
            "recovering": dict(world.faults.recovering),
            "used_outside": sorted(world.used_outside),
            "behaviour": {
                f.name: _plain(getattr(present, f.name))
                for f in fields(present)
                if getattr(present, f.name) != getattr(original, f.name)
            },
            "denied": sorted(live.denied),
            "expired": live.expired,
            "watches": live.watches,
            "partial": {pool: dict(fields) for pool, fields in live.partial.items()},
            "xids": {f"{node}/{gpu}": code for (node, gpu), code in live.xids.items()},
            "coming_xids": {f"{pool}/{gpu}": code for pool, (gpu, code) in live.coming_xids.items()},
            "readings": {f"{node}/{gpu}": dict(said) for (node, gpu), said in live.readings.items()},
            "stalls": {f"{node}/{gpu}": engine for (node, gpu), engine in live.stalls.items()},
            "leaks": {f"{node}/{gpu}": rate for (node, gpu), (_, rate) in live.leaks.items()},
        }


def _plain(value: object) -> object:
    return value.total_seconds() if isinstance(value, timedelta) else value


def _named(value: str, name: str) -> str:
    if not value:
        raise Unreadable([f"{name}: Field required"])
    return value


def _pool(live: Live, fault: WorldFault) -> str:
    if fault.pool not in live.world.pools:
        raise Unreadable([f"pool: {fault.pool!r} is none of {sorted(live.world.pools)}"])
    return fault.pool


def _often(fault: WorldFault) -> int:
    return 1_000_000_000 if fault.times is None else fault.times
