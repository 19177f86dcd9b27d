"""Pods that objects of the API announce before they exist, and what reads such objects."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import islice
from operator import attrgetter
from typing import ClassVar, Protocol

from receiver.adapters.kubernetes.api import Json, section, words
from receiver.adapters.kubernetes.pods import SeenPod, length
from receiver.adapters.kubernetes.reflector import Lists
from receiver.core.model.pods import Pod, PodPhase
from receiver.core.model.room_requests import RoomAnswer
from receiver.ports import MAY_WAIT, Clock, ClusterFacts, Did, Receipt

MOST_OF_ONE = 1_000  # pods that one object announces: room for a gang is looked for pod by pod and node by node
Reader = Callable[[SeenPod], Pod | None]  # of a pod with GPUs, or one that claims devices (`Dra.read`)
BY_RESOURCES: Reader = attrgetter("pod")  # where claims are not read


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What the readers of custom resources share; *pod* reads a pod."""

    lists: Lists
    clock: Clock
    pod: Reader
    pools: Callable[[], Sequence[str]]  # the names and ids of ours
    paid_elsewhere: set[str] = field(default_factory=set)  # uids of objects whose pods a request read before pays for


class ResourceReader(Protocol):
    """Reads one kind of custom resource for a look at the cluster."""

    def add_to(self, facts: ClusterFacts, living_pods: Sequence[SeenPod]) -> ClusterFacts:
        """Return *facts* with what it reads. Never raises."""


class RequestReader(ABC):
    """Reads the requests of one *kind*, and writes the answers to them."""

    kind: ClassVar[str]

    @abstractmethod
    def add_to(self, facts: ClusterFacts, living_pods: Sequence[SeenPod]) -> ClusterFacts:
        """Return *facts* with the requests that it reads. Never raises."""

    @abstractmethod
    def answer(self, answer: RoomAnswer) -> Receipt:
        """See `Cluster.answer_request`."""

    def keep_active(self) -> Receipt:
        """See `Cluster.keep_active`."""
        return Receipt(did=Did.ALREADY, sentence=f"nothing says whether requests ({self.kind}) are answered")


MakeReader = Callable[[Reading], RequestReader]


@dataclass(frozen=True, slots=True)
class Run:
    """*count* pods like *pod*, which are called by its name, *prefix* and a number from *first* on."""

    pod: Pod
    count: int
    prefix: str = ""
    first: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """What the object *key* announces, of which *least* must run together (None: all)."""

    key: str
    runs: tuple[Run, ...]
    least: int | None = None

    @property
    def total(self) -> int:
        return sum(run.count for run in self.runs)

    def pods(self) -> tuple[Pod, ...]:
        """Return them; of too many the first, which then wait for the others as those of an unfinished gang do."""
        every = (
            replace(run.pod, name=f"{run.pod.name}/{run.prefix}{n}")
            for run in self.runs
            for n in range(run.first, run.first + run.count)
        )
        pods = tuple(islice(every, MOST_OF_ONE))
        if len(pods) <= 1:  # a single pod is no gang
            return pods
        least = self.total if self.least is None and self.total > len(pods) else self.least
        return tuple(replace(p, gang=self.key, gang_min=least) for p in pods)


def announced_pod(origin: Json, template: Json, *, priority: int, read: Reader = BY_RESOURCES) -> Pod | None:
    """Return a waiting GPU pod of *template* (PodTemplateSpec v1 core), or None where *read* finds none. It has
    namespace, name, age, owner and patience of *origin*, the object that announces it, and no uid: there is nothing
    yet that an Event could be left on."""
    metadata, described = section(origin, "metadata"), section(template, "metadata")
    inherited = ("namespace", "name", "creationTimestamp", "ownerReferences")
    own = {name: metadata[name] for name in inherited if name in metadata}
    template_metadata = {name: described[name] for name in ("labels", "annotations") if name in described}
    spec = {name: value for name, value in section(template, "spec").items() if name != "schedulingGates"}
    pod = read(SeenPod({"metadata": {**template_metadata, **own}, "spec": {**spec, "nodeName": None}}))
    if pod is None:
        return None
    waits = pod.wishes.may_wait if pod.wishes.may_wait is not None else patience_of(origin)
    wishes = replace(pod.wishes, may_wait=waits)
    return replace(pod, phase=PodPhase.WAITING, priority=priority, gang=None, gang_min=None, wishes=wishes)


def patience_of(raw: Json) -> timedelta | None:
    """How long the object *raw* says that its pods may wait."""
    return length(words(section(raw, "metadata"), "annotations").get(MAY_WAIT, ""))


def trimmed(raw: Json) -> Json:
    """Return what is read of a template or scalable: a cluster may have thousands."""
    metadata, spec = section(raw, "metadata"), section(raw, "spec")
    return {
        "metadata": {name: metadata.get(name) for name in ("namespace", "name", "generation")},
        "spec": {name: spec.get(name) for name in ("replicas", "parallelism", "selector", "template")},
        "status": {"replicas": section(raw, "status").get("replicas") or 0},
        "template": raw.get("template"),
    }
