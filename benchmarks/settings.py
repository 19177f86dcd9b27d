"""The effect of each setting of Prometheus and Alertmanager on the time from a waiting pod to the webhook.

The shipped values first, then one of them changed at a time: fifty pods for each, at random moments, every one for
a pool of its own, so that each alert is a group of its own. The time runs from the pod's creation (the scheduler
turns it away 0.2 s later) to the arrival of its alert's delivery; what the autoscaler then takes to ask Civo is in
`benchmarks.reaction`. Pods may overlap here: nothing that a step does holds up a delivery. Half of the pods are on
another stack, because where in its interval Prometheus scrapes and evaluates hangs on names and ports and is the
same for a whole run.
"""

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.figures import spread, version_of
from benchmarks.reaction import SETTLE_SECONDS, job_for, plan_of
from demo.plan import StackPlan
from demo.stack import running
from demo.timeline import group_of, moment
from demo.watch import LogTail
from receiver.adapters.clock import SystemClock

PODS = 25  # of each stack
STACKS = 2  # of each setting
AT_ONCE = 4  # stacks that run side by side: they sleep most of the time
SPAN_SECONDS = 60.0  # within which the pods come
STANDS_WITHIN_SECONDS = 300.0  # what fires before Alertmanager is found is sent again a minute later, and then scraped
PATIENCE_SECONDS = 150.0  # the slowest setting: two intervals of 30 s, group_wait 30 s, and as much again


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The settings of one run: durations as Prometheus writes them. *evaluation* is that of every rule group; None
    is each group's own, which is 5 s for the alert."""

    name: str
    scrape: str = "15s"
    evaluation: str | None = None
    pending_for: str = "0s"
    group_wait: str = "0s"

    def plan(self) -> StackPlan:
        """Return the stack."""
        return plan_of(
            PODS,
            scrape=self.scrape,
            evaluation=self.evaluation,
            pending_for=self.pending_for,
            group_wait=self.group_wait,
        )


SETTINGS = (
    Setting(name="as shipped"),
    Setting(name="scrape 5s", scrape="5s"),
    Setting(name="scrape 30s", scrape="30s"),
    Setting(name="evaluation 1s", evaluation="1s"),
    Setting(name="evaluation 15s", evaluation="15s"),
    Setting(name="evaluation 30s", evaluation="30s"),
    Setting(name="for 15s", pending_for="15s"),
    Setting(name="for 30s", pending_for="30s"),
    Setting(name="group_wait 10s", group_wait="10s"),
    Setting(name="group_wait 30s", group_wait="30s"),
    Setting(name="kube-prometheus-stack", scrape="30s", evaluation="30s", group_wait="30s"),
)


def run(seed: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Measure every setting and return the result to keep; say a line for each."""
    rows = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        begun = [[pool.submit(_seconds, setting, seed + n) for n in range(STACKS)] for setting in SETTINGS]
        for setting, stacks in zip(SETTINGS, begun, strict=True):
            seconds = [s for stack in stacks for s in stack.result()]
            figures = spread(seconds)
            say(f"{setting.name:<24}{figures['n']:>4}  p50 {figures['p50']:>6.2f} s  p95 {figures['p95']:>6.2f} s")
            rows.append({"setting": setting.name, **figures, "samples": [round(s, 3) for s in seconds]})
    return {
        "what": "seconds from a pod's creation to the delivery of its alert",
        "shipped": {"scrape": "15s", "evaluation": "5s", "for": "0s", "group_wait": "0s"},
        "seed": seed,
        "programs": {name: version_of(name) for name in ("prometheus", "alertmanager")},
        "settings": rows,
    }


def _seconds(setting: Setting, seed: int) -> list[float]:
    """Return one stack's samples. Raises TimeoutError when a delivery does not come."""
    rng = random.Random(f"{seed} {setting.name}")
    clock = SystemClock()
    with (
        tempfile.TemporaryDirectory(prefix="gpu-autoscaler-bench-") as folder,
        running(setting.plan(), Path(folder)) as up,
    ):
        up.wait_for_heartbeat(STANDS_WITHIN_SECONDS)
        time.sleep(SETTLE_SECONDS)
        log, asked = LogTail(up.places.log("receiver")), {}
        moments = sorted(rng.uniform(0, SPAN_SECONDS) for _ in range(PODS))
        began = clock.now()
        for pool, after in zip(up.plan.pools, moments, strict=True):
            time.sleep(max(0.0, (began + timedelta(seconds=after) - clock.now()).total_seconds()))
            asked[pool.id] = clock.now()
            up.submit(job_for(pool))
        arrived: dict[str, datetime] = {}

        def all_arrived() -> bool:
            for pool, at in _deliveries(log):
                if pool in asked and at >= asked[pool]:
                    arrived.setdefault(pool, at)
            return len(arrived) == len(asked)

        up.wait_until(all_arrived, PATIENCE_SECONDS, f"the deliveries of {setting.name}")
        return [(arrived[pool] - at).total_seconds() for pool, at in asked.items()]


def _deliveries(log: LogTail) -> Iterator[tuple[str, datetime]]:
    """Yield pool and arrival of what was delivered since the last call."""
    for line in log.new():
        if line.get("event") == "delivery" and group_of(line).get("alertname") == "GpuPodsPending":
            yield str(group_of(line).get("pool")), moment(line["timestamp"])
