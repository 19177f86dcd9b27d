"""One long schedule on the stage of `campaigns.faults.processes`, with a clock that runs faster than the machine's.

What cannot run faster is played: Prometheus and Alertmanager are the faces of `campaigns.faults.processes.faces`. The
process is not killed, because what it holds after hours is what the soak measures.
"""

import contextlib
import csv
import random
import sqlite3
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import requests

from campaigns.faults.processes.clocks import MovedClock
from campaigns.faults.processes.play import STARTS_WITHIN, Playing, Result
from campaigns.faults.processes.schedule import Event, Maker, PoolPlan, Schedule
from campaigns.faults.processes.stage import Stage
from campaigns.soak import figures
from campaigns.soak.figures import Sample
from campaigns.soak.past import add_past
from tests.e2e.receivers import OPERATOR_TOKEN
from tests.e2e.waiting import until

HOUR, DAY = 3600.0, 86400.0
RATE = 24.0  # an hour of the machine is a day of the world
CHAPTER = 60.0  # seconds of the machine: work and faults of one drawn schedule, then calm
TROUBLED = 0.7  # of a chapter
QUIET_EVERY = 8  # chapters: one without work, in which pools shrink
LONGER = 60  # jobs run for minutes instead of seconds
LEFT_OUT = {"end", "line", "clock", "skip", "cut", "away"}  # the process lives on, time passes evenly, no PostgreSQL
TURNS_CLOCK_EVERY, READS_EVERY = 0.1, 15.0  # seconds of the machine
LIVED = 10  # chapters that are played before their rows are repeated backwards as the past of the store
AT_ONCE = 40  # reads at the beginning: more than the server has threads, so that it has started all of them
PAGES = ("/", "/costs", "/sources", "/metrics", "/api/v1/pools", "/api/v1/decisions?limit=50", "/api/v1/actions")
SEEN_FOR = 60.0  # a step on a busy machine, from the look at the pods to the PUT for them
PATIENCE = 600.0  # seconds of the machine: the oldest that an open action or an unconsidered delivery may become
BUDGET_USD = 60_000
POOLS = (
    PoolPlan(
        name="l40s", id="5f3c0000-0000-4000-8000-000000000000", gpus=1, max_nodes=6, min_nodes=0, count=1, usd=1.29
    ),
    PoolPlan(
        name="a100", id="5f3c0000-0000-4000-8000-000000000001", gpus=2, max_nodes=4, min_nodes=0, count=0, usd=3.58
    ),
    PoolPlan(
        name="h100", id="5f3c0000-0000-4000-8000-000000000002", gpus=4, max_nodes=3, min_nodes=1, count=0, usd=11.96
    ),
)
TIMINGS = {
    "build": "2m",
    "boot": "20s",
    "driver": "2m",
    "delete": "30s",
    "node_lingers": "20s",
    "terminate": "2s",
    "quota_lag": "3m",
    "fill_retry": "1m",
    "finished_lingers": "30m",
}
CLOUD = {"timings": TIMINGS, "behaviour": {"granularity": "1h"}}
CONFIG = {
    "budget": {"monthly_usd": BUDGET_USD},
    "billing": {"granularity": "1h", "removal_margin": "10m"},
    "pools": [{"cooldown": {"grow": "30s", "shrink": "5m"}, "idle_for": "10m", "provision_timeout": "20m"}]
    * len(POOLS),
}


def chapters(seed: int, seconds: float) -> Iterator[Event]:
    """Yield the events of *seconds*: one schedule's after another's, each spread over the first part of a chapter."""
    for number in range(int(seconds // CHAPTER)):
        maker = Maker(seed + number, POOLS)
        spread = CHAPTER * TROUBLED / maker.schedule().troubled
        for event in maker.events:
            if event.kind in LEFT_OUT or (event.kind == "job" and number % QUIET_EVERY == QUIET_EVERY - 1):
                continue
            what = dict(event.what)
            if "id" in what:
                what["id"] = f"c{number}-{what['id']}"
            if event.kind == "job":
                what["seconds"] *= LONGER
            yield replace(event, at=number * CHAPTER + event.at * spread, what=what)


def long_schedule(seed: int, hours: float) -> Schedule:
    """Return the soak of *seed* as a schedule of *hours* of the machine."""
    seconds = max(hours * HOUR, CHAPTER)
    events = sorted(chapters(seed, seconds), key=lambda e: e.at)
    return Schedule(
        seed=seed, pools=list(POOLS), events=events, granularity=3600, fallback="kubernetes", troubled=seconds
    )


@contextlib.contextmanager
def running_fast(clock: MovedClock, rate: float) -> Iterator[Callable[[], float]]:
    """Let *clock* run *rate* times as fast as the machine's; yields what tells the simulated seconds since then."""
    ended, began = threading.Event(), clock.now()

    def turn() -> None:
        before = time.monotonic()
        while not ended.wait(TURNS_CLOCK_EVERY):
            now = time.monotonic()
            clock.skip((now - before) * (rate - 1))
            before = now

    turning = threading.Thread(target=turn, name="soak-clock", daemon=True)
    turning.start()
    try:
        yield lambda: (clock.now() - began).total_seconds()
    finally:
        ended.set()
        turning.join()


class Soak(Playing):
    """A schedule that is measured while it plays. *samples* and *violations* may be read at any moment,
    also after Ctrl-C."""

    def __init__(
        self,
        stage: Stage,
        result: Result,
        say: Callable[[str], None],
        *,
        rate: float,
        every: float,
        past: float,
        out: Path | None,
    ) -> None:
        super().__init__(stage, result, None)
        stage.witness.seen_for = SEEN_FOR
        self._print, self._rate, self._every, self._past, self._out = say, rate, every, past, out
        self.samples: list[Sample] = []
        self._sampled_at = self._read_at = self._calmed_at = 0.0
        self._ended = False
        self._passed: Callable[[], float] = lambda: 0.0
        self._worker = 0
        self.violations: dict[str, None] = {}
        self._counted = (0.0, 0.0, 0.0)  # steps, their seconds, and processor seconds at the last sample
        self._open_since: dict[str, float] = {}
        self._dice = random.Random(f"pages of {stage.schedule.seed}")

    def soak(self) -> list[str]:
        """Play it; return what did not hold."""
        with running_fast(self._stage.clock, self._rate) as passed:
            self._passed = passed
            return self.go()

    def _look(self) -> None:
        super()._look()
        now = time.monotonic()
        if self._past and now - self._began > LIVED * CHAPTER:
            self._add_past()
        if now - self._calmed_at > CHAPTER and (now - self._began) % CHAPTER > CHAPTER * TROUBLED:
            self._calmed_at = now
            self._happenings.calm()
        if now - self._read_at > READS_EVERY:
            self._read_at = now
            self._read()
        if now - self._sampled_at > self._every:
            self._sampled_at = now
            self._sample()
            self._judge()
        for violation in super()._found():
            if violation not in self.violations:
                self._print(f"  VIOLATION {violation}")
            self.violations[violation] = None

    def _add_past(self) -> None:
        """Stop the server, give its store a past, start it again, and begin to measure."""
        days, self._past = self._past, 0.0
        receiver = self._stage.receiver
        receiver.terminate(STARTS_WITHIN)
        span = timedelta(minutes=self._passed() // 60 + 2)  # whole minutes, as samples are
        written = add_past(receiver.environ["GPU_AUTOSCALER_DATABASE_URL"], span, days)
        self._print(
            f"{days:g} days of past: {sum(written.values()):,} rows, {receiver.store.stat().st_size / 1e6:.0f} MB"
        )
        receiver.start(forked=False)
        until(lambda: self._started(receiver), "a first step", STARTS_WITHIN)
        with ThreadPoolExecutor(AT_ONCE) as readers:
            list(readers.map(receiver.get, ["/costs"] * AT_ONCE))
        self.samples.clear()
        self._worker, self._counted = 0, (0.0, 0.0, 0.0)

    def _found(self) -> list[str]:
        """What ends it: nothing does before its time."""
        return list(self.violations) if self._ended else []

    def _read(self) -> None:
        """Read as people and Prometheus do, and now and then give an order."""
        with contextlib.suppress(requests.RequestException):
            for page in PAGES:
                self._stage.receiver.get(page)
            if self._dice.random() < 0.2:
                self._order()

    def _order(self) -> None:
        body = {"kind": "pause", "pool": self._dice.choice(POOLS).name, "for": "10m", "why": "soak", "who": "operator"}
        url = f"{self._stage.receiver.url}/api/v1/overrides"
        answer = requests.post(url, json=body, headers={"Authorization": f"Bearer {OPERATOR_TOKEN}"}, timeout=60)
        self._result.counts[f"override answered {answer.status_code}"] += 1

    # --- measuring

    def _sample(self) -> None:
        receiver = self._stage.receiver
        try:
            worker = receiver.worker
            values = figures.of_process(worker, receiver.server.pid) | figures.of_store(receiver.store)
            values["overview"] = statistics.median(self._seconds("/") for _ in range(3)) * 1e3
            values["log"] = receiver.output.stat().st_size / 1e6
            values |= self._steps(worker)
        except (OSError, IndexError, KeyError, sqlite3.Error) as error:  # a fault of this moment
            self._result.counts[f"no sample: {type(error).__name__}"] += 1
            return
        if self._worker not in (0, worker):
            self._violations.append(f"the worker {self._worker} ended and {worker} was started")
        self._worker = worker
        sample = Sample((time.monotonic() - self._began) / HOUR, self._passed() / DAY, values)
        self.samples.append(sample)
        self._note(sample)

    def _seconds(self, path: str) -> float:
        began = time.monotonic()
        self._stage.receiver.get(path).raise_for_status()
        return time.monotonic() - began

    def _steps(self, worker: int) -> dict[str, float]:
        """Milliseconds of a step since the last sample, by the wall clock and of the worker's processor time."""
        steps, seconds = figures.of_metrics(self._stage.receiver.get("/metrics").text)
        counted = (steps, seconds, figures.cpu_seconds(worker))
        taken, spent, used = (now - before for now, before in zip(counted, self._counted, strict=True))
        known, self._counted = self._counted[0], counted
        if not known or taken <= 0:
            return {}
        return {"step": spent / taken * 1e3, "step CPU": used / taken * 1e3}

    def _note(self, sample: Sample) -> None:
        shown = ", ".join(f"{name} {sample.values[name]:,.2f}" for name in figures.FIGURES if name in sample.values)
        self._print(f"{sample.hours:6.2f} h, day {sample.days:6.2f}: {shown}")
        if self._out is not None:
            with self._out.open("a", newline="", encoding="utf-8") as file:
                rows = csv.writer(file)
                rows.writerows([f"{sample.hours:.4f}", f"{sample.days:.4f}", n, v] for n, v in sample.values.items())

    # --- what must hold meanwhile

    def _judge(self) -> None:
        with self._stage.cloud.moved() as world:
            for plan in POOLS:
                pool = world.pools[plan.id]
                if max(len(pool.living), pool.required) > plan.max_nodes:
                    self._violations.append(f"2 maximum: {plan.name} has {len(pool.living)} of {plan.max_nodes} nodes")
        waits = [f"action {n}" for (n,) in self._rows("SELECT id FROM actions WHERE outcome IS NULL")]
        waits += [f"delivery {n}" for (n,) in self._rows("SELECT id FROM deliveries WHERE considered_at IS NULL")]
        now = time.monotonic()
        self._open_since = {name: self._open_since.get(name, now) for name in waits}
        self._violations += [f"5 settles: {n} is open" for n, at in self._open_since.items() if now - at > PATIENCE]
        with contextlib.suppress(requests.RequestException, ValueError):
            self._spent(self._stage.receiver.get("/api/v1/budget").json())

    def _spent(self, told: dict[str, Any]) -> None:
        spent = float(told.get("spent_usd") or 0)
        if spent > BUDGET_USD:
            self._violations.append(f"2 budget: {spent:.2f} USD of {BUDGET_USD} are spent")

    def _afterwards(self) -> None:
        self._ended = True
        oldest = min((number for (number,) in self._rows("SELECT id FROM deliveries")), default=0)
        self.mail.taken = {number for number in self.mail.taken if number >= oldest}  # older ones were pruned
        super()._afterwards()
        self.violations |= dict.fromkeys(super()._found())


def verdicts(samples: Sequence[Sample]) -> list[str]:
    """Return the figures that grow without bound, each with the reason."""
    return [f"{course.name} grows: {course.grows}" for course in figures.courses(samples) if course.grows]
