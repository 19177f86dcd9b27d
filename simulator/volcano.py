"""Volcano's metrics of its queues, computed from the PodGroups in the simulator.

Its scheduler reckons with tasks; here a PodGroup asks for its ``minResources``, and has them while it runs.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from simulator.exposition import Family

JSON = Mapping[str, Any]
PHASES = ("Pending", "Inqueue", "Running", "Unknown", "Completed")


def volcano_scheduler(groups: Sequence[JSON]) -> list[Family]:
    """Return what the scheduler's endpoint says: GPUs and other scalars of each queue."""
    request = Family("volcano_queue_request_scalar_resources", "Request scalar resources for one queue")
    allocated = Family("volcano_queue_allocated_scalar_resources", "Allocated scalar resources for one queue")
    asked: dict[tuple[str, str], Decimal] = {}
    has: dict[tuple[str, str], Decimal] = {}
    for group in groups:
        for resource, amount in ((group.get("spec") or {}).get("minResources") or {}).items():
            if "/" not in resource or resource.startswith("requests.") or _phase(group) == "Completed":
                continue
            key = (_queue(group), resource)
            thousandths = 1000 * Decimal(str(amount))  # scalars are kept like CPU
            asked[key] = asked.get(key, Decimal(0)) + thousandths
            has[key] = has.get(key, Decimal(0)) + (thousandths if _phase(group) == "Running" else 0)
    for family, amounts in ((request, asked), (allocated, has)):
        for (queue, resource), amount in sorted(amounts.items()):
            family.add(float(amount), queue_name=queue, resource=resource)
    return [request, allocated]


def volcano_controller(groups: Sequence[JSON], queues: Sequence[JSON]) -> Iterator[Family]:
    """Yield what the controller's endpoint says: PodGroups of each queue by phase."""
    counts = Counter((_queue(group), _phase(group)) for group in groups)
    names = sorted({str(q["metadata"]["name"]) for q in queues} | {queue for queue, _ in counts})
    for phase in PHASES:
        text = f"The number of {phase} PodGroup in this queue"
        family = Family(f"volcano_queue_pod_group_{phase.lower()}_count", text)
        for queue in names:
            family.add(counts[queue, phase], queue_name=queue)
        yield family


def _queue(group: JSON) -> str:
    return str((group.get("spec") or {}).get("queue") or "default")


def _phase(group: JSON) -> str:
    return str((group.get("status") or {}).get("phase") or "Pending")
