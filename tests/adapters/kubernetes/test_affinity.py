"""Required pod affinity, pod anti-affinity and topology spread over hosts, as pods declare them."""

from typing import Any

import pytest

from receiver.adapters.kubernetes.affinity import host_rules
from receiver.core.model.pods import HostRule, Requirement, Together

HOST = "kubernetes.io/hostname"
SELECTS = {"matchLabels": {"app": "a"}}
IS_A = Requirement(key="app", operator="In", values=("a",))
LABELS = {"app": "a", "pod-template-hash": "77"}


def term(**changes: Any) -> dict[str, Any]:
    return {"labelSelector": SELECTS, "topologyKey": HOST, **changes}


def of(kind: str, *terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def spread(**changes: Any) -> dict[str, Any]:
    constraint = {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": SELECTS}
    return {"topologySpreadConstraints": [{**constraint, **changes}]}


def apart(*selector: Requirement, namespaces: tuple[str, ...] | None = ("ml",)) -> HostRule:
    return HostRule(together=Together.NEVER, namespaces=namespaces, selector=selector)


EVERY = Requirement(key="app", operator="Exists")
NAME = "kubernetes.io/metadata.name"


@pytest.mark.parametrize(
    ("spec", "rule"),
    [
        pytest.param(of("podAntiAffinity", term()), apart(IS_A), id="anti-affinity"),
        pytest.param(
            of("podAffinity", term()),
            HostRule(together=Together.ALWAYS, namespaces=("ml",), selector=(IS_A,)),
            id="affinity",
        ),
        pytest.param(
            of("podAntiAffinity", term(labelSelector={"matchExpressions": [{"key": "app", "operator": "Exists"}]})),
            apart(EVERY),
            id="an expression",
        ),
        pytest.param(of("podAntiAffinity", term(labelSelector={})), apart(), id="an empty selector selects every pod"),
        pytest.param(
            of("podAntiAffinity", term(matchLabelKeys=["pod-template-hash", "absent"])),
            apart(IS_A, Requirement(key="pod-template-hash", operator="In", values=("77",))),
            id="keys whose values are the pod's",
        ),
        pytest.param(
            of("podAntiAffinity", term(mismatchLabelKeys=["pod-template-hash"])),
            apart(IS_A, Requirement(key="pod-template-hash", operator="NotIn", values=("77",))),
            id="keys whose values are not the pod's",
        ),
        pytest.param(
            of("podAntiAffinity", term(namespaces=["x", "b"])), apart(IS_A, namespaces=("b", "x")), id="namespaces"
        ),
        pytest.param(
            of("podAntiAffinity", term(namespaceSelector={})), apart(IS_A, namespaces=None), id="every namespace"
        ),
        pytest.param(
            of("podAntiAffinity", term(namespaceSelector={"matchLabels": {NAME: "x"}}, namespaces=["y"])),
            apart(IS_A, namespaces=("x", "y")),
            id="a namespace by its name, and another one",
        ),
        pytest.param(
            of("podAntiAffinity", term(namespaceSelector={"matchLabels": {"team": "vision"}})),
            apart(IS_A, namespaces=None),
            id="namespaces by labels that are not read count as all",
        ),
        pytest.param(spread(), HostRule(together=Together.EVENLY, namespaces=("ml",), selector=(IS_A,)), id="a spread"),
        pytest.param(
            spread(maxSkew=2, minDomains=3, matchLabelKeys=["pod-template-hash"]),
            HostRule(
                together=Together.EVENLY,
                namespaces=("ml",),
                selector=(IS_A, Requirement(key="pod-template-hash", operator="In", values=("77",))),
                max_skew=2,
                min_domains=3,
            ),
            id="a spread with all of its fields",
        ),
    ],
)
def test_a_required_rule_over_hosts_is_read(spec: dict[str, Any], rule: HostRule) -> None:
    assert host_rules(spec, "ml", LABELS) == (rule,)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="a pod without any"),
        pytest.param(of("podAntiAffinity", term(topologyKey="topology.kubernetes.io/zone")), id="over zones"),
        pytest.param(of("podAntiAffinity", {"topologyKey": HOST}), id="without a selector, which selects no pod"),
        pytest.param(spread(whenUnsatisfiable="ScheduleAnyway"), id="a spread that is a wish"),
        pytest.param(spread(topologyKey="topology.kubernetes.io/zone"), id="a spread over zones"),
        pytest.param(spread(labelSelector=None), id="a spread of no pods"),
        pytest.param(
            {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "podAffinityTerm": term()}]}}},
            id="a wish",
        ),
        pytest.param({"affinity": {"podAntiAffinity": "what"}, "topologySpreadConstraints": [7]}, id="nonsense"),
    ],
)  # fmt: skip
def test_what_keeps_no_pod_from_a_host_is_no_rule(spec: dict[str, Any]) -> None:
    assert host_rules(spec, "ml", LABELS) == ()
