"""What each verb of the roles is for, by use: the product's own adapter does it over HTTP and sees the effect.

Each function here fails where a right is missing that it needs. `USES` names it for each verb on each resource.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from receiver.adapters.kubernetes.cluster import KubernetesCluster
from receiver.adapters.kubernetes.installations import LABEL as INSTALLATION
from receiver.adapters.kubernetes.installations import Own
from receiver.adapters.kubernetes.reflector import Watching
from receiver.core.model.pods import Pod
from receiver.core.model.room_requests import RoomAnswer
from receiver.ports import (
    BUDGET_CHECK,
    CORDON_ANNOTATION,
    IDLE_SHUTDOWN_ANNOTATION,
    MAY_WAIT,
    PROVISIONING_CLASS,
    Did,
    HeldPlaces,
    TryLater,
)
from receiver.replay.world.objects import PodSpec
from simulator.dra.claims import KINDS
from simulator.manifests import pod_spec
from simulator.server import Simulator
from simulator.world import Pdb
from tests.adapters.kubernetes.custom_objects import (
    a_group,
    a_queue,
    a_template,
    a_vcjob,
    a_workload,
    of_gpus,
    owned_by_vcjob,
)
from tests.adapters.kubernetes.group_objects import (
    a_job_set,
    a_native_workload,
    a_pod_group,
    a_replicated_job,
    a_worker_set,
    gang_of,
    in_job_set,
    in_pod_group,
    in_worker_set,
    in_workload,
)
from tests.e2e.waiting import until
from tests.given.requests import EVERY_READER
from tests.simulator.builders import GPU_POOL

GPU = "nvidia.com/gpu"
ANYWHERE = [{"operator": "Exists"}]
CLUSTER_QUEUE = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ClusterQueue",
    "metadata": {"name": "gpus"},
    "spec": {},
}
SCHEDULING = "scheduling.k8s.io"
SCALING_VERSION = "autoscaling.x-k8s.io/v1"
ZERO_VERSION = "scheduling.volcano.sh/v1beta1"


DRA = "resource.k8s.io/v1"


@dataclass
class Stage:
    """A simulated cluster and the product's *connect* to it, with options of `kubernetes.cluster.connect`."""

    sim: Simulator
    connect: Callable[..., KubernetesCluster]
    opened: list[KubernetesCluster] = field(default_factory=list)

    def cluster(self, **options: Any) -> KubernetesCluster:
        """Return the adapter."""
        self.opened.append(self.connect(**{"readers": EVERY_READER, **options}))
        return self.opened[-1]

    def put(self, api: str, kind: str, *objects: dict[str, Any]) -> None:
        """Let custom resources be there."""
        with self.sim.moved() as world:
            if api == DRA:
                [plural] = [plural for plural, known in KINDS.items() if known == kind]
                for one in objects:
                    world.claims.put(plural, one)
                self.sim.live.custom.install(api)
                return
            self.sim.live.custom.put([{"apiVersion": api, "kind": kind, **one} for one in objects], world.now)

    def run_pod(self, name: str, *, gpus: int = 1, owner: tuple[str, str] | None = None, **metadata: Any) -> None:
        """Let a pod of namespace ml run that tolerates every node."""
        if owner is not None:
            api = "batch/v1" if owner[0] == "Job" else "apps/v1"
            metadata["ownerReferences"] = [
                {"apiVersion": api, "kind": owner[0], "name": owner[1], "uid": "any", "controller": True}
            ]
        with self.sim.moved() as world:
            spec = a_template(gpus)["spec"] | {"tolerations": ANYWHERE}
            world.add_pod(pod_spec({"metadata": {"namespace": "ml", "name": name, **metadata}, "spec": spec}))
        self.sim.live.turn(timedelta(seconds=20))

    def node(self) -> str:
        """Return the one GPU node's name."""
        with self.sim.moved() as world:
            [name] = [n.name for n in world.nodes.values() if n.pool == GPU_POOL]
            return str(name)

    def queue_stops(self) -> object:
        """Return the ClusterQueue's stop policy."""
        [queue] = self.sim.live.custom.objects("kueue.x-k8s.io", "clusterqueues")
        return queue["spec"].get("stopPolicy")


# --- looking ----------------------------------------------------------------------------------------------


def sees_nodes_and_the_pods_on_them(stage: Stage) -> None:
    stage.run_pod("train")
    facts = stage.cluster().look()
    assert stage.node() in {n.name for n in facts.nodes}
    assert [(p.key, p.node) for p in facts.pods] == [("ml/train", stage.node())]


def lets_a_node_go_whose_system_pod_a_budget_covers(stage: Stage) -> None:
    owner = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "dns", "uid": "any", "controller": True}]
    metadata = {"namespace": "kube-system", "name": "dns-0", "labels": {"app": "dns"}, "ownerReferences": owner}
    with stage.sim.moved() as world:
        spec = {"containers": [{"name": "c"}], "nodeName": stage.node()}
        world.add_pod(pod_spec({"metadata": metadata, "spec": spec}))
        world.pdbs.append(Pdb(namespace="kube-system", selector={"app": "dns"}, min_available=0))
    assert [n.kept_by for n in stage.cluster().look().nodes if n.name == stage.node()] == [()]


def keeps_current(resource: str, use: Callable[[Stage], None]) -> Callable[[Stage], None]:
    """Return *use* by a cluster whose watch of *resource* must stand afterwards."""

    def watched(stage: Stage) -> None:
        connect, kept = stage.connect, list[KubernetesCluster]()

        def watching(**options: Any) -> KubernetesCluster:
            kept.append(connect(**options))
            kept[-1].watch(Watching(leads=lambda: True, wake=lambda: None), 1)
            return kept[-1]

        stage.connect = watching
        use(stage)
        [reflector] = [r for c in kept for r in c._lists._reflectors.values() if r.resource == resource]
        until(lambda: reflector._is_fresh() or reflector._failures > 0, "a watch")
        assert reflector._failures == 0

    return watched


def knows_the_minimum_of_a_coscheduled_gang(stage: Stage) -> None:
    with stage.sim.moved() as world:
        for n in range(3):
            labels = {"scheduling.x-k8s.io/pod-group": "pg"}
            metadata = {"namespace": "ml", "name": f"w-{n}", "labels": labels}
            world.add_pod(pod_spec({"metadata": metadata, "spec": a_template(8)["spec"]}))
    stage.put("scheduling.x-k8s.io/v1alpha1", "PodGroup", a_group("pg", 2))
    assert {p.gang_min for p in stage.cluster().look().pods} == {2}


def knows_the_minimum_of_a_gang_of_volcano(stage: Stage) -> None:
    with stage.sim.moved() as world:
        for n in range(3):
            annotations = {"scheduling.k8s.io/group-name": "pg"}
            metadata = {"namespace": "ml", "name": f"w-{n}", "annotations": annotations}
            world.add_pod(pod_spec({"metadata": metadata, "spec": a_template(8)["spec"]}))
    stage.put(ZERO_VERSION, "PodGroup", a_group("pg", 2))
    assert {p.gang_min for p in stage.cluster().look().pods} == {2}


def knows_the_policy_of(
    api: str, kind: str, group: dict[str, Any], pod: Callable[..., dict[str, Any]]
) -> Callable[[Stage], None]:
    """Return a use of the minimum of a gang of kube-scheduler, in the API of one version."""

    def use(stage: Stage) -> None:
        with stage.sim.moved() as world:
            for n in range(2):
                world.add_pod(pod_spec(pod(f"w-{n}", gpus=8)))
        stage.put(f"{SCHEDULING}/{api}", kind, group)
        assert {p.gang_min for p in stage.cluster().look().pods} == {2}

    return use


def knows_the_size_of_a_job_set(stage: Stage) -> None:
    with stage.sim.moved() as world:
        world.add_pod(pod_spec(in_job_set("w-0", gpus=8)))
    stage.put("jobset.x-k8s.io/v1alpha2", "JobSet", a_job_set(a_replicated_job("workers", 2)))
    assert {p.gang_min for p in stage.cluster().look().pods} == {2}


def knows_the_workers_of_a_leader(stage: Stage) -> None:
    with stage.sim.moved() as world:
        world.add_pod(pod_spec(in_worker_set(size=2, gpus=8)))
    stage.sim.live.turn(timedelta(seconds=20))
    stage.put("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", a_worker_set(2, gpus=4))
    assert {p.gpus for p in stage.cluster().look().pods} == {4, 8}


def counts_the_queue_of_volcano_by_its_jobs_and_classes(stage: Stage) -> None:
    owned = {"ownerReferences": owned_by_vcjob("train")}
    group = a_group("small", 2, priorityClassName="production", **owned)
    stage.put(ZERO_VERSION, "PodGroup", group, a_group("large", 8, minResources=of_gpus(8)))
    stage.put(ZERO_VERSION, "Queue", a_queue(capability=4))
    stage.put(
        "batch.volcano.sh/v1alpha1", "Job", a_vcjob("train", {"name": "w", "replicas": 2, "template": a_template(2)})
    )
    stage.put("scheduling.k8s.io/v1", "PriorityClass", {"metadata": {"name": "production"}, "value": 1000})
    found = [(p.key, p.gpus, p.priority) for p in stage.cluster(volcano_podgroups=True).look().pods]
    assert found == [("ml/small/0", 2, 1000), ("ml/small/1", 2, 1000)]


def counts_the_queue_of_kueue(stage: Stage) -> None:
    stage.put("kueue.x-k8s.io/v1beta2", "Workload", a_workload())
    assert len(stage.cluster(kueue_queued=True).look().pods) == 2


def buys_nothing_for_work_of_another_cluster(stage: Stage) -> None:
    api = "kueue.x-k8s.io/v1beta2"
    check = {"metadata": {"name": "mk"}, "spec": {"controllerName": "kueue.x-k8s.io/multikueue"}}
    stage.put(api, "AdmissionCheck", check)
    stage.put(api, "ClusterQueue", {"metadata": {"name": "cq"}, "spec": {"admissionChecks": ["mk"]}})
    other = {"metadata": {"namespace": "ml", "name": "others"}, "spec": {"clusterQueue": "cq"}}
    stage.put(api, "LocalQueue", other)
    stage.put(api, "Workload", a_workload("here"))
    stage.put(api, "Workload", a_workload("elsewhere", queueName="others"))
    assert {pod.gang for pod in stage.cluster(kueue_queued=True).look().pods} == {"ml/here"}


def publish_a_gpu(stage: Stage) -> None:
    """A DRA driver shows a GPU of the node, which the class ``gpu`` serves as a resource."""
    name = stage.node()
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    devices = {"driver": "gpu.nvidia.com", "nodeName": name, "pool": pool, "devices": [{"name": "gpu-0"}]}
    stage.put(DRA, "ResourceSlice", {"metadata": {"name": "slice"}, "spec": devices})
    stage.put(DRA, "DeviceClass", {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": GPU}})


def answers_a_check(stage: Stage) -> None:
    _a_checked_workload(stage)
    cluster = stage.cluster()
    found = cluster.look().requests
    assert [pod.scheduling.node_selector for candidate in found for pod in candidate.pods] == [{"gpu": "on-demand"}]
    assert cluster.keep_active("kueue_check").did is Did.DONE
    ready = RoomAnswer(kind="kueue_check", key=found[0].key, state="Ready")
    assert cluster.answer_request(ready).did is Did.DONE


def _a_checked_workload(stage: Stage) -> None:
    api, quota = "kueue.x-k8s.io/v1beta2", {"type": "QuotaReserved", "status": "True"}
    assigned = {"podSetAssignments": [{"name": "main", "count": 1, "flavors": {GPU: "l40s"}}]}
    workload = a_workload("train", conditions=[quota])
    workload["status"] |= {"admission": assigned, "admissionChecks": [{"name": "budget", "state": "Pending"}]}
    stage.put(api, "AdmissionCheck", {"metadata": {"name": "budget"}, "spec": {"controllerName": BUDGET_CHECK}})
    stage.put(api, "ResourceFlavor", {"metadata": {"name": "l40s"}, "spec": {"nodeLabels": {"gpu": "on-demand"}}})
    stage.put(api, "Workload", workload)


def books_nodes(stage: Stage) -> None:
    stage.put("v1", "PodTemplate", {"metadata": {"namespace": "ml", "name": "ppt"}, "template": a_template(1)})
    pod_sets = [{"podTemplateRef": {"name": "ppt"}, "count": 2}]
    spec = {"provisioningClassName": PROVISIONING_CLASS, "podSets": pod_sets}
    stage.put(SCALING_VERSION, "ProvisioningRequest", {"metadata": {"namespace": "ml", "name": "r"}, "spec": spec})
    cluster = stage.cluster()
    found = cluster.look().requests
    assert [(len(booking.pods), booking.problem) for booking in found] == [(2, "")]
    accepted = RoomAnswer(kind="provisioning_requests", key="ml/r", state="Accepted", reason="NodesAreComing")
    assert cluster.answer_request(accepted).did is Did.DONE


def knows_whose_gpus_a_dra_driver_serves(stage: Stage) -> None:
    publish_a_gpu(stage)
    facts = stage.cluster().look()
    assert [n.name for n in facts.nodes if n.dra] == [stage.node()]
    assert facts.dra_resources == {GPU: ()}


def knows_which_devices_a_rule_taints(stage: Stage) -> None:
    publish_a_gpu(stage)
    rule = {"deviceSelector": {"driver": "gpu.nvidia.com"}, "taint": {"key": "repair", "effect": "NoSchedule"}}
    stage.put(DRA, "DeviceTaintRule", {"metadata": {"name": "repair"}, "spec": rule})
    [shown] = [n.devices for n in stage.cluster().look().nodes if n.devices is not None]
    assert [t.key for device in shown.devices for t in device.taints] == ["repair"]


def knows_what_a_pod_claims(stage: Stage) -> None:
    publish_a_gpu(stage)
    asked = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": 2}}]}}
    made = {"name": "two", "namespace": "ml"}
    stage.put(DRA, "ResourceClaimTemplate", {"metadata": made, "spec": {"spec": asked}})
    claims = [{"name": "gpus", "resourceClaimTemplateName": "two"}]
    with stage.sim.moved() as world:
        spec = a_template(0)["spec"] | {"tolerations": ANYWHERE, "resourceClaims": claims}
        world.add_pod(pod_spec({"metadata": {"namespace": "ml", "name": "claims"}, "spec": spec}))
    stage.sim.live.turn(timedelta(seconds=20))
    [pod] = [p for p in stage.cluster().look().pods if p.name == "claims"]
    assert [way.count for claim in pod.claiming.claims for ways in claim.requests for way in ways] == [2]


def knows_what_is_kept_out(stage: Stage) -> None:
    stage.put("kueue.x-k8s.io/v1beta2", "ClusterQueue", {**CLUSTER_QUEUE})
    assert stage.cluster().held_places(queues=True) == HeldPlaces()


# --- acting -----------------------------------------------------------------------------------------------


def cordons_a_node(stage: Stage) -> None:
    assert stage.cluster().cordon(stage.node(), "a1").did is Did.DONE
    with stage.sim.moved() as world:
        assert world.nodes[stage.node()].unschedulable


def knows_whether_it_may_remove_nodes(stage: Stage) -> None:
    assert stage.cluster().missing_rights() == ()


def evicts_a_pod_without_gpus(stage: Stage) -> None:
    spec = a_template(0)["spec"] | {"tolerations": ANYWHERE, "nodeSelector": {"gpu": "on-demand"}}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "any", "controller": True}
    metadata = {"namespace": "ml", "name": "web-1-0", "ownerReferences": [owner]}
    with stage.sim.moved() as world:
        world.add_pod(pod_spec({"metadata": metadata, "spec": spec}))
    stage.sim.live.turn(timedelta(seconds=20))
    with stage.sim.moved() as world:  # by hand: to cordon is a right of its own
        world.patch_node(stage.node(), unschedulable=True, annotations={CORDON_ANNOTATION: "a1"})
    with pytest.raises(TryLater, match="still leaving"):
        stage.cluster().drain(stage.node())
    stage.sim.live.turn(timedelta(seconds=60))
    with stage.sim.moved() as world:
        assert ("ml", "web-1-0") not in world.active_pods


def tells_the_owner_of_a_pod(stage: Stage) -> None:
    stage.run_pod("train")
    cluster = stage.cluster()
    [pod] = cluster.look().pods
    assert cluster.record_event(pod, reason="TriggeredScaleUp", message="a node comes").did is Did.DONE
    with stage.sim.moved() as world:
        assert [e.reason for e in world.events if e.reason == "TriggeredScaleUp"]


def keeps_a_namespace_shut_and_opens_it(stage: Stage) -> None:
    cluster = stage.cluster()
    assert cluster.hold_namespace("ml", [GPU], []).did is Did.DONE
    assert cluster.held_places(queues=False) == HeldPlaces(namespaces=("ml",))
    assert cluster.release_namespace("ml").did is Did.DONE


def holds_a_queue_and_releases_it(stage: Stage) -> None:
    stage.put("kueue.x-k8s.io/v1beta2", "ClusterQueue", {**CLUSTER_QUEUE})
    cluster = stage.cluster()
    cluster.hold_queue("gpus")
    assert stage.queue_stops() == "Hold"
    cluster.release_queue("gpus")
    assert stage.queue_stops() is None


def _scaled(stage: Stage) -> None:
    cluster = stage.cluster()
    pod: Pod
    [pod] = cluster.look().pods
    assert cluster.scale_to_zero(pod).did is Did.DONE
    stage.sim.live.turn(timedelta(seconds=60))
    with stage.sim.moved() as world:
        assert not [name for namespace, name in world.active_pods if namespace == "ml"]


def admits_work_that_may_wait(stage: Stage) -> None:
    spec = PodSpec(namespace="ml", name="train", requests={GPU: 1}, annotations={MAY_WAIT: "4h"}, gate=MAY_WAIT)
    with stage.sim.moved() as world:
        world.add_pod(spec)
    cluster = stage.cluster()
    [pod] = cluster.look().pods
    assert cluster.admit(pod).did is Did.DONE


CONSENTS = {IDLE_SHUTDOWN_ANNOTATION: "2h"}


def scales_an_idle_deployment_to_zero(stage: Stage) -> None:
    labels = {"pod-template-hash": "5d9c"}
    stage.run_pod("web-5d9c-0", owner=("ReplicaSet", "web-5d9c"), labels=labels, annotations=CONSENTS)
    _scaled(stage)


def scales_an_idle_replica_set_to_zero(stage: Stage) -> None:
    stage.run_pod("alone-0", owner=("ReplicaSet", "alone"), annotations=CONSENTS)
    _scaled(stage)


def scales_an_idle_stateful_set_to_zero(stage: Stage) -> None:
    stage.run_pod("db-0", owner=("StatefulSet", "db"), annotations=CONSENTS)
    _scaled(stage)


def suspends_an_idle_job(stage: Stage) -> None:
    job = {"id": "train", "namespace": "ml", "duration": "10h", "annotations": CONSENTS, "tolerations": ANYWHERE}
    stage.sim.live.submit([job])
    stage.sim.live.turn(timedelta(seconds=20))
    _scaled(stage)


def keeps_room_for_a_buffer(kind: str, group: str = "") -> Callable[[Stage], None]:
    """Return the use of a buffer that refers to an object of *kind*."""

    def used(stage: Stage) -> None:
        _a_buffer_of(stage, kind, group)
        assert [b.copies for b in stage.cluster().look().requests] == [2]

    return used


def knows_other_installations(stage: Stage) -> None:
    spec = {"leaseDurationSeconds": 180, "renewTime": "2999-01-01T00:00:00Z"}
    metadata = {"namespace": "other", "name": "gpu-autoscaler", "labels": {INSTALLATION: "true"}}
    stage.put("coordination.k8s.io/v1", "Lease", {"metadata": metadata, "spec": spec})
    others = stage.cluster(installation=Own(key="gpu-autoscaler/own")).look().others
    assert [each.key for each in others.installations] == ["other/gpu-autoscaler"], others.unread


def tells_other_installations_of_itself(stage: Stage) -> None:
    first, second = (stage.cluster(installation=Own(key="gpu-autoscaler/own")) for _ in range(2))
    assert first.make_known(()).did is Did.DONE
    assert second.make_known(()).did is Did.DONE  # renewed, after a restart


def says_what_is_kept_of_a_buffer(stage: Stage) -> None:
    _a_buffer_of(stage, "PodTemplate", "")
    cluster = stage.cluster()
    [buffer] = cluster.look().requests
    assert cluster.answer_request(RoomAnswer(kind=buffer.kind, key=buffer.key)).did is Did.DONE


def _a_buffer_of(stage: Stage, kind: str, group: str) -> None:
    template, metadata = a_template(1), {"namespace": "ml", "name": "serve"}
    reference: dict[str, Any] = {"podTemplateRef": {"name": "serve"}}
    if kind == "PodTemplate":
        stage.put("v1", kind, {"metadata": metadata, "template": template})
    else:
        reference = {"scalableRef": {"apiGroup": group, "kind": kind, "name": "serve"}}
        stage.put(f"{group}/v1".lstrip("/"), kind, {"metadata": metadata, "spec": {"template": template}})
    buffer = {"metadata": {"namespace": "ml", "name": "warm"}, "spec": {**reference, "replicas": 2}}
    stage.put("autoscaling.x-k8s.io/v1beta1", "CapacityBuffer", buffer)


Use = Callable[[Stage], None]
Right = tuple[str, str, str]  # group, resource, verb

APPS: Sequence[tuple[str, Use]] = (
    ("deployments", scales_an_idle_deployment_to_zero),
    ("replicasets", scales_an_idle_replica_set_to_zero),
    ("statefulsets", scales_an_idle_stateful_set_to_zero),
)
# What system:basic-user gives everybody who is let in: no role of ours grants it, and no test takes it away.
EVERYBODYS = frozenset({("authorization.k8s.io", "selfsubjectaccessreviews", "create")})
LISTED: dict[Right, Use] = {
    ("", "nodes", "list"): sees_nodes_and_the_pods_on_them,
    ("", "pods", "list"): sees_nodes_and_the_pods_on_them,
    ("policy", "poddisruptionbudgets", "list"): lets_a_node_go_whose_system_pod_a_budget_covers,
    ("scheduling.x-k8s.io", "podgroups", "list"): knows_the_minimum_of_a_coscheduled_gang,
    (SCHEDULING, "podgroups", "list"): knows_the_policy_of(
        "v1beta1", "PodGroup", a_pod_group(gang_of(2)), in_pod_group
    ),
    (SCHEDULING, "workloads", "list"): knows_the_policy_of(
        "v1alpha1", "Workload", a_native_workload(workers=gang_of(2)), in_workload
    ),
    ("jobset.x-k8s.io", "jobsets", "list"): knows_the_size_of_a_job_set,
    ("leaderworkerset.x-k8s.io", "leaderworkersets", "list"): knows_the_workers_of_a_leader,
    ("scheduling.volcano.sh", "podgroups", "list"): knows_the_minimum_of_a_gang_of_volcano,
    ("scheduling.volcano.sh", "queues", "list"): counts_the_queue_of_volcano_by_its_jobs_and_classes,
    ("batch.volcano.sh", "jobs", "list"): counts_the_queue_of_volcano_by_its_jobs_and_classes,
    ("scheduling.k8s.io", "priorityclasses", "list"): counts_the_queue_of_volcano_by_its_jobs_and_classes,
    ("kueue.x-k8s.io", "workloads", "list"): counts_the_queue_of_kueue,
    ("kueue.x-k8s.io", "localqueues", "list"): buys_nothing_for_work_of_another_cluster,
    ("kueue.x-k8s.io", "admissionchecks", "list"): answers_a_check,
    ("kueue.x-k8s.io", "resourceflavors", "list"): answers_a_check,
    ("resource.k8s.io", "resourceslices", "list"): knows_whose_gpus_a_dra_driver_serves,
    ("resource.k8s.io", "deviceclasses", "list"): knows_whose_gpus_a_dra_driver_serves,
    ("resource.k8s.io", "devicetaintrules", "list"): knows_which_devices_a_rule_taints,
    ("resource.k8s.io", "resourceclaims", "list"): knows_what_a_pod_claims,
    ("resource.k8s.io", "resourceclaimtemplates", "list"): knows_what_a_pod_claims,
    ("autoscaling.x-k8s.io", "capacitybuffers", "list"): keeps_room_for_a_buffer("PodTemplate"),
    ("autoscaling.x-k8s.io", "provisioningrequests", "list"): books_nodes,
    ("", "podtemplates", "list"): keeps_room_for_a_buffer("PodTemplate"),
    ("", "replicationcontrollers", "list"): keeps_room_for_a_buffer("ReplicationController"),
    ("apps", "deployments", "list"): keeps_room_for_a_buffer("Deployment", "apps"),
    ("apps", "replicasets", "list"): keeps_room_for_a_buffer("ReplicaSet", "apps"),
    ("apps", "statefulsets", "list"): keeps_room_for_a_buffer("StatefulSet", "apps"),
    ("batch", "jobs", "list"): keeps_room_for_a_buffer("Job", "batch"),
    ("", "resourcequotas", "list"): knows_what_is_kept_out,
    ("kueue.x-k8s.io", "clusterqueues", "list"): knows_what_is_kept_out,
}
USES: dict[Right, Use] = {
    **LISTED,
    **{
        (group, resource, "watch"): keeps_current(f"{resource}.{group}" if "." in group else resource, use)
        for (group, resource, _), use in LISTED.items()
    },
    ("coordination.k8s.io", "leases", "list"): knows_other_installations,
    ("coordination.k8s.io", "leases", "create"): tells_other_installations_of_itself,
    ("coordination.k8s.io", "leases", "patch"): tells_other_installations_of_itself,
    ("authorization.k8s.io", "selfsubjectaccessreviews", "create"): knows_whether_it_may_remove_nodes,
    ("", "nodes", "get"): cordons_a_node,
    ("", "nodes", "patch"): cordons_a_node,
    ("", "pods/eviction", "create"): evicts_a_pod_without_gpus,
    ("", "events", "create"): tells_the_owner_of_a_pod,
    ("", "resourcequotas", "create"): keeps_a_namespace_shut_and_opens_it,
    ("", "resourcequotas", "get"): keeps_a_namespace_shut_and_opens_it,
    ("", "resourcequotas", "delete"): keeps_a_namespace_shut_and_opens_it,
    ("kueue.x-k8s.io", "clusterqueues", "patch"): holds_a_queue_and_releases_it,
    ("kueue.x-k8s.io", "admissionchecks/status", "patch"): answers_a_check,
    ("kueue.x-k8s.io", "workloads/status", "patch"): answers_a_check,
    ("autoscaling.x-k8s.io", "capacitybuffers/status", "patch"): says_what_is_kept_of_a_buffer,
    ("autoscaling.x-k8s.io", "provisioningrequests/status", "patch"): books_nodes,
    ("", "pods", "get"): suspends_an_idle_job,
    ("", "pods", "patch"): admits_work_that_may_wait,
    **{("apps", resource, "get"): use for resource, use in APPS},
    **{("apps", f"{resource}/scale", "patch"): use for resource, use in APPS},
    ("batch", "jobs", "get"): suspends_an_idle_job,
    ("batch", "jobs", "patch"): suspends_an_idle_job,
}
