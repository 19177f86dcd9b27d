"""Kubernetes as the doctor sees it: each fault is planted into a healthy cluster, found, named and given its remedy."""

import json
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from receiver.adapters.clock import SystemClock
from receiver.adapters.kubernetes.drain import selects
from receiver.core.model.policy import POOL_LABEL, Policy, Taint
from receiver.doctor.checks import Finding, Installation
from receiver.doctor.kubernetes import AREA
from receiver.doctor.rounds import go_round
from receiver.doctor.surroundings import classes, operator
from receiver.ports import MAY_WAIT, QUOTA_LABEL
from receiver.replay.world.objects import PodSpec
from simulator.server import Simulator
from tests.doctor.builders import document, installation, pool
from tests.doctor.cluster import gpu_pool, node_of, put, run, run_image, well_kept
from tests.doctor.conftest import Told
from tests.simulator.builders import CPU_POOL, GPU_POOL, Starter

CA = "registry.k8s.io/autoscaling/cluster-autoscaler:v1.28.1"


def seen(installation: Installation) -> list[Finding]:
    """Return what the area came to, passes left out."""
    ((_, found),) = go_round([AREA], installation)
    return [f for f in found if f.verdict != "pass"]


def only(installation: Installation) -> Finding:
    """Return the one finding that is no pass; it has a remedy unless it is a skip."""
    (finding,) = seen(installation)
    assert finding.remedy or finding.verdict == "skip"
    return finding


def test_a_healthy_cluster_raises_no_alarm_and_passes_every_check(start: Starter, told: Told) -> None:
    ((_, found),) = go_round([AREA], told(well_kept(start)))
    assert [f for f in found if f.verdict != "pass"] == []
    assert {f.check for f in found} == {check.name for check in AREA.checks}


def test_nothing_but_reads_and_access_reviews_is_sent(start: Starter, told: Told) -> None:
    sim = well_kept(start)
    seen(told(sim))
    sent = {(e["method"], e["path"].partition("?")[0]) for e in sim.log.entries() if e["method"] != "GET"}
    assert sent == {("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")}


def test_a_pool_without_nodes_is_skipped_with_the_reason(start: Starter, told: Told) -> None:
    findings = seen(told(well_kept(start, gpu_pool(count=0))))
    assert {(f.check, f.verdict) for f in findings} == {
        ("kubernetes.node_labels", "skip"),
        ("kubernetes.node_taints", "skip"),
        ("kubernetes.gpus", "skip"),
    }
    assert all("has no node" in f.said for f in findings)


def test_a_file_without_credentials_fails(start: Starter, told: Told) -> None:
    finding = only(told(well_kept(start), KUBECONFIG="nowhere/kubeconfig"))
    assert (finding.check, finding.verdict) == ("kubernetes.credentials", "fail")


def test_a_token_that_is_not_taken_fails(start: Starter, told: Told) -> None:
    sim = well_kept(start, kubernetes={"token": "the-right-one-0123"})
    installation = told(sim)
    assert installation.settings.environment.kubeconfig is not None
    with open(installation.settings.environment.kubeconfig, "r+", encoding="utf-8") as file:  # noqa: PTH123
        wrong = file.read().replace("the-right-one-0123", "a-wrong-one-0123")
        file.seek(0)
        file.write(wrong)
        file.truncate()
    finding = only(installation)
    assert (finding.check, finding.verdict) == ("kubernetes.credentials", "fail")
    assert "a-wrong-one" not in finding.said


def test_a_cluster_that_nobody_looks_at_is_said(start: Starter, told: Told) -> None:
    finding = only(told(well_kept(start), document(kubernetes={"enabled": False})))
    assert (finding.check, finding.verdict) == ("kubernetes.credentials", "skip")


@pytest.mark.parametrize(
    "right, verdict", [("patch nodes", "fail"), ("create pods/eviction", "fail"), ("watch pods", "warn")]
)
def test_a_right_that_is_missing_is_named_with_the_rule_to_grant(
    start: Starter, told: Told, right: str, verdict: str
) -> None:
    finding = only(told(well_kept(start, kubernetes={"denied": [right]})))
    assert (finding.check, finding.verdict) == ("kubernetes.rights", verdict)
    verb, resource = right.split()
    assert f"may not {right}" in finding.said
    assert f"resources: [{resource}], verbs: [{verb}]" in finding.remedy


def test_a_right_that_observing_does_without_is_only_named_while_it_observes(start: Starter, told: Told) -> None:
    sim = well_kept(start, kubernetes={"denied": ["patch nodes"]})
    finding = only(told(sim, document(mode="observe")))
    assert (finding.check, finding.verdict) == ("kubernetes.rights", "skip")
    assert "in mode act only, and missing: patch nodes" in finding.said


def test_rights_of_features_are_asked_for_where_they_are_configured(start: Starter, told: Told) -> None:
    sim = well_kept(start, kubernetes={"denied": ["create resourcequotas", "list workloads.kueue.x-k8s.io"]})
    findings = seen(told(sim, document(kueue={"demand": "queued"})))
    assert [(f.check, f.verdict) for f in findings] == [("kubernetes.rights", "fail")] * 2
    assert "kueue.demand is queued" in findings[0].said
    assert "budget.hold" in findings[1].said


def test_a_pod_behind_our_scheduling_gate_makes_the_right_to_remove_it_needed(start: Starter, told: Told) -> None:
    sim = well_kept(start, kubernetes={"denied": ["patch pods"]})
    assert seen(told(sim)) == []
    run(sim, PodSpec(namespace="ml", name="lab", gate=MAY_WAIT))
    finding = only(told(sim))
    assert (finding.check, finding.verdict) == ("kubernetes.rights", "fail")
    assert "some pod has the scheduling gate" in finding.said


def test_without_the_right_to_see_pods_the_rest_is_skipped_not_invented(start: Starter, told: Told) -> None:
    findings = seen(told(well_kept(start, kubernetes={"denied": ["list pods"]})))
    assert [f.check for f in findings if f.verdict == "fail"] == ["kubernetes.rights"]
    assert all("list pods" in f.said for f in findings)


@pytest.mark.parametrize(
    "changes, check, verdict, words",
    [
        ({"labels": {"gpu": "spot"}}, "kubernetes.node_labels", "fail", "lacks gpu=on-demand"),
        ({"resources": {"nvidia.com/gpu.shared": 4}}, "kubernetes.gpus", "fail", "offers 4 nvidia.com/gpu.shared"),
        (
            {"resources": {"nvidia.com/mig-1g.10gb": 7}},
            "kubernetes.gpus",
            "fail",
            "instead of the configured 1 nvidia.com/gpu",
        ),
    ],
)
def test_a_node_that_differs_is_named(
    start: Starter, told: Told, changes: dict[str, Any], check: str, verdict: str, words: str
) -> None:
    sim = well_kept(start, gpu_pool(**changes))
    finding = only(told(sim))
    assert (finding.check, finding.verdict) == (check, verdict)
    assert words in finding.said
    assert node_of(sim) in finding.said


def test_a_node_without_its_pools_taint_fails(start: Starter, told: Told) -> None:
    sim = well_kept(start)
    change(sim, taints=())
    finding = only(told(sim))
    assert (finding.check, finding.verdict) == ("kubernetes.node_taints", "fail")
    assert "lacks gpu=true:NoSchedule" in finding.said


def test_a_taint_that_nobody_configured_is_warned_of(start: Starter, told: Told) -> None:
    sim = well_kept(start)
    change(sim, taints=(Taint(key="gpu", value="true", effect="NoSchedule"), Taint(key="team", effect="NoSchedule")))
    finding = only(told(sim))
    assert (finding.check, finding.verdict) == ("kubernetes.node_taints", "warn")
    assert "has team:NoSchedule" in finding.said


def test_a_taint_that_kubernetes_takes_off_by_itself_is_no_alarm(start: Starter, told: Told) -> None:
    sim = well_kept(start)
    pressed = Taint(key="node.kubernetes.io/disk-pressure", effect="NoSchedule")
    change(sim, taints=(Taint(key="gpu", value="true", effect="NoSchedule"), pressed))
    assert seen(told(sim)) == []


def test_a_node_without_its_pools_id_is_warned_of(start: Starter, told: Told) -> None:
    sim = well_kept(start)
    change(sim, labels={"gpu": "on-demand"})
    findings = seen(told(sim))
    assert (findings[0].check, findings[0].verdict) == ("kubernetes.pool_label", "warn")
    assert node_of(sim) in findings[0].said


def test_a_startup_taint_is_warned_of_only_on_a_node_that_should_be_set_up_by_now(start: Starter, told: Told) -> None:
    sim = well_kept(start)
    starting = Taint(key="readiness.k8s.io/gpu", value="pending", effect="NoSchedule")
    change(sim, taints=(Taint(key="gpu", value="true", effect="NoSchedule"), starting))
    assert seen(told(sim)) == []
    change(sim, created_at=SystemClock().now() - timedelta(hours=1))
    finding = only(told(sim))
    assert (finding.check, finding.verdict) == ("kubernetes.node_taints", "warn")
    assert "readiness.k8s.io/gpu=pending:NoSchedule" in finding.said


def dra_nodes(start: Starter, **kubernetes: Any) -> Simulator:
    """A well kept cluster whose one GPU node has its GPU served by a DRA driver, for an hour."""
    sim = well_kept(start, gpu_pool(dra=True), kubernetes=kubernetes)
    change(sim, created_at=SystemClock().now() - timedelta(hours=1))
    return sim


def test_a_resource_that_no_class_serves_is_warned_of_where_dra_serves_gpus(start: Starter, told: Told) -> None:
    sim = dra_nodes(start)
    assert "kubernetes.dra" not in {f.check for f in seen(told(sim))}
    with sim.moved() as world:
        for key in list(world.claims.objects["deviceclasses"]):
            world.claims.remove("deviceclasses", key)
    finding = only(told(sim))
    assert (finding.check, finding.verdict) == ("kubernetes.dra", "warn")
    assert "No DeviceClass has the extendedResourceName nvidia.com/gpu, so pods cannot request them" in finding.said


def test_without_the_right_to_list_slices_the_doctor_says_what_is_lost(start: Starter, told: Told) -> None:
    findings = {f.check: f for f in seen(told(dra_nodes(start, denied=["list resourceslices"])))}
    assert findings["kubernetes.rights"].verdict == "warn"
    assert "list resourceslices" in findings["kubernetes.rights"].said
    assert findings["kubernetes.dra"].verdict == "skip"
    assert findings["kubernetes.gpus"].verdict == "fail"  # as before


def test_a_node_whose_driver_never_came_fails_and_a_young_one_does_not(start: Starter, told: Told) -> None:
    sim = well_kept(start)
    change(sim, allocatable={"cpu": 12, "memory": 1000})
    assert only(told(sim)).verdict == "skip"
    change(sim, created_at=SystemClock().now() - timedelta(hours=1))
    finding = only(told(sim))
    assert (finding.check, finding.verdict) == ("kubernetes.gpus", "fail")
    assert "offers no GPU" in finding.said
    assert "it was created 1h" in finding.said


def test_a_node_that_is_not_ready_fails_though_what_it_offered_still_stands_there(start: Starter, told: Told) -> None:
    sim = well_kept(start)
    change(sim, ready=False)
    assert only(told(sim)).verdict == "skip"  # it is young
    change(sim, created_at=SystemClock().now() - timedelta(hours=1))
    finding = only(told(sim))
    assert (finding.check, finding.verdict) == ("kubernetes.gpus", "fail")
    assert finding.said.endswith("is not Ready")
    assert "kubectl describe node" in finding.remedy


def test_labels_that_we_put_on_nodes_are_missed_on_young_ones_later_only(start: Starter, told: Told) -> None:
    sim = well_kept(start)
    change(sim, labels={POOL_LABEL: GPU_POOL}, taints=())
    dressed = document(pools=[pool(apply_to_nodes=True)])
    assert {f.verdict for f in seen(told(sim, dressed))} == {"skip"}
    change(sim, created_at=SystemClock().now() - timedelta(minutes=3))
    assert [(f.check, f.verdict) for f in seen(told(sim, dressed))] == [
        ("kubernetes.node_labels", "fail"),
        ("kubernetes.node_taints", "fail"),
    ]


def test_a_cordon_of_ours_that_nobody_will_undo_leads_to_release(start: Starter, told: Told) -> None:
    sim = well_kept(start)
    change(sim, unschedulable=True, annotations={"gpu-autoscaler.io/cordoned-for": "a-1"})
    assert seen(told(sim)) == []
    findings = [f for f in seen(told(sim, document(mode="observe"))) if f.check == "kubernetes.cordons"]
    assert [f.verdict for f in findings] == ["warn"]
    assert "doctor release" in findings[0].remedy


def test_a_gpu_operator_that_is_not_there_fails(start: Starter, told: Told) -> None:
    findings = {f.check: f.verdict for f in seen(told(well_kept(start, kubernetes={"daemonsets": False})))}
    assert findings == {"kubernetes.gpu_operator": "fail", "kubernetes.operator_tolerations": "skip"}


def test_where_daemon_sets_may_not_be_listed_the_operator_is_not_known(start: Starter, told: Told) -> None:
    findings = seen(told(well_kept(start, kubernetes={"denied": ["list daemonsets"]})))
    assert {f.check: f.verdict for f in findings} == {
        "kubernetes.gpu_operator": "skip",
        "kubernetes.operator_tolerations": "skip",
    }
    assert all("gpu-autoscaler-doctor" in f.said for f in findings)


def test_an_operator_without_the_exporter_is_warned_of(start: Starter, told: Told) -> None:
    sim = well_kept(start, kubernetes={"daemonsets": False})
    put(sim, daemon_set("nvidia-device-plugin-daemonset", [{"operator": "Exists"}]))
    finding = only(told(sim))
    assert (finding.check, finding.verdict) == ("kubernetes.gpu_operator", "warn")
    assert "dcgmExporter" in finding.remedy


def test_an_operator_that_a_pools_taint_keeps_away_fails(start: Starter, told: Told) -> None:
    sim = well_kept(start)
    chart = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    put(sim, daemon_set("nvidia-device-plugin-daemonset", chart))
    finding = only(told(sim))
    assert (finding.check, finding.verdict) == ("kubernetes.operator_tolerations", "fail")
    assert "does not tolerate gpu=true:NoSchedule, so it cannot run in pool l40s" in finding.said


def test_feature_discovery_that_a_taint_keeps_away_is_warned_of_for_the_operator_waits_for_its_label(
    start: Starter, told: Told
) -> None:
    sim = well_kept(start)
    put(sim, daemon_set("gpu-operator-node-feature-discovery-worker", []))
    finding = only(told(sim))
    assert (finding.check, finding.verdict) == ("kubernetes.operator_tolerations", "warn")
    assert "get no GPU label" in finding.said
    assert "node-feature-discovery.worker.tolerations" in finding.remedy


def test_tolerations_of_an_operator_that_is_not_there_are_not_called_right() -> None:
    missing, finding = operator([], Policy(pools=()))
    assert (missing.verdict, finding.verdict) == ("fail", "skip")


@pytest.mark.parametrize(
    "args, verdict",
    [
        ("--cloud-provider=civo --nodes=1:10:workers", "fail"),
        (f"--nodes=0:4:{GPU_POOL}", "fail"),
        (f"--nodes 0:4:{GPU_POOL}", "fail"),
        ("--v=4", "fail"),
        (f"--nodes=1:10:workers --nodes=1:3:{CPU_POOL}", "pass"),
    ],
)
def test_cluster_autoscaler_on_a_pool_of_ours_fails_and_on_others_does_not(
    start: Starter, told: Told, args: str, verdict: str
) -> None:
    sim = well_kept(start)
    run_image(sim, "cluster-autoscaler-0", CA, args)
    findings = seen(told(sim))
    assert [(f.check, f.verdict) for f in findings] == [("kubernetes.other_autoscaler", "fail")] * (verdict == "fail")


def test_marks_of_cluster_autoscaler_on_our_nodes_fail(start: Starter, told: Told) -> None:
    sim = well_kept(start)
    mark = Taint(key="DeletionCandidateOfClusterAutoscaler", effect="PreferNoSchedule")
    change(sim, taints=(Taint(key="gpu", value="true", effect="NoSchedule"), mark))
    finding = only(told(sim))
    assert (finding.check, finding.verdict) == ("kubernetes.other_autoscaler", "fail")


def test_an_autoscaler_that_does_not_tell_its_pools_is_warned_of(start: Starter, told: Told) -> None:
    sim = well_kept(start)
    run_image(sim, "karpenter-0", "public.ecr.aws/karpenter/controller:1.0")
    assert (only(told(sim)).check, only(told(sim)).verdict) == ("kubernetes.other_autoscaler", "warn")


@pytest.mark.parametrize(
    ("pool", "cluster_name", "verdict", "said"),
    [
        (GPU_POOL, "theirs", "fail", "research/theirs manages l40s too"),
        ("pool-other", "theirs", "pass", "beside this one: research/theirs (other); no pool is in two of them"),
    ],
)
def test_another_installation_fails_if_it_has_a_pool_of_ours(
    start: Starter, told: Told, pool: str, cluster_name: str, verdict: str, said: str
) -> None:
    sim = well_kept(start)
    pools = json.dumps({"pools": [{"id": pool, "name": "other"}]})
    noted = {"gpu-autoscaler.io/pools": pools, "gpu-autoscaler.io/cluster-name": cluster_name}
    labels = {"gpu-autoscaler.io/installation": "true"}
    metadata = {"namespace": "research", "name": "theirs", "labels": labels, "annotations": noted}
    spec = {"renewTime": "2999-01-01T00:00:00Z", "leaseDurationSeconds": 180}
    put(sim, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec})
    (found,) = [f for f in AREA.look(told(sim)) if f.check == "kubernetes.installations"]
    assert (found.verdict, found.said) == (verdict, said)


def test_what_surrounds_us_is_missed_where_it_is_not_there(start: Starter, told: Told) -> None:
    sim = well_kept(start)
    with sim.moved():
        sim.live.custom.clear()
    assert [(f.check, f.verdict) for f in seen(told(sim))] == [
        ("kubernetes.network_policy", "warn"),
        ("kubernetes.pod_security", "warn"),
        ("kubernetes.priority_classes", "warn"),
    ]


def test_a_network_policy_of_egress_alone_keeps_nobody_out(start: Starter, told: Told) -> None:
    sim = well_kept(start)
    put(
        sim,
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": "gpu-autoscaler", "namespace": "gpu-autoscaler"},
            "spec": {"podSelector": {}, "policyTypes": ["Egress"]},
        },
    )
    assert only(told(sim)).check == "kubernetes.network_policy"


def test_our_own_priority_class_is_none_for_work(tmp_path: Path) -> None:
    configuration = installation(tmp_path).settings.configuration
    assert classes(["system-node-critical", "gpu-autoscaler"], configuration).verdict == "warn"
    assert classes(["production", "gpu-autoscaler"], configuration).verdict == "pass"


def test_a_question_about_rights_that_is_not_answered_hides_nothing_else(start: Starter, told: Told) -> None:
    sim = well_kept(start)
    sim.fault(kind="error", face="kubernetes", path="selfsubjectaccessreviews", status=403, times=None)
    finding = only(told(sim))
    assert (finding.check, finding.verdict) == ("kubernetes.rights", "warn")
    assert "cannot check whether the user of KUBECONFIG may list nodes" in finding.said
    assert "system:basic-user" in finding.remedy


def test_what_surrounds_us_is_skipped_where_it_may_not_be_seen(start: Starter, told: Told) -> None:
    denied = ["list networkpolicies", "list namespaces", "list resourcequotas", "list priorityclasses"]
    findings = seen(told(well_kept(start, kubernetes={"denied": denied}), document(budget={"monthly_usd": 5000})))
    assert {f.verdict for f in findings} == {"skip"}
    assert all("gpu-autoscaler-doctor" in f.said for f in findings)


@pytest.mark.parametrize(
    "selector, selected",
    [
        ({}, True),
        (
            {"matchExpressions": [{"key": "app.kubernetes.io/name", "operator": "In", "values": ["gpu-autoscaler"]}]},
            True,
        ),
        ({"matchExpressions": [{"key": "app.kubernetes.io/name", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, False),
        ({"matchExpressions": [{"key": "app.kubernetes.io/name", "operator": "NotIn", "values": ["x"]}]}, True),
        ({"matchLabels": {"app": "other"}}, False),
    ],
)
def test_a_network_policy_counts_where_it_selects_us(selector: dict[str, Any], selected: bool) -> None:
    assert selects(selector, {"app.kubernetes.io/name": "gpu-autoscaler"}) is selected


def test_gpu_pods_without_a_quota_are_warned_of(start: Starter, told: Told) -> None:
    sim = well_kept(start)
    run(sim, PodSpec(namespace="gpu-operator", name="plugin-validation", requests={"nvidia.com/gpu": 1}))
    assert seen(told(sim)) == []
    run(sim, PodSpec(namespace="research", name="train", requests={"nvidia.com/gpu": 1}))
    finding = only(told(sim))
    assert (finding.check, finding.verdict) == ("kubernetes.quotas", "warn")
    assert "research" in finding.said
    spec = {"hard": {"requests.nvidia.com/gpu": "8"}}
    hold = {"metadata": {"name": "gpu-autoscaler-budget-hold", "labels": {QUOTA_LABEL: "true"}}, "spec": spec}
    with sim.moved() as world:
        sim.live.quotas.create("research", hold, world.now)
    assert only(told(sim)).check == "kubernetes.quotas"  # our own hold goes away by itself
    with sim.moved() as world:
        sim.live.quotas.create("research", {"metadata": {"name": "gpus"}, "spec": spec}, world.now)
    assert seen(told(sim)) == []


def test_a_passing_class_that_does_not_exist_fails(start: Starter, told: Told) -> None:
    budget = {"monthly_usd": 5000, "hold": {"namespaces": ["ml"]}, "passing_priority_classes": ["urgent"]}
    finding = only(told(well_kept(start), document(budget=budget)))
    assert (finding.check, finding.verdict) == ("kubernetes.priority_classes", "fail")


def test_the_configured_pools_alone_are_compared(start: Starter, told: Told) -> None:
    said = document(pools=[pool(), pool(name="other", civo_pool_id="pool-other")])
    findings = seen(told(well_kept(start), said))
    assert {f.verdict for f in findings} == {"skip"}
    assert all(re.search("pool other has no node", f.said) for f in findings)


def change(sim: Any, **changes: Any) -> None:
    """Let the GPU node be as *changes* say."""
    with sim.moved() as world:
        name = next(n.name for n in world.nodes.values() if n.pool == GPU_POOL)
        world.nodes[name] = replace(world.nodes[name], **changes)


def daemon_set(name: str, tolerations: list[dict[str, str]]) -> dict[str, Any]:
    """Return a DaemonSet of the GPU operator."""
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "gpu-operator"},
        "spec": {"template": {"spec": {"containers": [], "tolerations": tolerations}}},
    }
