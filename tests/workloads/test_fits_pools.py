"""The pods of k8s/workloads are demand of the pools of the shipped configurations, by the product's own code."""

from dataclasses import replace
from pathlib import Path

from receiver.adapters.kubernetes.budget_hold import quota
from receiver.adapters.kubernetes.pods import DrainFate, SeenPod
from receiver.config import FileSettings, load_text
from receiver.core.model.pods import Pod, PodPhase
from receiver.core.model.policy import Policy
from receiver.core.money.budget import passes_hold
from receiver.core.scaling.assign import assign
from receiver.core.scaling.demand import misfit, workloads
from tests.core.builders import a_state, facts
from tests.lint import none_of
from tests.manifests.built import installed, the
from tests.workloads.files import CONFIGURATION, PodMade, of_kind, pods

WANTED_POOL = {
    "Pod/gpu-test": "l40s",
    "Pod/notebook": "l40s-shared",
    "Pod/classifier": "a100-mig",
    "Job/train": "l40s",
    "Job/embed": "l40s",
    "Job/train-distributed": "l40s",
    "Job/evaluate": "l40s",
    "Deployment/inference": "l40s",
    "Deployment/inference-office-hours": "l40s",
}
DAEMONS = [made for made in pods() if made.of.kind == "DaemonSet"]
WORKERS = [made for made in pods() if made.of.kind != "DaemonSet"]
CLASSES = {o.body["metadata"]["name"]: o.body for o in of_kind("PriorityClass")}


def settings(file: Path) -> FileSettings:
    """Return what the configuration in *file* says."""
    return load_text(file.read_text(encoding="utf-8"))


def short(made: PodMade) -> str:
    """Return ``Kind/name`` of what the pod comes of."""
    return f"{made.of.kind}/{made.of.body['metadata']['name']}"


def as_demand(made: PodMade) -> Pod:
    """Return the pod as the adapter reads it, with the priority that its class gives it."""
    named = made.raw["spec"].get("priorityClassName")
    made.raw["spec"]["priority"] = CLASSES[named]["value"] if named else 0
    pod = SeenPod(made.raw).pod
    assert pod is not None, made.of.name
    assert SeenPod(made.raw).doubts == []
    return pod


def fitting(pod: Pod, policy: Policy) -> list[str]:
    """Return the names of the pools whose nodes can hold *pod*."""
    return [pool.name for pool in policy.pools if misfit(pod, pool) is None]


def test_each_pod_of_these_files_fits_exactly_the_pool_that_it_is_for() -> None:
    policy = settings(CONFIGURATION).policy
    fits = {short(made): fitting(as_demand(made), policy) for made in WORKERS}
    assert fits == {name: [pool] for name, pool in WANTED_POOL.items()}


def test_there_is_a_pod_here_for_every_pool_of_the_example() -> None:
    assert {WANTED_POOL[short(made)] for made in WORKERS} == {p.name for p in settings(CONFIGURATION).policy.pools}


def test_each_waiting_pod_counts_as_demand_of_its_pool_and_nodes_are_wanted_for_it() -> None:
    policy = replace(settings(CONFIGURATION).policy, budget=None)
    waiting = [replace(as_demand(made), gang=None, gang_min=None) for made in WORKERS]
    assignment = assign(facts(*(a_state(pool=p.id) for p in policy.pools), waiting=waiting), policy)
    assert assignment.misfits == ()
    wanted = {policy.pool(i).name: w for i, w in assignment.pools.items() if policy.pool(i) is not None}  # type: ignore[union-attr]
    counted = {name: {x.key for x in w.work.asking} for name, w in wanted.items()}
    for made, pod in zip(WORKERS, waiting, strict=True):
        assert pod.key in counted[WANTED_POOL[short(made)]]
    assert {name: w.allowed.limits for name, w in wanted.items()} == {"l40s": 7, "l40s-shared": 1, "a100-mig": 1}


def test_each_pod_for_whole_gpus_fits_the_pool_of_the_configuration_that_is_installed() -> None:
    policy = load_text(the(installed("observe"), "ConfigMap")["data"]["config.yaml"]).policy
    whole = [made for made in WORKERS if WANTED_POOL[short(made)] == "l40s"]
    none_of(short(made) for made in whole if fitting(as_demand(made), policy) != ["l40s"])


def test_the_daemonset_of_these_files_is_no_demand_and_keeps_no_node() -> None:
    [made] = DAEMONS
    assert SeenPod(made.raw).pod is None  # asks for no GPU: it is not even looked at
    assert SeenPod(made.raw).fate() is DrainFate.STAYS  # goes with its node


def test_a_daemonset_pod_is_on_the_nodes_of_every_pool_before_the_gpu_operator_has_labelled_them() -> None:
    [made] = DAEMONS
    policy = settings(CONFIGURATION).policy
    [term] = made.raw["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    [wants] = term["matchExpressions"]
    assert set(wants["values"]) == {pool.labels[wants["key"]] for pool in policy.pools}


def test_a_gpu_in_the_daemonset_would_hold_a_gpu_of_every_node() -> None:
    [made] = DAEMONS
    made.raw["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "1"
    pod = SeenPod(made.raw).pod
    assert pod is not None
    assert pod.daemon
    assert workloads([replace(pod, phase=PodPhase.WAITING)]) == ()  # still no demand


def test_the_configuration_names_priority_classes_that_exist() -> None:
    found = settings(CONFIGURATION).configuration
    named = set(found.queue_wait) if "queue_wait" in found.model_fields_set else set()
    named |= set(found.budget.passing_priority_classes) if found.budget else set()
    assert named <= set(CLASSES)


def test_every_priority_class_has_its_own_wait_in_the_example() -> None:
    assert set(settings(CONFIGURATION).configuration.queue_wait) == set(CLASSES)


def test_of_these_pods_only_production_is_bought_for_beyond_the_hold_line() -> None:
    policy = settings(CONFIGURATION).policy
    passing = {short(made) for made in WORKERS if passes_hold(next(iter(workloads([as_demand_alone(made)]))), policy)}
    assert passing == {"Deployment/inference"}


def as_demand_alone(made: PodMade) -> Pod:
    """Return the pod without its gang."""
    return replace(as_demand(made), gang=None, gang_min=None)


def test_the_hold_keeps_out_every_class_but_production() -> None:
    settled = settings(CONFIGURATION)
    assert settled.configuration.budget is not None
    passing = settled.configuration.budget.passing_priority_classes
    [scope] = quota("team-vision", ["nvidia.com/gpu"], passing)["spec"]["scopeSelector"]["matchExpressions"]
    assert (scope["operator"], scope["values"]) == ("NotIn", ["production"])


def test_classes_are_served_in_the_order_that_their_comment_says_and_one_alone_pushes_others_out() -> None:
    ordered = sorted(CLASSES, key=lambda name: -CLASSES[name]["value"])
    assert ordered == ["production", "training", "development", "best-effort"]
    assert CLASSES["best-effort"]["value"] < 0 < CLASSES["development"]["value"]  # 0: no class
    pushing = [name for name, body in CLASSES.items() if body["preemptionPolicy"] != "Never"]
    assert pushing == ["production"]
    assert not any(body.get("globalDefault") for body in CLASSES.values())


def test_what_declares_a_gang_is_read_as_one() -> None:
    gangs = {short(made): as_demand(made).gang for made in WORKERS}
    assert {name: gang for name, gang in gangs.items() if gang} == {"Job/evaluate": "team-vision/evaluate"}


def test_only_what_resumes_from_a_checkpoint_consents_to_be_moved() -> None:
    consenting = {short(made) for made in WORKERS if as_demand(made).wishes.evictable}
    assert consenting == {"Job/train"}
