"""Kueue's own check ``kueue.x-k8s.io/provisioning-request``: a ProvisioningRequest for each Workload with quota, and
the check's state by its conditions. The rules are those of ``pkg/controller/admissionchecks/provisioning`` in
kubernetes-sigs/kueue at ff69552e; backoff is its base without jitter."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from simulator.kubernetes_custom import CustomResources
from simulator.kubernetes_objects import stamp

JSON = dict[str, Any]
KUEUE, SCALING = "kueue.x-k8s.io", "autoscaling.x-k8s.io"
CONTROLLER = "kueue.x-k8s.io/provisioning-request"
LIMIT, BASE_SECONDS = 3, 60  # the defaults of retryStrategy
ACTIVE = {"type": "Active", "status": "True", "reason": "Active", "message": "The admission check is active"}


class ProvisioningCheck:
    """The controller of that check over *custom*. Hold the world's lock."""

    def __init__(self, custom: CustomResources) -> None:
        self._custom = custom

    def turn(self, now: datetime) -> None:
        """Set checks active, make requests, and bring their outcome into the Workloads."""
        ours = {}
        for check in self._custom.objects(KUEUE, "admissionchecks"):
            if check["spec"]["controllerName"] == CONTROLLER:
                ours[check["metadata"]["name"]] = check
                if not (check.get("status") or {}).get("conditions"):
                    active = {"conditions": [{**ACTIVE, "lastTransitionTime": stamp(now)}]}
                    self._custom.replace(KUEUE, "admissionchecks", {**check, "status": active})
        for workload in self._custom.objects(KUEUE, "workloads") if ours else ():
            status = workload.get("status") or {}
            if "admission" not in status or _is(status, "Finished") or _is(status, "Evicted"):
                continue
            states = [self._synced(s, workload, ours, now) for s in status.get("admissionChecks") or ()]
            if states != status.get("admissionChecks"):
                self._custom.replace(KUEUE, "workloads", {**workload, "status": {**status, "admissionChecks": states}})

    def _synced(self, state: JSON, workload: JSON, ours: Mapping[str, JSON], now: datetime) -> JSON:
        if state["name"] not in ours or state["state"] != "Pending":
            return state
        metadata = workload["metadata"]
        attempt = state.get("retryCount", 0) + 1
        name = f"{metadata['name']}-{state['name']}-{attempt}"
        request = self._custom.find(SCALING, "provisioningrequests", name, metadata["namespace"])
        if request is None:
            self._make(name, workload, ours[state["name"]], now)
            return state
        found = {c["type"]: c for c in (request.get("status") or {}).get("conditions") or ()}
        at = {"lastTransitionTime": stamp(now)}
        for kind in ("Failed", "BookingExpired"):
            if found.get(kind, {}).get("status") == "True":
                said = found[kind]["message"]
                if attempt > LIMIT:
                    return {**state, **at, "state": "Rejected", "message": said}
                word = "failure" if kind == "Failed" else "booking expired"
                retry = {"state": "Retry", "requeueAfterSeconds": BASE_SECONDS * 2 ** (attempt - 1)}
                return {**state, **at, **retry, "message": f"Retrying after {word}: {said}"}
        provisioned = found.get("Provisioned", {})
        if provisioned.get("status") == "True":
            annotations = {
                f"{SCALING}/consume-provisioning-request": name,
                f"{SCALING}/provisioning-class-name": request["spec"]["provisioningClassName"],
            }
            updates = [{"name": p.get("name", "main"), "annotations": annotations} for p in workload["spec"]["podSets"]]
            return {**state, **at, "state": "Ready", "message": provisioned["message"], "podSetUpdates": updates}
        return {**state, "message": provisioned.get("message", "")}

    def _make(self, name: str, workload: JSON, check: JSON, now: datetime) -> None:
        metadata, flavors = workload["metadata"], workload["status"]["admission"]["podSetAssignments"]
        config = self._custom.find(KUEUE, "provisioningrequestconfigs", check["spec"]["parameters"]["name"]) or {}
        owner = {"apiVersion": workload["apiVersion"], "kind": "Workload", "name": metadata["name"], "controller": True}
        placed = {"namespace": metadata["namespace"], "ownerReferences": [{**owner, "uid": metadata["uid"]}]}
        made: list[JSON] = []
        for pod_set, assigned in zip(workload["spec"]["podSets"], flavors, strict=True):
            spec = pod_set["template"]["spec"]
            selector = {**spec.get("nodeSelector", {}), **self._labels(assigned["flavors"])}
            template = {**pod_set["template"], "spec": {**spec, "nodeSelector": selector}}
            named = {**placed, "name": f"ppt-{name}-{pod_set.get('name', 'main')}"}
            made.append({"apiVersion": "v1", "kind": "PodTemplate", "metadata": named, "template": template})
        pod_sets = [
            {"podTemplateRef": {"name": template["metadata"]["name"]}, "count": pod_set["count"]}
            for template, pod_set in zip(made, workload["spec"]["podSets"], strict=True)
        ]
        spec = {"provisioningClassName": config["spec"]["provisioningClassName"], "podSets": pod_sets}
        request = {"apiVersion": f"{SCALING}/v1", "kind": "ProvisioningRequest", "metadata": {**placed, "name": name}}
        self._custom.put([*made, {**request, "spec": spec}], now)

    def _labels(self, flavors: Mapping[str, str]) -> JSON:
        """The node labels of *flavors*, by resource."""
        found = (self._custom.find(KUEUE, "resourceflavors", name) or {} for name in set(flavors.values()))
        return {k: v for flavor in found for k, v in ((flavor.get("spec") or {}).get("nodeLabels") or {}).items()}


def _is(status: Mapping[str, Any], kind: str) -> bool:
    return any(c["type"] == kind and c["status"] == "True" for c in status.get("conditions") or ())
