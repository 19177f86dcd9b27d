"""Rights in the cluster: which the suite needs itself, and an account for the product with exactly those that ship."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

import yaml

from conformance.kubernetes_api import JSON, Api, ApiRefused, part
from conformance.plan import MARK, MARKED, NAMESPACE
from demo.configs import ROOT

ACCOUNT = "gpu-autoscaler-conformance"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNTS = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
SHIPPED = {"gpu-autoscaler-look", "gpu-autoscaler-act", "gpu-autoscaler-own"}
LEASES = "/apis/coordination.k8s.io/v1/leases"
INSTALLATION = "gpu-autoscaler.io/installation"  # the label of an installation's Lease
SKEW = timedelta(minutes=1)  # between clocks
DRA = "resource.k8s.io"
# The autoscaler reads these in all namespaces at once, and without them a scenario cannot be played: it would not know
# which pods hold its nodes. Other kinds it may read in the scenarios' namespace alone, which it never asks for.
READ_EVERYWHERE = frozenset(
    {
        *(("", resource) for resource in ("nodes", "pods", "resourcequotas")),
        ("policy", "poddisruptionbudgets"),
        *((DRA, f"{kind}s") for kind in ("resourceslice", "resourceclaim", "resourceclaimtemplate", "devicetaintrule")),
        (DRA, "deviceclasses"),
        ("coordination.k8s.io", "leases"),
    }
)
# Nodes are cluster-wide; of evictions the autoscaler asks whether it may evict in every namespace before it buys.
WRITE_EVERYWHERE = frozenset({("", "nodes", "get"), ("", "nodes", "patch"), ("", "pods/eviction", "create")})
CLUSTER_WIDE = frozenset(
    {
        *("nodes", "clusterqueues", "admissionchecks", "resourceflavors", "queues", "priorityclasses"),
        *("resourceslices", "deviceclasses", "devicetaintrules"),
    }
)
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
    *every("list", "coordination.k8s.io", "leases", everywhere=True),
    *every("delete", "coordination.k8s.io", "leases"),
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
    *every("create patch delete", "coordination.k8s.io", "leases", everywhere=True),
)
# Where the cluster knows rights: the product's own account gets the rights that ship.
OWN_ACCOUNT = (
    *every("create", "", "serviceaccounts"),
    *every("create", "", "serviceaccounts/token"),
    *every("create", "rbac.authorization.k8s.io", "roles"),
    *every("create", "rbac.authorization.k8s.io", "rolebindings"),
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
    """Create a service account for the product with the rights that ship, and return a token of it.

    What can be confined to the scenarios' namespace is a Role there; cluster-wide are only the reads of
    `READ_EVERYWHERE` and the writes of `WRITE_EVERYWHERE`. The namespace is there. Raises ApiRefused.
    """
    _create(api, ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}})
    everywhere, here = shared_out(_shipped_rules())
    for kind, home, rules in (
        ("ClusterRole", f"{RBAC}/", everywhere),
        ("Role", f"{RBAC}/namespaces/{NAMESPACE}/", here),
    ):
        made = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": ACCOUNT}}
        _create(api, f"{home}{kind.lower()}s", {**made, "metadata": {"name": ACCOUNT}, "kind": kind, "rules": rules})
        subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": ACCOUNT}
        binding = {**made, "metadata": {"name": ACCOUNT}, "kind": f"{kind}Binding"}
        _create(api, f"{home}{kind.lower()}bindings", {**binding, "roleRef": reference, "subjects": [subject]})
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": SECONDS}}
    token = part(api.post(f"{ACCOUNTS}/{ACCOUNT}/token", asked), "status").get("token")
    if not token:
        raise ApiRefused("POST", f"{ACCOUNTS}/{ACCOUNT}/token", 200, "the answer has no token")
    return str(token)


def delete_account(api: Api) -> None:
    """Delete its cluster-wide role and binding; the rest goes with the namespace. Raises ApiRefused."""
    for path in (f"{RBAC}/clusterrolebindings", f"{RBAC}/clusterroles"):
        for one in api.items(path, labelSelector=MARKED):
            api.delete(f"{path}/{one['metadata']['name']}")


def shared_out(rules: Iterable[JSON]) -> tuple[list[JSON], list[JSON]]:
    """Return the single rights among *rules* that are needed in the whole cluster, and those for the scenarios'
    namespace. A right on cluster-wide objects that no scenario needs is in neither."""
    everywhere: list[JSON] = []
    here: list[JSON] = []
    for rule in rules:
        names = {"resourceNames": rule["resourceNames"]} if rule.get("resourceNames") else {}
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    reads = verb in ("list", "watch") and (group, resource) in READ_EVERYWHERE
                    wide = reads or (group, resource, verb) in WRITE_EVERYWHERE
                    if wide or resource.partition("/")[0] not in CLUSTER_WIDE:
                        one = {"apiGroups": [group], "resources": [resource], "verbs": [verb], **names}
                        (everywhere if wide else here).append(one)
    return everywhere, here


def _shipped_rules() -> list[JSON]:
    manifest = (ROOT / "k8s" / "install" / "act.yaml").read_text(encoding="utf-8")
    found = [d for d in yaml.safe_load_all(manifest) if d and d["kind"] in ("ClusterRole", "Role")]
    return [rule for role in found if role["metadata"]["name"] in SHIPPED for rule in role["rules"]]


def others_here(api: Api, now: datetime) -> list[str]:
    """Return what shows that the product is at work in the cluster: Leases of live installations, and accounts that may
    change nodes. What may not be listed is left out. Raises ApiRefused and HTTPError."""
    found = []
    for lease in _listed(api, LEASES, labelSelector=f"{INSTALLATION}=true"):
        metadata, spec = part(lease, "metadata"), part(lease, "spec")
        try:
            renewed = datetime.fromisoformat(str(spec.get("renewTime")))
        except ValueError:
            continue
        lasts = timedelta(seconds=int(spec.get("leaseDurationSeconds") or 0)) + SKEW
        if metadata.get("namespace") != NAMESPACE and now <= renewed + lasts:
            found.append(f"an installation with Lease {metadata.get('namespace')}/{metadata.get('name')}")
    for binding in _listed(api, f"{RBAC}/clusterrolebindings"):
        role = str(part(binding, "roleRef").get("name"))
        if role.endswith("gpu-autoscaler-act") and MARK not in part(part(binding, "metadata"), "labels"):
            subjects = binding.get("subjects") or ()
            found += [f"account {s.get('namespace', '')}/{s.get('name')} with ClusterRole {role}" for s in subjects]
    return found


def _listed(api: Api, path: str, **selected: str) -> list[JSON]:
    try:
        return api.items(path, **selected)
    except ApiRefused as refused:
        if refused.status not in (403, 404):
            raise
        return []


def _create(api: Api, path: str, made: JSON) -> None:
    """Create an object of ours; one that an earlier run left is fine."""
    made["metadata"]["labels"] = {MARK: "true"}
    try:
        api.post(path, made)
    except ApiRefused as refused:
        if refused.status != 409:
            raise
