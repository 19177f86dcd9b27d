"""Which nodes node affinity matches, by the cases of Kubernetes' own tests (`TestMatchNodeSelectorTerms`,
`TestNodeSelectorMatch`, labels' `TestRequirementConstructor` and `TestToString`)."""

from typing import Any

import pytest

from receiver.adapters.kubernetes.pods import SeenPod
from receiver.core.model.pods import Requirement
from receiver.core.scaling.demand import meets, misfit
from receiver.replay.world.scheduler import selects
from tests.core.builders import a_pool

Terms = list[dict[str, Any]] | None
TIME = "2026-11-20T12:00:00Z"


def requirement(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("operator", "values", "labels", "expected"),
    [
        ("In", ("a", "b"), {"k": "a"}, True),
        ("In", ("a", "b"), {"k": "c"}, False),
        ("In", ("a",), {}, False),
        ("In", ("",), {}, False),
        ("In", ("",), {"k": ""}, True),
        ("In", (), {"k": "a"}, False),
        ("NotIn", ("a",), {"k": "b"}, True),
        ("NotIn", ("a",), {"k": "a"}, False),
        ("NotIn", ("a",), {}, True),
        ("NotIn", (), {"k": "a"}, False),
        ("Exists", (), {"k": ""}, True),
        ("Exists", (), {}, False),
        ("Exists", ("a",), {"k": "a"}, False),
        ("DoesNotExist", (), {}, True),
        ("DoesNotExist", (), {"k": ""}, False),
        ("DoesNotExist", ("a",), {}, False),
        ("Gt", ("1",), {"k": "2"}, True),
        ("Gt", ("2",), {"k": "2"}, False),
        ("Gt", ("1",), {}, False),
        ("Gt", ("1", "2"), {"k": "3"}, False),
        ("Gt", (), {"k": "3"}, False),
        ("Gt", ("1",), {"k": "many"}, False),
        ("Gt", ("many",), {"k": "1"}, False),
        ("Gt", ("1",), {"k": "1_0"}, False),
        ("Gt", ("1",), {"k": " 2"}, False),
        ("Gt", ("1",), {"k": "2.5"}, False),
        ("Gt", ("1",), {"k": "+2"}, True),
        ("Gt", ("007",), {"k": "008"}, True),
        ("Gt", ("-2",), {"k": "-1"}, True),
        ("Gt", ("0",), {"k": "9223372036854775807"}, True),
        ("Gt", ("0",), {"k": "9223372036854775808"}, False),
        ("Lt", ("5",), {"k": "4"}, True),
        ("Lt", ("5",), {"k": "5"}, False),
        ("Lt", ("5",), {"k": "6"}, False),
        ("Lt", ("5",), {}, False),
        ("in", ("a",), {"k": "a"}, False),
        ("", ("a",), {"k": "a"}, False),
    ],
)
def test_a_requirement_is_met_as_the_scheduler_reads_it(
    operator: str, values: tuple[str, ...], labels: dict[str, str], expected: bool
) -> None:
    assert meets(labels, Requirement(key="k", operator=operator, values=values)) is expected


@pytest.mark.parametrize("operator", ["Gt", "Lt"])
@pytest.mark.parametrize("label", ["4", "5", "6", "+5", "05", "1_0", "", "-", "９", "9" * 63])
def test_the_simulated_scheduler_compares_the_same(operator: str, label: str) -> None:
    want = Requirement(key="k", operator=operator, values=("5",))
    assert meets({"k": label}, want) is selects({"k": label}, {}, ((want,),))


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        (None, True),
        ([], False),
        ([{}], False),
        ([{"matchExpressions": [], "matchFields": []}], False),
        ([{}, {"matchExpressions": [requirement("gpu", "In", "on-demand")]}], True),
        ([{"matchExpressions": [requirement("gpu", "In", "on-demand")]}], True),
        ([{"matchExpressions": [requirement("gpu", "In", "on-demand"), requirement("gpu", "NotIn", "x")]}], True),
        ([{"matchExpressions": [requirement("gpu", "In", "on-demand"), requirement("zone", "Exists")]}], False),
        ([{"matchExpressions": [requirement("gpu", "In", "spot")]}], False),
        (
            [
                {"matchExpressions": [requirement("gpu", "In", "spot")]},
                {"matchExpressions": [requirement("gpu", "In", "on-demand")]},
            ],
            True,
        ),
        ([{"matchFields": [requirement("metadata.name", "In", "n1")]}], False),
        ([{"matchFields": [requirement("metadata.name", "NotIn", "n1")]}], True),
        ([{"matchFields": [requirement("metadata.name", "NotIn", "n1", "n2")]}], False),
        ([{"matchFields": [requirement("metadata.name", "DoesNotExist")]}], False),
        ([{"matchFields": [requirement("gpu", "In", "on-demand")]}], False),
        ([{"matchExpressions": [requirement("metadata.name", "In", "n1")]}], False),
        (
            [
                {
                    "matchExpressions": [requirement("gpu", "In", "on-demand")],
                    "matchFields": [requirement("metadata.name", "In", "n1")],
                }
            ],
            False,
        ),
        (
            [
                {"matchFields": [requirement("metadata.name", "In", "n1")]},
                {"matchExpressions": [requirement("gpu", "In", "on-demand")]},
            ],
            True,
        ),
    ],
    ids=[
        "no affinity",
        "no terms match no node",
        "an empty term matches no node",
        "a term of empty lists matches no node",
        "beside an empty term another counts",
        "a label",
        "two requirements on one label",
        "one of two requirements",
        "another value",
        "the second alternative",
        "the name of a living node is none of the next one",
        "every name but that of a living node",
        "a field takes one value",
        "a field knows two operators",
        "a label is no field",
        "a field is no label",
        "labels and fields of one term",
        "either of two terms",
    ],
)
def test_a_new_node_is_matched_as_the_scheduler_will_match_it(terms: Terms, expected: bool) -> None:
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": "1"}}}],
        "affinity": {"nodeAffinity": affinity if terms is not None else {}},
    }
    pod = SeenPod({"metadata": {"name": "p", "namespace": "ml", "creationTimestamp": TIME}, "spec": spec}).pod
    assert pod is not None
    assert (misfit(pod, a_pool("l40s", labels={"gpu": "on-demand"})) is None) is expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [({"gpu": "on-demand"}, True), ({"gpu": ""}, False), ({"zone": ""}, False), ({}, True)],
)
def test_a_node_selector_wants_each_label_with_its_value(selector: dict[str, str], expected: bool) -> None:
    spec = {
        "containers": [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": "1"}}}],
        "nodeSelector": selector,
    }
    pod = SeenPod({"metadata": {"name": "p", "namespace": "ml", "creationTimestamp": TIME}, "spec": spec}).pod
    assert pod is not None
    assert (misfit(pod, a_pool("l40s", labels={"gpu": "on-demand"})) is None) is expected
