"""Objects as data: what tests and demos say that Kueue, Volcano and coscheduling have written, and that people have set
up in the cluster (namespaces, policies, quotas of shape, classes). Nothing here acts on them."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from simulator.dra.claims import CLASS, KINDS, RULE, SLICE, Claims
from simulator.dra.devices import DRA
from simulator.kubernetes_objects import JSON, stamp, uid_of
from simulator.reading import Unreadable

Note = Callable[[str, JSON | None, JSON | None], JSON]  # of a resource, an object before and after: it as a new version
PLURALS: Mapping[tuple[str, str], str] = {
    ("kueue.x-k8s.io", "Workload"): "workloads",
    ("kueue.x-k8s.io", "ClusterQueue"): "clusterqueues",
    ("kueue.x-k8s.io", "LocalQueue"): "localqueues",
    ("kueue.x-k8s.io", "ResourceFlavor"): "resourceflavors",
    ("kueue.x-k8s.io", "AdmissionCheck"): "admissionchecks",
    ("kueue.x-k8s.io", "ProvisioningRequestConfig"): "provisioningrequestconfigs",
    ("scheduling.volcano.sh", "PodGroup"): "podgroups",
    ("scheduling.volcano.sh", "Queue"): "queues",
    ("batch.volcano.sh", "Job"): "jobs",
    ("scheduling.x-k8s.io", "PodGroup"): "podgroups",
    ("scheduling.k8s.io", "PodGroup"): "podgroups",
    ("scheduling.k8s.io", "Workload"): "workloads",
    ("jobset.x-k8s.io", "JobSet"): "jobsets",
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): "leaderworkersets",
    ("autoscaling.x-k8s.io", "CapacityBuffer"): "capacitybuffers",
    ("autoscaling.x-k8s.io", "ProvisioningRequest"): "provisioningrequests",
    ("", "PodTemplate"): "podtemplates",
    ("", "ReplicationController"): "replicationcontrollers",
    ("apps", "Deployment"): "deployments",
    ("apps", "ReplicaSet"): "replicasets",
    ("apps", "StatefulSet"): "statefulsets",
    ("batch", "Job"): "jobs",
    ("", "Namespace"): "namespaces",
    ("apps", "DaemonSet"): "daemonsets",
    ("networking.k8s.io", "NetworkPolicy"): "networkpolicies",
    ("scheduling.k8s.io", "PriorityClass"): "priorityclasses",
    ("coordination.k8s.io", "Lease"): "leases",
    **{(DRA, kind): plural for plural, kind in KINDS.items()},
}
CLUSTER_WIDE = frozenset(
    {
        *("queues", "clusterqueues", "resourceflavors", "admissionchecks", "provisioningrequestconfigs"),
        *("namespaces", "priorityclasses"),
        *(SLICE, CLASS, RULE),
    }
)
# Served by every cluster, in this version, and never uninstalled.
BUILT_IN: Mapping[str, str] = dict.fromkeys(
    ("", "apps", "batch", "networking.k8s.io", "scheduling.k8s.io", "coordination.k8s.io"), "v1"
)
# Which versions have a kind, of a group whose versions have different ones: gangs are in those that are not yet stable.
VERSIONS: Mapping[tuple[str, str], frozenset[str]] = {
    ("scheduling.k8s.io", "priorityclasses"): frozenset({"v1"}),
    ("scheduling.k8s.io", "workloads"): frozenset({"v1alpha1", "v1alpha2", "v1alpha3", "v1beta1"}),
    ("scheduling.k8s.io", "podgroups"): frozenset({"v1alpha2", "v1alpha3", "v1beta1"}),
}


class CustomResources:
    """The groups that are installed, each in one version, and their objects. Those of *claims* act on the world. Hold
    the world's lock."""

    def __init__(self, note: Note, claims: Claims) -> None:
        self._versions: dict[str, str] = {}
        self._claims = claims
        self._objects: dict[tuple[str, str], dict[tuple[str, str], JSON]] = {
            (DRA, plural): found for plural, found in claims.objects.items()
        }
        self._note = note

    def install(self, api: str) -> None:
        """Serve the kinds of *api* (``kueue.x-k8s.io/v1beta2``). Raises Unreadable for a group without any."""
        group, version = group_and_version(api)
        if not version or all(group != known for known, _ in PLURALS):
            raise Unreadable([f"apiVersion: {api!r} is none of the groups {sorted({g for g, _ in PLURALS})}"])
        if BUILT_IN.get(group) != version:
            self._versions[group] = version

    def put(self, given: Sequence[Mapping[str, Any]], now: datetime) -> None:
        """Add objects, or replace those of the same name, installing their groups. Raises Unreadable."""
        for manifest in given:
            api, kind = str(manifest.get("apiVersion") or ""), str(manifest.get("kind") or "")
            group, _ = group_and_version(api)
            name = (manifest.get("metadata") or {}).get("name")
            plural = PLURALS.get((group, kind))
            if plural is None or not name:
                raise Unreadable([f"{api} {kind}: is no kind that is served here, or has no metadata.name"])
            self.install(api)
            namespace = "" if plural in CLUSTER_WIDE else manifest["metadata"].get("namespace") or "default"
            metadata = {"uid": uid_of(group, kind, namespace, name), "creationTimestamp": stamp(now)}
            metadata |= {"namespace": namespace} if namespace else {}
            found = self._objects.setdefault((group, plural), {})
            after = {**manifest, "metadata": {**metadata, **manifest["metadata"]}}
            found[namespace, name] = self._note(f"{plural}.{group}", found.get((namespace, name)), after)
            self._changed(group)

    def replace(self, group: str, plural: str, after: JSON) -> JSON:
        """Bring in what a patch left of an object, as a new version of it."""
        found = self._objects[group, plural]
        key = (after["metadata"].get("namespace", ""), after["metadata"]["name"])
        found[key] = self._note(f"{plural}.{group}", found.get(key), after)
        self._changed(group)
        return found[key]

    def remove(self, group: str, plural: str, namespace: str, name: str) -> None:
        """Delete an object, if it is there."""
        before = self._objects.get((group, plural), {}).pop((namespace, name), None)
        if before is not None:
            self._note(f"{plural}.{group}", before, None)
            self._changed(group)

    def _changed(self, group: str) -> None:
        if group == DRA:
            self._claims.changed()

    @property
    def installed(self) -> Mapping[str, str]:
        """The groups that are installed, each with its version: others, and built-in ones in a version beside v1."""
        return dict(self._versions)

    def clear(self) -> None:
        """Uninstall everything."""
        self._versions.clear()
        for (group, plural), found in self._objects.items():
            for before in found.values():
                self._note(f"{plural}.{group}", before, None)
            found.clear()
        self._changed(DRA)

    def kind(self, group: str, version: str, plural: str) -> str | None:
        """Return the kind of which this is a list, or None when it is not served."""
        served = version in (self._versions.get(group), BUILT_IN.get(group))
        if not served or version not in VERSIONS.get((group, plural), (version,)):
            return None
        return next((k for (g, k), p in PLURALS.items() if (g, p) == (group, plural)), None)

    def find(self, group: str, plural: str, name: str, namespace: str = "") -> JSON | None:
        """Return one object, None where there is none."""
        return self._objects.get((group, plural), {}).get((namespace, name))

    def objects(self, group: str, plural: str) -> list[JSON]:
        """Return every object of a kind."""
        return list(self._objects.get((group, plural), {}).values())


def group_and_version(api: str) -> tuple[str, str]:
    """Return both parts of an ``apiVersion``: the core group's is a version alone."""
    group, _, version = api.rpartition("/")
    return group, version
