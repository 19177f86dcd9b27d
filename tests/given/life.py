"""A whole life in memory: the real step and the real store over a simulated world, with time moved by hand."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from receiver.adapters.kubernetes.cel import Selectors
from receiver.capabilities.registry import step_additions
from receiver.core.model.actions import ActionKind, Change, Outcome
from receiver.core.model.configuration import ConfigurationFile
from receiver.core.model.memory import IN_A_ROW
from receiver.core.model.overrides import Override
from receiver.core.model.pods import Pod
from receiver.core.model.policy import Policy, Pool
from receiver.core.model.signals import HEARTBEAT_ALERT, Alert
from receiver.core.notices.people_notices import was_set
from receiver.core.notices.workload_notices import ToldPods
from receiver.core.promises.calibration import OpenPromises
from receiver.ports import Cloud, Cluster, Delivery, Store, TryLater, WriterLostError
from receiver.replay.world.objects import Behaviour, Job, Timings, WorldConfig, WorldPool
from receiver.step.devices import DeviceJoin
from receiver.step.gather import Sources
from receiver.step.parts import Additions, Hands
from receiver.step.reconcile import Stepped, step
from simulator.world import World
from tests.core.builders import NOW, an_override
from tests.core.builders import a_policy as core_policy
from tests.stores import StoreWithoutRecords
from tests.world_ports import FlakyAccounts, FlakyAlarms, FlakyCloud, FlakyCluster, FlakyTelemetry

START = NOW
POOL = "l40s-id"
GPU = "nvidia.com/gpu"
SIZE = "an.g1.l40s.kube.x1"
BIG_SIZE = "an.g1.l40s.kube.x8"
PRICE = Decimal("1.29")
TICK = timedelta(seconds=10)
REST = timedelta(minutes=5)  # the longest without a step, as in production
MINUTE = timedelta(minutes=1)  # and while a source is silent, which counts by the minute
HOUR = timedelta(hours=1)
TRIES = 2  # steps after which nothing is tried again: then they may rest
FAST = Timings(
    create=timedelta(0),
    build=timedelta(seconds=60),
    boot=timedelta(seconds=20),
    driver=timedelta(seconds=120),
    image_pull=timedelta(seconds=5),
    delete=timedelta(seconds=20),
)
ADDED = step_additions()  # by every capability


def a_world(*pools: WorldPool, timings: Timings = FAST, behaviour: Behaviour | None = None, **given: Any) -> World:
    """A cluster with one pool of one-GPU nodes at zero, unless others are given."""
    config = WorldConfig(
        cluster_id="cluster",
        cluster_name="demo",
        region="lon1",
        pools=pools or (WorldPool(id=POOL, size=SIZE, resources={GPU: 1}),),
        timings=timings,
        behaviour=behaviour or Behaviour(),
        price={SIZE: PRICE},
        **given,
    )
    return World(config, START)


def a_policy(*pools: Pool, **given: Any) -> Policy:
    """A policy over *pools* (one L40S pool when none is given), billed by the hour, with heartbeats that are rare: each
    is a delivery to store."""
    return core_policy(*pools, **{"heartbeat_interval": timedelta(minutes=10), **given})


def a_job(name: str = "train", **given: Any) -> Job:
    """A single one-GPU pod that runs ten minutes."""
    said: dict[str, Any] = {
        "id": name,
        "submit_at": START,
        "duration": timedelta(minutes=10),
        "pods": 1,
        "gpus_per_pod": 1,
        "namespace": "ml",
        "team": "vision",
    }
    return Job(**{**said, **given})


@dataclass
class Life:
    """The product on a world. *writer* False means that another replica writes. With *pauses_are_jumps* the first step
    and one after a pause do not trust the clock, as in production. *rest* is the longest without a step:
    tests of what goes by the minute (samples, the accounting, charges asked again) shorten it. *lock* is that of a
    simulator that serves the world to threads meanwhile."""

    world: World
    policy: Policy
    store: Store
    mode: str = "act"
    writer: bool = True
    pauses_are_jumps: bool = False
    heartbeats: bool = True
    rest: timedelta = REST
    lock: AbstractContextManager[Any] = field(default_factory=nullcontext)
    steps: list[Stepped] = field(default_factory=list)
    cloud: FlakyCloud = field(init=False)
    cluster: FlakyCluster = field(init=False)
    telemetry: FlakyTelemetry = field(init=False)
    alarms: FlakyAlarms = field(init=False)
    accounts: FlakyAccounts = field(init=False)
    told: ToldPods = field(default_factory=ToldPods)
    promised: OpenPromises = field(default_factory=OpenPromises)
    file: ConfigurationFile = field(default_factory=ConfigurationFile)
    join: DeviceJoin = field(default_factory=lambda: DeviceJoin(Selectors()))
    waited: dict[tuple[str, str], Pod] = field(default_factory=dict)
    wrap_cloud: Any = None
    wrap_cluster: Any = None
    additions: Additions = ADDED
    _beat_at: datetime | None = None
    _calm_steps: int = 0

    def __post_init__(self) -> None:
        """Open the ports on the world."""
        self.cloud, self.cluster = FlakyCloud(self.world), FlakyCluster(self.world)
        self.telemetry, self.alarms = FlakyTelemetry(self.world), FlakyAlarms(self.world)
        self.accounts = FlakyAccounts(self.world)

    @property
    def now(self) -> datetime:
        """The world's time."""
        return self.world.now

    @property
    def sources(self) -> Sources:
        """Where a step looks."""
        return Sources(
            cloud=self.cloud,
            cluster=self.cluster,
            telemetry=self.telemetry,
            alarms=self.alarms,
            store=self.store,
            readers=not isinstance(self.store, StoreWithoutRecords),
            accounts=self.accounts,
            sizes=self.cloud,
            file=lambda: self.file,
            join=self.join,
            waited=self.waited,
            never_jumps=self._trusts_its_clock(),
        )

    def _trusts_its_clock(self) -> bool:
        """True for the first step, and for one after a pause of the world unless *pauses_are_jumps*: a loop would have
        stepped a moment ago."""
        paused = not self.steps or self.now - self.steps[-1].facts.at > IN_A_ROW
        return paused and not self.pauses_are_jumps

    @property
    def hands(self) -> Hands:
        """What a step writes to."""
        cloud: Cloud = self.wrap_cloud(self.cloud) if self.wrap_cloud else self.cloud
        cluster: Cluster = self.wrap_cluster(self.cluster) if self.wrap_cluster else self.cluster
        kept = {"told": self.told, "promised": self.promised}
        return Hands(cloud=cloud, cluster=cluster, may_write=lambda: self.writer, **kept)  # type: ignore[arg-type]

    def submit(self, *jobs: Job) -> None:
        """Hand jobs to the cluster and let the scheduler try them."""
        with self.lock:
            for job in jobs:
                self.world.submit(job)
        self.pass_time(timedelta(seconds=1))

    def set_override(self, kind: str, nodes: int | None = None, lasts: timedelta = HOUR, **changes: Any) -> Override:
        """Set an override by alice from now on, as the API does; on the L40S pool unless *changes* name another."""
        override = an_override(kind, nodes, **{"at": self.now, "until": self.now + lasts, **changes})
        self.store.set_override(override, was_set(override, self.policy))
        return override

    def pass_time(self, by: timedelta) -> None:
        """Let the world go on without us; the heartbeat keeps coming."""
        self._advance(self.now + by)
        self._beat()

    def step(self) -> Stepped:
        """One step now."""
        self._beat()
        stepped = step(self.sources, self.hands, self.policy, self.mode, self.now, self.additions)
        self.steps.append(stepped)
        return stepped

    def step_without_chores(self) -> Stepped:
        """One step now as a replay takes it."""
        self._beat()
        stepped = step(
            replace(self.sources, readers=False), self.hands, self.policy, self.mode, self.now, self.additions
        )
        self.steps.append(stepped)
        return stepped

    def run(self, until: timedelta, tick: timedelta = TICK, each: Callable[[], object] = lambda: None) -> None:
        """Step as the loop does for *until* from now: at every moment a decision names and at every tick but those
        that see what the one before saw. *each* is done before every step."""
        end = self.now + until
        self._calm_steps = 0
        while self.now < end:
            version = self.world.version
            each()
            self._calm_steps *= self.world.version == version
            self._advance(min(self.wake_after_step(tick), end))

    def run_until(self, true: Callable[[], object], tick: timedelta = TICK, within: timedelta = 3 * HOUR) -> None:
        """Step as `run` does until *true*, which must come *within* that time."""
        end = self.now + within
        self._calm_steps = 0
        while not true():
            assert self.now < end, f"not so within {within}"
            self._advance(self.wake_after_step(tick))

    def _advance(self, to: datetime) -> None:
        with self.lock:
            self.world.advance(to)

    def wake_after_step(self, tick: timedelta) -> datetime:
        """One step now; return when the next one is due."""
        version, moment, due = self.world.version, None, self.now + tick
        calm, self._calm_steps = self._calm_steps + 1, 0
        with suppress(TryLater, WriterLostError):
            stepped = self.step()
            moment = stepped.reconsider_at
            self._calm_steps = calm if self.world.version == version and _calm(stepped) else 0
            if self._calm_steps > TRIES:
                rest = self.rest if all(s.up for s in stepped.facts.sources.values()) else min(self.rest, MINUTE)
                event = self.world.next_event_at() or self.now + rest
                due = max(due, self.now + min(-((self.now - event) // tick) * tick, rest))
        return min(due, max(moment, self.now + timedelta(milliseconds=100))) if moment else due

    def _beat(self) -> None:
        if not self.heartbeats or (self._beat_at and self.now - self._beat_at < self.policy.heartbeat_interval):
            return
        self._beat_at = self.now
        alert = Alert(fingerprint="beat", labels={"alertname": HEARTBEAT_ALERT, "action": "heartbeat"}, starts_at=START)
        self.store.remember(Delivery(receiver="test", group_key="beat", alerts=(alert,)), self.now)

    def writes(self, *verbs: str) -> list[tuple[str, tuple[object, ...]]]:
        """The writes to Civo and Kubernetes so far, of *verbs* only if given; else all but soft taints, which neither
        scale nor move anything."""
        done = (*self.cloud.writes, *self.cluster.writes)
        return [w for w in done if (w[0] in verbs if verbs else w[0] != "set_soft_taints")]

    def required(self, pool: str = POOL) -> int:
        """What Civo was asked for."""
        return self.world.pools[pool].required

    def notices(self) -> Iterable[str]:
        """Titles of the notices that wait in the outbox."""
        return [n.notice.title for n in self.store.notices_due(self.now + timedelta(days=1), limit=1000)]


def _calm(stepped: Stepped) -> bool:
    """True when nothing is under way: the same facts would decide the same."""
    still = all(d.change is Change.HOLD for d in stepped.decisions.values())
    return stepped.trusted and still and not any(p.open_action for p in stepped.facts.pools)


def until_cordoned(life: Life) -> str:
    """Run until the node of a finished job is cordoned for removal; return its name."""
    life.submit(a_job())
    for _ in range(200):
        wake = life.wake_after_step(timedelta(seconds=30))
        if life.writes("cordon"):
            return str(life.writes("cordon")[0][1][0])
        life.world.advance(wake)
    raise AssertionError("never cordoned")


def removal_ended(life: Life, within: timedelta = 10 * MINUTE) -> Outcome:
    """Run until the removal that was opened last ends; return how."""
    until = life.now + within
    while life.now < until:
        last = next(s for s in life.store.actions() if s.action.kind is ActionKind.RETIRE)
        if last.outcome is not None:
            return last.outcome
        life.world.advance(life.wake_after_step(timedelta(seconds=5)))
    raise AssertionError("it never ended")


class Wrapped:
    """A port of which some methods are replaced."""

    def __init__(self, inner: Any, **methods: Any) -> None:
        self._inner, self._methods = inner, methods

    def __getattr__(self, name: str) -> Any:
        return self._methods.get(name) or getattr(self._inner, name)
