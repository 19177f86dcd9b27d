"""Drive one world: troubles first, then calm until everything that should happen has happened."""

from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from campaigns.faults.build import HEARTBEAT, policy_of, world_of
from campaigns.faults.checks import Checks, sentence
from campaigns.faults.claims import heal
from campaigns.faults.doors import WRITES, Door, Doors, OurWorld
from campaigns.faults.happen import Happenings, broken, restock, tidy
from campaigns.faults.lines import CrashError
from campaigns.faults.outside import HANGS
from campaigns.faults.scenario import Event, Scenario
from campaigns.faults.settle import unsettled
from campaigns.faults.tally import Tally, ViolationError
from campaigns.faults.truth import Truth, ended
from receiver.adapters.kubernetes.cel import Selectors
from receiver.adapters.observe import ObservedCloud, ObservedCluster
from receiver.capabilities.registry import step_additions
from receiver.core.model.policy import Policy
from receiver.core.model.signals import HEARTBEAT_ALERT, Alert
from receiver.ports import Cloud, Cluster, Delivery, TryLater, WriterLostError
from receiver.replay.ports import WorldCloud
from receiver.step.devices import DeviceJoin
from receiver.step.gather import Sources
from receiver.step.parts import Hands
from receiver.step.reconcile import Stepped, step
from simulator.cluster_port import SimulatedCluster
from simulator.world import SimulatedAlarms, SimulatedTelemetry
from tests.stores import WorldStore, rebuilt

CALM_STEPS = 500
CALM_TIME = timedelta(hours=20)
CALM_TICK = timedelta(minutes=4)
RESTART = timedelta(seconds=4)
AN_INSTANT = timedelta(milliseconds=100)
QUIET_STEPS = 4
SPINNING_STEPS = 40
SPINNING_TIME = timedelta(seconds=30)
PEOPLE_WAIT = timedelta(hours=3)  # then somebody removes what never came up: the product had its chance


class Run:
    """The product in the world of *scenario*, on *store*, with *policy* if it is not the scenario's. *tell* gets the
    trace, line by line."""

    def __init__(
        self,
        scenario: Scenario,
        store: WorldStore,
        tell: Callable[[str], None] | None = None,
        policy: Policy | None = None,
    ) -> None:
        self.scenario = scenario
        self.world = world_of(scenario)
        self.policy = policy or policy_of(scenario)
        additions = step_additions()
        decides_with = additions.unattended if scenario.mode == "observe" else additions
        self.truth = Truth(scenario, self.world)
        self.tally = Tally(worlds=1)
        self.last: Stepped | None = None
        self._tell = tell
        self._store: WorldStore = store
        self._alarms = SimulatedAlarms(self.world)
        self._doors = Doors(self, lambda: self.world.now, [], {})
        self.happenings = Happenings(self.world, self._doors, self._alarms, store, self.truth.words, self.policy)
        self.checks = Checks(self.truth, self.policy, self.clock, decides_with)
        self._pending = [e for e in scenario.events if e.call is None]
        self._surprises = [e for e in scenario.events if e.call is not None]
        self._watch = None if scenario.watch is None else timedelta(seconds=scenario.watch)
        self._beat_at: datetime | None = None
        self._idle_steps: deque[datetime] = deque(maxlen=SPINNING_STEPS)  # those that wrote nothing, since one did
        self._targets: dict[str, tuple[int, str]] = {}
        self.calm_since = self.world.now
        self.raised_during_removal: set[str] = set()  # pools in which somebody built nodes then
        self._boot()

    def clock(self) -> datetime:
        """What the product believes the time to be."""
        return self.world.now + self.happenings.skew

    # --- the two phases

    def go(self) -> Tally:
        """Run it all. Raises ViolationError with the first violation."""
        self._trouble()
        if self.scenario.mode == "act":
            self._calm()
        self.tally.counts["jobs finished"] = len(self.world.finished)
        self.tally.counts["nodes closed to new work"] = len(self.checks.beyond.ever_closed)
        self.tally.counts["questions answered"] = self.happenings.answered
        self.tally.counts["evictions by windows"] = self.checks.evictions.made
        self.tally.counts["exceptions planted"] = self.happenings.bugs.raised
        return self.tally

    def _trouble(self) -> None:
        end, number = ended(self.scenario), 0
        while self.world.now < end:
            again = self._step()
            tick = timedelta(seconds=self.scenario.ticks[number % len(self.scenario.ticks)])
            number += 1
            self._pass_time(min(self.world.now + tick, end, again or end))

    def _calm(self) -> None:
        self._say("--- calm from here on")
        self.calm_since = self.world.now
        self._doors.open()
        self._pending.clear()
        self._surprises.clear()
        self._watch = None
        self.happenings.trap.disarm()
        self.happenings.bugs.end()
        self.happenings.skew = timedelta(0)
        self.happenings.lost_writer_after = None
        self.happenings.quiet_until = self.world.now
        tidy(self.world, self._alarms)
        self.checks.outside.calm = True
        heal(self.world)
        self._boot()
        people_come, end = self.world.now + PEOPLE_WAIT, self.world.now + CALM_TIME
        left: list[str] = ["no step was made"]
        for _ in range(CALM_STEPS):
            restock(self.world, self.scenario.shelf)
            for vm in broken(self.world) if self.world.now > people_come else ():
                self._say(f"somebody removes {vm.hostname}")
                self.world.delete_instance(vm.pool, vm.id)
            if any(plan.asks for plan in self.scenario.pools):
                self.happenings.happen("answer", {"say": "approve"})  # where the policy holds, nothing goes on without
            again = self._step()
            left = unsettled(self)
            self._judge()
            settled = not left and (self.last is None or self.last.trusted)  # after the other one, the next follows
            if settled or self.world.now > end:
                break
            moments = [m for m in (again, self.world.next_event_at()) if m is not None]
            self._pass_time(max(self.world.now + self._rest(), min([*moments, self.world.now + CALM_TICK])))
        if left:
            self.checks.violated(
                "5 settles", f"{len(left)} things left at {self.world.now:%d %H:%M}: {'; '.join(left)}"
            )
        lost = set(self.happenings.deliveries) - self.checks.considered
        if lost:
            self.checks.violated("3 considered", f"deliveries {sorted(lost)} never were")
        self._judge()

    def _rest(self) -> timedelta:
        """The shortest time until the next step: where nothing is written, polling is not worth its steps here."""
        return AN_INSTANT if len(self._idle_steps) < QUIET_STEPS else timedelta(seconds=20)

    # --- one step

    def _step(self) -> datetime | None:
        """One step of the loop; returns when the next is due. A crash abandons every object of the process."""
        self._beat()
        self.tally.counts["steps"] += 1
        again: datetime | None = None
        writes, delivered = self.tally.counts["writes"], set(self.happenings.deliveries)
        try:
            with self.happenings.bugs.planted() as bugs, self.happenings.trap.watching():
                self.last = self._take_step(self.clock())
            self.checks.stepped(self.last, bugs)
            if self.last.trusted and (late := delivered - self.checks.considered):
                self.checks.violated("3 considered", f"the step ended well without deliveries {sorted(late)}")
            self._trace(self.last)
            again = self.last.reconsider_at
        except (TryLater, WriterLostError) as error:
            self._say(f"step ended: {error}")
        except CrashError:
            self._crashed()
            again = self.clock() + RESTART
        except Exception as error:  # noqa: BLE001  # whatever it is, the loop would have met it
            self.checks.violated("bug", f"the step raised {type(error).__name__}: {error}")
            self._judge(error)
        self._notice_spinning(self.tally.counts["writes"] > writes)
        self._judge()
        if again is None:
            return None
        return max(again - self.happenings.skew, self.world.now + AN_INSTANT)

    def _take_step(self, now: datetime) -> Stepped:
        return step(self._sources, self._hands, self.policy, self.scenario.mode, now, step_additions())

    def _notice_spinning(self, wrote: bool) -> None:
        """Steps that follow each other at once must get somewhere."""
        if wrote:
            self._idle_steps.clear()
        self._idle_steps.append(self.world.now)
        first = self._idle_steps[0]
        if len(self._idle_steps) == SPINNING_STEPS and self.world.now - first < SPINNING_TIME:
            self.checks.violated("5 bounded steps", f"{SPINNING_STEPS} steps since {first:%H:%M:%S} wrote nothing")

    def _judge(self, cause: Exception | None = None) -> None:
        if self.checks.violations:
            raise ViolationError("\n".join(self.checks.violations)) from cause

    def _crashed(self) -> None:
        """Begin anew after a crash, and note where it was."""
        self.tally.counts["crashes"] += 1
        trap = self.happenings.trap
        self._say(f"CRASH {trap.died_at}")
        if trap.died_at:
            self.tally.counts["faults"] += 1
            self.tally.lines.add(trap.died_at)
            trap.died_at = ""
        self._boot()
        self.checks.found_after_crash(self._store.memory(self.clock(), self.clock()), self.happenings.deliveries)

    def _boot(self) -> None:
        """Start the process: new ports on the same world, and a store that knows what is in its file."""
        self._store = self.happenings.store = rebuilt(self._store)
        ours: Any = OurWorld(self.world, self._doors)
        cloud: Any = Door("cloud", WorldCloud(ours), self._doors)
        self._kubernetes = SimulatedCluster(ours)
        self._kubernetes.refused = self._doors.refused
        cluster: Any = Door("cluster", self._kubernetes, self._doors)
        telemetry: Any = Door("telemetry", SimulatedTelemetry(self.world), self._doors)
        alarms: Any = Door("alarms", self._alarms, self._doors)
        store: Any = Door("store", self._store, self._doors)
        self._sources = Sources(
            cloud=cloud,
            cluster=cluster,
            telemetry=telemetry,
            alarms=alarms,
            store=store,
            sizes=cloud,
            join=DeviceJoin(Selectors(seconds=lambda: 0.0)),
        )
        hand: Cloud = ObservedCloud(cloud) if self.scenario.mode == "observe" else cloud
        other: Cluster = ObservedCluster(cluster) if self.scenario.mode == "observe" else cluster
        self._hands = Hands(cloud=hand, cluster=other, may_write=self._may_write)

    def _may_write(self) -> bool:
        left = self.happenings.lost_writer_after
        if left is None:
            return True
        self.happenings.lost_writer_after = max(0, left - 1)
        return left > 0

    def _beat(self) -> None:
        now = self.world.now
        if now < self.happenings.quiet_until or (self._beat_at is not None and now - self._beat_at < HEARTBEAT):
            return
        self._beat_at = now
        alert = Alert(fingerprint="beat", labels={"alertname": HEARTBEAT_ALERT, "action": "heartbeat"}, starts_at=now)
        delivery = Delivery(receiver="faults", group_key="beat", alerts=(alert,))
        self.happenings.deliveries.append(self._store.remember(delivery, self.clock()))

    # --- time and events

    def _pass_time(self, to: datetime) -> None:
        """Let the world go on until *to*, or until the watch of pods wakes the loop, with the events that fall due."""
        begin, known = self.world.now, self._waiting()
        while True:
            moments = [to, *(max(begin, self._due(event)) for event in self._pending[:1])]
            if self._watch is not None:
                moments.append(self.world.next_event_at() or to)
            self.world.advance(max(min(moments), self.world.now))
            self.happenings.leaders.follow()
            self.checks.law.follow()
            while self._pending and self._due(self._pending[0]) <= self.world.now:
                self._happen(self._pending.pop(0))
            if self._watch is not None and not self._waiting() <= known:
                known, to = known | self._waiting(), min(to, self.world.now + self._watch)
            if self.world.now >= to:
                return

    def _waiting(self) -> frozenset[str]:
        """The pods that wait, where they are watched."""
        return frozenset() if self._watch is None else frozenset(p.uid for p in self.truth.waiting())

    def _due(self, event: Event) -> datetime:
        return self._start + timedelta(seconds=event.at)

    @property
    def _start(self) -> datetime:
        return ended(self.scenario) - timedelta(seconds=self.scenario.troubled)

    def _happen(self, event: Event) -> None:
        self._say(f"* {event.kind} {event.what}" + (f" (before {event.call})" if event.call else ""))
        self.tally.counts["events"] += 1
        of = self.checks.open.get(event.what.get("pool", ""), "")
        if "-retire-" in of and (
            event.kind in ("recycle", "lose_reserved") or (event.kind == "count" and event.what["by"] > 0)
        ):
            self.raised_during_removal.add(event.what["pool"])
        self.happenings.happen(event.kind, event.what)
        self._kubernetes.refused = self._doors.refused
        if event.kind == "uncordon":
            self.checks.beyond.made_schedulable()

    # --- what goes through the doors

    def before_call(self, name: str) -> None:
        """Events that wait for this very call happen now."""
        for event in [e for e in self._surprises if e.call == name and self._due(e) <= self.world.now]:
            self._surprises.remove(event)
            self._happen(event)

    def called(self, name: str, args: tuple[Any, ...], answer: Any) -> None:
        """Follow a call."""
        self.checks.called(name, args, answer)
        if self._tell and name.split(".")[0] in ("cloud", "cluster") and not name.endswith("look"):
            shown = ", ".join(str(a)[:60] for a in args)
            self._say(f"  {name}({shown}) -> {sentence(answer)}")

    def before_write(self, verb: str, args: tuple[Any, ...]) -> None:
        """Check a write of ours before it reaches the world."""
        self.tally.counts["writes"] += 1
        if self.scenario.mode == "observe":
            self.checks.violated("6 observe", f"{verb}{args} was sent")
        elif verb == "resize":
            self.checks.before_resize(args[0], args[1])
        elif verb == "delete_instance":
            self.checks.before_delete(args[0], args[1])
        elif verb == "evict":
            self.checks.before_evict(args[0], args[1])
        elif verb == "patch_node":
            marks = next((a for a in args[1:] if isinstance(a, dict)), {})
            self.checks.before_patch(args[0], args[1] if isinstance(args[1], bool) else None, marks)
        assert verb in WRITES

    def after_write(self, verb: str, args: tuple[Any, ...]) -> None:
        """Check what it did."""
        if verb == "resize":
            self.tally.counts["nodes bought"] += max(0, args[1] - self.checks.counted[args[0]].required)
            self.checks.after_resize(args[0], args[1])
        elif verb == "delete_instance":
            self.tally.counts["nodes removed"] += 1
            self.checks.after_delete(args[0], args[1])

    def under_way(self, verb: str, args: tuple[Any, ...], until: datetime) -> None:
        """Remember a resize that may still take effect."""
        if verb == "resize":
            self.checks.under_way[args] = until

    def arrived(self, verb: str, args: tuple[Any, ...]) -> None:
        """A write of ours that was not answered took effect."""
        if verb == "delete_instance":
            self.checks.arrived(args[0])

    def hangs(self, name: str) -> None:
        """A call takes its time, and no event waits for it."""
        self.checks.outside.hung(name)
        self.checks.struck("world.hang")
        self.world.advance(self.world.now + HANGS)

    def struck(self, name: str, what: str) -> None:
        """A fault struck."""
        self.tally.counts["faults"] += 1
        self.checks.struck(name)
        self._say(f"  ! {name}: {what}")

    # --- the trace

    def _say(self, line: str) -> None:
        if self._tell:
            self._tell(f"{self.world.now:%H:%M:%S.%f}"[:-5] + f" {line}")

    def _trace(self, stepped: Stepped) -> None:
        if not self._tell:
            return
        for decision in stepped.decisions.values():
            now = (decision.target - decision.present, f"{decision.deciding.rule}: {decision.deciding.detail}")
            if self._targets.get(decision.pool) != now:
                self._targets[decision.pool] = now
                self._say(f"{decision.pool}: {decision.present} -> {decision.target} {now[1]}")
