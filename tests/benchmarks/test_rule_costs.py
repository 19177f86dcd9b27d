"""What `python -m benchmarks rules` lets Prometheus scrape, and how it adds up."""

from collections import Counter

from prometheus_client.parser import text_string_to_metric_families

from benchmarks.rule_pages import COUNTERS, GPUS, GROWS, PENDING_PODS, POOLS, pages
from benchmarks.rules import BOUND, Cost, told
from tools.metric_readers import read

NODES = 20


def samples(job: str) -> Counter[str]:
    """How many samples the page of *job* has of each metric."""
    text = pages(NODES)[job].replace(f" {GROWS}\n", " 1\n")
    return Counter(sample.name for family in text_string_to_metric_families(text) for sample in family.samples)


def test_each_gpu_has_every_counter_once_whether_a_pod_holds_it_or_not() -> None:
    assert samples("dcgm-exporter") == dict.fromkeys(COUNTERS, NODES * GPUS)


def test_pods_and_pools_are_as_many_as_the_cluster_has() -> None:
    found = samples("kube-state-metrics")
    held = NODES // 4 + NODES * 3 // 4 * (GPUS - 1)

    assert found["kube_node_info"] == NODES
    assert found["kube_pod_nodeselectors"] == held + PENDING_PODS
    assert samples("gpu-autoscaler")["gpu_autoscaler_pool_info"] == POOLS


def test_no_page_has_a_metric_of_kubernetes_that_no_rule_reads() -> None:
    assert samples("kube-state-metrics").keys() <= read().keys()


def test_the_shares_of_all_rules_add_up() -> None:
    found = [
        Cost(name="a:b:sum", group="g", interval=5, seconds=0.05),
        Cost(name="c:d:sum", group="h", interval=30, seconds=0.3),
    ]
    lines: list[str] = []
    result = told(found, lines.append)

    assert result["share_of_a_core"] == 0.02 <= BOUND
    assert result["groups"] == {"g": 0.01, "h": 0.01}
    assert result["slowest"]["c:d:sum"] == {"ms": 300, "every_s": 30}
    assert lines[0] == "  all rules: 2.0% of a core"
