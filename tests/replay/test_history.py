"""A simulated month, scraped into a real Prometheus and rebuilt from it: the same jobs come out that went in."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from click.testing import CliRunner

from receiver.cli.main import main
from receiver.cli.replay_run import Remembered, trace_from_prometheus
from receiver.ports import WontWork
from receiver.replay.traces.trace import Trace, TraceReading
from receiver.replay.world.objects import GPU, FinishedJob, Job, PodSpec, Timings, WorldConfig, WorldPool
from simulator.world import World
from tests.adapters.monitoring.recorder import QUIET, SCRAPE, record
from tests.rules.servers import running

T0 = datetime(2026, 3, 1, tzinfo=UTC)
MONTH = timedelta(days=30)
SINCE, UNTIL = T0 + timedelta(hours=1), T0 + MONTH
HOLE = (T0 + timedelta(days=20, hours=1), T0 + timedelta(days=20, hours=4))
SLICE = "nvidia.com/mig-1g.10gb"
SECOND = timedelta(seconds=1)


def at(days: float, minutes: float = 0) -> datetime:
    """So long after the beginning of the month."""
    return T0 + timedelta(days=days, minutes=minutes)


def a_job(name: str, submit_at: datetime, minutes: float, **more: Any) -> Job:
    """A job of the namespace ml."""
    return Job(
        **{"id": name, "submit_at": submit_at, "duration": timedelta(minutes=minutes), "namespace": "ml", **more}
    )


SINGLES = [
    a_job(f"single-{day}", at(day, day), 5 + 3 * day, team="vision", gpu_util=day / 20) for day in range(2, 12, 2)
]
GANG = a_job("ddp", at(3), 40, pods=2, gpus_per_pod=8, gang=True, owner_kind="PyTorchJob", team="language")
SLICED = a_job("sliced", at(5), 12, resource=SLICE, node_selector={"kubernetes.civo.com/civo-node-pool": "mig"})
BLINK = a_job("blink", at(7, 0.1), 0.15)
EARLY = a_job("early", at(0, 30), 60)
QUEUED = [a_job(f"queued-{i}", at(13), 20, gpus_per_pod=8) for i in range(3)]  # two nodes: the third waits for one
IN_THE_HOLE = a_job("in-the-hole", at(20, 30), 90)
ENDLESS = a_job("endless", at(30, -45), 600)
DELETED = a_job("deleted", at(9), 600)
NEVER = a_job("never", at(11), 5, gpus_per_pod=64)
ALL = [*SINGLES, GANG, SLICED, BLINK, EARLY, *QUEUED, IN_THE_HOLE, ENDLESS, DELETED, NEVER]


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, World]]:
    """The URL of a Prometheus that scraped a month of a small cluster, and the cluster itself."""
    folder = tmp_path_factory.mktemp("month")
    zero = timedelta(0)
    pools = (
        WorldPool(id="gpu", size="an.g1.l40s.kube.x8", resources={GPU: 8}, count=2),
        WorldPool(id="mig", size="an.g1.a100.kube.x1", resources={SLICE: 7}, count=1, mig=True, gpus=1),
    )
    timings = Timings(warmup=zero, image_pull=zero, finished_lingers=timedelta(minutes=5))
    world = World(WorldConfig(pools=pools, timings=timings), T0)
    world.submit_later(ALL)
    daemon = PodSpec(namespace="ml", name="probe", requests={GPU: 1}, owner_kind="DaemonSet", owner_name="probe")
    data = record(
        world,
        UNTIL,
        folder,
        holes=[HOLE],
        beside=evicted,
        meanwhile={
            at(9, 30): lambda w: w.cancel_job("deleted"),
            at(11, 10): lambda w: w.cancel_job("never"),
            at(16): lambda w: w.add_pod(daemon),
            at(16, 6): lambda w: w.delete_pod("ml", "probe"),
        },
    )
    config = folder / "prometheus.yml"
    config.write_text("{}")
    kept = "--storage.tsdb.retention.time=100y"
    paths = (f"--config.file={config}", f"--storage.tsdb.path={data}", kept)
    with running("prometheus", folder / "log", *paths) as url:
        yield url, world


@pytest.fixture(scope="module")
def trace(month: tuple[str, World]) -> Trace:
    """What is rebuilt of the month."""
    return trace_from_prometheus(asked(month[0]), TraceReading())


def asked(url: str, since: datetime = SINCE, until: datetime = UNTIL) -> Remembered:
    """The whole month, unless told otherwise."""
    return Remembered(url=url, since=since, until=until, step=SCRAPE, timeout=timedelta(seconds=30))


def came_out(trace: Trace, name: str) -> Job:
    """The job of that name."""
    (job,) = [j for j in trace.jobs if j.id in (f"ml.{name}", f"ml.{name}-0")]
    return job


def went_in(month: tuple[str, World], name: str) -> FinishedJob:
    """How it really went."""
    (job,) = [j for j in month[1].finished if j.id == name]
    return job


def evicted(now: datetime) -> Iterator[str]:
    """A pod that is evicted after 20 minutes: its object stays 20 more, without a word on when it ended."""
    if not at(17) <= now <= at(17, 40):
        return
    pod = 'job="kube-state-metrics",namespace="ml",pod="evicted",uid="evicted"'
    yield f'kube_pod_container_resource_requests{{{pod},container="c",resource="nvidia_com_gpu"}} 1'
    for name in ("kube_pod_created", "kube_pod_start_time"):
        yield f"{name}{{{pod}}} {at(17).timestamp():.0f}"
    for phase, holds in (("Running", now < at(17, 20)), ("Failed", now >= at(17, 20))):
        yield f'kube_pod_status_phase{{{pod},phase="{phase}"}} {int(holds)}'


KNOWN = [*SINGLES, GANG, SLICED, BLINK, *QUEUED]


@pytest.mark.parametrize("job", KNOWN, ids=[job.id for job in KNOWN])
def test_a_job_that_ended_comes_out_as_it_went_in_to_the_second(
    trace: Trace, month: tuple[str, World], job: Job
) -> None:
    found, truth = came_out(trace, job.id), went_in(month, job.id)
    assert abs(found.submit_at - truth.submitted_at) < SECOND
    assert abs(found.duration - (truth.finished_at - truth.started_at)) < SECOND
    assert (found.pods, found.gpus_per_pod, found.gang) == (job.pods, job.gpus_per_pod, job.gang)
    assert (found.resource, found.team, found.node_selector) == (job.resource, job.team, job.node_selector)


@pytest.mark.parametrize("job", SINGLES, ids=[job.id for job in SINGLES])
def test_its_utilization_is_the_mean_of_what_its_gpus_showed(trace: Trace, job: Job) -> None:
    assert came_out(trace, job.id).gpu_util == pytest.approx(job.gpu_util, abs=0.03)


def test_what_it_waited_for_a_node_is_not_part_of_how_long_it_ran(trace: Trace) -> None:
    waited = [came_out(trace, job.id) for job in QUEUED]
    assert [round(job.duration.total_seconds() / 60) for job in waited] == [20, 20, 20]


def test_a_job_that_was_deleted_while_it_ran_is_known_to_the_scrape(trace: Trace) -> None:
    assert abs(came_out(trace, "deleted").duration - timedelta(minutes=30)) <= SCRAPE + SECOND


def test_a_pod_that_was_evicted_counts_until_it_was_seen_alive_last(trace: Trace) -> None:
    assert abs(came_out(trace, "evicted").duration - timedelta(minutes=20)) <= QUIET + SECOND


def test_what_ran_at_the_beginning_counts_from_there(trace: Trace) -> None:
    job = came_out(trace, "early")
    assert job.submit_at == SINCE
    assert abs(job.duration - timedelta(minutes=30)) < 2 * SECOND
    assert "running at the beginning: 1 pod, counted as submitted then" in trace.report


def test_what_still_runs_counts_with_the_time_it_has_run(trace: Trace) -> None:
    assert abs(came_out(trace, "endless").duration - timedelta(minutes=45)) < 2 * SECOND
    assert "still running: 1 pod, counted with the run time so far" in trace.report


def test_a_gap_is_told_and_what_ended_in_it_counts_until_it_began(trace: Trace) -> None:
    assert abs(came_out(trace, "in-the-hole").duration - timedelta(minutes=30)) <= SCRAPE + SECOND
    told = [line for line in trace.report if "no samples" in line or "a gap" in line]
    hole = "2026-03-21 00:59 to 2026-03-21 04:00 UTC (3.0 h)"
    assert told == [
        f"Prometheus has no samples from {hole}: pods that existed only then are missing",
        "1 pods were last seen right before a gap: assumed to have ended then",
    ]


def test_what_never_ran_and_what_follows_nodes_is_counted_by_kind(trace: Trace) -> None:
    assert trace.uncounted == {"pods of DaemonSets (they follow nodes)": 1, "pods that never ran": 1}


def test_nothing_comes_out_that_did_not_go_in(trace: Trace) -> None:
    assert len(trace.jobs) == len(ALL) + 1 - 1  # the evicted one, and not the one that never ran


def test_how_closely_it_was_looked_is_said(trace: Trace) -> None:
    (line,) = [line for line in trace.report if line.startswith("history until")]
    assert line.startswith("history until 2026-03-31 00:00 UTC, scraped about every 30 s: ")


def test_a_time_without_history_is_refused_with_what_to_do(month: tuple[str, World]) -> None:
    with pytest.raises(WontWork, match=r"has no up\{job=.*scrape kube-state-metrics under that job") as refused:
        trace_from_prometheus(asked(month[0], T0 - 2 * MONTH, T0 - MONTH), TraceReading())
    assert refused.value.code == "no_history"


def test_the_command_replays_what_prometheus_remembers(month: tuple[str, World]) -> None:
    words = ["--prometheus", month[0], "--since", "10d", "--until", "2026-03-12", "--skip-misfits", "--json"]
    found = CliRunner().invoke(main, ["replay", *words, "--ignore-placement"], catch_exceptions=False)
    told = json.loads(found.stdout)
    assert (found.exit_code, told["jobs"], told["policies"][0]["jobs_lost"]) == (0, 8, 0)
    assert "ml.sliced-0, gpus_per_pod" in found.stderr  # no pool of the replay has slices
    assert "scraped about every" in found.stderr
