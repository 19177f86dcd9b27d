"""What idle shutdown adds to the product."""

from collections.abc import Iterator

from receiver.capabilities.capability import Capability, RightsCase, RightsRow
from receiver.capabilities.idle_shutdown.chore import scale_idle_workloads_to_zero
from receiver.core.model.policy import IdleAction
from receiver.ports import IDLE_SHUTDOWN_ANNOTATION
from receiver.step.parts import Additions, LookChore

ENDS = f"some workload is annotated {IDLE_SHUTDOWN_ANNOTATION}, or idle_shutdown.action is scale_to_zero"


def _rights(case: RightsCase) -> Iterator[RightsRow]:
    idle = case.configuration.idle_shutdown
    is_policy = bool(idle.covers) and idle.action is IdleAction.SCALE_TO_ZERO
    annotated = any(IDLE_SHUTDOWN_ANNOTATION in pod.annotations for pod in case.pods)
    ends = annotated or is_policy
    scales = "deployments/scale replicasets/scale statefulsets/scale"
    yield ends, "get", "", "pods", ENDS, "acts"
    yield ends, "get", "apps", "deployments replicasets statefulsets", ENDS, "acts"
    yield ends, "patch", "apps", scales, ENDS, "acts"
    yield annotated, "get patch", "batch", "jobs", ENDS, "acts"


CAPABILITY = Capability(
    name="idle_shutdown",
    step=Additions(
        look_chores=(LookChore(name="idle_shutdown", make=scale_idle_workloads_to_zero),),
    ),
    rights=_rights,
)
