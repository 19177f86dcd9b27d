"""The rights that the doctor asks for are those of the ClusterRole; its own role is what it needs beside them."""

import re
from typing import Any

import pytest
import yaml

from receiver.config import load_text
from receiver.doctor.finding import Finding
from receiver.doctor.kubernetes import AREA as KUBERNETES
from receiver.doctor.kueue import AREA as KUEUE
from receiver.doctor.rights import Needed, needed
from receiver.doctor.rounds import go_round
from tests.docs.pages import text_of
from tests.docs.test_rights import RBAC, _roles
from tests.doctor.builders import document
from tests.doctor.cluster import well_kept
from tests.doctor.conftest import Told
from tests.doctor.test_kueue import a_flavor, a_queue, install
from tests.simulator.builders import Starter

EVERY_GROUP = frozenset({"scheduling.x-k8s.io", "scheduling.volcano.sh", "kueue.x-k8s.io"})


def every_right() -> list[Needed]:
    """Return what a configuration with every feature on needs."""
    hold = {"namespaces": ["ml"], "kueue_cluster_queues": ["gpus"]}
    said = document(
        kueue={"demand": "queued"}, volcano={"demand": "podgroups"}, budget={"monthly_usd": 5000, "hold": hold}
    )
    return list(needed(load_text(yaml.safe_dump(said)).configuration, EVERY_GROUP, shuts_down=True))


def test_with_every_feature_on_the_rights_asked_for_are_those_of_the_cluster_roles() -> None:
    roles = _roles()
    for role, acts in (("gpu-autoscaler-look", False), ("gpu-autoscaler-act", True)):
        asked = {(n.right.group, n.right.resource, n.right.verb) for n in every_right() if n.acts is acts}
        assert asked == roles[role]


@pytest.mark.parametrize("mode", ["act", "observe"])
def test_the_shipped_roles_are_enough_for_their_mode(start: Starter, told: Told, mode: str) -> None:
    granted = [r for r in yaml.safe_load_all(RBAC) if r["kind"] == "ClusterRole"]
    rules = [rule for r in granted for rule in r["rules"] if mode == "act" or r["metadata"]["name"].endswith("-look")]
    sim = well_kept(start, kubernetes={"rules": rules})
    ((_, found),) = go_round([KUBERNETES], told(sim, document(mode=mode)))
    judged = [f.verdict for f in found if f.check == "kubernetes.rights"]
    assert judged == (["pass"] if mode == "act" else ["skip", "pass"])


def role(name: str = "gpu-autoscaler-doctor") -> list[dict[str, Any]]:
    """Return the rules of the optional role of that *name* on the page."""
    blocks = map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", text_of("docs/doctor.md"), re.DOTALL))
    rules: list[dict[str, Any]] = next(b["rules"] for b in blocks if b["metadata"]["name"] == name)
    return rules


def skipped(start: Starter, told: Told, rules: list[dict[str, Any]]) -> set[str]:
    """Return the checks that are skipped for want of a right, with *rules* beside the least that the server needs."""
    least = [
        {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list", "watch", "get", "patch"]},
        {"apiGroups": [""], "resources": ["pods/eviction", "events"], "verbs": ["create"]},
    ]
    sim = well_kept(start, kubernetes={"rules": [*least, *rules]})
    install(sim, a_flavor(), a_queue(4))
    found: list[Finding] = []
    for _, findings in go_round([KUBERNETES, KUEUE], told(sim, document(budget={"monthly_usd": 5000}))):
        found += findings
    assert [f for f in found if f.verdict == "fail"] == []
    return {f.check for f in found if f.verdict == "skip" and "optional role" in f.said}


def test_with_the_optional_role_nothing_is_skipped_for_want_of_a_right(start: Starter, told: Told) -> None:
    assert skipped(start, told, role()) == set()


def test_each_right_of_the_optional_role_is_needed_by_some_check(start: Starter, told: Told) -> None:
    rules = [{**rule, "resources": [name]} for rule in role() for name in rule["resources"]]
    needless = [rule for rule in rules if not skipped(start, told, [r for r in rules if r is not rule])]
    assert needless == []
