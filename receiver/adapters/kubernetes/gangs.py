"""Declared gangs: how many of a gang's GPU pods must run together."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from receiver.adapters.kubernetes.api import Json, controller_of, key_of, section, text
from receiver.adapters.kubernetes.pods import Declaration, Gang, SeenPod, whole
from receiver.adapters.kubernetes.reflector import CustomResources, ResourceKind
from receiver.core.model.pods import Pod, PodPhase

COSCHEDULING_GROUPS = ResourceKind("scheduling.x-k8s.io", "podgroups", ("v1alpha1",))
VOLCANO_GROUPS = ResourceKind("scheduling.volcano.sh", "podgroups", ("v1beta1",))
GROUPS: Mapping[Declaration, ResourceKind] = {
    Declaration.COSCHEDULING: COSCHEDULING_GROUPS,
    Declaration.VOLCANO: VOLCANO_GROUPS,
}
WITHOUT_GROUPS = "gangs of them count as complete with the pods that exist"


class PodGroups:
    """The PodGroups of the schedulers that know them."""

    def __init__(self, resources: CustomResources) -> None:
        self._resources = resources

    def of(
        self, declarations: Iterable[Declaration], known: Mapping[Declaration, list[Json]]
    ) -> dict[Declaration, list[Json]]:
        """Return the PodGroups behind *declarations*, and those already *known*; what cannot be read is left out."""
        found = dict(known)
        for by in sorted(set(declarations) & GROUPS.keys() - known.keys()):
            groups = self._resources.if_readable(GROUPS[by], WITHOUT_GROUPS)
            if groups is not None:
                found[by] = groups
        return found


class Roll:
    """The living pods of each gang; *gpu_pods* are the keys (``namespace/name``) of those that ask for GPUs.

    A group's minimum counts all of its pods, finished ones and those without GPUs too, while a node is looked
    for only for GPU pods that wait. So a minimum is reduced by the pods that need none: those that have
    succeeded, those without GPUs, and those that the scheduler has nominated for a node.
    """

    def __init__(self, pods: Iterable[SeenPod], gpu_pods: frozenset[str]) -> None:
        self.gangs: dict[str, Gang] = {}
        self._controllers: dict[str, set[str]] = {}
        self._living: Counter[str] = Counter()
        self._settled: Counter[str] = Counter()
        for pod in pods:
            gang = pod.gang
            if gang is None:
                continue
            known = self.gangs.setdefault(gang.key, gang)
            if known.size is None and gang.size is not None:
                self.gangs[gang.key] = gang
            self._controllers.setdefault(gang.key, set()).add(_controller(pod))
            self._living[gang.key] += 1
            if pod.key not in gpu_pods or (pod.status.get("nominatedNodeName") and not pod.node):
                self._settled[gang.key] += 1

    @property
    def declarations(self) -> frozenset[Declaration]:
        """How the gangs here are declared."""
        return frozenset(g.by for g in self.gangs.values())

    def short_of_size(self) -> frozenset[str]:
        """Return the gangs that declare their own size and have fewer living pods than that."""
        return frozenset(k for k, g in self.gangs.items() if g.size is not None and self._living[k] < g.size)

    def succeeded(self, terminated: Iterable[SeenPod]) -> Counter[str]:
        """Return, by gang, how many of the *terminated* pods belong to it: same gang, same controller."""
        keys = [(g.key, _controller(pod)) for pod in terminated if (g := pod.gang) is not None]
        return Counter(key for key, controller in keys if controller in self._controllers.get(key, ()))

    def minimums(self, groups: Mapping[Declaration, Sequence[Json]], succeeded: Mapping[str, int]) -> dict[str, int]:
        """Return, by gang, how many GPU pods must run together; gangs without a minimum are left out.

        *succeeded* counts finished pods of gangs that declare their own size; a PodGroup counts its own.
        """
        of_groups = {
            (by, key_of(group)): (
                whole(section(group, "spec").get("minMember")) or 1,  # without one every pod may start alone
                whole(section(group, "status").get("succeeded")) or 0,
            )
            for by, found in groups.items()
            for group in found
        }
        least: dict[str, int] = {}
        for key, gang in self.gangs.items():
            size, done = of_groups.get((gang.by, key), (gang.size, succeeded.get(key, 0)))
            if size is not None:
                least[key] = max(1, size - done - self._settled[key])
        return least


def with_siblings(pods: Sequence[Pod], untried: frozenset[str]) -> list[Pod]:
    """Return *pods*, where the *untried* ones (by key) of a gang wait too once another of its pods waits."""
    waiting = {p.gang for p in pods if p.gang and p.phase is PodPhase.WAITING}
    return [replace(p, phase=PodPhase.WAITING) if p.key in untried and p.gang in waiting else p for p in pods]


def _controller(pod: SeenPod) -> str:
    return text(controller_of(pod.metadata), "uid")
