"""Jobs made of pods that ran before, wherever those were read."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from receiver.core.model.pods import PodPhase, Toleration
from receiver.ports import Past, PastPod, Trouble
from receiver.replay.traces.pods import trace_of_pods
from receiver.replay.traces.trace import BadTrace, Trace, TraceReading
from tests.core.builders import a_pod

T0 = datetime(2026, 3, 2, 9, tzinfo=UTC)
UNTIL = T0 + timedelta(days=1)
MINE = (Toleration(key="mine", operator="Exists"),)


def after(minutes: float) -> datetime:
    return T0 + timedelta(minutes=minutes)


def ran(
    name: str = "p", begun: float | None = 5, ended: float | None = 65, created: float = 0, **changes: Any
) -> PastPod:
    """A pod of ml; its times are minutes after T0."""
    told = {k: changes.pop(k) for k in ("gpu_util", "above") if k in changes}
    pod = a_pod(name, **{"uid": name, "phase": PodPhase.OTHER, "created_at": after(created), **changes})
    return PastPod(
        pod=pod,
        held_from=None if begun is None else after(begun),
        held_until=None if ended is None else after(ended),
        **told,
    )


def trace(*pods: PastPod, since: float | None = None, reading: TraceReading | None = None, **past: Any) -> Trace:
    """What becomes of *pods*; *since* is minutes after T0."""
    begin = None if since is None else after(since)
    return trace_of_pods(
        Past(pods=pods, until=UNTIL, since=begin, **past), "x", "prometheus", reading or TraceReading()
    )


def test_what_had_ended_before_the_beginning_is_counted() -> None:
    found = trace(ran("old"), ran("new", 200, 260, 190), since=100)
    assert [job.id for job in found.jobs] == ["ml.new"]
    assert found.uncounted == {"pods that had ended before the beginning": 1}


def test_the_rest_of_what_ran_at_the_beginning_counts_from_there() -> None:
    found = trace(ran("p", 5, 65), since=35)
    assert (found.start, found.jobs[0].submit_at, found.jobs[0].duration) == (
        after(35),
        after(35),
        timedelta(minutes=30),
    )


def test_what_waited_at_the_beginning_waits_from_there() -> None:
    found = trace(ran("p", 40, 100), since=35)
    assert (found.jobs[0].submit_at, found.jobs[0].duration) == (after(35), timedelta(minutes=60))


def test_without_a_beginning_a_replay_begins_at_the_full_hour_before_the_first_job() -> None:
    assert trace(ran(created=30)).start == T0


def test_a_name_that_was_used_again_gets_a_number() -> None:
    assert [job.id for job in trace(ran(), ran(created=100, begun=101, ended=110)).jobs] == ["ml.p", "ml.p~2"]


def test_a_bare_pod_stands_for_a_job_so_that_a_replay_ends() -> None:
    assert trace(ran()).jobs[0].owner_kind == "Job"
    assert trace(ran(owner="ReplicaSet/web")).jobs[0].owner_kind == "ReplicaSet"


def test_a_gang_ran_from_its_last_pods_beginning_to_its_last_pods_end() -> None:
    pods = [ran("a", 5, 60, owner="MPIJob/m"), ran("b", 20, 50, owner="MPIJob/m")]
    (job,) = trace(*pods).jobs
    assert (job.id, job.pods, job.gang, job.duration) == ("ml.m", 2, True, timedelta(minutes=40))


def test_what_a_gang_creates_much_later_is_a_job_of_its_own() -> None:
    pods = [ran(n, 5, 60, created=m, owner="MPIJob/m") for n, m in (("a", 0), ("b", 1), ("late", 1.1))]
    assert [(job.id, job.pods, job.gang) for job in trace(*pods).jobs] == [("ml.m", 2, True), ("ml.m~2", 1, False)]


def test_a_minimum_of_all_pods_is_none() -> None:
    pods = [ran(n, gang="ml/g", gang_min=2) for n in ("a", "b")]
    assert trace(*pods).jobs[0].gang_min is None


def test_pods_of_one_name_in_two_namespaces_are_no_gang() -> None:
    pods = [ran("a", owner="MPIJob/m"), ran("b", owner="MPIJob/m", namespace="dev")]
    assert sorted(job.id for job in trace(*pods).jobs) == ["dev.m", "ml.m"]


def test_utilization_of_a_gang_is_the_mean_of_what_is_known() -> None:
    pods = [ran(n, owner="MPIJob/m", gpu_util=u) for n, u in (("a", 0.2), ("b", 0.6), ("c", None))]
    assert trace(*pods).jobs[0].gpu_util == pytest.approx(0.4)


def test_without_any_measurement_utilization_is_what_the_reading_says() -> None:
    assert trace(ran(), reading=TraceReading(gpu_util=0.5)).jobs[0].gpu_util == 0.5


def test_tolerations_are_the_pods_own_where_they_are_known() -> None:
    pod = ran(tolerations=MINE)
    assert trace(pod).jobs[0].tolerations == MINE
    assert trace(pod, tolerations_known=False).jobs[0].tolerations == TraceReading().tolerations


def test_the_team_is_the_label_that_the_reading_names() -> None:
    assert trace(ran(labels={"squad": "vision"}), reading=TraceReading(team_label="squad")).jobs[0].team == "vision"


def test_what_the_reader_found_stands_before_what_is_found_here() -> None:
    trouble = Trouble(where="Pod ml/x", field="uid", problem="odd", remedy="mend it")
    with pytest.raises(BadTrace) as refused:
        trace(ran("late", 10, 5), troubles=(trouble,))
    assert [t.where for t in refused.value.troubles] == ["Pod ml/x", "Pod ml/late"]
    found = trace(
        ran(), troubles=(trouble,), notes=("a note",), uncounted={"kind": 3}, reading=TraceReading(skip_bad=True)
    )
    assert found.report == ["Pod ml/x, uid: odd; mend it", "not counted, kind: 3", "a note"]
