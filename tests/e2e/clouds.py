"""The simulated cloud of these tests: one pool of L40S nodes at zero, quick timings, the wall clock."""

from datetime import datetime, timedelta
from typing import Any

from receiver.adapters.clock import SystemClock
from simulator.clocks import Clock
from simulator.server import Simulator
from tests.e2e.receivers import POOL
from tests.e2e.waiting import until

QUICK = {"build": "300ms", "boot": "100ms", "driver": "100ms", "image_pull": "0s", "warmup": "0s", "delete": "200ms"}


class ClockAhead:
    """The wall clock, and as far ahead of it as it was moved."""

    def __init__(self) -> None:
        self._by = timedelta(0)

    def now(self) -> datetime:
        """Return the present, moved."""
        return SystemClock().now() + self._by

    def skip(self, by: timedelta) -> None:
        """Let that time have passed."""
        self._by += by


def a_cloud(count: int = 0, clock: Clock | None = None, **changes: Any) -> Simulator:
    """Return a simulator that was not started yet, with *count* usable nodes."""
    pool = {"id": POOL, "size": "an.g1.l40s.kube.x1", "resources": {"nvidia.com/gpu": 1}, "count": count}
    return Simulator({"pools": [pool], "timings": QUICK, **changes}, clock)


def submit(cloud: Simulator, name: str = "train", **changes: Any) -> None:
    """Hand in a job of one pod with one GPU, and wait until the scheduler has turned it away."""
    job = {"id": name, "duration": "10m", "pods": 1, "gpus_per_pod": 1, "namespace": "ml", "team": "vision"}
    cloud.live.submit([{**job, **changes}])

    def turned_away() -> bool:
        with cloud.moved() as world:
            return bool(world.pods["ml", f"{name}-0"].reason == "Unschedulable")

    until(turned_away, "an unschedulable pod")


def calls(cloud: Simulator, method: str, face: str = "civo", after: int = 0) -> list[dict[str, Any]]:
    """Return the logged calls of one method, oldest first."""
    return [e for e in cloud.log.entries() if e["face"] == face and e["method"] == method and e["seq"] > after]


def last_call(cloud: Simulator) -> int:
    """Return the number of the newest logged call."""
    return max((e["seq"] for e in cloud.log.entries()), default=0)


def required(cloud: Simulator) -> int:
    """Return how many nodes Civo was asked for."""
    with cloud.moved() as world:
        return int(world.pools[POOL].required)


def until_running(cloud: Simulator, name: str = "train") -> None:
    """Wait until the job's pod runs."""

    def runs() -> bool:
        with cloud.moved() as world:
            return bool(world.pods["ml", f"{name}-0"].phase == "Running")

    until(runs, f"a running pod of {name}")
