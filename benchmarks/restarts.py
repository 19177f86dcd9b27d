"""How many nodes restarts buy, by the grace period of the pod that ends, and whether real need beside one still buys at
once. Only the world's time passes, so the figures are the same on every machine."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import structlog

from receiver.capabilities.registry import step_additions
from receiver.core.model.policy import Policy, Pool
from receiver.core.scaling.terminations import NODE_TAKES
from receiver.replay.play import Setting
from receiver.replay.ports import WorldAlarms, WorldCloud
from receiver.replay.store import ReplayStore
from receiver.replay.world.objects import Job
from receiver.step.gather import Sources
from receiver.step.parts import Hands
from receiver.step.reconcile import step
from simulator.cluster_port import SimulatedCluster
from simulator.world import SimulatedTelemetry, World

START = datetime(2026, 9, 1, 12, 0, tzinfo=UTC)
GPU, GPUS = "nvidia.com/gpu", 8
PRICE = Decimal("23.92")  # of a node of eight H100s, USD per hour
RESTARTS = {0: 25, 30: 25, 60: 25, 120: 25, 300: 5, 1800: 5}  # by grace period in seconds
OF_ONE = 5  # restarts of one service: the simulated controller gives up after six
TICK, WAKE = timedelta(seconds=10), timedelta(seconds=1)
SETTLES = timedelta(minutes=20)


class Service:
    """A ReplicaSet of one pod that fills a node of eight GPUs."""

    def __init__(self) -> None:
        pool = Pool(
            id="h100-id",
            name="h100",
            size="an.g1.h100.kube.x8",
            resources={GPU: GPUS},
            max_nodes=8,
            price_usd_per_hour=PRICE,
        )
        self.policy = Policy(pools=(pool,))
        self.world = World(Setting(start=START).world_config((pool,)), START)
        cloud, cluster = WorldCloud(self.world), SimulatedCluster(self.world)
        self.sources = Sources(
            cloud=cloud,
            cluster=cluster,
            telemetry=SimulatedTelemetry(self.world),
            alarms=WorldAlarms(self.world),
            store=ReplayStore(priced=False),
            readers=False,
            never_jumps=True,
        )
        self.hands = Hands(cloud=cloud, cluster=cluster, may_write=lambda: True)
        self.submit("serve")
        self.run(SETTLES)

    @property
    def requested(self) -> int:
        """How many nodes Civo was asked for."""
        return self.world.pools["h100-id"].required

    def submit(self, name: str) -> None:
        """Another service of eight GPUs begins."""
        said = {"submit_at": self.world.now, "duration": timedelta(days=30), "pods": 1, "gpus_per_pod": GPUS}
        self.world.submit(Job(id=name, namespace="ml", owner_kind="ReplicaSet", **said))  # type: ignore[arg-type]

    def run(self, length: timedelta) -> None:
        """Step by the tick for *length*, the first time as the watch of pods wakes the loop."""
        ends, wait = self.world.now + length, WAKE
        while self.world.now < ends:
            self.world.advance(min(ends, self.world.now + wait))
            step(self.sources, self.hands, self.policy, "act", self.world.now, step_additions())
            wait = TICK

    def restart(self, grace: timedelta) -> None:
        """Delete the pod that runs, and wait until its successor does."""
        name = next(n for (_, n), pod in self.world.active_pods.items() if pod.deletion_at is None)
        self.world.delete_pod("ml", name, grace)
        self.run(grace + timedelta(minutes=1))


def run(say: Callable[[str], None]) -> dict[str, Any]:
    """Play all restarts and one real need beside each kind; return the result to keep, and say the figures."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    figures: dict[str, dict[str, float]] = {}
    for seconds, count in RESTARTS.items():
        grace, bought = timedelta(seconds=seconds), 0
        service = Service()
        for number in range(count):
            service = service if number % OF_ONE else Service()
            before = service.requested
            service.restart(grace)
            bought += max(0, service.requested - before)
        other = Service()
        name = next(n for _, n in other.world.active_pods)
        other.world.delete_pod("ml", name, grace)
        other.submit("more")
        other.run(WAKE)
        figures[str(seconds)] = {"restarts": count, "nodes": bought, "nodes_for_real_need": other.requested - 1}
        say(
            f"restarts: grace {seconds} s: {bought} nodes bought by {count} restarts (${bought * PRICE}), "
            f"{other.requested - 1} by real need beside one"
        )
    return {
        "what": "nodes bought by restarts of a pod of 8 GPUs, and in the first step by another that waits beside one",
        "settings": {"usd_per_node": str(PRICE), "node_takes_seconds": NODE_TAKES.total_seconds()},
        "figures": figures,
    }
