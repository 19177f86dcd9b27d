"""A stack that goes on working for hours: what KEEP=1 leaves, and the playground, where jobs arrive by themselves."""

import json
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import requests

from demo.past import DAYS, live_through
from demo.plan import OPERATOR_TOKEN, StackPlan
from demo.processes import answers
from demo.scenario import NAMESPACE, POOL_LABEL, POOLS, demo_plan
from demo.screen import Screen
from demo.stack import Stack, running
from receiver.adapters.clock import SystemClock

BUDGET_USD = "60000"  # the hold line is beyond a month in which every pool has its maximum
PAGES = (  # the first that answers is shown: some builds of Prometheus and Alertmanager come without their pages
    ("pages", "receiver", ("/",)),
    ("Prometheus", "prometheus", ("/alerts", "/api/v1/alerts")),
    ("Alertmanager", "alertmanager-1", ("/", "/api/v2/alerts")),
    ("simulated world", "simulator", ("/_state",)),
)
TEAMS = ("vision", "language", "research")
SHAPES = (  # how often, for which pool (None: any), pods, GPUs of each, whether they start together or not at all
    (5, None, 1, 1, False),
    (2, "l40s", 2, 1, False),
    (2, "a100", 1, 1, False),
    (1, "a100", 2, 1, True),
    (1, "h200", 1, 1, False),
    (1, "h100", 1, 8, False),
    (1, "h100", 2, 8, True),
)
BURST = 8  # jobs, then a pause in which pools shrink


def lasting(plan: StackPlan) -> StackPlan:
    """Return *plan* for hours: the scenario ends with the month's budget on hold, so that no pool would grow again.

    Nothing is timed any more, so five seconds do where the scenario needs one.
    """
    return replace(plan, budget={"monthly_usd": BUDGET_USD}, tick="10s", watch=True, scrape="5s", evaluation="5s")


def playground_plan() -> StackPlan:
    """Return the playground's stack: a paid unit lasts five minutes, long enough for a second job to use a node."""
    return replace(lasting(demo_plan()), granularity="5m", removal_margin="1m")


def arrivals(seed: int) -> Iterator[tuple[float, dict[str, Any]]]:
    """Yield jobs in the simulator's form without end, each with the seconds to wait before it."""
    dice = random.Random(seed)  # noqa: S311 (seeded, so that a playground can be seen again)
    ids = {pool.name: pool.id for pool in POOLS}
    for number in count(1):
        _, pool, pods, gpus, gang = dice.choices(SHAPES, [often for often, *_ in SHAPES])[0]
        team = dice.choice(TEAMS)
        pause = dice.uniform(120, 240) if number % BURST == 0 else dice.uniform(1, 15)
        yield (
            pause,
            {
                "id": f"{team}-{number}",
                "duration": f"{dice.randint(30, 120)}s",
                "pods": pods,
                "gpus_per_pod": gpus,
                "gang": gang,
                "namespace": NAMESPACE,
                "team": team,
                "node_selector": {POOL_LABEL: ids[pool]} if pool else {},
            },
        )


def guide(url: Callable[[str], str]) -> Iterator[str]:
    """Yield what to try, with commands for a shell; *url* gives the address of a part."""
    world, pool = url("simulator"), POOLS[0]

    def post(path: str, **body: Any) -> str:
        text = json.dumps(body).replace("NOW", "'$(date +%s)'")  # an id is used once
        return f"curl -d '{text}' {world}{path}"

    yield f"A job: one GPU for a minute. Pool {pool.name} is the cheapest and grows if it has no free GPU."
    yield f"  {post('/_jobs', id='job-NOW', duration='1m')}"
    yield f"A stock-out: Civo has no more {pool.size}. Pods that find no node there get one of the next cheapest pool."
    yield f"  {post('/_faults', kind='stock', size=pool.size, units=0)}"
    yield f"  {post('/_jobs', id='many-NOW', duration='1m', pods=pool.max_nodes)}"
    yield f"A fatal XID on a node of pool {pool.name}, or on its next one: GpuXidFatal fires and is on the pool's page."
    yield f"  {post('/_faults', kind='xid', pool=pool.id, code=79)}"
    yield "The end of every fault:"
    yield f"  curl -X DELETE {world}/_faults"
    yield "To watch: the pages, or"
    yield f"  export GPU_AUTOSCALER_URL={url('receiver')} GPU_AUTOSCALER_OPERATOR_TOKEN={OPERATOR_TOKEN}"
    yield f"  {Path(sys.executable).with_name('gpu-autoscaler')} status"


def keep(screen: Screen, stack: Stack, jobs: Iterable[tuple[float, dict[str, Any]]] = ()) -> None:
    """Print where everything is and what to try, then submit *jobs* and wait for a signal."""
    screen.heading("Everything is left running until Ctrl-C")
    for what, part, paths in PAGES:
        found = (stack.places.url(part) + path for path in paths)
        screen.line(f"  {what:<16} {next((url for url in found if answers(url)()), 'does not answer')}")
    screen.line(f"  {'operator token':<16} {OPERATOR_TOKEN}")
    screen.line(f"  {'money':<16} ${int(BUDGET_USD):,} a month; a paid hour lasts {stack.plan.granularity}")
    screen.line()
    for line in guide(stack.places.url):
        screen.line(line)
    for pause, job in jobs:
        _wait(stack, pause)
        with suppress(requests.ConnectionError, requests.Timeout):  # a busy machine: the next job comes soon
            stack.submit(job)
    while True:
        _wait(stack, 60)


def _wait(stack: Stack, seconds: float) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        stack.check_alive()
        time.sleep(min(1.0, left))


def _live_through(seed: int, stack: Stack) -> None:
    live_through(stack.plan, stack.places, seed, SystemClock().now())


def open_playground(screen: Screen, folder: Path, seed: int) -> None:
    """Start the stack with a month behind it and without a scenario, and let jobs arrive until a signal comes."""
    screen.line(f"Logs and configurations are in {folder}")
    screen.line(f"The autoscaler lives through the last {DAYS} days first, about half a minute")
    with running(playground_plan(), folder, before=partial(_live_through, seed)) as stack:
        stack.wait_for_heartbeat()
        keep(screen, stack, arrivals(seed))
