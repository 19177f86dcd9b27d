"""The rights that the doctor asks for are those of the ClusterRole; its own role is what it needs beside them."""

import re
from typing import Any

import pytest
import yaml

from receiver.adapters.kubernetes.pods import SeenPod
from receiver.capabilities.capability import RightsCase
from receiver.config import load_text
from receiver.doctor.checks import Finding
from receiver.doctor.kubernetes import AREA as KUBERNETES
from receiver.doctor.kubernetes import Needed, needed
from receiver.doctor.kueue import AREA as KUEUE
from receiver.doctor.rounds import go_round
from receiver.ports import IDLE_SHUTDOWN_ANNOTATION, MAY_WAIT
from tests.adapters.kubernetes.kubernetes_objects import a_pod
from tests.doctor.builders import document
from tests.doctor.cluster import a_cluster_queue, a_flavor, install_kueue, well_kept
from tests.doctor.conftest import Told
from tests.lint import load_yamls
from tests.manifests.built import INSTALLED, installed
from tests.manifests.roles import EVERY_RULE, OPTIONAL_ROLES, RBAC, ROLES, optional_rules, rights
from tests.simulator.builders import Starter

EVERY_GROUP = frozenset(
    {
        *("scheduling.x-k8s.io", "scheduling.volcano.sh", "kueue.x-k8s.io", "resource.k8s.io"),
        *("autoscaling.x-k8s.io", "scheduling.k8s.io/v1beta1", "jobset.x-k8s.io", "leaderworkerset.x-k8s.io"),
    }
)


def every_right() -> list[Needed]:
    """Return what a configuration with every feature on needs."""
    hold = {"namespaces": ["ml"], "kueue_cluster_queues": ["gpus"]}
    said = document(
        kueue={"demand": "queued"}, volcano={"demand": "podgroups"}, budget={"monthly_usd": 5000, "hold": hold}
    )
    gated = a_pod(schedulingGates=[{"name": MAY_WAIT}])
    pods = [SeenPod(gated), SeenPod(a_pod(annotations={IDLE_SHUTDOWN_ANNOTATION: "2h"}))]
    configuration = load_text(yaml.safe_dump(said)).configuration
    return list(needed(RightsCase(configuration=configuration, groups=EVERY_GROUP, pods=pods)))


def test_with_every_feature_on_the_rights_asked_for_are_those_of_the_cluster_roles() -> None:
    for role, acts in (("look", False), ("act", True)):
        asked = {(n.right.group, n.right.resource, n.right.verb) for n in every_right() if n.acts is acts}
        assert asked == set(rights(ROLES[role]))


@pytest.mark.parametrize("mode", ["act", "observe"])
def test_the_shipped_roles_are_enough_for_their_mode(start: Starter, told: Told, mode: str) -> None:
    granted = [r for r in load_yamls(RBAC) if r["kind"] == "ClusterRole"]
    rules = [rule for r in granted for rule in r["rules"] if mode == "act" or r["metadata"]["name"].endswith("-look")]
    sim = well_kept(start, kubernetes={"rules": rules})
    ((_, found),) = go_round([KUBERNETES], told(sim, document(mode=mode)))
    judged = [f.verdict for f in found if f.check == "kubernetes.rights"]
    assert judged == (["pass"] if mode == "act" else ["skip", "pass"])


def skipped(start: Starter, told: Told, rules: list[dict[str, Any]]) -> set[str]:
    """Return the checks that are skipped for want of a right, with *rules* beside the roles of the server."""
    server = [rule for found in load_yamls(RBAC) if found["kind"] == "ClusterRole" for rule in found["rules"]]
    sim = well_kept(start, kubernetes={"rules": [*server, *rules]})
    install_kueue(sim, a_flavor(), a_cluster_queue(4))
    found: list[Finding] = []
    for _, findings in go_round([KUBERNETES, KUEUE], told(sim, document(budget={"monthly_usd": 5000}))):
        found += findings
    assert [f for f in found if f.verdict == "fail"] == []
    return {f.check for f in found if f.verdict == "skip" and "gpu-autoscaler-doctor" in f.said}


def test_with_the_optional_role_nothing_is_skipped_for_want_of_a_right(start: Starter, told: Told) -> None:
    assert skipped(start, told, optional_rules()) == set()


@pytest.mark.parametrize("taken", optional_rules(), ids=lambda rule: rule["resources"][0])
def test_each_right_of_the_optional_role_is_missed_by_the_checks_that_it_names(
    start: Starter, told: Told, taken: dict[str, Any]
) -> None:
    text = OPTIONAL_ROLES["gpu-autoscaler-doctor"]
    [resource], [verb] = taken["resources"], taken["verbs"]
    [checks] = re.findall(rf"resources: \[{resource}\]\n  verbs:\n  - {verb} # (.+?);", text)
    missed = skipped(start, told, [rule for rule in optional_rules() if rule != taken])
    assert missed
    assert missed <= set(checks.split(", "))


def test_the_role_that_looks_reads_only_and_repeats_no_right_of_the_server() -> None:
    given = set(rights(optional_rules()))
    assert {verb for _, _, verb in given} == {"list"}
    assert not given & set(rights(EVERY_RULE))


def test_the_optional_roles_are_bound_to_our_service_account_and_to_nobody_else() -> None:
    for name, text in OPTIONAL_ROLES.items():
        objects = list(load_yamls(text))
        assert {o["metadata"]["name"] for o in objects} == {name}
        [binding] = [o for o in objects if o["kind"].endswith("Binding")]
        assert binding["roleRef"]["name"] == name
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "name": "gpu-autoscaler", "namespace": "gpu-autoscaler"}
        ]
        assert binding["kind"].removesuffix("Binding") == binding["roleRef"]["kind"]


def test_no_file_to_install_lets_the_autoscaler_create_pods() -> None:
    bindings = (o for name in INSTALLED for o in installed(name) if o["kind"].endswith("RoleBinding"))
    bound = {o["roleRef"]["name"] for o in bindings}
    assert "gpu-autoscaler-smoke" not in bound
