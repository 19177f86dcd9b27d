"""Rights in the cluster: which the suite needs itself, and an account for the product with exactly those that ship."""

from collections.abc import Iterable
from typing import NamedTuple

import yaml

from conformance.kubernetes_api import JSON, Api, ApiRefused
from conformance.plan import MARK, MARKED, NAMESPACE
from demo.configs import ROOT

ACCOUNT = "gpu-autoscaler-conformance"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNTS = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
SHIPPED = {"gpu-autoscaler-look", "gpu-autoscaler-act"}
SECONDS = 6 * 3600  # the token's life


class Right(NamedTuple):
    """*verb* on *resource* of *group*; of the scenarios' namespace unless *everywhere*."""

    verb: str
    group: str
    resource: str
    everywhere: bool = False

    @property
    def on(self) -> str:
        """What it is a right on."""
        group = f".{self.group}" if self.group else ""
        return f"{self.resource}{group}" + (" cluster-wide" if self.everywhere else "")


def every(verbs: str, group: str, resource: str, *, everywhere: bool = False) -> tuple[Right, ...]:
    """Return a Right for each of *verbs* (separated by spaces)."""
    return tuple(Right(verb, group, resource, everywhere) for verb in verbs.split())


# Of every scenario: the namespace, its pods, and a look at the nodes.
BASE = (
    *every("get create delete", "", "namespaces", everywhere=True),
    *every("list create delete", "", "pods"),
    *every("list", "", "nodes", everywhere=True),
)
# Of scenarios that create these, or change nodes as a person does.
JOBS = every("list create delete", "batch", "jobs")
DEPLOYMENTS = every("list create delete", "apps", "deployments")
BUDGETS = every("list create delete", "policy", "poddisruptionbudgets")
CORDON = every("patch", "", "nodes", everywhere=True)
DELETE_NODE = every("delete", "", "nodes", everywhere=True)
CLAIMS = (
    *every("list create delete", "resource.k8s.io", "resourceclaimtemplates"),
    *every("list create delete", "resource.k8s.io", "resourceslices", everywhere=True),
    *every("list create delete", "resource.k8s.io", "deviceclasses", everywhere=True),
)
# Where nodes are hollow: they are created here, and this plays their kubelet.
HOLLOW = (
    *every("create patch delete", "", "nodes", everywhere=True),
    *every("patch", "", "nodes/status", everywhere=True),
    *every("list delete", "", "pods", everywhere=True),
    *every("patch", "", "pods/status", everywhere=True),
    *every("create patch delete list", "coordination.k8s.io", "leases", everywhere=True),
)
# Where the cluster knows rights: the product's own account gets the roles that ship.
OWN_ACCOUNT = (
    *every("create", "", "serviceaccounts"),
    *every("create", "", "serviceaccounts/token"),
    *every("create delete list", "rbac.authorization.k8s.io", "clusterroles", everywhere=True),
    *every("create delete list", "rbac.authorization.k8s.io", "clusterrolebindings", everywhere=True),
)


def named(rights: Iterable[Right]) -> str:
    """Return *rights* in words: ``list create jobs.batch, patch nodes cluster-wide``."""
    verbs: dict[str, list[str]] = {}
    for right in rights:
        verbs.setdefault(right.on, []).append(right.verb)
    return ", ".join(f"{' '.join(found)} {on}" for on, found in verbs.items())


def missing(api: Api, rights: Iterable[Right]) -> list[Right]:
    """Return those of *rights* that the caller lacks, as the API server says."""
    return [r for r in rights if not api.may(r.verb, r.group, r.resource, "" if r.everywhere else NAMESPACE)]


def create_account(api: Api) -> str:
    """Create a service account for the product with the roles that ship, and return a token of it.

    The namespace is there. Raises ApiRefused.
    """
    _create(api, ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}})
    for role in _shipped_roles():
        name = f"{ACCOUNT}-{role['metadata']['name'].rpartition('-')[2]}"
        _create(api, f"{RBAC}/clusterroles", {**role, "metadata": {"name": name}})
        subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
        binding = {"apiVersion": role["apiVersion"], "kind": "ClusterRoleBinding", "metadata": {"name": name}}
        _create(api, f"{RBAC}/clusterrolebindings", {**binding, "roleRef": reference, "subjects": [subject]})
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": SECONDS}}
    return str(api.post(f"{ACCOUNTS}/{ACCOUNT}/token", asked)["status"]["token"])


def delete_account(api: Api) -> None:
    """Delete its roles and bindings; the account goes with the namespace. Raises ApiRefused."""
    for path in (f"{RBAC}/clusterrolebindings", f"{RBAC}/clusterroles"):
        for one in api.items(path, labelSelector=MARKED):
            api.delete(f"{path}/{one['metadata']['name']}")


def _shipped_roles() -> list[JSON]:
    manifest = (ROOT / "k8s" / "install" / "act.yaml").read_text(encoding="utf-8")
    found = [d for d in yaml.safe_load_all(manifest) if d and d["kind"] == "ClusterRole"]
    return [role for role in found if role["metadata"]["name"] in SHIPPED]


def _create(api: Api, path: str, made: JSON) -> None:
    """Create an object of ours; one that an earlier run left is fine."""
    made["metadata"]["labels"] = {MARK: "true"}
    try:
        api.post(path, made)
    except ApiRefused as refused:
        if refused.status != 409:
            raise
