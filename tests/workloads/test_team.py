"""What a team's namespace promises: limits in GPUs, walls between tenants, and pods that its security level takes."""

from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from receiver.config import load_text
from receiver.ports import QUOTA_NAME
from tests.lint import load_yaml, none_of
from tests.workloads.files import CONFIGURATION, WORKLOADS, of_kind, pods

JSON = dict[str, Any]
POLICIES = {o.body["metadata"]["name"]: o.body["spec"] for o in of_kind("NetworkPolicy")}
QUOTAS = {o.body["metadata"]["name"]: o.body["spec"] for o in of_kind("ResourceQuota")}
RESTRICTED = {
    o.body["metadata"]["name"]
    for o in of_kind("Namespace")
    if o.body["metadata"]["labels"].get("pod-security.kubernetes.io/enforce") == "restricted"
}
POOLS = load_text(CONFIGURATION.read_text(encoding="utf-8")).policy.pools


def test_the_quota_names_every_resource_that_a_pool_offers_and_the_budgets_hold_has_its_own_name() -> None:
    assert set(QUOTAS["gpus"]["hard"]) == {f"requests.{name}" for pool in POOLS for name in pool.resources}
    assert QUOTA_NAME not in QUOTAS


def test_production_is_given_out_by_quota() -> None:
    [scope] = QUOTAS["production-gpus"]["scopeSelector"]["matchExpressions"]
    assert scope == {"scopeName": "PriorityClass", "operator": "In", "values": ["production"]}
    assert int(QUOTAS["production-gpus"]["hard"]["requests.nvidia.com/gpu"]) < int(
        QUOTAS["gpus"]["hard"]["requests.nvidia.com/gpu"]
    )


def test_a_container_may_ask_for_what_a_node_has_and_gets_no_gpu_that_it_did_not_ask_for() -> None:
    [limits] = of_kind("LimitRange")
    [item] = limits.body["spec"]["limits"]
    largest = max(pool.resources.get("nvidia.com/gpu", 0) for pool in POOLS)
    assert int(item["max"]["nvidia.com/gpu"]) == largest
    assert (item["default"]["nvidia.com/gpu"], item["defaultRequest"]["nvidia.com/gpu"]) == ("0", "0")


def test_everything_is_closed_first_and_names_can_be_looked_up() -> None:
    assert POLICIES["default-deny"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    [dns] = POLICIES["dns"]["egress"]
    assert {(p["protocol"], p["port"]) for p in dns["ports"]} == {("UDP", 53), ("TCP", 53)}
    assert [set(peer) for peer in dns["to"]] == [{"namespaceSelector", "podSelector"}]  # one peer: both must hold


def test_only_the_own_namespace_and_the_monitoring_come_in() -> None:
    peers = [peer for spec in POLICIES.values() for rule in spec.get("ingress", ()) for peer in rule["from"]]
    monitoring = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    assert peers == [{"podSelector": {}}, monitoring]


def test_the_internet_is_for_pods_that_ask_and_leaves_out_what_is_private() -> None:
    [rule] = POLICIES["internet"]["egress"]
    [peer] = rule["to"]
    assert POLICIES["internet"]["podSelector"] == {"matchLabels": {"network": "internet"}}
    assert {"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"} <= set(peer["ipBlock"]["except"])


def unrestricted(raw: JSON) -> Iterator[str]:
    """Yield what the restricted level of Pod Security has against a pod."""
    spec = raw["spec"]
    own = spec.get("securityContext", {})
    if raw["metadata"]["namespace"] not in RESTRICTED | {"default"}:
        yield "its namespace is not restricted"
    if own.get("runAsNonRoot") is not True:
        yield "may run as root"
    if own.get("seccompProfile") != {"type": "RuntimeDefault"}:
        yield "another seccomp profile"
    yield from {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
    kinds = {kind for volume in spec.get("volumes", ()) for kind in volume if kind != "name"}
    yield from kinds - {"configMap", "persistentVolumeClaim"}
    for container in containers(raw):
        context = container.get("securityContext", {})
        if context.get("allowPrivilegeEscalation") is not False or context.get("capabilities") != {"drop": ["ALL"]}:
            yield f"container {container['name']} may gain privileges"


def unsaid(raw: JSON) -> Iterator[str]:
    """Yield what the containers of a pod leave open of their image, CPU and memory."""
    for container in containers(raw):
        _, _, tag = container["image"].rpartition("/")[2].partition(":")
        requests = container["resources"]["requests"]
        if tag in ("", "latest"):
            yield f"image {container['image']}"
        if Decimal(str(requests.get("cpu", "9")).replace("m", "e-3")) > 8:
            yield f"CPUs of {container['name']}"
        if "memory" not in requests:
            yield f"memory of {container['name']}"


def containers(raw: JSON) -> list[JSON]:
    """Return the containers of a pod, those that run first too."""
    return [*raw["spec"].get("initContainers", ()), *raw["spec"]["containers"]]


@pytest.mark.parametrize("wrong", [unrestricted, unsaid])
def test_the_pods_of_these_files_are_restricted_and_say_what_they_need(wrong: Callable[[JSON], Iterator[str]]) -> None:
    assert len(pods()) > 8
    none_of(f"{made.of.name}: {found}" for made in pods() for found in wrong(made.raw))


def listed() -> set[Path]:
    """Return the files that some kustomization applies."""
    return {
        kustomization.parent / resource
        for kustomization in WORKLOADS.rglob("kustomization.yaml")
        for resource in load_yaml(kustomization.read_text(encoding="utf-8"))["resources"]
    }


def test_every_file_is_applied_by_a_kustomization_or_says_that_it_is_not() -> None:
    aside = {"kustomization.yaml", "values.yaml", CONFIGURATION.name}
    files = {file for file in WORKLOADS.rglob("*.yaml") if file.name not in aside}
    assert listed() <= files
    none_of(str(f) for f in sorted(files - listed()) if "# Not part of" not in f.read_text(encoding="utf-8"))


def test_what_every_cluster_takes_includes_a_whole_team() -> None:
    whole = {file for file in (WORKLOADS / "team").glob("*.yaml") if file.name != "kustomization.yaml"}
    root = load_yaml((WORKLOADS / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    assert whole <= {WORKLOADS / resource for resource in root}
