"""What the sources say of a node's GPUs: why they are sick, and who maintains the node.

A sick node is no room for waiting work, or only as far as its API says which devices work. What runs there goes on.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from receiver.core.model.memory import NodeLife
from receiver.core.model.model import Health
from receiver.ports import ClusterNode, TelemetryFacts

READY_CONDITIONS = ("GPUReady", "nvidia.com/GPUReady")  # False is the fault
# Of NVSentinel, which sets them for fatal events: True is the fault.
FAULT_CONDITIONS = (
    *("GpuMemWatch", "GpuThermalWatch", "GpuPcieWatch", "GpuPowerWatch", "GpuInforomWatch", "GpuSmWatch"),
    *("GpuNvlinkWatch", "GpuMcuWatch", "GpuPmuWatch", "GpuDriverWatch", "GpuCpusetWatch", "SysLogsXIDError"),
    *("SysLogsSXIDError", "SysLogsGPUFallenOff", "NVSwitchFatalError", "NVSwitchDown", "DCGMError", "CSPMaintenance"),
)
UPGRADE_LABEL = "nvidia.com/gpu-driver-upgrade-state"  # of the GPU operator
# The operator sets `upgrade-required` on every node at once, and takes one after the other: until then it does work.
AS_USUAL = ("", "upgrade-required", "upgrade-done", "upgrade-failed")
MAINTAINED_FOR = timedelta(minutes=45)  # Civo's node agent restarts a node within 40; later the node counts as before
WELL_AFTER = timedelta(minutes=10)  # a fault within that time after another one continues it


def sickness(node: ClusterNode, telemetry: TelemetryFacts | None, conditions: Iterable[str], life: NodeLife) -> Health:
    """Return what is wrong with the GPUs of *node*; *conditions* are those of the configuration.

    While Prometheus is silent, a node that was sick stays so: an XID is seen only there.
    """
    if telemetry is not None and (failed := telemetry.failed.get(node.name)):
        return Health(sick=failed)
    for kind, status in sorted(node.conditions.items()):
        if (kind in READY_CONDITIONS and status == "False") or (
            kind in (*FAULT_CONDITIONS, *conditions) and status == "True"
        ):
            return Health(sick=f"condition {kind} is {status}")
    if node.labels.get(UPGRADE_LABEL) == "upgrade-failed":
        return Health(sick="its driver upgrade failed")
    if node.sick_devices:
        partly = len(node.sick_devices) < node.gpu_devices
        return Health(sick=f"device taints: {', '.join(node.sick_devices)}", partly=partly)
    for resource, count in sorted(node.capacity.items()):
        if 0 < node.allocatable.get(resource, 0) < count:
            lost = count - node.allocatable[resource]
            return Health(sick=f"{lost} of {count} {resource} unhealthy", partly=True)
    if telemetry is None and life.sick_since is not None and life.well_since is None:
        return Health(sick="it was before Prometheus stopped answering")
    return Health()


def maintenance(node: ClusterNode, telemetry: TelemetryFacts | None) -> str:
    """Return who works on *node*, to follow its name; empty for no one."""
    phase = telemetry.recovering.get(node.name) if telemetry is not None else None
    state = node.labels.get(UPGRADE_LABEL, "")
    if phase:
        return f"is restarted by Civo's node agent ({phase})"
    return "" if state in AS_USUAL else f"gets another driver from the GPU operator ({state})"


def is_unready(node: ClusterNode) -> bool:
    """True while a condition says that the GPUs of a node are not ready: a new one is still on its way."""
    return any(node.conditions.get(kind) == "False" for kind in READY_CONDITIONS)


def course(past: NodeLife, node: ClusterNode | None, health: Health, by: str, now: datetime) -> dict[str, Any]:
    """The moments of a node's sickness and maintenance (*by*: who) in its life, as they are *now*.

    A sickness ends after the node was well for a while, so a fault that follows another one does not begin anew. One
    that follows the loss of the node's GPUs began with that.
    """
    sick_since, well_since = past.sick_since, past.well_since
    if node is None or not node.ready:
        well_since = None  # another fault, or not seen
    elif health.sick:
        sick_since, well_since = sick_since or past.lost_at or now, None
    elif sick_since is not None:
        well_since = well_since or now
        if now - well_since >= WELL_AFTER:
            sick_since = well_since = None
    return {
        "sick_since": sick_since,
        "well_since": well_since,
        "maintained_since": (past.maintained_since or now) if by else None,
    }
