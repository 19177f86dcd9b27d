"""AdmissionChecks of Kueue with our controller name: the Workloads that wait for our answer, and the answer.

The rules are those of kubernetes-sigs/kueue at ff69552e: ``pkg/controller/admissionchecks/provisioning`` (a controller
like ours), ``pkg/workload`` (what each state does). Without an AdmissionCheck of ours no Workload is read.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from receiver.adapters.http.sessions import moment
from receiver.adapters.kubernetes.announced import Reading, RequestReader
from receiver.adapters.kubernetes.api import Json, condition, entries, key_of, section, text, words
from receiver.adapters.kubernetes.installations import names_pools
from receiver.adapters.kubernetes.multikueue import CHECKS, checks_of, names_one_of
from receiver.adapters.kubernetes.pods import SeenPod, whole
from receiver.adapters.kubernetes.queues import KUEUE_WORKLOADS, announced, at_work, names_of
from receiver.adapters.kubernetes.reflector import ResourceKind
from receiver.capabilities.kueue_check.judging import KIND, READY, REJECTS, RETRY_AFTER, CheckState
from receiver.core.model.room_requests import RoomAnswer, RoomRequest
from receiver.ports import BUDGET_CHECK, REJECT_TOO_LARGE, ClusterFacts, Did, Receipt, TryLater

FLAVORS = ResourceKind("kueue.x-k8s.io", "resourceflavors", ("v1beta2", "v1beta1"))
WITHOUT_CHECKS = "no AdmissionCheck of Kueue is answered"
WITHOUT_WORKLOADS = "our AdmissionCheck is not answered, and its Workloads stay pending"
WITHOUT_FLAVORS = "Workloads are judged without the node labels of their flavors"
ACTIVE = "Active"
PODS_COME_WITHIN = RETRY_AFTER  # of an admitted Workload: later its cost is no longer kept for it
LONGEST_MESSAGE = 32_768


class AdmissionChecks(RequestReader):
    """Our AdmissionChecks, and the Workloads with one of them. While the API server does not answer, none is judged. A
    check that names pools, none of which is among our pools, is left to another installation."""

    kind = KIND

    def __init__(self, reading: Reading) -> None:
        self._reading, self._lists, self._clock = reading, reading.lists, reading.clock
        self._checks: dict[str, Json] = {}
        self._named: frozenset[str] = frozenset()  # those of them that name a pool of ours
        self._of_controller: frozenset[str] = frozenset()  # with those of other installations
        self._workloads: dict[str, Json] = {}
        self._of_multikueue: frozenset[str] = frozenset()

    def add_to(self, facts: ClusterFacts, living_pods: Sequence[SeenPod]) -> ClusterFacts:
        """Return *facts* with the Workloads that wait for our answer, and those that have it and no pods yet."""
        read = self._lists.if_readable
        checks = read(CHECKS, WITHOUT_CHECKS)
        if checks is not None:
            ours = (check for check in checks if section(check, "spec").get("controllerName") == BUDGET_CHECK)
            every = {text(section(check, "metadata"), "name"): check for check in ours}
            pools = self._reading.pools()
            naming = {name: names_pools(check, pools) for name, check in every.items()}
            self._checks = {name: check for name, check in every.items() if naming[name] is not False}
            self._named = frozenset(name for name, ours_by_name in naming.items() if ours_by_name)
            self._of_controller = frozenset(every)
            for name in sorted(every.keys() - self._checks.keys()):
                detail = f"AdmissionCheck {name} names pools of another installation, and is left to it"
                self._lists.remarks.warn("AdmissionCheck not answered", detail)
            self._of_multikueue = checks_of(checks)
        self._workloads = {}
        if not self._checks:
            return facts
        for workload in read(KUEUE_WORKLOADS, WITHOUT_WORKLOADS) or ():
            if self._entries(workload) and _has_quota(workload):
                self._workloads[key_of(workload)] = workload
        flavors = read(FLAVORS, WITHOUT_FLAVORS) or () if self._workloads else ()
        by_name = {text(section(flavor, "metadata"), "name"): section(flavor, "spec") for flavor in flavors}
        running = at_work(living_pods) if self._workloads else set()
        candidates = (self._candidate(workload, by_name, running) for workload in self._workloads.values())
        return replace(facts, requests=(*facts.requests, *filter(None, candidates)))

    def keep_active(self) -> Receipt:
        """Set the condition Active where it is missing: without it, Kueue stops each ClusterQueue with the check."""
        missing = [check for check in self._checks.values() if not condition(section(check, "status"), ACTIVE)]
        if not missing:
            return Receipt(did=Did.ALREADY, sentence="no AdmissionCheck of ours is inactive")
        for check in missing:
            active = {
                "type": ACTIVE,
                "status": "True",
                "reason": ACTIVE,
                "message": "gpu-autoscaler answers by what the budgets cover",
                "lastTransitionTime": self._now(),
            }
            self._lists.apply_status(CHECKS, "AdmissionCheck", check, {"conditions": [active]})
        names = ", ".join(text(section(check, "metadata"), "name") for check in missing)
        return Receipt(did=Did.DONE, sentence=f"AdmissionCheck {names} is active")

    def answer(self, answer: RoomAnswer) -> Receipt:
        """Write *answer* into every check of ours that is pending in its Workload."""
        workload = self._workloads.get(answer.key)
        if workload is None:
            return Receipt(did=Did.DIFFERS, sentence=f"no Workload {answer.key} waits for an answer")
        statuses = entries(section(workload, "status"), "admissionChecks")
        # All of them at once: server-side apply deletes an entry that we, or another installation, left out now.
        before = [entry for entry in statuses if entry.get("name") in self._of_controller]
        wanted = [self._answered(entry, answer) for entry in before]
        if wanted == [_ours(entry) for entry in before]:
            return Receipt(did=Did.ALREADY, sentence=f"Workload {answer.key} says so already")
        self._lists.apply_status(KUEUE_WORKLOADS, "Workload", workload, {"admissionChecks": wanted})
        return Receipt(did=Did.DONE, sentence=f"answered the check of Workload {answer.key}: {answer.state}")

    def _answered(self, entry: Json, answer: RoomAnswer) -> dict[str, Any]:
        if entry.get("state") != CheckState.PENDING or entry.get("name") not in self._checks:
            return _ours(entry)
        stays = answer.state == CheckState.PENDING
        retry = {"requeueAfterSeconds": int(RETRY_AFTER.total_seconds())} if answer.state == CheckState.RETRY else {}
        return {
            "name": entry["name"],
            "state": answer.state,
            "message": answer.message[:LONGEST_MESSAGE],
            "lastTransitionTime": entry.get("lastTransitionTime") or self._now() if stays else self._now(),
            **retry,
        }

    def _candidate(self, workload: Json, flavors: Mapping[str, Json], running: set[str]) -> RoomRequest | None:
        """Return *workload* as the core sees it, None for one that has its answer and its pods."""
        own_entries, key = self._entries(workload), key_of(workload)
        states = {entry.get("state") for entry in own_entries}
        admitted = condition(section(workload, "status"), "Admitted")
        waits = CheckState.PENDING in states
        paid = (
            section(workload, "metadata").get("uid") in self._reading.paid_elsewhere
        )  # as demand of its own, which budgets hold too
        paid = paid or names_one_of(self._of_multikueue, workload)  # or in another cluster
        if waits and (paid or admitted):  # a check that was added later stops no running work
            return RoomRequest(kind=KIND, key=key, trial=True, named=self._is_named(own_entries))
        if paid:
            return None
        if not waits:
            since = moment(admitted.get("lastTransitionTime"))
            late = since is not None and self._clock.now() - since > PODS_COME_WITHIN
            if states != {CheckState.READY} or late or names_of(workload) & running:
                return None
        try:
            pods = announced(with_flavors(workload, flavors), self._reading.pod).pods()
        except TryLater as error:
            self._lists.remarks.warn("Workload not understood", f"{key}: {error}; our AdmissionCheck stays pending")
            return None
        names = [text(entry, "name") for entry in own_entries]
        rejects = (words(section(self._checks[n], "metadata"), "annotations").get(REJECT_TOO_LARGE) for n in names)
        named = self._is_named(own_entries)
        terms = {READY: not waits, REJECTS: "true" in rejects}
        terms_said = {term: "true" for term, holds in terms.items() if holds}
        return RoomRequest(kind=KIND, key=key, pods=pods, trial=True, named=named, terms=terms_said)

    def _is_named(self, own_entries: Iterable[Json]) -> bool:
        """True if the *own_entries* of a Workload are for us alone."""
        return all(entry.get("name") in self._named for entry in own_entries)

    def _entries(self, workload: Json) -> list[Json]:
        """Return the states of our checks in *workload*."""
        return [e for e in entries(section(workload, "status"), "admissionChecks") if e.get("name") in self._checks]

    def _now(self) -> str:
        return f"{self._clock.now():%Y-%m-%dT%H:%M:%SZ}"


def _ours(entry: Json) -> dict[str, Any]:
    """Return the fields of a check's state that its controller writes."""
    written = ("name", "state", "message", "lastTransitionTime", "requeueAfterSeconds")
    return {name: entry[name] for name in written if name in entry}


def _has_quota(workload: Json) -> bool:
    """True while *workload* has quota and may start: it is neither finished, deactivated, nor about to be evicted."""
    spec, status = section(workload, "spec"), section(workload, "status")
    if spec.get("active") is False or section(workload, "metadata").get("deletionTimestamp"):
        return False
    return bool(condition(status, "QuotaReserved")) and not condition(status, "Finished", "Evicted")


def with_flavors(workload: Json, flavors: Mapping[str, Json]) -> Json:
    """Return *workload* with the pods that Kueue will admit: as many as got quota, on the nodes of their *flavors*
    (by name, as ``spec``)."""
    assigned = {
        text(a, "name") or "main": a
        for a in entries(section(section(workload, "status"), "admission"), "podSetAssignments")
    }
    pod_sets = []
    for pod_set in entries(section(workload, "spec"), "podSets"):
        assignment = assigned.get(text(pod_set, "name") or "main", {})
        names = sorted(set(words(assignment, "flavors").values()))
        template = _on_flavors(section(pod_set, "template"), [flavors[name] for name in names if name in flavors])
        count = whole(assignment.get("count", pod_set.get("count", 1))) or 0
        pod_sets.append({**pod_set, "count": count, "minCount": None, "template": template})
    return {**workload, "spec": {**section(workload, "spec"), "podSets": pod_sets}}


def _on_flavors(template: Json, flavors: Iterable[Json]) -> Json:
    spec = dict(section(template, "spec"))
    for flavor in flavors:
        spec["nodeSelector"] = {**section(spec, "nodeSelector"), **section(flavor, "nodeLabels")}
        spec["tolerations"] = [*entries(spec, "tolerations"), *entries(flavor, "tolerations")]
    return {**template, "spec": spec}
