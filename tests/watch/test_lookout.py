"""The thread that follows the watch: who leads follows, a broken watch is followed again, and it ends when told to."""

import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from time import monotonic
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from receiver.metrics.process import WatchCounts, WatchState
from receiver.ports import TryLater, WontWork
from receiver.runtime.pod_watcher import LISTED_JITTER_SECONDS, LONGEST_BACKOFF_SECONDS, QUIET_SECONDS, Lookout, backoff
from tests.e2e.waiting import until

Course = Callable[[Callable[[], None], Callable[[], None]], None]


CHANCE = 0.5  # of the longest jitter


class AWatch:
    """A watch that does what it is given, one thing after the other, and then stands until it is closed."""

    def __init__(self, *courses: Course) -> None:
        self.courses = list(courses)
        self.followed = 0
        self.closed = threading.Event()

    def follow(self, stands: Callable[[], None], found: Callable[[], None]) -> None:
        self.followed += 1
        if self.courses:
            self.courses.pop(0)(stands, found)
            return
        stands()
        assert self.closed.wait(10)

    def close(self) -> None:
        self.closed.set()


def finds(stands: Callable[[], None], found: Callable[[], None]) -> None:
    """It stands, and a pod waits."""
    stands()
    found()


def fails(error: Exception) -> Course:
    """It is refused, or breaks."""

    def course(stands: Callable[[], None], found: Callable[[], None]) -> None:
        raise error

    return course


class Scene:
    """A lookout and what came of it."""

    def __init__(self, *courses: Course, waits_for: Sequence[float] = ()) -> None:
        self.watch, self.counts = AWatch(*courses), WatchCounts()
        self.leads = True
        self.woken = threading.Event()
        self.waits: list[int] = []
        self.waits_for = list(waits_for)
        self.lookout = Lookout(self.watch, self.woken.set, lambda: self.leads, self.counts, self.wait, lambda: CHANCE)

    def wait(self, failures: int) -> float:
        self.waits.append(failures)
        return self.waits_for.pop(0) if self.waits_for else 0.0

    def metrics(self) -> dict[str, float]:
        registry = CollectorRegistry()
        registry.register(self.counts)
        samples = [sample for family in registry.collect() for sample in family.samples]
        return {s.name: s.value for s in samples if not s.name.endswith("_created")}


@pytest.fixture
def scenes() -> Iterator[Callable[..., Scene]]:
    begun: list[Scene] = []

    def begin(*courses: Course, **given: Any) -> Scene:
        scene = Scene(*courses)
        vars(scene).update(given)  # `waits_for` among them
        begun.append(scene)
        scene.lookout.start()
        return scene

    yield begin
    for scene in begun:
        scene.lookout.stop()
        assert not scene.lookout.is_alive()


def test_a_pod_that_is_found_wakes_the_loop_and_is_counted(scenes: Callable[..., Scene]) -> None:
    scene = scenes(finds)
    assert scene.woken.wait(5)
    until(lambda: scene.counts.state is WatchState.UP, "the next watch")
    assert scene.metrics() == {"gpu_autoscaler_watch_up": 1, "gpu_autoscaler_watch_wakes_total": 1}


@pytest.mark.parametrize("error", [TryLater("cut off"), RuntimeError("a bug")], ids=str)
def test_what_may_pass_is_followed_again_after_a_longer_wait_each_time(
    scenes: Callable[..., Scene], error: Exception
) -> None:
    with capture_logs():
        scene = scenes(fails(error), fails(error), fails(error))
        until(lambda: scene.counts.state is WatchState.UP, "a watch that stands")
    assert scene.waits == [1, 2, 3]


def test_a_watch_that_is_ended_at_once_is_not_asked_for_without_a_pause(scenes: Callable[..., Scene]) -> None:
    scene = scenes(finds, finds)
    until(lambda: scene.watch.followed == 3, "the third watch")
    assert scene.waits == [1, 2]


def test_a_watch_that_stood_for_a_while_is_followed_again_at_once(
    scenes: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("receiver.runtime.pod_watcher.SHORTEST_STAND_SECONDS", 0.0)
    scene = scenes(finds, finds)
    until(lambda: scene.watch.followed == 3, "the third watch")
    assert scene.waits == []


def test_a_cut_after_a_while_counts_as_the_first_failure(
    scenes: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("receiver.runtime.pod_watcher.SHORTEST_STAND_SECONDS", 0.0)
    error = TryLater("cut off")
    scene = scenes(fails(error), fails(error))
    until(lambda: scene.watch.followed == 3, "the third watch")
    assert scene.waits == [1, 1]


def test_a_missing_right_is_asked_for_again_in_a_minute_and_told_once(
    scenes: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("receiver.runtime.pod_watcher.LONGEST_BACKOFF_SECONDS", 0.01)
    refused = WontWork('grant the verb "watch" on "pods"', code="http_403")
    with capture_logs() as said:
        scene = scenes(fails(refused), fails(refused), fails(refused))
        until(lambda: scene.counts.state is WatchState.UP, "a watch that stands")
        until(lambda: len(said) == 2, "the news that it stands")
    assert [line["event"] for line in said] == ["pods are not watched", "pods are watched again"]
    assert said[0]["error"] == str(refused)


def test_the_server_is_waited_for_as_long_as_it_asks(scenes: Callable[..., Scene]) -> None:
    scene = scenes(fails(TryLater("busy", delay=timedelta(hours=1))))
    until(lambda: scene.counts.state is WatchState.DOWN, "a watch that is down")
    assert scene.metrics()["gpu_autoscaler_watch_up"] == 0
    assert scene.watch.followed == 1


LONG_AGO = TryLater("the API server is away")


def test_once_the_api_server_answers_a_list_the_watch_is_back_within_five_seconds(scenes: Callable[..., Scene]) -> None:
    scene = scenes(*[fails(LONG_AGO)] * 6, waits_for=[0, 0, 0, 0, 0, 60])
    until(lambda: len(scene.waits) == 6, "the long wait")
    scene.lookout.listed(False)
    began = monotonic()
    scene.lookout.listed(True)
    until(lambda: scene.counts.state is WatchState.UP, "a watch that stands")
    assert monotonic() - began < 5


def test_replicas_do_not_all_come_back_in_the_same_moment(scenes: Callable[..., Scene]) -> None:
    scene = scenes(fails(LONG_AGO), waits_for=[60])
    until(lambda: scene.waits == [1], "the wait")
    began = monotonic()
    scene.lookout.listed(True)
    until(lambda: scene.counts.state is WatchState.UP, "a watch that stands")
    assert monotonic() - began >= CHANCE * LISTED_JITTER_SECONDS


def test_where_lists_succeed_and_watches_do_not_the_wait_grows_as_always(scenes: Callable[..., Scene]) -> None:
    scene = scenes(*[fails(LONG_AGO)] * 4, waits_for=[60, 0, 0, 60])
    until(lambda: scene.waits == [1], "the first wait")
    scene.lookout.listed(True)
    until(lambda: len(scene.waits) == 4, "the waits after it")
    scene.lookout.listed(True)
    scene.lookout.listed(True)
    assert scene.waits == [1, 1, 2, 3]
    assert scene.counts.state is WatchState.DOWN
    scene.lookout.listed(False)
    scene.lookout.listed(True)
    until(lambda: scene.counts.state is WatchState.UP, "a watch after the next outage")


def test_a_server_that_asked_for_time_gets_it_although_it_answers_lists(scenes: Callable[..., Scene]) -> None:
    scene = scenes(fails(TryLater("busy", delay=timedelta(hours=1))))
    until(lambda: scene.counts.state is WatchState.DOWN, "a watch that is down")
    scene.lookout.listed(True)
    assert not scene.lookout._rouse.is_set()


def test_who_does_not_lead_does_not_watch(scenes: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("receiver.runtime.pod_watcher.LEAD_RETRY_SECONDS", 0.01)
    scene = scenes(finds, leads=False)
    until(lambda: scene.counts.state is WatchState.WAITING, "a lookout that waits")
    assert scene.metrics() == {"gpu_autoscaler_watch_wakes_total": 0}
    assert scene.watch.followed == 0
    scene.leads = True
    assert scene.woken.wait(5)


def test_what_is_found_after_the_lead_was_lost_wakes_nobody(scenes: Callable[..., Scene]) -> None:
    def loses(stands: Callable[[], None], found: Callable[[], None]) -> None:
        stands()
        scene.leads = False
        found()

    ready = threading.Event()
    scene = scenes(lambda _, __: ready.wait(5), loses)
    ready.set()
    until(lambda: not scene.leads, "the lead lost")
    assert not scene.woken.wait(QUIET_SECONDS + 0.1)


def test_waits_double_up_to_a_minute_less_a_random_half() -> None:
    assert [backoff(n, lambda: 0.0) for n in range(1, 9)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert backoff(3, lambda: 1.0) == 2
    assert backoff(10_000, lambda: 0.0) == LONGEST_BACKOFF_SECONDS
