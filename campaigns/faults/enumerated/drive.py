"""Live one tour, with one write broken or with none, and compare how it ends.

The process is the server's own: its step with reports and pruning, its web application, its courier. What must hold is
what holds in random worlds (`campaigns.faults.checks`), and beyond that: the end is that of the tour without a fault,
no more nodes were bought, and no destination got a message twice but for one whose record the fault may have lost.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

from sqlalchemy import select

from campaigns.faults.build import HEARTBEAT, policy_of
from campaigns.faults.doors import Door, OurWorld
from campaigns.faults.enumerated.people import Mailbox, Web, alert, hear
from campaigns.faults.enumerated.sites import Site, port_writes, store_writes
from campaigns.faults.enumerated.tap import LATE, OLD, Blow, Tap, TappedStore
from campaigns.faults.enumerated.views import CivosView, Views
from campaigns.faults.happen import tidy
from campaigns.faults.lines import CrashError
from campaigns.faults.run import Run
from campaigns.faults.scenario import Event, PoolPlan, Scenario
from campaigns.faults.settle import unsettled
from campaigns.faults.tally import ViolationError
from campaigns.faults.truth import ended
from receiver.adapters.messages import Outbox
from receiver.adapters.store import SqlStore
from receiver.adapters.store.schema import metadata
from receiver.capabilities.registry import step_additions
from receiver.config.model import Mode
from receiver.core.model.policy import Policy
from receiver.core.model.room_requests import RoomAnswer
from receiver.core.notices.grouping import PageLinks
from receiver.ports import Did, Receipt
from receiver.replay.ports import WorldAccounts, WorldCloud
from receiver.server.bootstrap import Stepping
from receiver.step.parts import Hands
from receiver.step.reconcile import Stepped
from simulator.cluster_port import SimulatedCluster
from simulator.world import SimulatedTelemetry, World

ASKED_AGAIN = timedelta(seconds=5)  # a request without an answer
OFTEN = timedelta(seconds=5)  # steps while a source serves an old state
CALM_STEPS, CALM_TIME, CALM_TICK = 200, timedelta(hours=4), timedelta(minutes=2)


def untouched(_world: World) -> None:
    """Leave the world as its scenario makes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tour:
    """A short life that passes some write sites: a *scenario*, a *policy* made of the scenario's own, what there is
    beside pools and work (*prepare*), and the *mailboxes* of its messages by how many they refuse. Where it *counts*,
    no fault makes it buy more nodes. *spare* is how many more a pool may want than waiting pods need."""

    name: str
    scenario: Scenario
    policy: Callable[[Policy], Policy] = lambda policy: policy
    prepare: Callable[[World], None] = untouched
    mailboxes: Mapping[str, int] = field(default_factory=lambda: {"ops": 0})
    counts: bool = True
    spare: int = 0


@dataclass(frozen=True, slots=True)
class End:
    """How a tour ended: what is *there*, and how many nodes were *bought*."""

    there: Mapping[str, Any]
    bought: int


class ChecksActive(SimulatedCluster):
    """Kubernetes with an AdmissionCheck of ours, which is to be set active."""

    active = False

    def keep_active(self, kind: str) -> Receipt:
        """As `AdmissionChecks.keep_active` does."""
        active = RoomAnswer(kind=kind, key=ITSELF, state="True")
        if (kind, ITSELF) in self._world.answers:
            return Receipt(did=Did.ALREADY, sentence="no AdmissionCheck is inactive")
        return self.write(lambda: self._world.answers.update({(kind, ITSELF): active}), "it is active", "keep_active")


ITSELF = "the check itself"


class Counting(SimulatedTelemetry):
    """Prometheus that counts units of work."""

    def value(self, query: str, at: datetime) -> float | None:
        """Return the same for every query."""
        return 42.0


class Tried(Run):
    """One tour with *blow*, which ends as *expected* (None: any end will do)."""

    def __init__(
        self,
        tour: Tour,
        store: SqlStore,
        blow: Blow | None = None,
        expected: End | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.tour, self.blow, self.expected = tour, blow, expected
        self.tap: Tap | None = None
        self.mailboxes: Any = tuple(Mailbox(name, refuses) for name, refuses in tour.mailboxes.items())
        super().__init__(tour.scenario, store, tell, tour.policy(policy_of(tour.scenario)))
        tour.prepare(self.world)
        self.truth.warm = self._warm  # type: ignore[method-assign]
        self._configured = self.policy
        self._coming: Policy | None = None  # the configuration of the next step, if it is another one
        self._views = Views(self.world, self.truth.waiting, keeps=blow is not None and blow.fault in OLD)
        self._doors.late = LATE
        self.tap = Tap(self.world, self._doors, self._views, blow, self.checks.violated, self._stored)
        self.checks.laws = False
        self.web = Web(self.policy)
        self._boot()

    # --- the process

    @property
    def _real(self) -> SqlStore:
        """The store: its fences, and all that it holds, are of the database."""
        assert isinstance(self._store, SqlStore)
        return self._store

    def _boot(self) -> None:
        super()._boot()
        tap = self.tap
        if tap is None:
            return  # while Run sets itself up
        fenced = self._real.fenced(tap.boot())
        shared: Any = TappedStore(self._store, tap, fenced=False)
        ours: Any = OurWorld(self.world, self._doors)
        civo, kubernetes = WorldCloud(CivosView(ours, self._views)), ChecksActive(ours)  # type: ignore[arg-type]
        civo.write = partial(tap.sends, "cloud", civo.writes)  # type: ignore[method-assign]
        kubernetes.write = partial(tap.sends, "cluster", kubernetes.writes)  # type: ignore[method-assign]
        kubernetes.held_places = partial(self._views.held_places, kubernetes.held_places)  # type: ignore[method-assign]
        kubernetes.look = partial(self._views.look, kubernetes.look)  # type: ignore[method-assign]
        self._kubernetes = kubernetes
        cloud: Any = Door("cloud", civo, self._doors)
        cluster: Any = Door("cluster", kubernetes, self._doors)
        store: Any = TappedStore(Door("store", fenced, self._doors), tap, fenced=True)
        telemetry: Any = Door("telemetry", Counting(self.world), self._doors)
        self._sources = replace(
            self._sources,
            cloud=cloud,
            cluster=cluster,
            telemetry=telemetry,
            store=store,
            sizes=cloud,
            accounts=WorldAccounts(self.world),
        )
        self._hands = Hands(cloud=cloud, cluster=cluster, may_write=self._may_write)
        clock: Any = SimpleNamespace(now=self.clock)
        self.web.store.there, self.web.clock.there = shared, clock
        every = timedelta(minutes=1)
        self._outbox = Outbox(shared, (), clock, links=PageLinks(), every=every, may_send=self._may_write)
        self._outbox._destinations = self.mailboxes
        self._outside = SimpleNamespace(
            loops_store=store,
            sources=self._sources,
            settings=SimpleNamespace(configuration=SimpleNamespace(warm_up=timedelta(0))),
            live=SimpleNamespace(settings=self._settings()),
            hands=lambda _mode: self._hands,
            last_step=None,
            additions=step_additions(),
        )
        self._stepping = Stepping(self._outside, self.world.now)  # type: ignore[arg-type]

    def untapped(self) -> list[str]:
        """The ports that a step is given, that can write, and whose writes do not pass the tap."""
        writes = store_writes() | port_writes()
        given = [(holder, part.name) for holder in (self._sources, self._hands) for part in fields(holder)]
        return [
            f"{type(holder).__name__}.{name}"
            for holder, name in given
            if any(hasattr(port := getattr(holder, name), verb) for verb in writes) and not self._is_tapped(port)
        ]

    def _is_tapped(self, port: Any) -> bool:
        if isinstance(port, TappedStore):
            return port._tap is self.tap
        write = getattr(port, "write", None)
        return isinstance(write, partial) and getattr(write.func, "__self__", None) is self.tap

    def _settings(self) -> Any:
        said = SimpleNamespace(mode=Mode.ACT, notify=SimpleNamespace(weekly_digest=True))
        return SimpleNamespace(policy=self.policy, configuration=said)

    def configure(self, policy: Policy) -> None:
        """Put another configuration in force."""
        self.policy = self.checks._policy = policy
        self._outside.live.settings = self._settings()

    def _take_step(self, now: datetime) -> Stepped:
        return self._stepping(now)

    def _stored(self) -> object:
        with self._real._database.read() as connection:
            return [connection.execute(select(table)).all() for table in metadata.sorted_tables]

    def _warm(self, plan: PoolPlan, now: datetime) -> int:
        return self.tour.spare

    def _may_write(self) -> bool:
        assert self.tap is not None
        return not self.tap.lost

    def _step(self) -> datetime | None:
        again = super()._step()
        self._outside_of_steps(lambda: self._outbox.deliver_due(self.clock()))
        assert self.tap is not None
        if self.tap.lost:
            self._say("--- another replica leads")
            self._boot()
            self.tap.quiet_until = self.world.now + timedelta(seconds=30)
        if self._views.serves_old:
            again = min(again or self.world.now + OFTEN, self.world.now + OFTEN)
        return again

    def _outside_of_steps(self, call: Callable[[], Any]) -> Any:
        """Make a call of the process beside its loop; None if the process died in it."""
        try:
            return call()
        except CrashError:
            self._crashed()
            return None

    def called(self, name: str, args: tuple[Any, ...], answer: Any) -> None:
        """What waits is what Kubernetes showed, which may be old."""
        super().called(name, args, answer)
        old = self._views.old("Kubernetes") if name == "cluster.look" else None
        if old is not None:
            self.checks.waiting = [*old[2]]

    # --- writes that arrive late

    def under_way(self, verb: str, args: tuple[Any, ...], until: datetime) -> None:
        """A late PUT must not lower the count that it finds, whichever process sent it."""
        super().under_way(verb, args, until)
        if verb == "resize":
            self.world._agenda.at(until, self._must_not_lower, *args)

    def _must_not_lower(self, pool: str, target: int) -> None:
        found = self.world.pools[pool].required
        if target < found:
            self.checks.violated("4 never a lower count", f"a late PUT of {target} arrives, and {found} are asked for")

    # --- time

    def go(self) -> Any:
        """Live it to its end. Raises ViolationError with the first violation."""
        end, number = ended(self.scenario), 0
        while self.world.now < end:
            again = self._step()
            tick = timedelta(seconds=self.scenario.ticks[number % len(self.scenario.ticks)])
            number += 1
            self._rest_until(min(self.world.now + tick, again or end))
        self._calm()
        return self.tally

    def _rest_until(self, moment: datetime) -> None:
        """Let time pass until *moment*, or longer where the loop is held up."""
        assert self.tap is not None
        if self._coming is not None:
            self.configure(self._coming)
            self._coming = None
        self._pass_time(moment)
        while self.tap.quiet_until is not None and self.world.now < self.tap.quiet_until:
            self._pass_time(self.tap.quiet_until)
        self.tap.quiet_until = None

    def _calm(self) -> None:
        self._say("--- calm from here on")
        self._doors.open()
        self._surprises.clear()
        tidy(self.world, self._alarms)
        self.happenings.skew = timedelta(0)
        self.configure(self._configured)
        end, left = self.world.now + CALM_TIME, ["no step was made"]
        for _ in range(CALM_STEPS):
            again = self._step()
            left = [*unsettled(self), *self._differences()]
            if (not left and not self._pending) or self.world.now > end:
                break
            moments = [m for m in (again, self.world.next_event_at()) if m is not None]
            wake = min([*moments, self.world.now + CALM_TICK])
            self._rest_until(max(self.world.now + timedelta(seconds=5), wake))
        if left:
            self.checks.violated("5 settles", f"left at {self.world.now:%d %H:%M}: {'; '.join(left)}")
        lost = set(self.happenings.deliveries) - self.checks.considered
        if lost:
            self.checks.violated("3 considered", f"deliveries {sorted(lost)} never were")
        self._no_more_nodes()
        self._nothing_told_twice()
        if self.blow is not None and not (self.tap and self.tap.struck):
            self.checks.violated("check", f"{self.blow} was never made")
        self._judge()

    # --- how it ends

    def end(self) -> End:
        """What is there now."""
        return End(self._there(), self.tally.counts["nodes bought"])

    def _there(self) -> dict[str, Any]:
        world, store, now = self.world, self._store, self.clock()
        nodes = [n for n in world.nodes.values() if any(v.hostname == n.name for v in world.lives if v.living)]
        return {
            "jobs": sorted(job.id for job in world.finished),
            "counts": {pool.id: pool.required for pool in world.pools.values()},
            "quotas": sorted(world.quotas),
            "queues": {name: queue.stop_policy for name, queue in world.cluster_queues.items()},
            "answers": {place: answer.state for place, answer in world.answers.items()},
            "labels": sorted(n.labels.get("gpu", "") for n in nodes),
            "gates": sorted(p.name for p in world.active_pods.values() if p.gate),
            "GPU pods": sorted(p.owner_name for p in world.active_pods.values() if p.requests),
            "overrides": [o.override.kind.value for o in store.overrides() if o.ended_at is None],
            "questions": [q.id for q in store.questions() if q.is_open(now)],
            "messages": len(store.undelivered()),
            "considered": len(store.memory(now, now).deliveries),
            "budgets": [str(c.monthly_usd) for c in store.allowances_set(f"{now:%Y-%m}")],
        }

    def _differences(self) -> list[str]:
        if self.expected is None:
            return []
        found = self._there()
        return [
            f"{what}: {found[what]} instead of {there}"
            for what, there in self.expected.there.items()
            if found[what] != there
        ]

    def _no_more_nodes(self) -> None:
        """Fewer may do: what is late finds a node that an earlier one has left."""
        needed = self.expected.bought if self.expected is not None and self.tour.counts else None
        if needed is not None and (bought := self.end().bought) > needed:
            self.checks.violated("4 no more nodes", f"{bought} nodes bought, {needed} without the fault")

    def _nothing_told_twice(self) -> None:
        """A message comes once, but for one whose record may be lost with a crash or an answer."""
        for box in self.mailboxes:
            again = [said for said, times in Counter(box.received).items() if times > 1]
            if len(again) > (self.blow is not None):
                self.checks.violated("4 told twice", f"{box.name}: {again}")

    # --- what comes from outside

    def _beat(self) -> None:
        now = self.world.now
        if now >= self.happenings.quiet_until and (self._beat_at is None or now - self._beat_at >= HEARTBEAT):
            self._beat_at = now
            self._ask(alert("GpuAutoscalerHeartbeat", "heartbeat", at=now))

    def _happen(self, event: Event) -> None:
        match event.kind:
            case "ask":
                self._say(f"* {event.what}")
                self._ask(event.what)
            case "end":
                standing = [o.override for o in self._store.overrides() if o.ended_at is None]
                for override in standing:
                    self._ask({"method": "DELETE", "path": f"/api/v1/overrides/{override.id}?who=bob"})
            case "approve":
                for question in self._store.questions_standing(self.clock()):
                    if question.is_open(self.clock()):
                        body = {"answer": event.what["say"], "who": "ada"}
                        path = f"/api/v1/questions/{question.id}"
                        self._ask({"method": "POST", "path": path, "body": body})
            case "leave":
                pools = tuple(p for p in self.policy.pools if p.id != event.what["pool"])
                self._coming = replace(self.policy, pools=pools)
            case "come_back":
                self._coming = self._configured
            case "world":
                event.what["do"](self.world)
            case _:
                super()._happen(event)

    def _ask(self, what: Mapping[str, Any]) -> None:
        """Send a request; one without a final answer is sent again later."""
        answer = self._outside_of_steps(lambda: self.web.ask(what))
        hear(self._real, self.truth.words)
        if answer is None or answer.status_code >= 500:
            due = (self.world.now - self._start + ASKED_AGAIN).total_seconds()
            self._pending.append(Event(at=due, kind="ask", what=dict(what)))
            self._pending.sort(key=lambda e: e.at)
        elif what["path"] == "/webhook":
            self.happenings.deliveries.append(answer.json["delivery"])


def live(tour: Tour, store: SqlStore, blow: Blow | None = None, expected: End | None = None) -> str:
    """Live *tour* with *blow*; return its violation, or nothing."""
    try:
        Tried(tour, store, blow, expected).go()
    except ViolationError as violation:
        return str(violation)
    return ""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A tour without a fault: how it ended, and how often it passed each site."""

    end: End
    passed: Mapping[Site, int]


def record(tour: Tour, store: SqlStore) -> Recorded:
    """Live *tour* without a fault, and on until nothing changes any more. Raises ViolationError."""
    run = Tried(tour, store)
    run.go()
    assert run.tap is not None
    passed = dict(run.tap.counts)
    for _ in range(30):
        before = run._there()
        run._rest_until(run.world.now + timedelta(minutes=1))
        run._step()
        if run._there() == before and not run.checks.open:
            break
    run._judge()
    return Recorded(run.end(), passed)
