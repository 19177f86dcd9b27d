"""ProvisioningRequests (``autoscaling.x-k8s.io``) of our class: the pods that each books room for, and its conditions.

The rules are those of kubernetes/autoscaler, ``cluster-autoscaler/provisioningrequest`` (conditions, ``pods``) and
``processors/provreq`` (expiry), and of kubernetes-sigs/kueue at ff69552e,
``pkg/controller/admissionchecks/provisioning`` (what Kueue reads). What differs is in docs/decisions/0068.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from receiver.adapters.http.sessions import moment
from receiver.adapters.kubernetes import api
from receiver.adapters.kubernetes.announced import (
    MOST_OF_ONE,
    Announcement,
    Reading,
    RequestReader,
    Run,
    announced_pod,
    trimmed,
)
from receiver.adapters.kubernetes.api import Json, condition, entries, key_of, section, text
from receiver.adapters.kubernetes.installations import names_pools
from receiver.adapters.kubernetes.pods import SeenPod, whole
from receiver.adapters.kubernetes.reflector import ResourceKind
from receiver.capabilities.provisioning_requests.progress import KIND, Booking, BookingStage
from receiver.core.model.pods import Pod
from receiver.core.model.room_requests import RoomAnswer, RoomRequest
from receiver.ports import PROVISIONING_CLASS, UPSTREAM_CLASS, ClusterFacts, Did, Receipt, TryLater, WontWork

RESOURCE = ResourceKind("autoscaling.x-k8s.io", "provisioningrequests", ("v1", "v1beta1"))
CONSUMES = (
    "autoscaling.x-k8s.io/consume-provisioning-request",
    "cluster-autoscaler.kubernetes.io/consume-provisioning-request",
)
WITHOUT = "ProvisioningRequests book no nodes"
ENDED = (BookingStage.FAILED, BookingStage.EXPIRED)
VALID_UNTIL = "ValidUntilSeconds"
TEMPLATES_COME_WITHIN = timedelta(minutes=5)  # Kueue makes the PodTemplates after the request that names them
ACCEPTED = "gpu-autoscaler buys nodes for all pods or for none"


def provisioning_classes(*, upstream: bool) -> tuple[str, ...]:
    """Return the classes to serve: our own, and that of Cluster Autoscaler where *upstream*."""
    return (PROVISIONING_CLASS, UPSTREAM_CLASS) if upstream else (PROVISIONING_CLASS,)


class ProvisioningRequests(RequestReader):
    """The requests of our classes that have not ended. Those read last count while the API server does not answer:
    otherwise booked nodes would be removed. One that names pools, none of which is among our pools,
    is left to another installation."""

    kind = KIND

    def __init__(self, reading: Reading, classes: Collection[str]) -> None:
        self._reading, self._lists, self._clock, self._classes = reading, reading.lists, reading.clock, classes
        self._requests: dict[str, Json] = {}
        self._templates: dict[str, Json] = {}

    def add_to(self, facts: ClusterFacts, living_pods: Sequence[SeenPod]) -> ClusterFacts:
        """Return *facts* with what is booked, the oldest first, and with its pods."""
        self._reading.paid_elsewhere.clear()
        try:
            raws = (self._lists.if_allowed(RESOURCE, WITHOUT) or ()) if self._classes else ()
            requests = {key_of(raw): raw for raw in raws if self._serves(raw)}
            if requests:
                templates = self._lists.every("podtemplates", api.POD_TEMPLATES, view=trimmed)
                self._templates = {key_of(t): section(t, "template") for t in templates}
            self._requests = requests
        except (TryLater, WontWork) as error:
            self._lists.remarks.warn("ProvisioningRequests not read", f"{error}; those read last count")
        consumers: dict[str, list[SeenPod]] = {}
        for pod in living_pods if self._requests else ():
            name = next((pod.annotations[a] for a in CONSUMES if a in pod.annotations), "")
            if name and not (pod.terminated or pod.leaving or pod.spec.get("schedulingGates")):
                consumers.setdefault(f"{pod.namespace}/{name}", []).append(pod)
        ordered = sorted(self._requests.items(), key=lambda item: (_created(item[1]), item[0]))
        bookings = tuple(b for key, raw in ordered if (b := self._booking(raw, consumers.get(key, ()))) is not None)
        owners = (o for raw in self._requests.values() for o in entries(section(raw, "metadata"), "ownerReferences"))
        self._reading.paid_elsewhere.update(text(owner, "uid") for owner in owners)
        pods = (*facts.pods, *(pod for each in bookings for pod in each.pods))
        return replace(facts, requests=(*facts.requests, *bookings), pods=pods)

    def answer(self, answer: RoomAnswer) -> Receipt:
        """See `Cluster.answer_request`; writes the conditions."""
        raw = self._requests.get(answer.key)
        if raw is None:
            return Receipt(did=Did.DIFFERS, sentence=f"there is no ProvisioningRequest {answer.key}")
        conditions = {text(c, "type"): c for c in entries(section(raw, "status"), "conditions")}
        wanted = self._conditions(answer, conditions)
        if all(_alike(conditions.get(c["type"], {}), c) for c in wanted):
            return Receipt(did=Did.ALREADY, sentence=f"ProvisioningRequest {answer.key} says so already")
        own_conditions = {kind: _said(c) for kind, c in conditions.items() if kind in list(BookingStage)}
        own_conditions |= {c["type"]: c for c in wanted}
        self._lists.apply_status(RESOURCE, "ProvisioningRequest", raw, {"conditions": list(own_conditions.values())})
        return Receipt(did=Did.DONE, sentence=f"ProvisioningRequest {answer.key}: {answer.state}")

    def _conditions(self, answer: RoomAnswer, conditions: Mapping[str, Json]) -> list[dict[str, Any]]:
        """Return the conditions that *answer* sets. Kueue shows the message of Provisioned while it is False."""

        def made(stage: BookingStage, reason: str, message: str, *, status: str = "True") -> dict[str, Any]:
            before = conditions.get(stage, {})
            since = before.get("lastTransitionTime") if before.get("status") == status else None
            now = f"{self._clock.now():%Y-%m-%dT%H:%M:%SZ}"
            fields = {"type": stage.value, "status": status, "reason": reason, "message": message}
            return {**fields, "lastTransitionTime": since or now}

        texts, stage = (answer.reason, answer.message), BookingStage(answer.state)
        if stage in ENDED:
            return [made(stage, *texts)]
        provisioned = stage is BookingStage.PROVISIONED
        if provisioned and conditions.get(stage, {}).get("status") == "True":
            return []
        accepted = made(BookingStage.ACCEPTED, "Accepted", ACCEPTED)
        return [accepted, made(BookingStage.PROVISIONED, *texts, status="True" if provisioned else "False")]

    def _serves(self, raw: Json) -> bool:
        ended = condition(section(raw, "status"), *ENDED)
        ours = section(raw, "spec").get("provisioningClassName") in self._classes
        deleted = section(raw, "metadata").get("deletionTimestamp")
        return ours and not ended and not deleted and self._names_ours(raw) is not False

    def _names_ours(self, raw: Json) -> bool | None:
        return names_pools(raw, self._reading.pools(), section(section(raw, "spec"), "parameters"))

    def _booking(self, raw: Json, consumers: Sequence[SeenPod]) -> RoomRequest | None:
        """Return what *raw* books: the GPU pods that it announces, less those of *consumers*, which are there."""
        key, provisioned = key_of(raw), condition(section(raw, "status"), BookingStage.PROVISIONED)
        created = moment(_created(raw)) or self._clock.now()
        announcement, problem = Announcement(key=key, runs=()), ""
        try:
            announcement = self._announced(raw)
            if announcement.total > MOST_OF_ONE:
                problem = f"it asks for {announcement.total} GPU pods; at most {MOST_OF_ONE} are booked at once"
            elif not announcement.total and section(raw, "spec").get("provisioningClassName") != PROVISIONING_CLASS:
                return None  # another autoscaler serves it
            elif not announcement.total:
                problem = "none of its pods asks for a GPU"
        except TryLater as error:
            if error.code == api.NOT_FOUND and self._clock.now() - created < TEMPLATES_COME_WITHIN:
                return None
            problem = str(error)
        announced = [replace(pod, gang=key, gang_min=None) for pod in announcement.pods()] if not problem else []
        pods = list(announced)
        for consumer in consumers:
            consumer_pod = self._reading.pod(consumer)
            like = (n for n, pod in enumerate(pods) if consumer_pod is not None and _is_like(consumer_pod, pod))
            if (place := next(like, None)) is not None:
                del pods[place]
        seconds = whole(section(section(raw, "spec"), "parameters").get(VALID_UNTIL))
        booking = Booking(
            created_at=created,
            provisioned_at=moment(provisioned.get("lastTransitionTime")),
            consumed=not pods and all(pod.node for pod in consumers),
            valid_for=timedelta(seconds=seconds) if seconds else None,
        )
        return RoomRequest(
            kind=KIND,
            key=key,
            pods=tuple(pods),
            waits=True,
            announced=tuple(announced),
            problem=problem,
            named=self._names_ours(raw) is True,
            terms=booking.terms(),
        )

    def _announced(self, raw: Json) -> Announcement:
        """Raises TryLater where a template is not there or cannot be read."""
        runs = []
        for number, pod_set in enumerate(entries(section(raw, "spec"), "podSets")):
            name = text(section(pod_set, "podTemplateRef"), "name")
            template = self._templates.get(f"{text(section(raw, 'metadata'), 'namespace')}/{name}")
            if template is None:
                raise TryLater(f"PodTemplate {name} is not there", code=api.NOT_FOUND)
            priority = section(template, "spec").get("priority") or 0
            pod = announced_pod(raw, template, priority=priority, read=self._reading.pod)
            if pod is not None:
                runs.append(Run(pod, whole(pod_set.get("count", 1)) or 0, prefix=f"{number}-"))
        return Announcement(key=key_of(raw), runs=tuple(runs))


def _is_like(consumer: Pod, pod: Pod) -> bool:
    """True where *consumer* may be the announced *pod*. What a bound pod claimed counts among its requests."""
    if consumer.claiming.words or pod.claiming.words:
        return len(consumer.claiming.words) == len(pod.claiming.words)
    return consumer.requests == pod.requests


def _created(raw: Json) -> str:
    return text(section(raw, "metadata"), "creationTimestamp")


def _said(raw: Json) -> dict[str, Any]:
    return {n: raw[n] for n in ("type", "status", "reason", "message", "lastTransitionTime") if n in raw}


def _alike(raw: Json, wanted: Json) -> bool:
    return _said(raw) == dict(wanted)
