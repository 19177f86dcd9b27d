"""What was observed is replayed when that is due, in a process of its own, and a failure leaves the last sum."""

import signal
import subprocess
from datetime import timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from receiver.config import load_text
from receiver.core.report.would_have import WouldHave
from receiver.ports import TryLater
from receiver.runtime.observing import NotReplayed, Observer, ReplayAsked, ReplayProcess
from receiver.server.replaying import setting_of
from tests.clocks import FixedClock
from tests.core.builders import NOW

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
YAML = """\
mode: observe
prometheus: {url: "http://127.0.0.1:9"}
pools:
  - {name: l40s, civo_pool_id: l40s-id, size: an.g1.l40s.kube.x1, resources: {nvidia.com/gpu: 1}, max_nodes: 2}
"""


class Replay:
    """Counts the replays; raises *error* if there is one."""

    def __init__(self) -> None:
        self.asked: list[ReplayAsked] = []
        self.error: Exception | None = None

    def __call__(self, asked: ReplayAsked) -> WouldHave:
        self.asked.append(asked)
        if self.error is not None:
            raise self.error
        return WouldHave(
            at=asked.until,
            since=asked.since,
            until=asked.until,
            would_usd=Decimal(10),
            margin_usd=Decimal(1),
            as_run_usd=Decimal(12),
        )

    def end(self) -> None:
        """Nothing is under way."""


class Bench:
    """An observer over a ledger that began at NOW."""

    def __init__(self, *, leads: bool = True, observed: dict[str, Any] | None = None) -> None:
        self.replay, self.clock = Replay(), FixedClock(NOW)
        self.settings, self.observed = load_text(YAML), observed
        store: Any = SimpleNamespace(
            watched=lambda: {"l40s-id": NOW},
            node_lives=lambda since: (),
            snapshot=lambda: ({"observed": self.observed}, NOW),
        )
        self.leads = leads
        self.observer = Observer(self.replay, store, lambda: self.settings, lambda: self.leads, self.clock)

    def look(self, after: timedelta) -> int:
        """Look that long after the begin; return how many replays there have been."""
        self.clock.at = NOW + after
        self.observer.look()
        return len(self.replay.asked)


def test_it_is_replayed_after_ten_minutes_then_whenever_a_twelfth_of_the_time_has_passed_again() -> None:
    bench = Bench()
    assert [bench.look(n * MINUTE) for n in (9, 10, 19, 20)] == [0, 1, 1, 2]
    assert [bench.look(n * HOUR) for n in (12, 12.9, 13.2)] == [3, 3, 4]
    assert [bench.look(n * HOUR) for n in (200, 205, 206)] == [5, 5, 6]


def test_nothing_is_replayed_while_the_pools_wait_for_civo() -> None:
    bench = Bench()
    bench.settings = load_text("mode: observe\npools: [{civo_pool_id: l40s-id, max_nodes: 2}]\n")
    assert bench.look(HOUR) == 0
    assert bench.observer.found is None


def test_it_is_replayed_since_the_ledger_began_at_most_for_thirty_days() -> None:
    bench = Bench()
    bench.look(HOUR)
    bench.look(timedelta(days=40))
    assert [(asked.since - NOW, asked.until - NOW) for asked in bench.replay.asked] == [
        (timedelta(0), HOUR),
        (timedelta(days=10), timedelta(days=40)),
    ]


def test_it_is_replayed_at_once_under_a_changed_configuration() -> None:
    bench = Bench()
    bench.look(HOUR)
    bench.settings = load_text(YAML)
    assert bench.look(HOUR + MINUTE) == 2


def test_nothing_is_replayed_in_act_mode_or_by_a_replica_that_does_not_lead() -> None:
    bench = Bench()
    bench.settings = load_text(YAML.replace("mode: observe", "mode: act"))
    assert bench.look(HOUR) == 0
    assert Bench(leads=False).look(HOUR) == 0


def test_after_a_restart_the_last_one_counts() -> None:
    at = (NOW + HOUR).isoformat()
    bench = Bench(observed={"at": at, "since": NOW.isoformat(), "until": at, "would_usd": "10.00"})
    assert bench.look(HOUR + 9 * MINUTE) == 0
    assert bench.observer.found is not None
    assert bench.observer.found.would_usd == 10


def test_what_another_replica_replayed_meanwhile_counts_where_this_one_leads_again() -> None:
    bench = Bench()
    bench.look(HOUR)
    bench.leads = False
    bench.look(HOUR + MINUTE)
    at = (NOW + 2 * HOUR).isoformat()
    bench.leads, bench.observed = True, {"at": at, "since": NOW.isoformat(), "until": at, "would_usd": "11.00"}
    assert bench.look(2 * HOUR + MINUTE) == 1
    assert bench.observer.found is not None
    assert bench.observer.found.would_usd == 11


@pytest.mark.usefixtures("own_logs")
def test_a_failure_is_told_and_leaves_the_last_sum() -> None:
    bench = Bench()
    bench.look(HOUR)
    bench.replay.error = NotReplayed("Prometheus does not answer")
    assert bench.look(2 * HOUR) == 2
    kept = bench.observer.found
    assert kept is not None
    assert (kept.would_usd, kept.until, kept.problem) == (Decimal(10), NOW + HOUR, "Prometheus does not answer")
    assert bench.look(2 * HOUR + MINUTE) == 2  # not again at once


@pytest.mark.usefixtures("own_logs")
@pytest.mark.parametrize("error", [OSError("Cannot allocate memory"), ValueError("no JSON")])
def test_a_process_that_cannot_start_or_answers_nonsense_is_no_reason_to_try_again_at_once(error: Exception) -> None:
    bench = Bench()
    bench.replay.error = error
    assert [bench.look(HOUR), bench.look(HOUR + MINUTE)] == [1, 1]
    assert bench.observer.found is not None
    assert bench.observer.found.problem == str(error)


def test_no_process_works_on_that_was_begun_while_the_server_stopped() -> None:
    replay = ReplayProcess("receiver.server.replaying")
    replay.end()
    with pytest.raises(TryLater, match=r"^the server stops$"):
        replay(asked_of(YAML))


def test_a_replay_that_ends_with_the_server_is_no_failure_and_is_made_by_the_next() -> None:
    bench = Bench()
    bench.look(HOUR)
    bench.replay.error = TryLater("the server stops")
    with pytest.raises(TryLater):
        bench.look(2 * HOUR)
    assert bench.observer.found is not None
    assert bench.observer.found.problem == ""
    bench.replay.error = None
    assert bench.look(2 * HOUR + timedelta(seconds=15)) == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_process_that_a_stopping_server_takes_along_is_not_too_much_work(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    kill = f"import os; os.kill(os.getpid(), {int(number)})"
    if number == signal.SIGINT:  # Python's own handler would turn it into an exit status
        kill = f"import signal; signal.signal(signal.SIGINT, signal.SIG_DFL); {kill}"
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda command, **given: popen([command[0], "-c", kill], **given))
    with pytest.raises(TryLater, match=r"^the server stops$"):
        ReplayProcess("receiver.server.replaying")(asked_of(YAML))


@pytest.mark.usefixtures("own_logs")
def test_without_a_prometheus_it_is_said_that_nothing_is_replayed() -> None:
    bench = Bench()
    bench.settings = load_text(YAML.replace('prometheus: {url: "http://127.0.0.1:9"}\n', ""))
    assert bench.look(HOUR) == 0
    assert bench.observer.found is not None
    assert bench.observer.found.problem.startswith("prometheus.url is not set")


def asked_of(text: str) -> ReplayAsked:
    bench = Bench()
    bench.settings = load_text(text)
    bench.look(HOUR)
    return bench.replay.asked[0]


def test_the_process_says_in_a_sentence_why_it_replayed_nothing() -> None:
    with pytest.raises(NotReplayed, match=r"^Prometheus at http://127\.0\.0\.1:9 did not answer"):
        ReplayProcess("receiver.server.replaying")(asked_of(YAML))


def test_the_circumstances_are_those_of_the_configuration() -> None:
    setting = setting_of(asked_of(f"{YAML}tick: 20s\nbilling: {{granularity: 1s}}\nkubernetes: {{watch: false}}\n"))
    assert (setting.tick, setting.billing, setting.watch) == (timedelta(seconds=20), "second", None)
