"""The roles that the chart gives the autoscaler when work may wait, and the single rights in them."""

from typing import Any

from tests.lint import load_yamls
from tests.manifests.built import K8S, installed
from tests.manifests.uses import Right
from tools.install_manifests import rendered

Rules = list[dict[str, Any]]

RBAC = rendered("mode=act,rights.mayWait=true", r"templates/rbac\.yaml")
ROLES: dict[str, Rules] = {
    found["metadata"]["name"].removeprefix("gpu-autoscaler-"): found["rules"]
    for found in load_yamls(RBAC)
    if found["kind"] in ("ClusterRole", "Role")
}
EVERY_RULE = [*ROLES["look"], *ROLES["act"], *ROLES["own"]]
FENCE = tuple(found for found in installed("fence") if found["kind"] == "ValidatingAdmissionPolicy")
OPTIONAL_ROLES = {
    "gpu-autoscaler-doctor": rendered("doctor.rights=true", r"templates/doctor-rights\.yaml"),
    "gpu-autoscaler-smoke": (K8S / "doctor" / "smoke" / "role.yaml").read_text(encoding="utf-8"),
}  # YAML by name


def rights(rules: Rules) -> list[Right]:
    """Return group, resource and verb of each single right, as often as it is given."""
    return [(g, r, v) for rule in rules for g in rule["apiGroups"] for r in rule["resources"] for v in rule["verbs"]]


def optional_rules(name: str = "gpu-autoscaler-doctor") -> Rules:
    """Return the rules of the optional role of that *name*."""
    objects = load_yamls(OPTIONAL_ROLES[name])
    rules: Rules = next(o["rules"] for o in objects if o["kind"] in ("ClusterRole", "Role"))
    return rules
