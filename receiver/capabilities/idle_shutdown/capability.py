"""What idle shutdown adds to the product."""

from collections.abc import Iterator

from receiver.capabilities.capability import Capability, RightsCase, RightsRow
from receiver.capabilities.idle_shutdown.chore import scale_idle_workloads_to_zero
from receiver.ports import IDLE_SHUTDOWN_ANNOTATION
from receiver.step.parts import Additions, LookChore

ENDS = f"some workload is annotated {IDLE_SHUTDOWN_ANNOTATION}"


def _rights(case: RightsCase) -> Iterator[RightsRow]:
    annotated = any(IDLE_SHUTDOWN_ANNOTATION in pod.annotations for pod in case.pods)
    scales = "deployments/scale replicasets/scale statefulsets/scale"
    yield annotated, "get", "", "pods", ENDS, "acts"
    yield annotated, "get", "apps", "deployments replicasets statefulsets", ENDS, "acts"
    yield annotated, "patch", "apps", scales, ENDS, "acts"
    yield annotated, "get patch", "batch", "jobs", ENDS, "acts"


CAPABILITY = Capability(
    name="idle_shutdown",
    step=Additions(
        look_chores=(LookChore(name="idle_shutdown", make=scale_idle_workloads_to_zero),),
    ),
    rights=_rights,
)
