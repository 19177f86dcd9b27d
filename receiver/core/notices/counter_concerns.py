"""What needs a person about counters that DCGM does not deliver: without some of them no fault of a GPU is seen."""

from collections.abc import Iterator

from receiver.core.model.model import Source
from receiver.core.model.text import listed
from receiver.core.notices.notice import Cause, Concern, Level, Seen

NAMED = 3  # nodes in one sentence
UNDETECTED = {  # without these counters, which every GPU has (node:gpu_counter_missing:relabel in rules/)
    "DCGM_FI_DEV_XID_ERRORS": "failed GPUs are not detected",
    "DCGM_FI_DEV_GPU_TEMP": "hot GPUs are not detected",
    "DCGM_FI_DEV_FB_USED": "memory leaks are not detected, and no idle workload is scaled to zero",
    "DCGM_FI_DEV_POWER_USAGE": "stuck counters are not detected, and no idle workload is scaled to zero",
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": "a frozen exporter is not detected",
}


def of_counters(seen: Seen) -> Iterator[Concern]:
    """Counters that some nodes do not deliver. It is no silent source: utilization is known."""
    state = seen.facts.sources.get(Source.DCGM)
    if state is None or not state.lacks:
        return
    yield Concern(
        kind=Cause.SOURCE_SILENT,
        level=Level.WARN,
        what="DCGM does not deliver every counter: some faults of GPUs are not detected",
        why="; ".join(
            f"{UNDETECTED.get(counter, 'an alert cannot fire')}: no {counter} from {listed(nodes, NAMED)}"
            for counter, nodes in sorted(state.lacks.items())
        ),
        doing="everything else works as usual",
        todo="Add them to the exporter's list; k8s/workloads/gpu-operator/dcgm-metrics.csv has all of them",
        guide="runbooks/GpuCountersMissing.md",
        page="sources",
        topic="source:counters",
        key=", ".join(sorted(state.lacks)),  # the nodes change
    )
