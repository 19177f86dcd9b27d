"""Pods that a queue announces and that do not exist yet, from the templates that they will be made of.

Nothing bounds how many one object may announce: a Job says ``parallelism: 999999999`` in one line. More than a thousand
buy nothing more, and are not made.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from receiver.adapters.kubernetes.nodes import section
from receiver.adapters.kubernetes.pods import pod_from
from receiver.core.model.pods import Pod, PodPhase
from receiver.core.notices.wording import named
from receiver.ports import TryLater

MOST_OF_ONE = 1_000  # pods that one object announces: room for a gang is looked for pod by pod and node by node
MOST_OF_ALL = 20_000  # that all of a queue announce


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
        """How many pods are announced."""
        return sum(run.count for run in self.runs)

    @property
    def listed(self) -> int:
        """How many of them are made."""
        return min(self.total, MOST_OF_ONE)

    def pods(self) -> tuple[Pod, ...]:
        """Return them; of too many the first, which then wait for the others as those of an unfinished gang do."""
        found = tuple(islice(self._pods(), MOST_OF_ONE))
        if len(found) <= 1:  # a single pod is no gang
            return found
        least = self.total if self.least is None and self.total > len(found) else self.least
        return tuple(replace(p, gang=self.key, gang_min=least) for p in found)

    def _pods(self) -> Iterator[Pod]:
        for run in self.runs:
            for n in range(run.first, run.first + run.count):
                yield replace(run.pod, name=f"{run.pod.name}/{run.prefix}{n}")


def announced_pod(origin: Mapping[str, Any], template: Mapping[str, Any], *, priority: int) -> Pod | None:
    """Return a waiting GPU pod of *template* (PodTemplateSpec v1 core), or None for one without GPUs.

    It has namespace, name, age and owner of *origin*, the object that announces it, and no uid: there is
    nothing yet that an Event could be left on.
    """
    metadata, described = section(origin, "metadata"), section(template, "metadata")
    inherited = ("namespace", "name", "creationTimestamp", "ownerReferences")
    own = {name: metadata[name] for name in inherited if name in metadata}
    said = {name: described[name] for name in ("labels", "annotations") if name in described}
    pod = pod_from({"metadata": {**said, **own}, "spec": {**section(template, "spec"), "nodeName": None}})
    return None if pod is None else replace(pod, phase=PodPhase.WAITING, priority=priority, gang=None, gang_min=None)


def understood(make: Callable[[], Announcement], key: str, warn: Callable[[str, str], None]) -> Announcement:
    """Return what *make* does of the object *key*; one that cannot be read announces nothing, and *warn* is told: its
    quantities are whatever somebody wrote, and nobody else waits for it to be put right."""
    try:
        return make()
    except TryLater as error:
        warn("queue entry not understood", f"{key}: {error}")
        return Announcement(key=key, runs=())


def bounded(announced: Sequence[Announcement], warn: Callable[[str, str], None]) -> list[Announcement]:
    """Return those of *announced* that count: without the largest where all are too many, so that nobody crowds out
    everybody else with a few lines. *warn* is told of those."""
    room = MOST_OF_ALL
    counted: set[str] = set()
    left_out: list[str] = []
    for each in sorted(announced, key=lambda a: (a.listed, a.key)):
        room -= each.listed
        if room < 0:
            left_out.append(each.key)
        else:
            counted.add(each.key)
    if left_out:
        warn("queue too long", f"not counted, as all announce more than {MOST_OF_ALL} pods: {named(left_out)}")
    return [each for each in announced if each.key in counted]
