"""Hours of a cluster in seconds: simulator and receiver with a hand-turned clock, everything written down as scraped.

What Prometheus would have stored is then given to promtool, which runs the rules as they are shipped over it: with
their own ``for``, ``keep_firing_for`` and ranges of hours, nothing shortened. What is not as in a cluster: rules and
scrapes come every 30 s at the same instant, whatever the interval of their group, the receiver steps as often, and no
webhook reaches it but the heartbeat (it acts on what it looks up itself). Groups come in the order of their files, so
most alerts stand before their recordings and see them a round late, the later of what may happen.
"""

import json
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from flask import Flask
from prometheus_client import CollectorRegistry, generate_latest

from receiver.adapters.messages import Outbox
from receiver.core.model.policy import Policy
from receiver.core.notices.grouping import PageLinks
from receiver.core.scaling.failures import Failure
from receiver.metrics.collector import Instruments, StoreCollector
from receiver.ports import TryLater, WriterLostError
from receiver.replay.world.objects import POOL_LABEL
from simulator.clocks import ManualClock
from simulator.metrics import metrics_face
from simulator.server import Simulator
from tests.given.life import Life
from tests.metrics.scrapes import ADDED_FAMILIES
from tests.rules.files import EVERY_RULE, RECORDINGS, RULE_FILES, run
from tests.rules.scraped import Labels, Notebook, honored, stored
from tests.settings import settings_of
from tests.stores import a_store, silent_log
from tools.metric_names import metrics_in

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)  # promtool's tests begin there, so ages and times of creation fit
EVERY = timedelta(seconds=30)
NOBODY = "json://127.0.0.1:1/"  # a destination where nobody listens
SHOWN = re.compile(r'alertname="(\w+)"')


class Hours:
    """One cluster with its receiver, from *start* on; `pages` adds to what is scraped, by job."""

    def __init__(self, store: Any, config: Mapping[str, Any], policy: Policy, start: datetime = EPOCH) -> None:
        self.start = start
        self.clock = ManualClock(start)
        self.simulator = Simulator(config, clock=self.clock)
        self.live = self.simulator.live
        self.life = Life(world=self.live.world, policy=policy, store=store)
        self.notebook = Notebook()
        self.instruments = Instruments()
        self._good_at: datetime | None = None  # the end of the last good step
        self.instruments.good_age = lambda: None if self._good_at is None else self.clock.now() - self._good_at
        self.steps = True  # False: its process lives and its loop hangs
        self.unanswered: set[str] = set()  # jobs whose scrapes fail
        self.replaced: dict[str, Labels] = {}  # jobs whose targets have labels that go before those of the page
        self.pages: dict[str, Callable[[], str]] = {}
        self.skew = timedelta(0)  # by which the receiver's own clock is ahead where it is scraped
        self._registry = CollectorRegistry()
        self._registry.register(StoreCollector(store, settings_of(policy), _Skewed(self), added=ADDED_FAMILIES))
        self._registry.register(self.instruments)
        self._outbox = Outbox(store, [], self.clock, links=PageLinks())
        app = Flask("simulator")
        app.register_blueprint(metrics_face(self.live))
        self._client = app.test_client()

    @property
    def minutes(self) -> float:
        """How much time has passed."""
        return (self.clock.now() - self.start).total_seconds() / 60

    def fault(self, **given: Any) -> None:
        """Let a fault of the simulator stand."""
        self.simulator.fault(**given)

    def submit(self, name: str, **given: Any) -> None:
        """Hand in a job that runs until long after."""
        self.live.submit([{"id": name, "namespace": "ml", "duration": "1000h", **given}])

    def nodes(self, pool: str) -> list[str]:
        """Return the names of a pool's nodes."""
        return sorted(n.name for n in self.live.world.nodes.values() if n.labels.get(POOL_LABEL) == pool)

    def nobody_takes_notices(self) -> None:
        """Let the destination of messages be unreachable from now on."""
        self._outbox = Outbox(self.life.store, [NOBODY], self.clock, links=PageLinks())

    def pass_time(self, minutes: float) -> None:
        """Let time go on, scraping as it does."""
        for _ in range(round(minutes * 60 / EVERY.total_seconds())):
            self._step()
            self.notebook.write(dict(self._scrape()))
            self.live.turn(EVERY)

    def _step(self) -> None:
        if not self.steps:
            return
        failed = True
        failures: Sequence[Failure] = ()
        with suppress(TryLater, WriterLostError):  # as the loop does
            stepped = self.life.step()
            failed, failures = bool(stepped.failed_pools), stepped.failures
            if len(stepped.failed_pools) < len(stepped.decisions):
                self._good_at = self.clock.now()
        self.instruments.stepped(0.05, failed=failed, failures=failures)
        self._outbox.deliver_due(self.clock.now())

    def _scrape(self) -> Iterator[tuple[str, str]]:
        for target, page in self._pages():
            job = target["job"]
            target = {**target, **self.replaced.get(job, {})}
            answered = page is not None and job not in self.unanswered
            yield from stored(f"up {int(answered)}", target, honor=False)
            if answered:
                yield from stored(page or "", target, honor=honored(job) and job not in self.replaced)

    def _pages(self) -> Iterator[tuple[Labels, str | None]]:
        for job, instance in (("kube-state-metrics", "10.42.0.9:8080"), ("kueue", "10.42.0.8:8443")):
            yield {"job": job, "instance": instance}, self._client.get(f"/metrics/{job}").text
        for found in self._client.get("/sd/dcgm").json or ():
            answer = self._client.get(found["labels"]["__metrics_path__"])
            yield {"job": "dcgm-exporter", **found["labels"]}, answer.text if answer.status_code == 200 else None
        yield {"job": "gpu-autoscaler", "instance": "10.42.0.7:8080"}, generate_latest(self._registry).decode()
        for job, page in self.pages.items():
            yield {"job": job, "instance": f"{job}:9090"}, page()


class _Skewed:
    """The receiver's clock."""

    def __init__(self, lived: Hours) -> None:
        self._lived = lived

    def now(self) -> datetime:
        """Return what it says."""
        return self._lived.clock.now() + self._lived.skew


@contextmanager
def hours(config: Mapping[str, Any], policy: Policy, start: datetime = EPOCH) -> Iterator[Hours]:
    """A cluster at its beginning, with a store of its own; what the receiver logs is not shown."""
    with a_store() as store, silent_log([]):
        lived = Hours(store, config, policy, start)
        try:
            yield lived
        finally:
            lived.live.stop()


def fired(lived: Hours, folder: Path) -> set[str]:
    """Return the alerts that fired at any time of these hours, by the rules as they are shipped. promtool says it."""
    seconds = lived.notebook.scrapes * EVERY.total_seconds()
    groups = [group for file in RULE_FILES for group in _groups(file)]
    test = {
        "interval": "30s",
        "input_series": lived.notebook.input_series(asked()),
        "promql_expr_test": [
            {
                "expr": f'group by (alertname) (last_over_time(ALERTS{{alertstate="firing"}}[{int(seconds)}s]))',
                "eval_time": f"{int(seconds - EVERY.total_seconds())}s",
                "exp_samples": [],
            }
        ],
    }
    whole = {
        "rule_files": [str(file) for file in RULE_FILES],
        "evaluation_interval": "30s",
        "group_eval_order": groups,
        "tests": [test],
    }
    path = folder / "hours.test.yaml"
    path.write_text(json.dumps(whole), encoding="utf-8")
    said: subprocess.CompletedProcess[str] = run("promtool", "test", "rules", path)
    text = said.stdout + said.stderr
    got = text.partition("got:")[2]
    if not got:  # the heartbeat fires in all hours: an empty answer is an error
        raise AssertionError(text)
    return set(SHOWN.findall(got))


@cache
def asked() -> frozenset[str]:
    """The metrics that rules read; nothing else is worth promtool's time."""
    ours = {rule.name for rule in RECORDINGS}
    return frozenset(name for rule in EVERY_RULE for name in metrics_in(rule.body["expr"], ours))


def _groups(file: Path) -> list[str]:
    return re.findall(r"^  - name: (\S+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
