"""What the pods on each node request of its compute resources."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from receiver.adapters.kubernetes.nodes import section
from receiver.adapters.kubernetes.pods import comes_with_the_node, compute_requests, gpu_requests, terminated

Load = dict[str, dict[str, int]]  # by node name


def load_of(raws: Iterable[Mapping[str, Any]], names: Collection[str]) -> tuple[Load, Load]:
    """Return what those of *raws* without GPUs request on each node of *names*, and what DaemonSets' and
    mirror pods do. A sum for each node is all that is kept of them."""
    others: Load = {}
    daemons: Load = {}
    for raw in raws:
        spec = section(raw, "spec")
        node = str(spec.get("nodeName") or "")
        if node not in names or terminated(raw):
            continue
        asked = compute_requests(spec)
        if not gpu_requests(spec):
            _add(others.setdefault(node, {}), asked)
        if comes_with_the_node(section(raw, "metadata")):
            _add(daemons.setdefault(node, {}), asked)
    return others, daemons


def _add(total: dict[str, int], asked: Mapping[str, int]) -> None:
    for resource, amount in asked.items():
        total[resource] = total.get(resource, 0) + amount
