"""A live stack with a past: the simulator has lived a day under the same autoscaler before the processes start."""

import signal
from collections.abc import Sequence
from contextlib import closing, redirect_stdout
from dataclasses import replace
from datetime import datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

from demo.configs import receiver_environment, simulator_config, write_configs
from demo.plan import StackPlan
from demo.processes import Process, answers
from demo.stack import Stack
from receiver.adapters.clock import SystemClock
from receiver.adapters.store import open_store
from receiver.config import load
from receiver.replay.world.objects import Job
from simulator.server import Simulator
from tests.e2e.receivers import Server
from tests.given.life import Life


class WorldClock:
    """The simulator's clock: as far back as it is told until it is let go, then the wall clock."""

    def __init__(self, start: datetime) -> None:
        self._stands_at: datetime | None = start

    def now(self) -> datetime:
        """Return where it stands, or the present."""
        return self._stands_at or SystemClock().now()

    def let_go(self) -> None:
        """Show the present from now on."""
        self._stands_at = None


class InThreads(Process):
    """The simulator as a part of a stack that runs in this process, so that its past can be lived first."""

    def __init__(self, simulator: Simulator, kubeconfig: Path) -> None:
        self.name, self.simulator = "simulator", simulator
        self._kubeconfig, self._running_here = kubeconfig, False

    @property
    def ended_by_itself(self) -> bool:
        """A thread does not end alone."""
        return False

    def start(self, seconds: float = 0) -> None:
        """Listen."""
        self.simulator.start()
        self.simulator.kubeconfig(self._kubeconfig)
        self._running_here = True

    def stop(self, seconds: float = 0) -> None:
        """Close the port. Harmless when repeated."""
        if self._running_here:
            self.simulator.stop()
            self._running_here = False


class LiveStack(Stack):
    """A stack whose simulator begins *hours* ago; `live_through` fills the time until now, `start` goes live."""

    def __init__(self, plan: StackPlan, folder: Path, hours: int = 0) -> None:
        self.began = SystemClock().now().replace(second=0, microsecond=0) - timedelta(hours=hours)
        self._clock = WorldClock(self.began)
        self._silences: list[dict[str, Any]] = []
        super().__init__(plan, folder)

    def _simulator(self) -> Process:
        self.simulator = Simulator(simulator_config(self.plan, self.places), clock=self._clock)
        return InThreads(self.simulator, self.places.kubeconfig)

    def _receiver(self) -> Process:
        ready = answers(self.places.url("receiver") + "/readyz")
        environ = receiver_environment(self.plan, self.places)
        return Server(self.places.log("receiver"), environ, forked=True, ready=ready)

    def live_through(
        self, jobs: Sequence[Job], tick: timedelta, silent_for: timedelta = timedelta(0), then: Sequence[Job] = ()
    ) -> None:
        """Let *jobs* come and the autoscaler step from the beginning until now, and *then* others that it has not seen.

        No heartbeat has come for *silent_for*.
        """
        settings = load(receiver_environment(self.plan, self.places))
        world = self.simulator.world
        world.submit_later(jobs)
        database = f"sqlite:///{self.places.database}"
        with closing(open_store(database)) as store, redirect_stdout(StringIO()):  # a line of log for every step
            life = Life(world, settings.policy, store, rest=timedelta(minutes=1))
            last_beat = SystemClock().now() - silent_for
            for moment in sorted({job.submit_at for job in jobs}):
                life.run(moment + timedelta(seconds=1) - life.now, tick)  # its alert would wake the loop
            life.run(last_beat - life.now, tick)
            life.heartbeats = False
            life.run(SystemClock().now() - life.now, tick)
            world.submit_later(then)

    def start(self) -> None:
        """Let the clock go and start every part; what was silenced before the autoscaler looks is silenced for it."""
        self._clock.let_go()
        for name in ("simulator", *self.places.alertmanagers):
            self.parts[name].start()
        for silence in self._silences:
            self.post("alertmanager-1", "/api/v2/silences", silence)
        for name in ("prometheus", "receiver"):
            self.parts[name].spawn()
        for name in ("prometheus", "receiver"):
            self.parts[name].wait_ready()

    def calm(self, interval: str) -> None:
        """Let Prometheus scrape and evaluate once each *interval* from now on: what is shown needs no more."""
        write_configs(replace(self.plan, scrape=interval, evaluation=interval), self.places)
        self.parts["prometheus"].signal(signal.SIGHUP)

    def silence(self, who: str, why: str, ends: timedelta, **matchers: str) -> None:
        """Have a silence set in Alertmanager by the time the autoscaler starts."""
        now = SystemClock().now()
        self._silences.append(
            {
                "matchers": [{"name": n, "value": v, "isRegex": False, "isEqual": True} for n, v in matchers.items()],
                "startsAt": now.isoformat(),
                "endsAt": (now + ends).isoformat(),
                "createdBy": who,
                "comment": why,
            }
        )
