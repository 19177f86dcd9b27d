"""A few minutes on a stack of its own in which every panel has something to show.

    python -m tools.grafana.scenario --out DIR [--minutes 6]

Simulator, Prometheus, Alertmanager and the autoscaler are those of `make demo`, and so is what is shortened: a paid
hour is a minute, everything is scraped and evaluated every second. Beside that, an hour in the rule about idle GPUs
is a minute here too, or the scenario would take one. All data comes from what simulator and autoscaler expose.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import requests
import yaml

from demo.plan import PoolPlan, StackPlan
from demo.scenario import POOL_LABEL
from demo.stack import Stack, signals_end_the_block
from tools.grafana.asking import Span
from tools.grafana.render import render

SCRAPE = 1.0
L40S, MIG, H100, H200 = (f"5f3c0000-0000-4000-8000-0000000000b{n}" for n in range(1, 5))
ALL_DAY = [{"start_time": "00:00", "end_time": "24:00"}]
# What the rule waits for: an hour of samples every 30 s becomes a minute of samples every second.
SHORTENED = (
    ("[1h:1m]", "[1m:1s]"),
    ("[1h]", "[1m]"),
    (">= 57", ">= 50"),
    (">= 3600", ">= 60"),
)
IDLE_RULE = "namespace_pod:gpu_allocated_idle:sum"

POOLS = (
    PoolPlan(
        name="l40s",
        id=L40S,
        count=2,
        min_nodes=1,
        max_nodes=4,
        receiver={
            "budget_usd": "8000",
            "windows": [
                {"name": "day and night", "times": ALL_DAY, "max_nodes": 4},
                {"name": "never", "years": ["2020"], "max_nodes": 1},
            ],
        },
    ),
    PoolPlan(
        name="a100-mig",
        id=MIG,
        size="g4g.40.kube.small",
        price="1.79",
        count=1,
        min_nodes=1,
        max_nodes=2,
        simulator={
            "resources": {"nvidia.com/mig-1g.5gb": 7},
            "gpus": 1,
            "mig": True,
            "model_name": "NVIDIA A100-PCIE-40GB",
            "gpu_type": "nvidia.com/GA100_A100_PCIE_40GB",
        },
        receiver={"resources": {"nvidia.com/mig-1g.5gb": 7}},
    ),
    PoolPlan(name="h100", id=H100, size="an.g1.h100.kube.x8", gpus=8, price="23.92", count=1, max_nodes=2),
    PoolPlan(name="h200", id=H200, size="an.g1.h200sxm.kube.x1", price="3.49", max_nodes=1),
)


def plan() -> StackPlan:
    """Return the scenario's stack."""
    return StackPlan(
        pools=POOLS,
        tick="5s",
        watch=True,
        budget={
            "monthly_usd": "12000",
            "teams": {"vision": "9000", "language": "12000"},
            # As where a store is new in the middle of a month. Nobody can tell whose it was: it counts for each.
            "spent_usd_stated": {"month": time.strftime("%Y-%m", time.gmtime()), "usd": "6100"},
        },
        simulator={"metrics": {"pod_labels": ["team", "project"]}},
    )


def job(name: str, pool: str, team: str, **fields: Any) -> dict[str, Any]:
    """Return a job for *pool* in its team's namespace."""
    base = {"id": name, "namespace": team, "team": team, "duration": "90s", "node_selector": {POOL_LABEL: pool}}
    return {**base, **fields}


def workload(name: str, queue: str, gpus: int, created: float, admitted: float | None = None) -> dict[str, Any]:
    """Return a Workload of Kueue; times are Unix seconds."""
    container = {"name": "main", "resources": {"requests": {"nvidia.com/gpu": str(gpus)}}}
    true: list[dict[str, str]] = []
    if admitted is not None:
        at = _stamp(admitted)
        true = [{"type": t, "status": "True", "lastTransitionTime": at} for t in ("QuotaReserved", "Admitted")]
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": queue, "creationTimestamp": _stamp(created)},
        "spec": {
            "queueName": queue,
            "priorityClassName": "research",
            "podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}],
        },
        "status": {"conditions": true},
    }


def _stamp(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def prepare(stack: Stack) -> None:
    """Let Prometheus scrape Kueue's metrics as well, and shorten the rule about idle GPUs."""
    path = stack.places.config("prometheus")
    config = yaml.safe_load(path.read_text())
    target = {"static_configs": [{"targets": [stack.places.address("simulator")]}]}
    config["scrape_configs"].append({"job_name": "kueue", "metrics_path": "/metrics/kueue", **target})
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    for file in (stack.places.folder / "rules").glob("*.rules.yaml"):
        content = yaml.safe_load(file.read_text())
        for rule in (rule for group in content["groups"] for rule in group["rules"]):
            if rule.get("record") == IDLE_RULE:
                rule["expr"] = shortened(rule["expr"])
        file.write_text(yaml.safe_dump(content, sort_keys=False, width=1000))


def shortened(expr: str) -> str:
    """Return the rule with a minute instead of an hour. Raises ValueError when the rule has become another."""
    for before, after in SHORTENED:
        if before not in expr:
            raise ValueError(f"{IDLE_RULE} no longer has {before!r}")
        expr = expr.replace(before, after)
    return expr


def knows_names(stack: Stack) -> bool:
    """True when Prometheus has recorded what every pool is called."""
    found = stack.get("prometheus", "/api/v1/query", query="pool:gpu_autoscaler_pool_info:latest")
    return len(found["data"]["result"]) == len(POOLS)


class Play:
    """What happens, by the second since the beginning."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._began = time.time()

    def advance(self, until: float) -> None:
        """Do everything in its time, until *until* seconds are over."""
        for at, what in sorted(self._course(), key=lambda step: step[0]):
            if at > until:
                break
            self._wait(at)
            what()
        self._wait(until)

    def _wait(self, seconds: float) -> None:
        while (left := self._began + seconds - time.time()) > 0:
            self._stack.check_alive()
            time.sleep(min(left, 1.0))

    def _course(self) -> Iterator[tuple[float, Callable[[], object]]]:
        stack = self._stack
        yield (
            0,
            lambda: stack.submit(
                job("serve", L40S, "vision", duration="1h", gpu_util=0.8, priority_class="production"),
                job("notebook", L40S, "vision", duration="1h", gpu_util=0.01),
                job(
                    "mig-infer", MIG, "research", duration="1h", pods=3, gpu_util=0.5, resource="nvidia.com/mig-1g.5gb"
                ),
                job("mig-hot", MIG, "research", duration="1h", gpu_util=0.97, resource="nvidia.com/mig-1g.5gb"),
                job("llm", H100, "language", duration="1h", gpus_per_pod=6, gpu_util=0.88, gpu_memory=0.93),
            ),
        )
        yield 2, self._queue
        yield (
            5,
            lambda: stack.override(
                {"kind": "floor", "pool": "l40s", "nodes": 2, "for": "30m", "who": "ada", "why": "a demonstration"}
            ),
        )
        for n, at in enumerate((15, 60, 130, 200, 260)):
            train = job(f"train-{n}", L40S, "vision", duration="50s", gpu_util=0.6 + 0.08 * n)
            yield at, partial(stack.submit, train)
        yield 30, lambda: stack.submit(job("gang", H100, "language", pods=2, gpus_per_pod=4, gang=True, gpu_util=0.75))
        yield 40, self._xid
        yield (
            50,
            lambda: stack.faults(
                {"kind": "stock", "size": "an.g1.h200sxm.kube.x1", "units": 0},
            ),
        )
        yield (
            52,
            lambda: stack.submit(
                job("eval", H200, "research", pods=1, duration="1h", priority_class="research"),
                job("nowhere", "5f3c0000-0000-4000-8000-0000000000ff", "research", duration="1h"),
            ),
        )
        yield 70, lambda: stack.faults({"kind": "error", "face": "civo", "status": 503, "times": 6})
        yield 75, self._stranger
        yield 90, partial(self._admit, 0)
        yield 120, partial(self._admit, 1)
        for n, at in enumerate(range(20, 300, 20)):
            yield at, partial(self._work, "vision", "serve-0", (0.55, 0.72, 0.86, 0.93, 0.98, 0.8, 0.3)[n % 7])
            yield at, partial(self._work, "language", "llm-0", (0.88, 0.8, 0.74, 0.92)[n % 4])

    def _work(self, namespace: str, pod: str, engine: float) -> None:
        self._stack.faults({"kind": "work", "namespace": namespace, "pod": pod, "engine": engine})

    def _xid(self) -> None:
        node = next(n for p in self._stack.state()["pools"] if p["id"] == H100 for n in p["instances"])
        self._stack.faults({"kind": "xid", "node": node["hostname"], "gpu": 7, "code": 79})

    def _stranger(self) -> None:
        """Somebody without a token knocks at the webhook."""
        session = requests.Session()
        session.trust_env = False
        for _ in range(3):
            session.post(self._stack.places.url("receiver") + "/webhook", json={}, timeout=60)

    def _queue(self) -> None:
        waiting = [workload(f"w{n}", queue, gpus, self._began) for n, (queue, gpus) in enumerate(QUEUED)]
        self._stack.post("simulator", "/_custom", waiting)

    def _admit(self, number: int) -> None:
        admitted = workload(f"w{number}", *QUEUED[number], self._began, time.time())
        self._stack.post("simulator", "/_custom", admitted)


# There is no forecast before a day of costs, and a promise ends when its work begins.
NOT_IN_MINUTES = frozenset({"Forecast", "Budgets by forecast", "Promises kept, of a week"})
QUEUED: tuple[tuple[str, int], ...] = (("research", 4), ("research", 2), ("language", 8), ("research", 1))


def main() -> int:
    """Run the scenario, draw every dashboard, and say which panels have nothing to show."""
    parser = argparse.ArgumentParser(description="Run a scenario and draw the dashboards.")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR")
    parser.add_argument("--minutes", type=float, default=5.5)
    told = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="gpu-autoscaler-dashboards-"))
    stack = Stack(plan(), folder)
    prepare(stack)
    try:
        with signals_end_the_block():
            stack.start()
            stack.wait_for_heartbeat()
            stack.wait_until(partial(knows_names, stack), 60, "the pools' names in Prometheus")
            Play(stack).advance(60 * told.minutes)
            end = time.time()
            # The very first points are from before the pools had names in Prometheus.
            span = Span(start=end - 60 * told.minutes + 10 * SCRAPE, end=end, scrape=SCRAPE)
            empty = render(stack.places.url("prometheus"), told.out, span)
    except BaseException:
        sys.stderr.write(f"The logs are kept in {folder}\n")
        raise
    finally:
        stack.stop()
    failed = False
    for uid, titles in empty.items():
        missing = [title for title in titles if title not in NOT_IN_MINUTES]
        failed = failed or bool(missing)
        sys.stdout.write(f"{told.out / uid}.html\n" + "".join(f"  no data: {title}\n" for title in missing))
    shutil.rmtree(folder, ignore_errors=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
