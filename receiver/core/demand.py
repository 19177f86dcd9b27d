"""From pods to workloads, and whether a pod fits a pool (and if not, why not)."""

from collections.abc import Iterable, Mapping, Sequence

from receiver.core.model import UNASSIGNED
from receiver.core.pods import Pod, PodPhase, Requirement, Toleration, Workload
from receiver.core.policy import Pool, Taint

IGNORED_NAMESPACES = frozenset({"gpu-operator", "nvidia-gpu-operator"})  # its validation pods ask for a GPU


def workloads(pods: Iterable[Pod]) -> tuple[Workload, ...]:
    """Group the waiting GPU *pods*: declared gangs together, all others alone.

    Higher priority first, then longest waiting. DaemonSet pods, terminating pods and the GPU operator's
    validation pods are no demand.
    """
    gangs: dict[str, list[Pod]] = {}
    alone: list[Workload] = []
    for pod in pods:
        if pod.phase is not PodPhase.WAITING or pod.daemon or pod.terminating or not pod.gpus:
            continue
        if pod.namespace in IGNORED_NAMESPACES:
            continue
        if pod.gang is None:
            alone.append(Workload(key=pod.key, pods=(pod,)))
        else:
            gangs.setdefault(pod.gang, []).append(pod)
    together = [
        Workload(key=key, pods=tuple(sorted(members, key=lambda p: (-p.gpus, p.key))), gang=True)
        for key, members in gangs.items()
    ]
    return tuple(sorted([*alone, *together], key=lambda w: (-w.priority, w.since, w.key)))


def misfit(pod: Pod, pool: Pool) -> str | None:
    """Return why no node of *pool*, even an empty one, can hold *pod*; None when one can."""
    if pod.pool_hint not in (None, UNASSIGNED, pool.id):
        return f"it asks for pool {pod.pool_hint}"
    for resource, count in sorted(pod.requests.items()):
        offered = pool.resources.get(resource, 0)
        if count > offered:
            return f"it asks for {count} {resource}, a node offers {offered}"
    labels = pool.offered_labels
    for key, value in sorted(pod.node_selector.items()):
        if labels.get(key) != value:
            return f"its node selector wants {key}={value}, nodes carry {_carried(labels, key)}"
    if pod.affinity and not any(all(meets(labels, r) for r in term) for term in pod.affinity):
        wanted = next(r for r in pod.affinity[0] if not meets(labels, r))
        return f"its node affinity wants {wanted.key} {wanted.operator} {list(wanted.values)}"
    for taint in pool.taints:
        if taint.effect != "PreferNoSchedule" and not any(tolerates(t, taint) for t in pod.tolerations):
            return f"it does not tolerate the taint {taint.key}={taint.value}:{taint.effect}"
    return None


def _carried(labels: Mapping[str, str], key: str) -> str:
    return f"{key}={labels[key]}" if key in labels else f"no {key}"


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """True when *toleration* covers *taint*, by the rules of the Kubernetes API (Toleration v1 core)."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.operator == "Exists":
        return toleration.key in ("", taint.key)
    return toleration.key == taint.key and toleration.value == taint.value


def meets(labels: Mapping[str, str], want: Requirement) -> bool:
    """True when *labels* satisfy one expression of node affinity (NodeSelectorRequirement v1 core)."""
    have = labels.get(want.key)
    match want.operator:
        case "In":
            return have is not None and have in want.values
        case "NotIn":
            return have is None or have not in want.values
        case "Exists":
            return have is not None
        case "DoesNotExist":
            return have is None
        case "Gt" | "Lt":
            return have is not None and _ordered(have, want)
        case _:
            return False  # an operator nobody documents: never claim that it fits


def _ordered(have: str, want: Requirement) -> bool:
    try:
        left, right = int(have), int(want.values[0])
    except (ValueError, IndexError):
        return False
    return left > right if want.operator == "Gt" else left < right


def take(free: dict[str, int], requests: Mapping[str, int]) -> bool:
    """Take *requests* out of *free* if they fit; leave it untouched otherwise."""
    if any(free.get(resource, 0) < count for resource, count in requests.items()):
        return False
    for resource, count in requests.items():
        free[resource] -= count
    return True


def why_nowhere(workload: Workload, pools: Sequence[Pool]) -> str:
    """One sentence for the owner of a workload that no pool can ever hold."""
    pod = workload.pods[0]
    each = "; ".join(f"{pool.name}: {reason}" for pool in pools if (reason := misfit(pod, pool)))
    what = f"gang {workload.key} of {len(workload.pods)} pods" if workload.gang else f"pod {pod.key}"
    return f"No GPU pool can hold {what}. {each}" if each else f"No GPU pool can hold {what}."
