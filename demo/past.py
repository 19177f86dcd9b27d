"""A month that a stack has behind it: the autoscaler's own step on a simulated world, under a clock that is moved.

Only the ledger is kept of it. The world ends without jobs and nodes, as the one begins that the stack starts with.
"""

import random
import shutil
from collections.abc import Iterator
from contextlib import closing, redirect_stdout, suppress
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from demo.configs import simulator_config
from demo.plan import Places, StackPlan
from demo.scenario import NAMESPACE, POOL_LABEL
from receiver.adapters.kubernetes.cel import Selectors
from receiver.adapters.store import SqlStore, open_store
from receiver.capabilities.registry import step_additions
from receiver.config import load_file
from receiver.core.model.policy import Policy
from receiver.core.model.signals import HEARTBEAT_ALERT, Alert
from receiver.ports import Delivery, TryLater
from receiver.replay.ports import WorldAccounts, WorldCloud
from receiver.replay.world.objects import Job
from receiver.step.devices import DeviceJoin
from receiver.step.gather import Sources
from receiver.step.parts import Hands
from receiver.step.reconcile import step
from simulator.cluster_port import SimulatedCluster
from simulator.config import parse
from simulator.world import SimulatedAlarms, SimulatedTelemetry, World

DAYS = 30
IN_MEMORY = Path("/dev/shm")  # noqa: S108 (a folder of our own there)
TICK = timedelta(minutes=3)  # a longer gap counts as time that was not watched
REST = timedelta(hours=6)  # without jobs and nodes there is nothing to look at
FIRST, LAST = (
    timedelta(hours=8),
    timedelta(hours=9, minutes=30),
)  # of a working day: when its first and its last job come
WORK = (  # what a team runs on a day: pool, pods, GPUs of each, how busy it keeps them
    ("vision", "resnet", "l40s", 2, 1, 0.85),
    ("language", "tokenize", "a100", 1, 1, 0.30),
    ("language", "finetune", "h100", 1, 8, 0.90),
    ("research", "sweep", "l40s", 1, 1, 0.60),
    ("research", "notebook", "h200", 1, 1, 0.04),
)


def a_month(plan: StackPlan, seed: int, ends: datetime) -> Iterator[Job]:
    """Yield the jobs of the working days of the DAYS days before *ends*; the last are over by then."""
    dice = random.Random(seed)  # noqa: S311 (seeded, so that a month can be seen again)
    ids = {pool.name: pool.id for pool in plan.pools}
    midnight = ends.replace(hour=0, minute=0, second=0, microsecond=0)
    for number in range(DAYS, 0, -1):
        day = midnight - timedelta(days=number)
        if day.weekday() >= 5:
            continue
        for team, name, pool, pods, gpus, busy in WORK:
            if dice.random() < 0.3:
                continue
            yield Job(
                id=f"{name}-{day:%d}",
                submit_at=day + FIRST + (LAST - FIRST) * dice.random(),
                duration=timedelta(minutes=dice.randint(20, 90)),
                pods=pods,
                gpus_per_pod=gpus,
                gpu_util=busy,
                namespace=NAMESPACE,
                team=team,
                node_selector={POOL_LABEL: ids[pool]},
            )


def live_through(plan: StackPlan, places: Places, seed: int, ends: datetime) -> None:
    """Fill the ledger of *places*, whose configuration is written, with the month before *ends*."""
    world = World(parse(simulator_config(plan, places)).world(), ends - timedelta(days=DAYS))
    world.submit_later(sorted(a_month(plan, seed, ends), key=lambda job: job.submit_at))
    policy = load_file(places.config("receiver")).policy
    with TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else None) as folder:  # thousands of commits
        database = Path(folder) / "ledger.db"
        with closing(open_store(f"sqlite:///{database}")) as store, redirect_stdout(StringIO()):  # a line per step
            _run(world, policy, store, ends)
        shutil.move(database, places.database)


def _run(world: World, policy: Policy, store: SqlStore, ends: datetime) -> None:
    cloud, cluster = WorldCloud(world), SimulatedCluster(world)
    sources = Sources(
        cloud=cloud,
        cluster=cluster,
        telemetry=SimulatedTelemetry(world),
        alarms=SimulatedAlarms(world),
        store=store,
        accounts=WorldAccounts(world),
        sizes=cloud,
        join=DeviceJoin(Selectors()),
        never_jumps=True,
    )
    hands = Hands(cloud=cloud, cluster=cluster, may_write=lambda: True)
    rested = False
    while world.now < ends:
        _beat(store, world.now)
        idle = not world.active_pods and not any(world.pools[pool.id].instances for pool in policy.pools)
        due = world.now + (REST if idle and rested else TICK)  # a step has seen that the last node is gone
        rested = idle
        with suppress(TryLater):
            moment = step(sources, hands, policy, "act", world.now, step_additions()).reconsider_at
            due = min(due, max(moment, world.now + timedelta(seconds=1))) if moment else due
        event = world.next_event_at() if idle else None  # a job's alert would wake the loop
        world.advance(min(due, event or due, ends))


def _beat(store: SqlStore, now: datetime) -> None:
    labels = {"alertname": HEARTBEAT_ALERT, "action": "heartbeat"}
    alert = Alert(fingerprint="beat", labels=labels, starts_at=datetime(2026, 1, 1, tzinfo=UTC))
    store.remember(Delivery(receiver="past", group_key="beat", alerts=(alert,)), now)
