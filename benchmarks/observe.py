"""Whether the sum that observe mode shows is what act mode costs: the same jobs in two simulated clusters.

In the first, observe mode watches pools of a fixed size for a week, and `receiver.replay.observed` replays what was
there. In the second, act mode runs the same jobs from the same nodes on. Its nodes come at other speeds than a replay
assumes, unequally fast, and its scheduler spreads pods. The bound is the margin that observe mode shows beside its sum.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import structlog

from benchmarks.month import a_month
from receiver.adapters.observe import ObservedCloud, ObservedCluster
from receiver.capabilities.registry import step_additions
from receiver.core.model.pods import Pod, PodPhase
from receiver.core.model.policy import Policy, Pool
from receiver.core.model.signals import HEARTBEAT_ALERT, Alert
from receiver.core.money.cost import spend_by_pool
from receiver.core.report.would_have import WouldHave, conclusion, waits
from receiver.ports import Delivery, Past, PastPod
from receiver.replay.observed import Watched, would_have
from receiver.replay.play import Played, Reaction, Setting, play
from receiver.replay.ports import WorldAlarms, WorldCloud
from receiver.replay.world.objects import GPU, Job
from receiver.step.gather import Sources
from receiver.step.parts import Hands
from receiver.step.reconcile import step
from simulator.cluster_port import SimulatedCluster
from simulator.store.memory_store import MemoryStore
from simulator.world import SimulatedTelemetry, World

DAY = timedelta(days=1)
START = datetime(2026, 11, 23, 7, 30, tzinfo=UTC)
SCRAPE = timedelta(seconds=30)
LOOKS = Reaction(start=START, tick=timedelta(hours=1))  # of observe mode, which changes nothing
JOBS_A_DAY = 40
SEEDS = (1, 2)
POOLS = tuple(
    Pool(
        id=f"l40s-{gpus}-id",
        name=f"l40s-{gpus}",
        size=f"an.g1.l40s.kube.x{gpus}",
        resources={GPU: gpus},
        max_nodes=most,
        price_usd_per_hour=Decimal("1.29") * gpus,
    )
    for gpus, most in ((1, 8), (8, 4))
)
THERE = {"l40s-1-id": 4, "l40s-8-id": 2}  # the nodes that people keep
POLICY = Policy(pools=POOLS)
TRUTHS = {  # how long nodes really take
    "fast": Setting(build=timedelta(seconds=60), boot=timedelta(seconds=15), driver=timedelta(seconds=100)),
    "usual": Setting(build=timedelta(seconds=200), boot=timedelta(seconds=30), driver=timedelta(seconds=240)),
    "slow": Setting(build=timedelta(minutes=8), boot=timedelta(seconds=30), driver=timedelta(minutes=6)),
}


class SimulatedServer:
    """The product's step in *mode* over *world*, as the loop takes it."""

    actions = 0

    def __init__(self, world: World, mode: str) -> None:
        self.store = MemoryStore()
        cloud, cluster = WorldCloud(world), SimulatedCluster(world)
        self._sources = Sources(
            cloud=cloud,
            cluster=cluster,
            telemetry=SimulatedTelemetry(world),
            alarms=WorldAlarms(world),
            store=self.store,
            readers=False,
            never_jumps=True,
        )
        acts = mode == "act"
        self._hands = Hands(
            cloud=cloud if acts else ObservedCloud(cloud),
            cluster=cluster if acts else ObservedCluster(cluster),
            may_write=lambda: True,
        )
        self._mode = mode

    def look(self, now: datetime) -> datetime | None:
        """Step at *now*, after a heartbeat."""
        labels = {"alertname": HEARTBEAT_ALERT, "action": "heartbeat"}
        alert = Alert(fingerprint="beat", labels=labels, starts_at=START)
        self.store.remember(Delivery(receiver="", group_key="", alerts=(alert,)), now)
        return step(self._sources, self._hands, POLICY, self._mode, now, step_additions()).reconsider_at

    def cost(self, until: datetime) -> Decimal:
        """What the nodes cost, by the server's own ledger."""
        spent, _ = spend_by_pool(self.store.node_lives(START), START, until, POLICY.billing)
        return sum(spent.values(), Decimal(0))


def a_cluster(truth: Setting) -> World:
    """Return a cluster with the nodes that are THERE, under other circumstances than those of a replay."""
    config = replace(truth, jitter=0.2, image_pull=timedelta(seconds=20), packing="kube", seed=7).world_config(POOLS)
    world = World(config, START)
    for pool, count in THERE.items():
        world.begin_with(pool, count)
    return world


def jobs_of(days: int, seed: int) -> list[Job]:
    """Return the jobs of *days*, whose pods are independent of each other."""
    return [replace(job, gang=False) for job in a_month(JOBS_A_DAY * days, seed, START, days)]


def past_of(played: Played, jobs: Sequence[Job], until: datetime) -> Past:
    """Return the pods that *played*, as kube-state-metrics shows them: the end of a pod is the last scrape before."""
    held = {placed.pod: placed for placed in played.placements.all}
    pods = []
    for job in (job for job in jobs if job.submit_at < until):
        for index in range(job.pods):
            name = f"{job.id}-{index}"
            placed = held.get(f"{job.namespace}/{name}")
            pod = Pod(
                namespace=job.namespace,
                name=name,
                uid=name,
                requests={GPU: job.gpus_per_pod},
                phase=PodPhase.OTHER,
                created_at=job.submit_at,
                owner=f"Job/{job.id}",
            )
            ended = None if placed is None else placed.ended_at
            begun = None if placed is None else placed.bound_at
            seen = None if ended is None else ended - (ended - START) % SCRAPE
            pods.append(PastPod(pod=pod, held_from=begun, held_until=seen and max(seen, begun or seen)))
    return Past(pods=pods, since=START, until=until, tolerations_known=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What observe mode *shown* for a time, beside what act mode *cost* in it (USD)."""

    shown: WouldHave
    cost: Decimal

    @property
    def off(self) -> Decimal:
        """The difference in USD."""
        assert self.shown.would_usd is not None
        return self.cost - self.shown.would_usd

    @property
    def within(self) -> bool:
        """Whether it is within the margin that is shown."""
        return self.shown.margin_usd is not None and abs(self.off) <= self.shown.margin_usd


def observed(jobs: Sequence[Job], days: float) -> WouldHave:
    """Return what observe mode shows after *days*."""
    until, world = START + days * DAY, a_cluster(TRUTHS["usual"])
    server = SimulatedServer(world, "observe")
    past = past_of(play(world, jobs, server, LOOKS, until=until), jobs, until)
    seen = Watched(since=START, until=until, lives=server.store.node_lives(START), past=past)
    return would_have(seen, POLICY, Setting(), step_additions())


def acted(jobs: Sequence[Job], days: float, truth: Setting) -> Decimal:
    """Return what the same *jobs* cost in act mode where nodes take as long as *truth* says."""
    until, world = START + days * DAY, a_cluster(truth)
    server = SimulatedServer(world, "act")
    play(world, jobs, server, replace(truth, start=START).reaction(), until=until)
    return server.cost(until)


def run(say: Callable[[str], None], days: int = 7, seeds: Sequence[int] = SEEDS) -> dict[str, Any]:
    """Compare weeks of all seeds and truths; return the result to keep, and say the figures."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    figures = []
    for seed in seeds:
        jobs = jobs_of(days, seed)
        shown = observed(jobs, days)
        say(f"observe: seed {seed}: {conclusion(shown)} {waits(shown)}")
        for name, truth in TRUTHS.items():
            found = Compared(shown=shown, cost=acted(jobs, days, truth))
            share = float(found.off / found.shown.would_usd) if found.shown.would_usd else 0.0
            said = "within" if found.within else "BEYOND"
            say(
                f"observe: seed {seed}, {name} nodes: shown ${shown.would_usd} ± ${shown.margin_usd}, act mode cost "
                f"${found.cost:.2f} ({100 * share:+.1f} %), {said} the margin"
            )
            figures.append(
                {
                    "seed": seed,
                    "nodes": name,
                    "shown_usd": str(shown.would_usd),
                    "margin_usd": str(shown.margin_usd),
                    "cost_usd": f"{found.cost:.2f}",
                    "as_run_usd": str(shown.as_run_usd),
                    "always_on_usd": str(shown.always_on_usd),
                    "within": found.within,
                }
            )
    return {
        "what": "the sum of observe mode beside the cost of act mode, for the same jobs",
        "settings": {"days": days, "jobs_a_day": JOBS_A_DAY},
        "figures": figures,
        "passed": all(row["within"] for row in figures),
    }
