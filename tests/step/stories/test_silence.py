"""Stories of silence: no data was read as no work, or as no end of it."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from receiver.core.model.model import Source, Stage
from receiver.core.notices.notice import Severity
from receiver.ports import ClusterFacts, Store, TelemetryFacts
from tests.core.builders import HOUR, MINUTE, SECOND, a_pool
from tests.expect import bought, living, titles, told
from tests.given import lives, troubles
from tests.given.life import POOL, PRICE, START, Life, a_job
from tests.given.pods import bound

pytestmark = pytest.mark.chores(False)


def at_peak(store: Store) -> Life:
    """Four nodes, all busy, 40 minutes into their paid hour."""
    life = lives.busy_nodes(store, 4, duration=90 * MINUTE)
    life.run(40 * MINUTE, tick=MINUTE)
    return life


NO_DATA = {
    "no series": TelemetryFacts(rules_alive=True),
    "no series and no rules": TelemetryFacts(),
    "zero everywhere": TelemetryFacts(utilization={POOL: 0.0}, coverage={POOL: 1.0}, rules_alive=True),
}


@pytest.mark.parametrize("said", list(NO_DATA))
def test_no_data_at_peak_takes_no_node(store: Store, said: str) -> None:
    """KEDA #3065: an empty answer was read as 0 and the workload went to its minimum at peak. faas-idler #33,
    KEDA #965: Prometheus came back with an empty TSDB, and everything was idle."""
    life = at_peak(store)
    life.telemetry.look = lambda: NO_DATA[said]  # type: ignore[method-assign]
    life.run(25 * MINUTE, tick=MINUTE)
    assert life.writes() == []
    assert life.world.kills == []


@pytest.mark.chores(True)
def test_a_node_that_became_idle_while_prometheus_has_just_come_back_empty_goes_by_pod_counts(store: Store) -> None:
    """faas-idler #33 the other way round: what is known without Prometheus' history may still be used."""
    life = lives.idle_nodes(store)
    life.telemetry.look = lambda: NO_DATA["no series"]  # type: ignore[method-assign]
    life.run(58 * MINUTE, tick=MINUTE)
    assert living(life) == []
    [shrunk] = [d.decision for d in life.store.decisions() if d.decision.target < d.decision.present]
    assert shrunk.evidence["activity"] == "pod counts"
    assert shrunk.evidence["sources"]["dcgm"]["up"] is False


def test_gpu_activity_that_stays_unknown_does_not_keep_an_empty_node_for_ever(store: Store) -> None:
    """Dynamo #6985: the metric was NaN without traffic, NaN meant `skip`, and it never scaled down again."""
    life = lives.at_zero(store)
    troubles.dcgm_gone(life)
    life.submit(a_job())
    life.run(62 * MINUTE, tick=30 * SECOND)
    assert living(life) == []
    assert len(life.world.finished) == 1


@pytest.mark.chores(True)
def test_a_prometheus_that_stays_silent_keeps_what_there_is_and_people_are_told_once(store: Store) -> None:
    """alerta #934, #1110: a dead Prometheus sends no alerts, which looks exactly like good health."""
    life = at_peak(store)
    troubles.prometheus_down(life)
    life.run(5 * HOUR, tick=5 * MINUTE)
    assert life.writes() == []
    assert len(titles(life, "prometheus does not answer")) == 1
    life.telemetry.fail_always(None)
    life.run(HOUR, tick=20 * SECOND)
    assert living(life) == []
    assert len(titles(life, "prometheus answers again")) == 1


def test_a_process_that_has_just_begun_removes_nothing_before_it_has_seen_it_idle(store: Store) -> None:
    """worker-pod-autoscaler #137, knative #3771: the first look of a fresh process, with nothing known yet, scaled
    to zero."""
    life = lives.idle_nodes(store, 3)
    life.world.advance(START + 57 * MINUTE)  # their moment came before we were there
    life.run(9 * SECOND, tick=SECOND)
    assert life.writes() == []
    life.run(HOUR - (life.now - START))
    assert living(life) == []  # and yet no paid hour is lost


@pytest.mark.parametrize("fault", ["lose_gpu", "not_ready"])
def test_a_process_that_has_just_begun_takes_no_old_node_for_one_that_never_came_up(store: Store, fault: str) -> None:
    """knative #3771 once more: without a past a node whose device plugin restarts looks as if it had never worked."""
    life = lives.idle_nodes(store, 3)
    life.world.advance(START + 30 * MINUTE)
    for vm in life.world.lives:
        getattr(life.world.faults, fault)(vm.hostname)
    life.run(2 * MINUTE)
    for vm in life.world.lives:
        life.world.faults.recover(vm.hostname)
    life.run(10 * MINUTE)
    assert life.writes() == []


@pytest.mark.parametrize("source", ["cluster", "telemetry", "alarms", "cloud"])
def test_a_source_that_does_not_answer_at_the_start_is_not_read_as_empty(store: Store, source: str) -> None:
    """knative #3771: metrics that had not been collected yet counted as zero load."""
    life = lives.busy_nodes(store, 2)
    getattr(life, source).fail_always(troubles.UNANSWERED)
    life.run(70 * MINUTE, tick=2 * MINUTE)
    getattr(life, source).fail_always(None)
    life.run(70 * MINUTE, tick=2 * MINUTE)
    assert life.writes() == []


def test_a_cluster_that_answers_with_nothing_at_all_is_not_an_idle_one(store: Store) -> None:
    """KEDA #3065's cousin at Kubernetes: an API server that has just restarted may list nothing yet."""
    life = at_peak(store)
    life.cluster.look = lambda: ClusterFacts(nodes=(), pods=())  # type: ignore[method-assign]
    life.run(25 * MINUTE, tick=MINUTE)
    assert life.writes("cordon", "retire") == []
    assert life.world.kills == []


def test_mig_slices_without_any_utilization_are_bought_and_given_back_by_pod_counts(store: Store) -> None:
    """dcgm-exporter #216, #577, #272: under MIG the utilization is 0 or absent and has no pod labels, so busy
    slices looked idle."""
    mig = "nvidia.com/mig-1g.10gb"
    size = "an.g1.a100.kube.x1"
    life = lives.at_zero(
        store, a_pool(size=size, resources={mig: 7}, price_usd_per_hour=PRICE), kind={"mig": True, "gpus": 1}
    )
    life.telemetry.look = lambda: NO_DATA["no series"]  # type: ignore[method-assign]
    life.submit(*(a_job(f"j{n}", resource=mig, duration=80 * MINUTE) for n in range(10)))
    life.run(75 * MINUTE, tick=MINUTE)
    assert bought(life) == 2
    assert life.writes("cordon", "retire") == []
    life.run(60 * MINUTE, tick=MINUTE)
    assert len(life.world.finished) == 10
    assert living(life) == []


def test_a_utilization_that_is_stuck_at_one_hundred_percent_keeps_no_empty_node(store: Store) -> None:
    """jobstats #28 (and idle Blackwells): the counter latched at 100 %, and an empty GPU passed for busy."""
    life = lives.idle_nodes(store, 2)
    busy = life.world.lives[0].hostname
    life.world.add_pod(bound("works", busy))
    look = life.telemetry.look
    life.telemetry.look = lambda: replace(look(), utilization={POOL: 1.0})  # type: ignore[method-assign]
    life.alarms.extra.append(troubles.alert("GpuPoolBusy", "hold"))
    life.run(62 * MINUTE, tick=20 * SECOND)
    assert [vm.hostname for vm in living(life)] == [busy]


@pytest.mark.chores(True)
def test_a_gpu_that_a_pod_holds_and_never_uses_counts_as_held(store: Store) -> None:
    """slurm-job-exporter #65, jobstats #28: a crashed rank holds its GPU without a process, so per-process metrics
    do not show the GPU at all."""
    life = lives.idle_nodes(store)
    [node] = life.world.nodes
    life.world.add_pod(bound("crashed-rank", node, gpu_util=0.0))
    life.run(2 * HOUR, tick=30 * SECOND)
    assert life.writes() == []
    last = life.store.decisions()[0].decision
    assert "scale_down" in [r.rule for r in last.reasons]
    assert "every node runs a GPU pod" in " ".join(r.detail for r in last.reasons)


@pytest.mark.chores(True)
def test_one_silent_source_is_one_piece_of_news(store: Store) -> None:
    """alertmanager-ntfy #17, IncidentRelay #10: either nobody was told of the outage, or of every retry."""
    life = lives.idle_nodes(store)
    troubles.alertmanager_down(life)
    life.run(2 * HOUR, tick=2 * MINUTE)
    found = [n for n in told(life) if "Alertmanager" in n.title]
    assert [n.severity for n in found] == [Severity.WARNING]
    assert not life.steps[-1].facts.up(Source.ALERTMANAGER)


def test_an_odd_status_at_civo_says_nothing_of_a_node_that_kubernetes_shows_ready(store: Store) -> None:
    """Dynamo #11220 and many others: a state that nobody had thought of fell into the default branch."""
    life = lives.idle_nodes(store)
    look = life.cloud.look

    def odd() -> Any:
        return {
            k: replace(p, instances=tuple(replace(i, status="MIGRATING") for i in p.instances))
            for k, p in look().items()
        }

    life.cloud.look = odd  # type: ignore[method-assign]
    life.run(19 * MINUTE, tick=30 * SECOND)
    assert life.writes() == []
    [node] = life.steps[-1].facts.pool(POOL).nodes
    assert (node.stage, node.idle_since, node.civo_status) == (Stage.USABLE, START, "MIGRATING")


@pytest.mark.chores(True)
def test_a_size_without_a_price_is_not_free(store: Store) -> None:
    """Dynamo #11220, Convox: an unknown price was 0, so growth was always affordable."""
    life = lives.waiting(store, pool=a_pool(price_usd_per_hour=None))
    life.run(10 * MINUTE)
    assert life.writes("resize") == []
    assert titles(life, "its price is unknown")


@pytest.mark.chores(True)
def test_a_new_node_without_gpu_activity_raises_nothing_for_a_quarter_of_an_hour(store: Store) -> None:
    life = lives.at_zero(store)
    troubles.dcgm_gone(life)
    life.submit(a_job(duration=2 * HOUR))
    life.run(40 * MINUTE, tick=MINUTE)
    ages: dict[bool, set[timedelta]] = {True: set(), False: set()}
    for facts in (stepped.facts for stepped in life.steps):
        for node in facts.pools[0].of(Stage.USABLE):
            assert node.times.usable_since is not None
            ages[facts.sources[Source.DCGM].up].add(facts.at - node.times.usable_since)
    assert max(ages[True]) < 15 * MINUTE <= min(ages[False])
    assert titles(life, "DCGM") == [
        "DCGM (GPU telemetry) does not answer: pods alone decide whether a node is busy or idle"
    ]
