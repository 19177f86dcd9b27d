"""Declared gangs: what a pod says of its gang, and how many of the gang's GPU pods must run together."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from receiver.adapters.kubernetes.api import entries, key_of, section
from receiver.adapters.kubernetes.nodes import named, words
from receiver.adapters.kubernetes.reflector import CustomResources, ResourceKind
from receiver.core.model.pods import Pod, PodPhase
from receiver.ports import GANG_ANNOTATION, GANG_SIZE_ANNOTATION

COSCHEDULING_LABEL = "scheduling.x-k8s.io/pod-group"
VOLCANO_ANNOTATIONS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
KUEUE_LABEL = "kueue.x-k8s.io/pod-group-name"
KUEUE_SIZE_ANNOTATION = "kueue.x-k8s.io/pod-group-total-count"

COSCHEDULING_GROUPS = ResourceKind("scheduling.x-k8s.io", "podgroups", ("v1alpha1",))
VOLCANO_GROUPS = ResourceKind("scheduling.volcano.sh", "podgroups", ("v1beta1",))
WITHOUT_GROUPS = "gangs of them count as complete with the pods that exist"


class Declaration(StrEnum):
    """How a pod names its gang; the first of these that it uses counts."""

    OURS = "gpu-autoscaler.io/gang"
    COSCHEDULING = "PodGroup of coscheduling"
    VOLCANO = "PodGroup of Volcano"
    KUEUE = "pod group of Kueue"


GROUPS: Mapping[Declaration, ResourceKind] = {
    Declaration.COSCHEDULING: COSCHEDULING_GROUPS,
    Declaration.VOLCANO: VOLCANO_GROUPS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """A gang as one of its pods declares it; *size* counts all its pods, where the pod itself says so."""

    key: str
    by: Declaration
    size: int | None = None


def gang_of(raw: Mapping[str, Any]) -> Gang | None:
    """Return the gang that the pod in *raw* declares, or None."""
    metadata = section(raw, "metadata")
    labels, annotations = words(metadata, "labels"), words(metadata, "annotations")
    declared = (
        (Declaration.OURS, annotations.get(GANG_ANNOTATION, ""), annotations.get(GANG_SIZE_ANNOTATION)),
        (Declaration.COSCHEDULING, labels.get(COSCHEDULING_LABEL, ""), None),
        (Declaration.VOLCANO, _volcano_name(annotations), None),
        (Declaration.KUEUE, labels.get(KUEUE_LABEL, ""), annotations.get(KUEUE_SIZE_ANNOTATION)),
    )
    for by, name, size in declared:
        if known := named(name):
            return Gang(key=f"{metadata.get('namespace') or ''}/{known}", by=by, size=whole(size))
    return None


def volcano_group_of(raw: Mapping[str, Any]) -> str:
    """Return the key of the Volcano PodGroup that the pod in *raw* belongs to, or an empty string."""
    metadata = section(raw, "metadata")
    name = _volcano_name(words(metadata, "annotations"))
    return f"{metadata.get('namespace') or ''}/{name}" if name else ""


def whole(value: object) -> int | None:
    """Return *value* (``4`` or ``"4"``) as a whole number above zero, or None when it is none."""
    text = str(value).strip()
    return int(text) or None if text.isascii() and text.isdigit() and len(text) <= 9 else None


class PodGroups:
    """The PodGroups of the schedulers that know them."""

    def __init__(self, resources: CustomResources) -> None:
        self._resources = resources

    def of(
        self, declarations: Iterable[Declaration], known: Mapping[Declaration, list[Mapping[str, Any]]]
    ) -> dict[Declaration, list[Mapping[str, Any]]]:
        """Return the PodGroups behind *declarations*, and those already *known*.

        What cannot be read is left out: it is never a reason to fail.
        """
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

    def __init__(self, raws: Sequence[Mapping[str, Any]], gpu_pods: frozenset[str]) -> None:
        self.gangs: dict[str, Gang] = {}
        self._controllers: dict[str, set[str]] = {}
        self._living: Counter[str] = Counter()
        self._settled: Counter[str] = Counter()
        for raw in raws:
            gang = gang_of(raw)
            if gang is None:
                continue
            known = self.gangs.setdefault(gang.key, gang)
            if known.size is None and gang.size is not None:
                self.gangs[gang.key] = gang
            self._controllers.setdefault(gang.key, set()).add(_controller(raw))
            self._living[gang.key] += 1
            if key_of(raw) not in gpu_pods or _nominated(raw):
                self._settled[gang.key] += 1

    @property
    def declarations(self) -> frozenset[Declaration]:
        """How the gangs here are declared."""
        return frozenset(g.by for g in self.gangs.values())

    def short_of_size(self) -> frozenset[str]:
        """Return the gangs that declare their own size and have fewer living pods than that."""
        return frozenset(k for k, g in self.gangs.items() if g.size is not None and self._living[k] < g.size)

    def succeeded(self, terminated: Iterable[Mapping[str, Any]]) -> Counter[str]:
        """Return, by gang, how many of the *terminated* pods belong to it: same gang, same controller."""
        keys = [(g.key, _controller(raw)) for raw in terminated if (g := gang_of(raw)) is not None]
        return Counter(key for key, controller in keys if controller in self._controllers.get(key, ()))

    def minimums(
        self, groups: Mapping[Declaration, Sequence[Mapping[str, Any]]], succeeded: Mapping[str, int]
    ) -> dict[str, int]:
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


def _volcano_name(annotations: Mapping[str, str]) -> str:
    return next((annotations[a] for a in VOLCANO_ANNOTATIONS if annotations.get(a)), "")


def _controller(raw: Mapping[str, Any]) -> str:
    """Return the uid of the object that made the pod in *raw*, empty for a pod of its own."""
    owners = entries(section(raw, "metadata"), "ownerReferences")
    return next((str(o.get("uid") or "") for o in owners if o.get("controller") is True), "")


def _nominated(raw: Mapping[str, Any]) -> bool:
    return bool(section(raw, "status").get("nominatedNodeName")) and not section(raw, "spec").get("nodeName")
