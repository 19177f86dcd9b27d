"""The fence around the account's rights: what RBAC would let it change, the product never changes, and the policy of
k8s/install/fence.yaml refuses."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from receiver.adapters.http.sessions import Calls
from receiver.adapters.kubernetes import api
from receiver.adapters.kubernetes.cluster import ClusterOptions, connect
from receiver.ports import MAY_WAIT, TryLater, WontWork
from receiver.replay.world.objects import PodSpec
from simulator.clocks import ManualClock
from simulator.manifests import pod_spec
from simulator.server import Simulator
from tests.adapters.kubernetes.custom_objects import a_template, a_workload
from tests.docs.pages import section, table
from tests.lint import none_of
from tests.manifests.roles import EVERY_RULE, FENCE, rights
from tests.manifests.uses import ANYWHERE, GPU, Stage
from tests.simulator.builders import START, config

JSON = dict[str, Any]
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
OTHERS = "example.com/review"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A write that the role allows. *node* stands for the one GPU node's name."""

    right: tuple[str, str, str]
    path: str
    body: JSON
    parts: Sequence[str] = ()
    content: str | None = api.MERGE


def on_node(metadata: JSON | None = None, **spec: Any) -> Attempt:
    body = {"metadata": metadata or {}, "spec": spec}
    return Attempt(right=("", "nodes", "patch"), path=api.NODE, parts=("node",), body=body)


def on_pod(name: str, metadata: JSON | None = None, **spec: Any) -> Attempt:
    body = {"metadata": metadata or {}, "spec": spec}
    return Attempt(right=("", "pods", "patch"), path=api.POD, parts=("ml", name), body=body)


def on_job(**body: Any) -> Attempt:
    return Attempt(right=("batch", "jobs", "patch"), path=api.JOB, parts=("ml", "train"), body=body)


def on_queue(**spec: Any) -> Attempt:
    path = f"{KUEUE}/clusterqueues/gpus"
    return Attempt(right=("kueue.x-k8s.io", "clusterqueues", "patch"), path=path, body={"spec": spec})


def scaled(namespace: str, replicas: int) -> Attempt:
    right, path = ("apps", "replicasets/scale", "patch"), f"{api.REPLICA_SET}/scale"
    return Attempt(right=right, path=path, parts=(namespace, "web"), body={"spec": {"replicas": replicas}})


def a_quota(name: str, **hard: str) -> Attempt:
    body = {"metadata": {"name": name, "namespace": "ml"}, "spec": {"hard": hard}}
    right = ("", "resourcequotas", "create")
    return Attempt(right=right, path=api.QUOTAS_OF, parts=("ml",), body=body, content=None)


def an_event(component: str) -> Attempt:
    about = {"kind": "Pod", "namespace": "ml", "name": "runs"}
    body = {"metadata": {"name": "e", "namespace": "ml"}, "involvedObject": about, "reportingComponent": component}
    return Attempt(right=("", "events", "create"), path=api.EVENTS_OF, parts=("ml",), body=body, content=None)


ATTEMPTS: Mapping[str, Attempt] = {
    "run another image in a running pod": on_pod("runs", containers=[{"name": "main", "image": "evil"}]),
    "let a running pod onto other nodes": on_pod("runs", tolerations=[{"operator": "Exists", "key": "x"}]),
    "annotate a pod": on_pod("gated", {"annotations": {"a": "b"}}, schedulingGates=None),
    "open the gate of another controller": on_pod("theirs", schedulingGates=None),
    "open a gate and change the pod": on_pod("gated", schedulingGates=None, nodeSelector={"a": "b"}),
    "evict everything from a node": on_node(taints=[{"key": "gone", "effect": "NoExecute"}]),
    "let everything onto a node": on_node(taints=None),
    "take a label from a node": on_node({"labels": {"gpu": None}}),
    "call a node another host": on_node({"labels": {"kubernetes.io/hostname": "other"}}),
    "make a node a control plane": on_node({"labels": {"node-role.kubernetes.io/control-plane": ""}}),
    "write an annotation of others on a node": on_node({"annotations": {OTHERS: "ok"}}),
    "name another machine for a node": on_node(providerID="civo://other"),
    "change a Job": on_job(spec={"suspend": True, "parallelism": 50}),
    "label a Job": on_job(spec={"suspend": True}, metadata={"labels": {"a": "b"}}),
    "leave a Job running": on_job(spec={"suspend": False}),
    "scale a workload up": scaled("ml", 5),
    "scale a workload of the system down": scaled("kube-system", 0),
    "create a ResourceQuota of another name": a_quota("mine", **{f"requests.{GPU}": "0"}),
    "keep all pods out of a namespace": a_quota("gpu-autoscaler-budget-hold", pods="0"),
    "speak as another component": an_event("kubelet"),
    "stop running work of a ClusterQueue": on_queue(stopPolicy="HoldAndDrain"),
    "change the quota of a ClusterQueue": on_queue(stopPolicy="Hold", resourceGroups=[]),
    "admit a Workload of Kueue": Attempt(
        right=("kueue.x-k8s.io", "workloads/status", "patch"),
        path=f"{KUEUE}/namespaces/ml/workloads/job-train/status",
        body={"status": {"admission": {"clusterQueue": "gpus"}}},
    ),
}
# Rights that the policy does not bound: what they can do is in the table of docs/security.md.
UNBOUNDED = {
    ("", "pods/eviction", "create"),
    ("", "resourcequotas", "delete"),  # by name, in the role
    ("kueue.x-k8s.io", "admissionchecks/status", "patch"),
    ("autoscaling.x-k8s.io", "capacitybuffers/status", "patch"),
    *(("coordination.k8s.io", "leases", verb) for verb in ("create", "patch")),  # in the own namespace, by the Role
    ("autoscaling.x-k8s.io", "provisioningrequests/status", "patch"),
}


@contextmanager
def staged(folder: Path, policies: Sequence[JSON]) -> Iterator[Stage]:
    """A cluster with something of each kind, whose caller has every right of the product."""
    given = config(kubernetes={"rules": EVERY_RULE, "policies": tuple(policies), "daemonsets": False})
    with Simulator(given, clock=ManualClock(START)) as sim:
        sim.live.turn(timedelta(minutes=3))
        path = sim.kubeconfig(folder / "kubeconfig")
        stage = Stage(
            sim, lambda **options: connect(str(path), calls=Calls(timeouts=(10, 30)), options=ClusterOptions(**options))
        )
        stage.run_pod("runs")
        stage.run_pod("web-0", owner=("ReplicaSet", "web"))
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "any", "controller": True}
        system = {"namespace": "kube-system", "name": "web-0", "ownerReferences": [owner]}
        job = {"id": "train", "namespace": "ml", "duration": "10h", "tolerations": ANYWHERE}
        sim.live.submit([job])
        with sim.moved() as world:
            world.add_pod(pod_spec({"metadata": system, "spec": a_template(0)["spec"]}))
            world.add_pod(PodSpec(namespace="ml", name="gated", requests={GPU: 1}, gate=MAY_WAIT))
            world.add_pod(PodSpec(namespace="ml", name="theirs", requests={GPU: 1}, gate=OTHERS))
        queue = {"metadata": {"name": "gpus"}, "spec": {"resourceGroups": [{"flavors": []}]}}
        stage.put("kueue.x-k8s.io/v1beta2", "ClusterQueue", queue)
        stage.put("kueue.x-k8s.io/v1beta2", "Workload", a_workload("job-train"))
        try:
            yield stage
        finally:
            for cluster in stage.opened:
                cluster.close()


def refusal(stage: Stage, attempt: Attempt) -> str:
    """Return what the API server says to *attempt*; empty when it is done."""
    parts = [stage.node() if part == "node" else part for part in attempt.parts]
    _, resource, verb = attempt.right
    try:
        stage.cluster()._wire.ask(verb, resource, attempt.path, *parts, attempt.body, content=attempt.content)
    except (WontWork, TryLater) as error:
        return str(error)
    return ""


def test_the_fence_refuses_what_the_product_never_does(tmp_path: Path) -> None:
    with staged(tmp_path, FENCE) as stage:
        answers = {what: refusal(stage, attempt) for what, attempt in ATTEMPTS.items()}
    none_of(f"{what}: {said or 'done'}" for what, said in answers.items() if "ValidatingAdmissionPolicy" not in said)


def test_without_the_fence_the_role_allows_all_of_it(tmp_path: Path) -> None:
    with staged(tmp_path, ()) as stage:
        answers = {what: refusal(stage, attempt) for what, attempt in ATTEMPTS.items()}
    none_of(f"{what}: {said}" for what, said in answers.items() if " cannot " in said)


def test_the_fence_leaves_everybody_else_alone(tmp_path: Path) -> None:
    with staged(tmp_path, FENCE) as stage:
        stage.sim.live.user = "ada"
        answers = [refusal(stage, attempt) for attempt in ATTEMPTS.values()]
    none_of(said for said in answers if "ValidatingAdmissionPolicy" in said)


WRITES = {"create", "patch", "delete"}


def test_every_right_to_write_is_bounded_or_named_as_unbounded() -> None:
    bounded = {attempt.right for attempt in ATTEMPTS.values()}
    bounded |= {("apps", f"{plural}/scale", "patch") for plural in ("deployments", "statefulsets")}  # as replicasets
    writes = {right for right in rights(EVERY_RULE) if right[2] in WRITES}
    assert (writes, bounded & UNBOUNDED) == (bounded | UNBOUNDED, set())


def test_the_page_on_security_has_each_right_to_write() -> None:
    page = Path("docs/security.md").read_text(encoding="utf-8")
    rows = table(section(page, "What its rights could do"))
    named = {name.strip("`") for row in rows for name in row[0].split(", ")}
    assert named == {f"{verb} {resource}" for _, resource, verb in rights(EVERY_RULE) if verb in WRITES}


@pytest.mark.parametrize("right", sorted(UNBOUNDED))
def test_what_is_unbounded_is_no_right_to_run_anything(right: tuple[str, str, str]) -> None:
    assert right[1].endswith(("/status", "/eviction")) or right[1] == "leases" or right[2] == "delete"
