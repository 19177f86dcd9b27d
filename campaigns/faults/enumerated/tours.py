"""The tours: short lives that together pass every write site."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from campaigns.faults.enumerated.drive import Tour
from campaigns.faults.scenario import Event, PoolPlan, Scenario
from receiver.core.model.policy import KeepOut, Monthly, Policy, ReportPolicy, UnitOfWork
from receiver.ports import CORDON_ANNOTATION, IDLE_SHUTDOWN_ANNOTATION, MAY_WAIT
from receiver.replay.world.objects import Job, PodSpec
from simulator.cluster_holding import ClusterQueue
from simulator.world import World
from tests.core.builders import a_pod
from tests.given.requests import booking_of, buffer_of, candidate_of

GPU = "nvidia.com/gpu"
NOON, EVENING = "2026-11-20T12:00:00+00:00", "2026-11-30T23:45:00+00:00"
MORNING, NIGHT = "2026-11-30T07:50:00+00:00", "2026-11-30T22:50:00+00:00"
QUICK = {"build": 20, "boot": 10, "driver": 20, "image_pull": 1, "delete": 5, "node_lingers": 5, "terminate": 2}
ANY_TAINT = [["", "Exists", "", ""]]
What = dict[str, Any]


def _pool(name: str = "l40s", **given: Any) -> PoolPlan:
    return PoolPlan(name=name, resources={GPU: 1}, **{"max_nodes": 4, "idle_for": 60, "grow_cooldown": 0, **given})


def _two_gpus(**given: Any) -> PoolPlan:
    return replace(_pool(**given), resources={GPU: 2})


def _scenario(*events: Event, minutes: int, pools: Sequence[PoolPlan] = (), **given: Any) -> Scenario:
    said: What = {"granularity": 1, "removal_margin": 0, "timings": QUICK, "ticks": [20], "start": NOON, **given}
    made = sorted(events, key=lambda e: e.at)
    return Scenario(seed=1, pools=list(pools) or [_pool()], events=made, troubled=60 * minutes, **said)


def _at(minute: float, kind: str, **what: Any) -> Event:
    return Event(at=60 * minute, kind=kind, what=what)


def _job(minute: float, name: str, seconds: int = 60, **what: Any) -> Event:
    return _at(minute, "job", **{"id": name, "seconds": seconds, "resource": GPU, "pods": 1, **what})


def _ask(minute: float, path: str, method: str = "POST", **body: Any) -> Event:
    return _at(minute, "ask", method=method, path=path, body=body or None)


def _do(minute: float, do: Any) -> Event:
    return _at(minute, "world", do=do)


def _said(minute: float, kind: str, lasts: str, pool: str = "l40s", **more: Any) -> Event:
    said = {"kind": kind, "pool": pool, "for": lasts, "who": "ada", "why": "a try", **more}
    return _ask(minute, "/api/v1/overrides", **said)


def _pools(**changes: Any) -> Any:
    """A policy whose pools are changed so."""

    def changed(policy: Policy) -> Policy:
        pools = [replace(pool, **changes) for pool in policy.pools]
        return replace(policy, pools=tuple(pools))

    return changed


def _probes(minutes: int) -> list[Event]:
    return [_ask(minute + 0.4, "/readyz?exclude=steps", "GET") for minute in range(0, minutes, 3)]


# --- growth and removal

BURST = Tour(
    name="burst",
    scenario=_scenario(
        *(_job(0.2, name) for name in "abcde"),
        _at(2.5, "cpu", id="web", pods=3, tolerations=ANY_TAINT),
        _job(5, "later"),
        *_probes(6),
        minutes=8,
        pools=[_pool(max_nodes=6)],
    ),
)
GANG = Tour(
    name="gang",
    scenario=_scenario(
        _job(0.2, "train", pods=2, gang=True),
        _job(0.3, "huge", pods=9, gang=True),
        _at(4, "cancel", id="huge"),
        minutes=5,
    ),
)
SPARED = Tour(
    name="spared",
    scenario=_scenario(
        Event(
            at=30,
            kind="bind",
            what={"id": "landed", "pool": "l40s-id", "which": 0, "seconds": 60},
            call="cluster.gpu_pods_on",
        ),
        minutes=5,
        pools=[_pool(count=1)],
    ),
)
ORPHANED = Tour(
    name="orphaned cordon",
    scenario=_scenario(minutes=3, pools=[_pool(count=1, min_nodes=1)]),
    prepare=lambda world: _mark(world, CORDON_ANNOTATION, "retire-of-a-lost-store"),
)
SICK = Tour(
    name="sick",
    scenario=_scenario(
        _job(0.1, "long", seconds=1500),
        _at(1, "sicken", pool="l40s-id", which=0, how="xid"),
        minutes=30,
        ticks=[60],
        pools=[_pool(count=1, repair_share=1.0)],
    ),
)
REPAIR = Tour(
    name="repair called off",
    scenario=_scenario(
        _at(1, "sicken", pool="l40s-id", which=0, how="condition"),
        Event(at=60, kind="job", what={"id": "late", "seconds": 60, "resource": GPU, "pods": 1}, call="cluster.cordon"),
        minutes=18,
        ticks=[60],
        pools=[_pool(count=1, repair_share=1.0, idle_for=3600)],
    ),
)
PACKED = Tour(
    name="packed",
    scenario=_scenario(_job(0.2, "a", seconds=120), minutes=4, pools=[_two_gpus(count=2)]),
)
REPLACED = Tour(
    name="replaced",
    scenario=_scenario(minutes=22, pools=[_pool(count=1)], behaviour={"decrement": "never"}, ticks=[40]),
    counts=False,
)
CALLED_OFF = Tour(
    name="called off",
    scenario=_scenario(
        _at(0, "fault", on="cloud.resize", error="timeout"),
        _at(0, "fault", on="cloud.resize", error="slow_down"),
        _job(0.2, "a"),
        _at(0.5, "cancel", id="a"),
        minutes=8,
    ),
    counts=False,
)
LEFT = Tour(
    name="left the configuration",
    scenario=_scenario(
        Event(at=0, kind="leave", what={"pool": "l40s-id"}, call="store.progressed"),
        _at(3, "come_back"),
        minutes=4,
        pools=[_pool(count=1), _pool("a100")],
    ),
)


def _mark(world: World, annotation: str, value: str) -> None:
    for name in list(world.nodes):
        world.patch_node(name, unschedulable=True, annotations={annotation: value})


# --- windows, people, money

WINDOW = Tour(
    name="window",
    scenario=_scenario(
        _job(0, "serve", seconds=2400, owner="ReplicaSet"),
        minutes=10,
        pools=[_pool(count=1, window=[722, 730, 0], evict_after=120)],
    ),
)
PEOPLE = Tour(
    name="people",
    scenario=_scenario(
        _said(0.2, "pin", "3m", nodes=1),
        _said(1, "snooze", "30m"),
        _at(3, "clock", by=2000),
        _at(4.5, "clock", by=0),
        _at(6, "end"),
        _ask(6.5, "/api/v1/budget", scope="cluster", monthly_usd="2000", who="ada", why="a try"),
        _job(7, "late"),
        minutes=9,
        budget="1000",
    ),
    mailboxes={"ops": 6},
)
ASKED = Tour(
    name="approvals",
    scenario=_scenario(
        _job(0.2, "a", seconds=90),
        _at(1, "approve", say="approve"),
        minutes=8,
        pools=[_pool(asks={"removals": True, "growth_above_usd_per_hour": "0", "wait": 120, "unanswered": "proceed"})],
    ),
)
BUDGET = Tour(
    name="budget",
    scenario=_scenario(
        _job(0.2, "a", seconds=3000),
        minutes=20,
        start=EVENING,
        budget="2.60",
        granularity=600,
        removal_margin=60,
        pools=[_pool(price="8.00")],
        ticks=[30],
    ),
    policy=lambda policy: _held(policy),
    prepare=lambda world: world.cluster_queues.update(gpus=ClusterQueue(stop_policy="None")),
    mailboxes={"ops": 3, "team": 0},
)


def _held(policy: Policy) -> Policy:
    assert policy.budget is not None
    means = KeepOut(namespaces=("ml",), cluster_queues=("gpus",))
    return replace(policy, budget=replace(policy.budget, keep_out=means))


REPORTS = ReportPolicy(units=(UnitOfWork(name="epoch", query="sum(epochs)"),), monthly=Monthly(everybody=True))
WEEK = Tour(
    name="week",
    scenario=_scenario(
        _job(0.2, "a", seconds=120),
        minutes=95,
        start=MORNING,
        ticks=[240],
        budget="1000",
    ),
    policy=lambda policy: replace(policy, reports=REPORTS),
)
MONTH = Tour(
    name="month",
    scenario=_scenario(_job(0.2, "a", seconds=120), minutes=150, start=NIGHT, ticks=[290], budget="1000"),
    policy=lambda policy: replace(policy, reports=REPORTS),
)

# --- the work of others

IDLE = Tour(
    name="idle workload",
    scenario=_scenario(minutes=18, pools=[_pool(count=1)], ticks=[40]),
    policy=lambda policy: replace(policy, idle_shutdown_grace=timedelta(minutes=3)),
    prepare=lambda world: _serve(world),
)
KUEUE = Tour(
    name="kueue and buffers",
    scenario=_scenario(_do(2, lambda world: _gone(world)), minutes=5, budget="1000"),
    prepare=lambda world: _queued(world),
    spare=2,
)
PATIENT = Tour(
    name="work that may wait",
    scenario=_scenario(_job(0.2, "urgent"), _do(0.3, lambda world: world.submit(_patient(world))), minutes=6),
)
LABELS = Tour(
    name="labels and taints",
    scenario=_scenario(_job(0.2, "a", tolerations=ANY_TAINT), minutes=5, pools=[_pool(labels={"gpu": "l40s"})]),
    policy=_pools(apply_to_nodes=True),
    prepare=lambda world: world.faults.bare_labels("l40s-id", 1),
)


def _serve(world: World) -> None:
    idle = PodSpec(namespace="ml", name="web-0", requests={GPU: 1}, gpu_util=0.0)
    consents = {IDLE_SHUTDOWN_ANNOTATION: "10m"}
    world.add_pod(replace(idle, annotations=consents, owner_kind="StatefulSet", owner_name="web"))


def _queued(world: World) -> None:
    pods = {name: a_pod(f"{name}-0", uid="", created_at=world.now) for name in ("train", "booked", "warm")}
    world.requests = (
        candidate_of("ml/train", [pods["train"]]),
        booking_of("ml/booked", [pods["booked"]], world.now),
        buffer_of("ml/warm", pods["warm"], 1),
    )


def _gone(world: World) -> None:
    world.requests = ()


def _patient(world: World) -> Job:
    return Job(
        id="patient",
        submit_at=world.now,
        duration=timedelta(seconds=60),
        namespace="ml",
        gate=MAY_WAIT,
        annotations={MAY_WAIT: "4h"},
    )


TOURS = (
    *(BURST, GANG, SPARED, ORPHANED, SICK, REPAIR, PACKED, REPLACED, CALLED_OFF, LEFT, WINDOW, PEOPLE, ASKED),
    *(BUDGET, WEEK, MONTH, IDLE, KUEUE, PATIENT, LABELS),
)
