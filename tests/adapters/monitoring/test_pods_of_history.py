"""Pods put together from what kube-state-metrics said of them, and gaps in what it said."""

from datetime import UTC, datetime, timedelta

import pytest

from receiver.adapters.monitoring.history import Ask, Gap, PodBook, begin, gaps, sanitized
from receiver.ports import PastPod, Trouble

T0 = datetime(2026, 3, 1, tzinfo=UTC)
UNTIL = T0 + timedelta(days=1)
STEP = timedelta(seconds=30)
SPAN = timedelta(hours=1)
BEGIN = T0.timestamp() + 3600


def book(*facts: tuple[str, dict[str, str], float], uid: str = "u", gpus: float = 1, team: str = "team") -> PodBook:
    """A book with a GPU pod ml/p of which *facts* (query, labels, value) are known besides."""
    made = PodBook(team)
    pod = {"namespace": "ml", "pod": "p", "uid": uid}
    made.note(Ask.REQUESTED, {**pod, "of": "app", "resource": "nvidia_com_gpu"}, [(BEGIN, gpus)])
    for query, labels, value in facts:
        made.note(query, {**pod, **labels}, [(BEGIN, value)])
    return made


def times(**known: float) -> list[tuple[str, dict[str, str], float]]:
    """Facts about moments, in seconds after BEGIN; over is 0 or 1."""
    return [(Ask.TIMES, {"of": of}, value if of == "over" else BEGIN + value) for of, value in known.items()]


def last_seen(at: float) -> tuple[str, dict[str, str], float]:
    """The fact that the pod held its GPUs until then."""
    return (Ask.HELD, {}, at)


def pods(of: PodBook) -> tuple[list[PastPod], list[Trouble]]:
    return of.pods(UNTIL, STEP, SPAN)


def one(of: PodBook) -> PastPod:
    (found,), troubles = pods(of)
    assert not troubles
    return found


def ran(pod: PastPod) -> float | None:
    """How many seconds it held its GPUs, None while it still does."""
    assert pod.held_from is not None
    return None if pod.held_until is None else (pod.held_until - pod.held_from).total_seconds()


def test_a_pod_that_is_over_ended_when_its_last_container_did() -> None:
    assert ran(one(book(*times(created=0, start=10, completion=110, over=1)))) == 100


def test_one_container_that_ended_is_not_the_pods_end() -> None:
    held = last_seen(BEGIN + 510)
    assert ran(one(book(*times(created=0, start=10, completion=110, over=0), held))) == 500


def test_a_pod_that_was_deleted_as_it_ended_ended_then() -> None:
    held = last_seen(BEGIN + 100)
    assert ran(one(book(*times(created=0, start=10, completion=110, over=0), held))) == 100


def test_an_evicted_pod_without_a_completion_time_ended_when_it_was_last_seen_alive() -> None:
    held = last_seen(BEGIN + 210)
    assert ran(one(book(*times(created=0, start=10, over=1), held))) == 200


def test_what_was_seen_to_the_end_still_holds_its_gpus() -> None:
    held = last_seen(UNTIL.timestamp() - 20)
    assert ran(one(book(*times(created=0, start=10, over=0), held))) is None


def test_a_pod_that_no_kubelet_took_never_held_anything() -> None:
    pod = one(book(*times(created=0, over=0)))
    assert (pod.held_from, pod.held_until) == (None, None)


def test_a_pod_without_a_time_of_creation_is_told() -> None:
    found, troubles = pods(book(*times(start=10)))
    assert not found
    remedy = "let Prometheus scrape and keep it, or leave the pod out with `skip_bad: true` in the file of --timing"
    assert [str(t) for t in troubles] == [f"Pod ml/p, kube_pod_created: there is none of it; {remedy}"]


def test_namesakes_are_told_apart_by_their_uid() -> None:
    made = book(*times(created=0, start=0, completion=60, over=1))
    pod = {"namespace": "ml", "pod": "p", "uid": "other"}
    made.note(Ask.REQUESTED, {**pod, "of": "app", "resource": "nvidia_com_gpu"}, [(BEGIN, 1)])
    for query, labels, value in times(created=600, start=600, completion=900, over=1):
        made.note(query, {**pod, **labels}, [(BEGIN, value)])
    assert sorted(p.held_from for p in pods(made)[0] if p.held_from) == [
        datetime.fromtimestamp(BEGIN + s, UTC) for s in (0, 600)
    ]


def test_an_init_container_that_asks_for_more_counts() -> None:
    init = (Ask.REQUESTED, {"of": "init", "resource": "nvidia_com_gpu"}, 4.0)
    assert one(book(init, *times(created=0))).pod.requests == {"nvidia.com/gpu": 4}


@pytest.mark.parametrize(
    "name, resource",
    [
        ("nvidia_com_gpu_shared", "nvidia.com/gpu.shared"),
        ("nvidia_com_mig_1g_10gb", "nvidia.com/mig-1g.10gb"),
        ("nvidia_com_mig_3g_40gb_me", "nvidia.com/mig-3g.40gb.me"),
    ],
)
def test_sanitized_names_of_resources_become_what_kubernetes_calls_them(name: str, resource: str) -> None:
    made = PodBook("team")
    pod = {"namespace": "ml", "pod": "p", "uid": "u"}
    made.note(Ask.REQUESTED, {**pod, "of": "app", "resource": name}, [(BEGIN, 2)])
    made.note(Ask.TIMES, {**pod, "of": "created"}, [(BEGIN, BEGIN)])
    assert one(made).pod.requests == {resource: 2}


def test_owner_team_and_pool_come_from_their_labels() -> None:
    pod = one(
        book(
            *times(created=0),
            (Ask.OWNERS, {"owner_kind": "Job", "owner_name": "train"}, 1),
            (Ask.OWNERS_OF_JOBS, {"job_name": "train", "owner_kind": "JobSet", "owner_name": "big"}, 1),
            (Ask.TEAMS, {"label_org_team": "vision"}, 1),
            (Ask.POOLS, {"nodeselector_kubernetes_civo_com_civo_node_pool": "p-1"}, 1),
            team="org/team",
        )
    )
    assert (pod.pod.owner, pod.above, pod.pod.daemon) == ("Job/train", "JobSet/big", False)
    assert pod.pod.labels == {"org/team": "vision"}
    assert pod.pod.scheduling.node_selector == {"kubernetes.civo.com/civo-node-pool": "p-1"}


def test_a_daemonsets_pod_is_known_for_one() -> None:
    assert one(book(*times(created=0), (Ask.OWNERS, {"owner_kind": "DaemonSet", "owner_name": "d"}, 1))).pod.daemon


def test_a_value_that_is_no_number_counts_for_nothing() -> None:
    made = book(*times(created=0, start=10, completion=110, over=1))
    made.note(Ask.TIMES, {"namespace": "ml", "pod": "p", "uid": "u", "of": "completion"}, [(BEGIN, float("nan"))])
    assert ran(one(made)) == 100


def use(made: PodBook, at: float, total: float, count: float) -> None:
    """What the GPUs of ml/p showed in the span that ends *at*, in seconds after BEGIN."""
    for of, value in (("sum", total), ("count", count)):
        made.note(Ask.USE, {"namespace": "ml", "pod": "p", "of": of}, [(BEGIN + at, value)])


def test_utilization_is_the_mean_over_the_samples_while_it_held_gpus() -> None:
    made = book(*times(created=0, start=0, completion=7200, over=1))
    use(made, 3600, 90, 100)
    use(made, 7200, 60, 300)
    use(made, 3600 * 9, 100, 100)  # somebody else of the same name
    assert one(made).gpu_util == pytest.approx(150 / 400)


def test_a_span_whose_sum_is_no_number_says_nothing_of_utilization() -> None:
    made = book(*times(created=0, start=0, completion=7200, over=1))
    use(made, 3600, 90, 100)
    use(made, 7200, float("nan"), 100)
    assert one(made).gpu_util == pytest.approx(0.9)


def test_without_any_sample_utilization_is_not_known() -> None:
    assert one(book(*times(created=0, start=0, completion=7200, over=1))).gpu_util is None


@pytest.mark.parametrize(
    "key, name",
    [("team", "label_team"), ("gpu-autoscaler/pool", "label_gpu_autoscaler_pool"), ("gpuPool", "label_gpu_pool")],
)
def test_label_names_are_spelt_as_kube_state_metrics_spells_them(key: str, name: str) -> None:
    assert sanitized("label", key) == name


def test_gaps_are_where_more_than_three_minutes_are_without_a_scrape() -> None:
    minutes = [0, 1, 2, 5, 9, 10, 20]
    scrapes = [(T0 + timedelta(minutes=m)).timestamp() for m in minutes]
    found = gaps(scrapes, T0, T0 + timedelta(minutes=21), STEP)
    assert found == [Gap(T0 + timedelta(minutes=b), T0 + timedelta(minutes=e)) for b, e in ((5, 9), (10, 20))]


def test_a_history_that_begins_late_or_ends_early_has_a_gap_there() -> None:
    scrapes = [(T0 + timedelta(hours=h)).timestamp() for h in (1, 1.01)]
    found = gaps(scrapes, T0, T0 + timedelta(hours=2), STEP)
    assert [(g.begin.hour, g.end.hour) for g in found] == [(0, 1), (1, 2)]


def test_samples_begin_late_only_after_a_gap_at_the_very_begin() -> None:
    late, later = (Gap(T0 + timedelta(hours=h), T0 + timedelta(hours=h + 1)) for h in (0, 2))
    assert [begin(holes, T0) for holes in ([late, later], [later], [])] == [T0 + timedelta(hours=1), None, None]
