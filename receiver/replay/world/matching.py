"""Whether a node's taints and labels let a pod in, as Kubernetes documents it.

Written apart from the product's own idea of what fits where, so that the two check each other.
"""

from collections.abc import Iterable, Mapping

from receiver.core.model.pods import Preference, Requirement, Toleration
from receiver.core.model.policy import Taint


def untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """Return the first taint that keeps a pod with *tolerations* away, or None."""
    for taint in taints:
        if taint.effect != "PreferNoSchedule" and not any(_tolerates(t, taint) for t in tolerations):
            return taint
    return None


def soft(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> int:
    """Return how many taints would rather have a pod with *tolerations* elsewhere."""
    return sum(t.effect == "PreferNoSchedule" and not any(_tolerates(x, t) for x in tolerations) for t in taints)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value


def selects(
    labels: Mapping[str, str], node_selector: Mapping[str, str], affinity: tuple[tuple[Requirement, ...], ...]
) -> bool:
    """True when *labels* satisfy the selector and one of the affinity's alternatives."""
    if any(labels.get(k) != v for k, v in node_selector.items()):
        return False
    return not affinity or any(term and all(_holds(r, labels) for r in term) for term in affinity)


def preference(labels: Mapping[str, str], preferred: Iterable[Preference]) -> int:
    """Return the sum of the weights of what *labels* satisfy; an empty term counts nothing."""
    return sum(p.weight for p in preferred if p.term and all(_holds(r, labels) for r in p.term))


def _holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    have = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return have is not None and have in requirement.values
        case "NotIn":
            return have is None or have not in requirement.values
        case "Exists":
            return have is not None
        case "DoesNotExist":
            return have is None
        case "Gt" | "Lt":
            try:
                number, bound = int(have or ""), int(requirement.values[0])
            except (ValueError, IndexError):
                return False
            return number > bound if requirement.operator == "Gt" else number < bound
    raise ValueError(f"unknown operator {requirement.operator!r}")
