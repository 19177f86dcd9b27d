"""Which pods without a GPU keep their node: draining it would lose them. The rules are those of Cluster Autoscaler."""

from collections.abc import Callable, Collection
from enum import StrEnum


class KeepRule(StrEnum):
    """A kind of pod that keeps its node, by the configuration's word for it."""

    UNMANAGED = "unmanaged"
    KUBE_SYSTEM = "kube-system"
    LOCAL_STORAGE = "local-storage"


SYSTEM_NAMESPACE = "kube-system"
# A pod's controller starts it again with an empty disk, and `emptyDir` holds what may be lost: it keeps no node unless
# the operator says so. Cluster Autoscaler keeps such nodes; managed clusters mostly switch that off.
KEPT_BY_DEFAULT = frozenset({KeepRule.UNMANAGED, KeepRule.KUBE_SYSTEM})
WHY = {
    KeepRule.UNMANAGED: "has no controller that would start it again",
    KeepRule.KUBE_SYSTEM: "belongs to kube-system, and no PodDisruptionBudget covers it",
    KeepRule.LOCAL_STORAGE: "keeps data on the node (emptyDir or hostPath)",
}
PROTECTED = "is protected"
PODS_NAMED = 3  # of a node


def keeps_for(
    *,
    namespace: str,
    managed: bool,
    stores: bool,
    covered: Callable[[], bool],
    rules: Collection[KeepRule] = KEPT_BY_DEFAULT,
) -> KeepRule | None:
    """Return the rule by which a pod without a GPU, which its owner did not declare safe to evict, keeps its node.

    *managed* is true where a controller starts it again, *stores* where it keeps data on the node. *covered* is asked
    only about pods of kube-system: whether a PodDisruptionBudget covers the pod.
    """
    if KeepRule.UNMANAGED in rules and not managed:
        return KeepRule.UNMANAGED
    if KeepRule.KUBE_SYSTEM in rules and namespace == SYSTEM_NAMESPACE and not covered():
        return KeepRule.KUBE_SYSTEM
    return KeepRule.LOCAL_STORAGE if KeepRule.LOCAL_STORAGE in rules and stores else None


def named(pods: Collection[str]) -> tuple[str, ...]:
    """The first of *pods* that keep a node, each with its reason, and how many more there are."""
    shown = sorted(pods)
    more = len(shown) - PODS_NAMED
    return (*shown[:PODS_NAMED], *([f"and {more} more"] if more > 0 else ()))
