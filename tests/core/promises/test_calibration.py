"""Which promises came true."""

from datetime import timedelta
from typing import Any

import pytest

from receiver.core.model.pods import Pod, PodPhase, Workload
from receiver.core.promises.calibration import Came, OpenPromises
from receiver.core.promises.promise import Promise
from tests.core.builders import MINUTE, NOW, SECOND, a_pod

PROMISE = Promise(starts_p50=NOW + 4 * MINUTE, starts_p90=NOW + 7 * MINUTE, learnt=True)


def a_promise(*pods: Pod, promise: Promise = PROMISE) -> OpenPromises:
    kept = OpenPromises()
    kept.make(Workload(key=pods[0].gang or pods[0].key, pods=pods), "l40s-id", promise, NOW)
    return kept


def running(name: str = "train", after: timedelta = 4 * MINUTE, **changes: Any) -> Pod:
    return a_pod(name, phase=PodPhase.RUNNING, running_since=NOW + after, **changes)


@pytest.mark.parametrize(
    ("after", "came"),
    [
        (4 * MINUTE, Came.BY_P50),
        (4 * MINUTE + SECOND, Came.BY_P90),
        (7 * MINUTE, Came.BY_P90),
        (7 * MINUTE + SECOND, Came.LATE),
    ],
)
def test_a_promise_is_kept_by_the_moment_that_the_pod_began_to_run(after: timedelta, came: Came) -> None:
    assert a_promise(a_pod()).ended([running(after=after)], NOW + 8 * MINUTE) == {("l40s-id", came): 1}


def test_a_pod_that_still_waits_after_the_promised_time_is_late_and_counts_once() -> None:
    kept = a_promise(a_pod())
    assert kept.ended([a_pod()], NOW + 7 * MINUTE) == {}
    assert kept.ended([a_pod()], NOW + 8 * MINUTE) == {("l40s-id", Came.LATE): 1}
    assert kept.ended([running(after=9 * MINUTE)], NOW + 9 * MINUTE) == {}


def test_only_the_first_promise_to_a_workload_counts() -> None:
    kept = a_promise(a_pod())
    later = Promise(starts_p50=NOW + 8 * MINUTE, starts_p90=NOW + 9 * MINUTE, learnt=True)
    kept.make(Workload(key="ml/train", pods=(a_pod(),)), "l40s-id", later, NOW)
    assert kept.ended([running(after=8 * MINUTE)], NOW + 8 * MINUTE) == {("l40s-id", Came.LATE): 1}


def test_a_gang_began_when_its_last_pod_did() -> None:
    pods = [a_pod(f"rank-{n}", gang="ml/gang") for n in range(2)]
    kept = a_promise(*pods)
    first = running("rank-0", gang="ml/gang")
    assert kept.ended([first, pods[1]], NOW + 5 * MINUTE) == {}
    last = running("rank-1", after=6 * MINUTE, gang="ml/gang")
    assert kept.ended([first, last], NOW + 6 * MINUTE) == {("l40s-id", Came.BY_P90): 1}


def test_a_workload_that_is_gone_is_not_counted() -> None:
    kept = a_promise(a_pod())
    assert kept.ended([], NOW + 9 * MINUTE) == {}
    assert kept.open == {}


@pytest.mark.parametrize(
    "promise", [Promise(), Promise(starts_p50=NOW, starts_p90=NOW + MINUTE), Promise(starts_p50=NOW, starts_p90=NOW)]
)
def test_a_guess_or_free_room_is_no_promise_to_judge(promise: Promise) -> None:
    assert a_promise(a_pod(), promise=promise).open == {}


def test_promises_outlive_the_process_in_the_picture() -> None:
    first, second = a_promise(a_pod()), OpenPromises()
    second.begin(first.open, NOW)
    assert second.ended([running()], NOW + 5 * MINUTE) == {("l40s-id", Came.BY_P50): 1}
