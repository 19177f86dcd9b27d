"""The rights that docs/operations.md gives the autoscaler are those that its adapters use, and no other."""

import re
from collections.abc import Iterator

import yaml

from receiver.adapters import gangs, holding, queues, volcano
from receiver.adapters.custom_resources import Kind
from tests.docs.pages import ROOT, text_of

VERBS = {"list": "list", "read": "get", "patch": "patch", "create": "create", "delete": "delete"}
CALLED = re.compile(
    r"\b(list|read|patch|create|delete)_(?:namespaced_)?"
    r"(node|pod_eviction|pod|event|resource_quota|deployment_scale|replica_set_scale|stateful_set_scale"
    r"|deployment|replica_set|stateful_set|job)(?:_for_all_namespaces)?\b"
)
RESOURCES = {
    "node": ("", "nodes"),
    "pod": ("", "pods"),
    "pod_eviction": ("", "pods/eviction"),
    "event": ("", "events"),
    "resource_quota": ("", "resourcequotas"),
    "deployment": ("apps", "deployments"),
    "replica_set": ("apps", "replicasets"),
    "stateful_set": ("apps", "statefulsets"),
    "deployment_scale": ("apps", "deployments/scale"),
    "replica_set_scale": ("apps", "replicasets/scale"),
    "stateful_set_scale": ("apps", "statefulsets/scale"),
    "job": ("batch", "jobs"),
}


def _given() -> set[tuple[str, str, str]]:
    [role] = [
        found
        for block in re.findall(r"^```yaml\n(.*?)^```", text_of("docs/operations.md"), re.MULTILINE | re.DOTALL)
        if (found := yaml.safe_load(block)).__class__ is dict and found.get("kind") == "ClusterRole"
    ]
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def _used() -> Iterator[tuple[str, str, str]]:
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "receiver" / "adapters").glob("*.py"))
    for verb, what in CALLED.findall(code):
        yield *RESOURCES[what], VERBS[verb]
    for what in re.findall(r"wire\.watch\(\s*\"(\w+)\"", code):
        yield "", what, "watch"
    for module in (gangs, holding, queues, volcano):
        for kind in vars(module).values():
            if isinstance(kind, Kind):
                yield kind.group, kind.plural, "list"
    yield holding.CLUSTER_QUEUES.group, holding.CLUSTER_QUEUES.plural, "patch"


def test_the_rights_on_the_page_are_those_that_are_used() -> None:
    assert sorted(_given()) == sorted(set(_used()))


def test_no_call_to_the_cluster_is_of_a_kind_that_nobody_looks_for_here() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "receiver" / "adapters").glob("*.py"))
    every = set(re.findall(r"\b(?:list|read|patch|create|delete|replace)_(?:namespaced|cluster|node|pod)\w*\b", code))
    assert {call for call in every if not CALLED.fullmatch(call)} == {
        "list_cluster_custom_object",
        "patch_cluster_custom_object",
    }
