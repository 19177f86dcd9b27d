"""A minimal Kueue: it reserves quota, waits for AdmissionChecks, admits, evicts, and sees that work has finished.

Conditions, reasons and messages are those of kubernetes-sigs/kueue at ff69552e (``pkg/controller/core``,
``pkg/workload``). A LocalQueue feeds the ClusterQueue of its name; quota is that of the first flavor with room for all
pods, in GPUs. Nothing is preempted.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from simulator.kubernetes_custom import CustomResources
from simulator.kubernetes_objects import stamp
from simulator.kueue import asks
from simulator.kueue_provisioning import ProvisioningCheck
from simulator.manifests import pod_spec
from simulator.world import World

JSON = dict[str, Any]
GROUP = "kueue.x-k8s.io"
WORKLOAD_ANNOTATION = "kueue.x-k8s.io/workload"
ROUNDS = 4  # a Workload may get quota, pass its checks and start in one turn


class Kueue:
    """The controllers over *custom*. Hold the world's lock."""

    def __init__(self, custom: CustomResources) -> None:
        self._custom, self._provisioning = custom, ProvisioningCheck(custom)

    def turn(self, world: World) -> None:
        """Let everything happen that is due."""
        for _ in range(ROUNDS):
            self._provisioning.turn(world.now)
            changed = [self._reconcile(workload, world) for workload in self._oldest_first()]
            if not any(changed):
                return

    def _oldest_first(self) -> list[JSON]:
        found = self._custom.objects(GROUP, "workloads")
        return sorted(found, key=lambda w: (w["metadata"]["creationTimestamp"], w["metadata"]["name"]))

    def _reconcile(self, workload: JSON, world: World) -> bool:
        """Bring *workload* one step further; True if something changed."""
        status, now = workload.get("status") or {}, world.now
        states = {check["state"] for check in status.get("admissionChecks") or ()}
        if holds(status, "Finished") or workload["spec"].get("active") is False:
            return False
        if holds(status, "Admitted"):
            return self._finish(workload, world)
        if not holds(status, "QuotaReserved"):
            return self._reserve(workload, now)
        if "Rejected" in states:
            return self._reject(workload, now)
        if "Retry" in states:
            return self._evict(workload, now)
        if states <= {"Ready"}:
            return self._admit(workload, world)
        return False

    def _reserve(self, workload: JSON, now: datetime) -> bool:
        status = workload.get("status") or {}
        at = (status.get("requeueState") or {}).get("requeueAt")
        if at and now < datetime.fromisoformat(at):
            return False
        queue = self._custom.find(GROUP, "clusterqueues", workload["spec"]["queueName"])
        checks = _checks_of(queue or {})
        if queue is None or not all(self._is_active(name) for name in checks):
            return False
        wanted = asks(workload["spec"]["podSets"])
        flavor = next((f for f in _flavors(queue) if self._fits(f, wanted, queue)), None)
        if flavor is None:
            return False
        known = {check["name"]: check for check in status.get("admissionChecks") or ()}
        new = {"state": "Pending", "message": "", "lastTransitionTime": stamp(now)}
        after = {**status, "admissionChecks": [known.get(name) or {"name": name, **new} for name in checks]}
        after["admission"] = {
            "clusterQueue": queue["metadata"]["name"],
            "podSetAssignments": [
                {"name": p.get("name", "main"), "count": p["count"], "flavors": dict.fromkeys(wanted, flavor["name"])}
                for p in workload["spec"]["podSets"]
            ],
        }
        after.pop("requeueState", None)
        message = f"Quota reserved in ClusterQueue {queue['metadata']['name']}"
        after = with_condition(after, "QuotaReserved", "QuotaReserved", message, now)
        if holds(status, "Evicted"):
            after = with_condition(after, "Evicted", "QuotaReserved", f"Previously: {message}", now, "False")
            after = with_condition(after, "Requeued", "BackoffFinished", "The workload backoff was finished", now)
        return self._write(workload, after)

    def _evict(self, workload: JSON, now: datetime) -> bool:
        """A check says Retry: others get the quota, and the Workload waits as long as the check asks."""
        status = workload["status"]
        retried = [c for c in status["admissionChecks"] if c["state"] == "Retry"]
        named = "; ".join(f'"{c["name"]}" ({c["message"]})' for c in retried)
        message = f"Evicted due to AdmissionCheck in Retry state: {named}"
        after = self._without_quota(status, message, "AdmissionCheck", now)
        ends = [
            datetime.fromisoformat(c["lastTransitionTime"]) + timedelta(seconds=c["requeueAfterSeconds"])
            for c in retried
            if c.get("requeueAfterSeconds") is not None
        ]
        if ends and max(ends) > now:
            after["requeueState"] = {"requeueAt": stamp(max(ends))}
            after = with_condition(after, "Requeued", "AdmissionCheck", message, now, "False")
        return self._write(workload, after)

    def _reject(self, workload: JSON, now: datetime) -> bool:
        rejected = [c for c in workload["status"]["admissionChecks"] if c["state"] == "Rejected"]
        named = "; ".join(f'"{c["name"]}" ({c["message"]})' for c in rejected)
        message = f"The workload is deactivated due to AdmissionCheck in Rejected state: {named}"
        after = self._without_quota(workload["status"], message, "DeactivatedDueToAdmissionCheck", now)
        return self._write({**workload, "spec": {**workload["spec"], "active": False}}, after)

    def _without_quota(self, status: JSON, message: str, reason: str, now: datetime) -> JSON:
        after = {name: value for name, value in status.items() if name != "admission"}
        after["admissionChecks"] = [c if c["state"] == "Pending" else _reset(c, now) for c in status["admissionChecks"]]
        after = with_condition(after, "Evicted", reason, message, now)
        return with_condition(after, "QuotaReserved", "Pending", message, now, "False")

    def _admit(self, workload: JSON, world: World) -> bool:
        self._write(workload, with_condition(workload["status"], "Admitted", "Admitted", ADMITTED, world.now))
        metadata, status = workload["metadata"], workload["status"]
        flavor = next(iter(status["admission"]["podSetAssignments"][0]["flavors"].values()), "")
        labels = ((self._custom.find(GROUP, "resourceflavors", flavor) or {}).get("spec") or {}).get("nodeLabels") or {}
        for pod_set in workload["spec"]["podSets"]:
            name = pod_set.get("name", "main")
            updates = [u for c in status["admissionChecks"] for u in c.get("podSetUpdates") or () if u["name"] == name]
            for number in range(pod_set["count"]):
                pod = _pod(pod_set["template"], f"{metadata['name']}-{name}-{number}", metadata, labels, updates)
                world.add_pod(pod_spec(pod, metadata["namespace"]))
        return True

    def _finish(self, workload: JSON, world: World) -> bool:
        name = workload["metadata"]["name"]
        pods = [p for p in world.pods.values() if p.annotations.get(WORKLOAD_ANNOTATION) == name]
        if not pods or any(p.phase != "Succeeded" for p in pods):
            return False
        after = with_condition(workload["status"], "Finished", "Succeeded", "Job finished successfully", world.now)
        return self._write(workload, after)

    def _fits(self, flavor: JSON, wanted: Mapping[str, int], queue: JSON) -> bool:
        quota = {r["name"]: int(r["nominalQuota"]) for r in flavor["resources"]}
        used: Counter[str] = Counter()
        for other in self._custom.objects(GROUP, "workloads"):
            status = other.get("status") or {}
            admission = status.get("admission") or {}
            if admission.get("clusterQueue") != queue["metadata"]["name"] or holds(status, "Finished"):
                continue
            if flavor["name"] in admission["podSetAssignments"][0]["flavors"].values():
                used.update(asks(other["spec"]["podSets"]))
        return all(used[r] + n <= quota.get(r, 0) for r, n in wanted.items())

    def _is_active(self, check: str) -> bool:
        found = self._custom.find(GROUP, "admissionchecks", check) or {}
        return holds(found.get("status") or {}, "Active")

    def _write(self, workload: JSON, status: JSON) -> bool:
        self._custom.replace(GROUP, "workloads", {**workload, "status": status})
        return True


ADMITTED = "The workload is admitted"


def holds(status: Mapping[str, Any], kind: str) -> bool:
    return any(c["type"] == kind and c["status"] == "True" for c in status.get("conditions") or ())


def with_condition(
    status: Mapping[str, Any], kind: str, reason: str, message: str, now: datetime, value: str = "True"
) -> JSON:
    """Return *status* with one condition set to *value*, as ``meta.SetStatusCondition`` does."""
    others = [c for c in status.get("conditions") or () if c["type"] != kind]
    before: Mapping[str, Any] = next((c for c in status.get("conditions") or () if c["type"] == kind), {})
    since = before["lastTransitionTime"] if before.get("status") == value else stamp(now)
    new = {"type": kind, "status": value, "reason": reason, "message": message, "lastTransitionTime": since}
    return {**status, "conditions": [*others, new]}


def _reset(check: JSON, now: datetime) -> JSON:
    retried = {"retryCount": check.get("retryCount", 0) + 1} if check["state"] == "Retry" else {}
    kept = {n: check[n] for n in ("requeueAfterSeconds",) if n in check}
    message = f"Reset to Pending after eviction. Previously: {check['state']}"
    pending = {"name": check["name"], "state": "Pending", "message": message, "lastTransitionTime": stamp(now)}
    return {**pending, **kept, **retried}


def _checks_of(queue: JSON) -> list[str]:
    """v1beta2 has the strategy alone, v1beta1 both."""
    spec = queue.get("spec") or {}
    strategy = (spec.get("admissionChecksStrategy") or {}).get("admissionChecks") or ()
    return [*(rule["name"] for rule in strategy), *(spec.get("admissionChecks") or ())]


def _flavors(queue: JSON) -> Iterable[JSON]:
    for group in queue["spec"].get("resourceGroups") or ():
        yield from group["flavors"]


def _pod(
    template: JSON, name: str, workload: JSON, labels: Mapping[str, str], updates: Iterable[Mapping[str, Any]]
) -> JSON:
    metadata, spec = dict(template.get("metadata") or {}), dict(template["spec"])
    annotations = {**(metadata.get("annotations") or {}), WORKLOAD_ANNOTATION: workload["name"]}
    selector = {**(spec.get("nodeSelector") or {}), **labels}
    for update in updates:
        annotations |= update.get("annotations") or {}
        selector |= update.get("nodeSelector") or {}
    metadata |= {"name": name, "annotations": annotations}
    return {"metadata": metadata, "spec": {**spec, "nodeSelector": selector}}
