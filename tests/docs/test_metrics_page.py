"""docs/metrics.md has every metric that rules and dashboards read and no other, as whoever exports it does."""

import re
from collections.abc import Mapping
from datetime import timedelta
from functools import cache

import pytest
from flask import Flask

from receiver.replay.world.objects import PodSpec
from simulator.clocks import ManualClock
from simulator.metrics import metrics_face
from simulator.server import Simulator
from tests.docs.metrics_page import (
    PAGE,
    RECEIVER,
    SIMULATED,
    THEMSELVES,
    exported_types,
    exporter_rows,
    metric_types,
    receivers_metrics,
    told_type,
)
from tests.docs.pages import headings, section, table, text_of
from tests.given.life import START
from tests.lint import none_of
from tools.metric_names import every_match, metrics_in, queries_of
from tools.metric_readers import read, recordings

NOT_SIMULATED = {
    "kube_pod_init_container_info": "the simulator's pods have no init containers",
    "DCGM_EXP_XID_ERRORS_COUNT": "the simulator's exporter has the default list of 4.5, in which it is commented out",
    "kube_pod_init_container_resource_requests": "the simulator's pods have no init containers",
    "kueue_cluster_queue_nominal_quota": "the simulator knows Workloads and no quotas",
}

# Families of the receiver that are on no dashboard and in no rule, and why.
NOT_READ = {
    "gpu_autoscaler_pool_utilization_ratio": "the recording pool:gpu_utilization:avg is the same, with its history",
    "gpu_autoscaler_held_work_gpus": "for planners; boards show the pools that wait, and the page each pod",
    "gpu_autoscaler_held_work_until_timestamp_seconds": "for planners",
    "gpu_autoscaler_held_work_usd_per_hour": "for planners",
}


@cache
def simulated() -> Mapping[str, str]:
    """The types of everything that the simulator exposes for nodes whole, cut and with NVLink, and for both queues."""
    pools = [
        {"id": "whole", "size": "an.g1.l40s.kube.x8", "resources": {"nvidia.com/gpu": 8}, "count": 1},
        {"id": "mig", "size": "g4g.40.kube.small", "resources": {"nvidia.com/mig-1g.5gb": 7}, "count": 1, "mig": True},
    ]
    simulator = Simulator({"pools": pools, "metrics": {"ecc": True}}, clock=ManualClock(START))
    live = simulator.live
    live.submit([{"id": "waits", "duration": "1h", "gpus_per_pod": 64, "node_selector": {"a": "b"}}])
    live.submit([{"id": "runs", "duration": "1h"}])
    live.turn(timedelta(minutes=2))
    with live.moved() as world:
        world.add_pod(PodSpec(namespace="ml", name="gated", requests={"nvidia.com/gpu": 1}, gate="queue.example/gate"))
        world.add_pod(PodSpec(namespace="ml", name="serve", owner_kind="ReplicaSet", owner_name="serve-1"))
        world.delete_pod("default", "runs-0")
        live.custom.put([_workload(), _pod_group()], world.now)
    app = Flask("simulator")
    app.register_blueprint(metrics_face(live))
    client = app.test_client()
    found: dict[str, str] = {}
    for face in ("kube-state-metrics", "kueue", "volcano-scheduler", "volcano-controller"):
        found |= metric_types(client.get(f"/metrics/{face}").text)
    for target in client.get("/sd/dcgm").json or ():
        found |= metric_types(client.get(target["labels"]["__metrics_path__"]).text)
    return found


def _workload() -> dict[str, object]:
    at = START.isoformat()
    asks = {"containers": [{"name": "main", "resources": {"requests": {"nvidia.com/gpu": "1"}}}]}
    admitted = [{"type": t, "status": "True", "lastTransitionTime": at} for t in ("QuotaReserved", "Admitted")]
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "w", "namespace": "ml", "creationTimestamp": at},
        "spec": {"queueName": "q", "podSets": [{"name": "main", "count": 1, "template": {"spec": asks}}]},
        "status": {"conditions": admitted},
    }


def _pod_group() -> dict[str, object]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "ml"},
        "spec": {"queue": "q", "minMember": 1, "minResources": {"nvidia.com/gpu": "1"}},
        "status": {"phase": "Inqueue"},
    }


def test_the_page_has_every_metric_that_is_read_and_no_other() -> None:
    told = {name for title in (*SIMULATED, *THEMSELVES) for name in exporter_rows(title)}
    assert told == read().keys() - recordings().keys() - exported_types().keys()


def test_every_family_that_the_receiver_exports_is_on_a_dashboard_or_in_a_rule() -> None:
    assert exported_types().keys() - read().keys() == NOT_READ.keys(), (
        "show it, alert on it, or say in NOT_READ why not"
    )


def test_every_part_of_the_page_is_one_that_is_checked() -> None:
    assert set(headings(PAGE, 2)) == {*SIMULATED, RECEIVER, *THEMSELVES}


def test_every_first_part_of_a_recordings_name_is_explained() -> None:
    explained = [row[0].strip("`") for row in table(text_of("rules/README.md"))]
    assert sorted(explained) == sorted({name.partition(":")[0] for name in recordings()})


def test_the_page_has_every_metric_of_the_receiver_and_no_other() -> None:
    assert receivers_metrics() == exported_types().keys()


def test_the_receivers_metrics_have_the_types_that_the_page_says() -> None:
    """Counters end in _total, and the page names the histograms."""
    [sentence] = re.findall(r"^Histograms: (.*?)\.$", section(PAGE, RECEIVER), re.MULTILINE | re.DOTALL)
    histograms = set(re.findall(r"`(\w+)`", sentence))
    kinds = {name: "histogram" if name in histograms else "gauge" for name in receivers_metrics()}
    kinds |= {name: "counter" for name in kinds if name.endswith("_total")}
    assert kinds == exported_types()


def test_the_simulator_exports_what_the_page_says_of_the_others() -> None:
    told = {name: says for title in SIMULATED for name, says in exporter_rows(title).items()}
    assert told.keys() >= NOT_SIMULATED.keys()
    expected = {name: None if name in NOT_SIMULATED else told_type(says) for name, says in told.items()}
    none_of(
        f"{name}: {type_} expected, in truth {simulated().get(name)}"
        for name, type_ in expected.items()
        if simulated().get(name) != type_
    )


@pytest.mark.parametrize(
    ("expr", "names"),
    [
        ("up", {"up"}),
        ('sum by (pool) (a:b:sum{x="up"}) / on (pool) group_left (name) max(c) by (pool)', {"a:b:sum", "c"}),
        ("rate(a_total[5m]) > 0.5 or b offset 5m and on () vector(1)", {"a_total", "b"}),
        ("count_over_time(a:b:avg[10m:30s]) >= 1e3 unless NaN", {"a:b:avg"}),
        ("max(last_over_time(sum(a)[1h:1m])) @ end()", {"a"}),
        ('{__name__=~"A_(B|C)_?D|E", x!=""}', {"A_B_D", "A_BD", "A_C_D", "A_CD", "E"}),
        ('label_replace(a, "x", "$1", "y", "(b.+)") # c', {"a"}),
        ("sum without (instance) (a) == bool 1", {"a"}),
        ("histogram_quantile(0.9, sum by (le) (rate(a_bucket[1h30m])))", {"a_bucket"}),
        ('time() - max(a{b="}"}) > 3d', {"a"}),
    ],
)
def test_metrics_are_told_from_all_else_in_an_expression(expr: str, names: set[str]) -> None:
    assert metrics_in(expr) == names


def test_a_pattern_that_matches_names_without_end_is_refused() -> None:
    with pytest.raises(ValueError, match="too much"):
        list(every_match("DCGM_.*"))


def test_of_a_pattern_without_end_the_known_names_count() -> None:
    assert metrics_in('count({__name__=~"a:.+"})', {"a:b", "a:c", "b:a"}) == {"a:b", "a:c"}
    with pytest.raises(ValueError, match="too much"):
        metrics_in('count({__name__=~"a:.+"})', {"b:a"})


def test_the_queries_of_a_template_are_found() -> None:
    text = (
        '{{ with printf "max(a{x=%q})" $labels.x | query }}{{ end }}{{ range query "topk(3, b)" }}{{ printf "%.2f" 1 }}'
    )
    assert list(queries_of(text)) == ['max(a{x=""})', "topk(3, b)"]
