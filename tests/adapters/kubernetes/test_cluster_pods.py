"""Kubernetes JSON as values: what a pod asks for, where it stands, and whether it may leave a node."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from receiver.adapters.kubernetes.affinity import NEVER
from receiver.adapters.kubernetes.nodes import gpus, node_from
from receiver.adapters.kubernetes.pods import DrainFate, SeenPod
from receiver.core.model.devices import CLAIMS
from receiver.core.model.pods import PodPhase, Preference, Requirement, Toleration
from receiver.core.model.policy import Taint
from receiver.core.model.text import harmless
from receiver.ports import (
    GANG_ANNOTATION,
    GANG_SIZE_ANNOTATION,
    IDLE_SHUTDOWN_ANNOTATION,
    KEEP_UNTIL_ANNOTATION,
    PROTECT_ANNOTATION,
    TryLater,
)
from tests.adapters.kubernetes.kubernetes_objects import a_node, a_pod, owned_by

GPU = "nvidia.com/gpu"


def container(requests: int = 0, limits: int = 0, *, sidecar: bool = False, resource: str = GPU) -> dict[str, Any]:
    resources = {"requests": {resource: str(requests)} if requests else {}}
    if limits:
        resources["limits"] = {resource: str(limits)}
    return {"name": "c", "resources": resources, **({"restartPolicy": "Always"} if sidecar else {})}


@pytest.mark.parametrize(
    "containers, init, effective",
    [
        ([container(2), container(1)], [], {GPU: 3}),
        ([container(1)], [container(4)], {GPU: 4}),
        ([container(3)], [container(2), container(1)], {GPU: 3}),
        ([container(1)], [container(1, sidecar=True)], {GPU: 2}),
        ([container(1)], [container(1, sidecar=True), container(2)], {GPU: 3}),
        ([container(1)], [container(2), container(1, sidecar=True)], {GPU: 2}),
        ([container(limits=2)], [], {GPU: 2}),
        ([container(1, limits=2)], [], {GPU: 1}),
        ([container(1), container(2, resource="nvidia.com/mig-1g.10gb")], [], {GPU: 1, "nvidia.com/mig-1g.10gb": 2}),
        ([container()], [], {}),
        ([container(1, resource="amd.com/gpu")], [], {}),
        ([container(1), container(1, resource="nvidia.com/hostdev")], [], {GPU: 1}),
        ([container(4, resource="nvidia.com/gpu.shared")], [], {"nvidia.com/gpu.shared": 4}),
    ],
    ids=[
        "containers add up",
        "one init container outweighs",
        "init containers do not add up",
        "a sidecar adds to the containers",
        "a sidecar adds to the init containers after it",
        "a sidecar does not add to the init containers before it",
        "a limit stands in for a request",
        "a request outranks the limit",
        "resources are kept apart",
        "no GPU",
        "another vendor",
        "a network card is no GPU",
        "time slices",
    ],
)
def test_the_effective_request_follows_the_scheduler(
    containers: list[dict[str, Any]], init: list[dict[str, Any]], effective: dict[str, int]
) -> None:
    assert SeenPod({"spec": {"containers": containers, "initContainers": init}}).gpus == effective


def test_a_runtimes_overhead_comes_on_top() -> None:
    overhead = {"overhead": {"memory": "160Mi", GPU: "1"}}
    assert SeenPod({"spec": {"containers": [container(2)], "initContainers": [container(3)], **overhead}}).gpus == {
        GPU: 4
    }


def beside(**resources: str) -> dict[str, Any]:
    return {"resources": {"requests": resources}}


@pytest.mark.parametrize(
    ("spec", "effective"),
    [
        ({"containers": [beside(cpu="500m"), beside(cpu="1.5", memory="1Gi")]}, {"cpu": 2000, "memory": 2**30}),
        ({"containers": [beside(cpu="1")], "initContainers": [beside(cpu="3")]}, {"cpu": 3000}),
        (
            {"containers": [beside(cpu="1")], "initContainers": [{**beside(cpu="3"), "restartPolicy": "Always"}]},
            {"cpu": 4000},
        ),
        (
            {"containers": [beside(cpu="1")], "overhead": {"cpu": "250m", "memory": "100M"}},
            {"cpu": 1250, "memory": 10**8},
        ),
        ({"containers": [beside(cpu="1")], **beside(cpu="8")}, {"cpu": 8000}),
        ({"containers": [{"resources": {"limits": {"cpu": "2", "memory": "1k"}}}]}, {"cpu": 2000, "memory": 1000}),
        (
            {"containers": [beside(**{"ephemeral-storage": "2Gi", "hugepages-2Mi": "1Gi"})]},
            {"ephemeral-storage": 2**31},
        ),
        ({"containers": [beside(cpu="0.0001", memory="0")]}, {"cpu": 1}),
        ({"containers": [beside(cpu="many"), beside(cpu="1")]}, {"cpu": 1000}),
        ({"containers": [beside(memory="1e999999999")]}, {"memory": 2**60}),
        ({"containers": [{}]}, {}),
    ],
    ids=[
        "the sum",
        "an init container",
        "a sidecar",
        "overhead",
        "the pod as a whole",
        "limits",
        "storage",
        "rounded up",
        "not understood",
        "out of all proportion",
        "nothing",
    ],
)
def test_compute_resources_follow_the_scheduler_and_take_a_slot(
    spec: dict[str, Any], effective: dict[str, int]
) -> None:
    assert SeenPod({"spec": spec}).compute == {**effective, "pods": 1}


def test_a_bound_pod_with_a_device_of_unknown_kind_holds_its_node() -> None:
    spec = {"containers": [container(1, resource="nvidia.com/a100")]}
    assert SeenPod({"spec": {**spec, "nodeName": "gpu-1"}}).gpus == {"nvidia.com/a100": 1}
    assert SeenPod({"spec": spec}).gpus == {}


def test_a_bound_pod_with_claimed_devices_holds_its_node() -> None:
    spec = {"containers": [container()], "resourceClaims": [{"name": "gpu"}]}
    assert SeenPod({"spec": {**spec, "nodeName": "gpu-1"}}).gpus == {CLAIMS: 1}
    assert SeenPod({"spec": spec}).gpus == {}


@pytest.mark.parametrize(
    "pod, phase",
    [
        (a_pod(), PodPhase.WAITING),
        (a_pod(conditions=[]), PodPhase.OTHER),
        (a_pod(conditions=[{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]), PodPhase.OTHER),
        (a_pod(schedulingGates=[{"name": "kueue.x-k8s.io/admission"}]), PodPhase.OTHER),
        (a_pod(nominatedNodeName="gpu-1"), PodPhase.RESERVED),
        (a_pod(nominatedNodeName="gpu-1", conditions=[]), PodPhase.RESERVED),
        (a_pod(nominatedNodeName="gpu-1", schedulingGates=[{"name": "theirs"}]), PodPhase.OTHER),
        (a_pod(nominatedNodeName="gpu-1", deletionTimestamp="2026-11-20T10:05:00Z"), PodPhase.WAITING),
        (a_pod(nominatedNodeName="gpu-1", node="gpu-2"), PodPhase.RUNNING),
        (a_pod(node="gpu-1", phase="Pending"), PodPhase.STARTING),
        (a_pod(node="gpu-1"), PodPhase.RUNNING),
        (a_pod(node="gpu-1", phase="Unknown"), PodPhase.RUNNING),
    ],
    ids=[
        "unschedulable",
        "not tried",
        "gated",
        "gates",
        "preempts",
        "is prepared",
        "nominated and gated",
        "nominated and deleted",
        "nominated and bound elsewhere",
        "bound",
        "running",
        "node lost",
    ],
)
def test_a_pod_stands_where_the_scheduler_and_the_kubelet_say(pod: dict[str, Any], phase: PodPhase) -> None:
    assert SeenPod(pod).phase is phase


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_terminated_pod_is_left_out(phase: str) -> None:
    assert SeenPod(a_pod(node="gpu-1", phase=phase)).pod is None


def test_a_pod_without_gpus_is_left_out() -> None:
    assert SeenPod(a_pod(gpus=0)).pod is None


def test_a_pod_carries_what_decides_where_it_fits() -> None:
    pod = SeenPod(
        a_pod(
            gpus=2,
            nodeSelector={"gpu": "on-demand"},
            priority=1000,
            labels={"team": "vision"},
            tolerations=[{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}, {"key": "a", "value": "b"}],
            ownerReferences=owned_by("Job", "train"),
        )
    ).pod
    assert pod is not None
    assert (pod.key, pod.uid, pod.gpus, pod.node) == ("ml/train-0", "uid-of-train-0", 2, None)
    assert pod.created_at == datetime(2026, 11, 20, 10, tzinfo=UTC)
    assert (pod.scheduling.node_selector, pod.priority, pod.labels) == ({"gpu": "on-demand"}, 1000, {"team": "vision"})
    assert pod.scheduling.tolerations == (
        Toleration(key="gpu", operator="Exists", effect="NoSchedule"),
        Toleration(key="a", operator="Equal", value="b"),
    )
    assert (pod.owner, pod.daemon, pod.terminating, pod.gang) == ("Job/train", False, False, None)
    assert pod.owner_uid == "uid-of-Job-train"


def test_the_image_of_a_pod_is_that_of_the_container_that_gets_the_gpus() -> None:
    raw = a_pod(gpus=1)
    (main,) = raw["spec"]["containers"]
    raw["spec"]["containers"] = [{"name": "proxy", "image": "proxy:1"}, {**main, "image": "train:2"}]
    pod = SeenPod(raw).pod
    assert pod is not None
    assert pod.scheduling.image == "train:2"


def test_an_image_is_read_whatever_stands_in_a_limit() -> None:
    raw = a_pod(gpus=1)
    raw["spec"]["containers"][0] |= {"image": "train:2"}
    raw["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": "many"}
    assert SeenPod(raw).main_image == "train:2"


def test_a_pod_whose_containers_name_no_image_has_none() -> None:
    raw = a_pod(gpus=1)
    raw["spec"]["containers"][0].pop("image", None)
    pod = SeenPod(raw).pod
    assert pod is not None
    assert pod.scheduling.image == ""


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def test_required_node_affinity_becomes_alternatives_of_requirements() -> None:
    terms = (
        {
            "matchExpressions": [
                {"key": "gpu", "operator": "In", "values": ["a", "b"]},
                {"key": "x", "operator": "Exists"},
            ]
        },
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-1"]}]},
    )
    pod = SeenPod(a_pod(affinity=affinity(*terms))).pod
    assert pod is not None
    assert pod.scheduling.affinity == (
        (Requirement(key="gpu", operator="In", values=("a", "b")), Requirement(key="x", operator="Exists")),
        (Requirement(key="field metadata.name", operator="In", values=("gpu-1",)),),
    )


def test_an_empty_affinity_term_matches_no_node_instead_of_every_node() -> None:
    pod = SeenPod(a_pod(affinity=affinity({}))).pod
    assert pod is not None
    assert pod.scheduling.affinity == ((NEVER,),)


def test_preferred_affinity_is_a_weighted_wish_and_no_requirement() -> None:
    wish = {"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["l40s"]}]}
    terms = [{"weight": 10, "preference": wish}, {"weight": 5, "preference": {}}]
    pod = SeenPod(a_pod(affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}})).pod
    assert pod is not None
    term = (Requirement(key="gpu", operator="In", values=("l40s",)),)
    assert (pod.scheduling.affinity, pod.scheduling.preferred) == ((), (Preference(weight=10, term=term),))


SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"


@pytest.mark.parametrize(
    "annotations, evictable, protected",
    [
        ({}, False, False),
        ({SAFE: "true"}, True, False),
        ({SAFE: "false"}, False, True),
        ({SAFE: "maybe"}, False, False),
        ({PROTECT_ANNOTATION: "true"}, False, True),
        ({PROTECT_ANNOTATION: "false"}, False, False),
        ({SAFE: "true", PROTECT_ANNOTATION: "true"}, False, True),
    ],
)
def test_an_owner_consents_or_protects(annotations: dict[str, str], evictable: bool, protected: bool) -> None:
    pod = SeenPod(a_pod(annotations=annotations)).pod
    assert pod is not None
    assert (pod.wishes.evictable, pod.wishes.protected) == (evictable, protected)


def test_an_idle_shutdown_and_its_snooze_are_read() -> None:
    annotations = {IDLE_SHUTDOWN_ANNOTATION: "1h30m", KEEP_UNTIL_ANNOTATION: "2026-11-21T20:00:00+02:00"}
    pod = SeenPod(a_pod(annotations=annotations)).pod
    assert pod is not None
    assert (pod.wishes.idle_shutdown, pod.wishes.keep_until) == (
        timedelta(minutes=90),
        datetime(2026, 11, 21, 18, tzinfo=UTC),
    )
    assert SeenPod(a_pod(annotations=annotations)).doubts == []


@pytest.mark.parametrize(
    "name, text",
    [
        (IDLE_SHUTDOWN_ANNOTATION, "2 hours"),
        (IDLE_SHUTDOWN_ANNOTATION, "0s"),
        (KEEP_UNTIL_ANNOTATION, "tomorrow"),
        (KEEP_UNTIL_ANNOTATION, "9999-12-31T23:59:59-08:00"),
        (GANG_SIZE_ANNOTATION, "-1"),
        (GANG_SIZE_ANNOTATION, "0"),
    ],
)
def test_an_annotation_that_cannot_be_read_has_no_effect_and_is_named(name: str, text: str) -> None:
    raw = a_pod(annotations={name: text, GANG_ANNOTATION: "big"})
    pod = SeenPod(raw).pod
    assert pod is not None
    assert (pod.wishes.idle_shutdown, pod.wishes.keep_until, pod.gang_min) == (None, None, None)
    (doubt,) = SeenPod(raw).doubts
    assert doubt.startswith(f'pod ml/train-0: annotation {name} is "{text}"')


def test_a_book_in_an_annotation_is_not_told_whole() -> None:
    (doubt,) = SeenPod(a_pod(annotations={IDLE_SHUTDOWN_ANNOTATION: "a word " * 10_000})).doubts
    assert len(doubt) < 300


def test_the_schedulers_own_words_are_kept() -> None:
    words = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}
    pod = SeenPod(a_pod(conditions=[{"type": "Ready", "status": "False", "message": "no"}, refused])).pod
    assert pod is not None
    assert pod.scheduler_says == words


@pytest.mark.parametrize(
    "declared",
    [
        {"annotations": {GANG_ANNOTATION: "big"}},
        {"labels": {"scheduling.x-k8s.io/pod-group": "big"}},
        {"annotations": {"scheduling.k8s.io/group-name": "big"}},
        {"annotations": {"scheduling.volcano.sh/group-name": "big"}},
        {"labels": {"kueue.x-k8s.io/pod-group-name": "big"}},
        {"annotations": {GANG_ANNOTATION: "big"}, "labels": {"kueue.x-k8s.io/pod-group-name": "other"}},
    ],
)
def test_a_declared_gang_is_named_with_its_namespace(declared: dict[str, Any]) -> None:
    pod = SeenPod(a_pod(**declared)).pod
    assert pod is not None
    assert pod.gang == "ml/big"


def test_only_the_controller_counts_as_owner() -> None:
    pod = SeenPod(a_pod(ownerReferences=owned_by("DaemonSet", controller=False))).pod
    assert pod is not None
    assert (pod.owner, pod.owner_uid, pod.daemon) == ("", "", False)


@pytest.mark.parametrize(
    "text", ["a" * 9000, "\U0001f600" * 9000, "a\n" * 9000, "\u202e\x00\u0007", " \n@channel  pay\n"]
)
def test_names_that_kubernetes_does_not_check_are_one_short_line(text: str) -> None:
    """An index of PostgreSQL refuses a name of 9000 characters, and with it everybody's step."""
    reference = {"apiVersion": "x/v1", "kind": text, "name": text, "uid": text, "controller": True}
    pod = SeenPod(a_pod(annotations={GANG_ANNOTATION: text}, ownerReferences=[reference])).pod
    assert pod is not None
    for said in (pod.owner.partition("/")[0], pod.owner.partition("/")[2], pod.owner_uid, (pod.gang or "")[3:]):
        assert 0 < len(said.encode()) <= 253
        assert " ".join(said.split()) == harmless(said) == said


def test_a_daemonsets_pod_and_a_leaving_pod_are_marked() -> None:
    pod = SeenPod(a_pod(ownerReferences=owned_by("DaemonSet", "dcgm"), deletionTimestamp="2026-11-20T10:05:00Z")).pod
    assert pod is not None
    assert (pod.owner, pod.daemon, pod.terminating) == ("DaemonSet/dcgm", True, True)
    assert pod.times.leaves_at == datetime(2026, 11, 20, 10, 5, tzinfo=UTC)


def test_a_deletion_at_a_time_that_cannot_be_read_was_long_ago() -> None:
    pod = SeenPod(a_pod(deletionTimestamp="soon")).pod
    assert pod is not None
    assert pod.times.leaves_at is not None
    assert pod.times.leaves_at.year == 1


@pytest.mark.parametrize("text", [None, "", "yesterday"])
def test_a_pod_without_a_readable_age_is_named(text: object) -> None:
    with pytest.raises(TryLater, match="creationTimestamp of pod ml/train-0"):
        assert SeenPod(a_pod(creationTimestamp=text)).pod


@pytest.mark.parametrize(
    "pod, what",
    [
        (a_pod(node="n"), DrainFate.HOLDS_GPU),
        (a_pod(node="n", deletionTimestamp="2026-11-20T10:05:00Z"), DrainFate.HOLDS_GPU),
        (a_pod(node="n", annotations={"kubernetes.io/config.mirror": "x"}), DrainFate.HOLDS_GPU),
        (a_pod(node="n", ownerReferences=owned_by("DaemonSet")), DrainFate.STAYS),
        (a_pod(node="n", phase="Succeeded"), DrainFate.STAYS),
        (a_pod(gpus=0, node="n", annotations={"kubernetes.io/config.mirror": "x"}), DrainFate.STAYS),
        (a_pod(gpus=0, node="n", ownerReferences=owned_by("ReplicaSet")), DrainFate.GOES),
        (a_pod(gpus=0, node="n", deletionTimestamp="2026-11-20T10:05:00Z"), DrainFate.LEAVES),
        (a_pod(gpus=0, node="n", annotations={PROTECT_ANNOTATION: "true"}), DrainFate.PROTECTED),
        (a_pod(gpus=0, node="n", annotations={PROTECT_ANNOTATION: "false"}), DrainFate.GOES),
        (
            a_pod(gpus=0, node="n", annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}),
            DrainFate.PROTECTED,
        ),
        (a_pod(gpus=0, node="n", labels={"app.kubernetes.io/name": "prometheus"}), DrainFate.HOSTS),
        (a_pod(gpus=0, node="n", labels={"app.kubernetes.io/name": "gpu-autoscaler"}), DrainFate.HOSTS),
        (a_pod(gpus=0, node="n", labels={"app.kubernetes.io/name": "web"}), DrainFate.GOES),
    ],
)
def test_what_draining_means_for_a_pod(pod: dict[str, Any], what: DrainFate) -> None:
    assert SeenPod(pod).fate() is what


def test_a_node_is_read_with_instance_gpus_labels_and_taints() -> None:
    node = node_from(a_node(taints=[{"key": "gpu", "value": "true", "effect": "NoSchedule"}]))
    assert (node.name, node.instance, node.ready, node.unschedulable) == ("gpu-1", "instance-of-gpu-1", True, False)
    assert node.allocatable == {GPU: 1}
    assert node.labels == {"kubernetes.civo.com/civo-node-pool": "pool-a"}
    assert node.taints == (Taint(key="gpu", value="true", effect="NoSchedule"),)


@pytest.mark.parametrize(
    "conditions",
    [[{"type": "Ready", "status": "False"}], [{"type": "Ready", "status": "Unknown"}], [], None],
)
def test_only_a_true_ready_condition_makes_a_node_ready(conditions: object) -> None:
    assert not node_from(a_node(conditions=conditions)).ready


@pytest.mark.parametrize("provider", ["", "aws:///x", None])
def test_a_node_of_another_provider_has_no_instance(provider: object) -> None:
    assert node_from(a_node(provider_id=provider)).instance == ""


@pytest.mark.parametrize("quantity, units", [("8", 8), (8, 8), ("2k", 2000)])
def test_quantities_are_read_as_kubernetes_writes_them(quantity: object, units: int) -> None:
    assert gpus({GPU: quantity, "cpu": "4"}) == {GPU: units}


@pytest.mark.parametrize("quantity", ["9223372036854775807", "1e99999", 10**400])
def test_a_quantity_beyond_every_node_stays_a_number_that_is_quick_to_work_with(quantity: object) -> None:
    assert gpus({GPU: quantity}) == {GPU: 10**9}
    assert gpus({GPU: f"-{quantity}"}) == {}


def test_a_gpu_that_is_not_allocatable_yet_is_left_out() -> None:
    assert gpus({GPU: "0"}) == {}


def test_a_quantity_that_cannot_be_read_is_named() -> None:
    with pytest.raises(TryLater, match=GPU):
        gpus({GPU: "many"})


def running(*started: str | None) -> dict[str, Any]:
    """A pod on a node whose containers began to run then; None: one that waits to be started again."""
    raw = a_pod(node="gpu-1")
    states = [{"running": {"startedAt": at}} if at else {"waiting": {"reason": "CrashLoopBackOff"}} for at in started]
    raw["status"]["containerStatuses"] = [{"name": "c", "state": state} for state in states]
    return raw


@pytest.mark.parametrize(
    "started, since",
    [
        (("2026-11-20T10:05:00Z", "2026-11-20T10:07:00Z"), datetime(2026, 11, 20, 10, 7, tzinfo=UTC)),
        (("2026-11-20T10:05:00Z", None), None),
        ((), None),
    ],
    ids=["all of them", "one does not run", "nothing is known"],
)
def test_a_pod_runs_since_its_last_container_began_to(started: tuple[str | None, ...], since: datetime | None) -> None:
    pod = SeenPod(running(*started)).pod
    assert pod is not None
    assert pod.times.running_since == since


def test_a_pod_says_its_priority_class_and_when_it_was_given_its_node() -> None:
    bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-20T10:04:00Z"}
    pod = SeenPod(a_pod(node="gpu-1", priorityClassName="urgent", conditions=[bound])).pod
    assert pod is not None
    assert (pod.priority_class, pod.times.bound_at) == ("urgent", datetime(2026, 11, 20, 10, 4, tzinfo=UTC))


def test_a_pod_that_waits_has_no_time_of_binding() -> None:
    pod = SeenPod(a_pod()).pod
    assert pod is not None
    assert (pod.priority_class, pod.times.bound_at) == ("", None)
