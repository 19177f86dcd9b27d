"""What the doctor says of the rights that idle shutdown needs."""

import pytest

from receiver.capabilities.capability import RightsCase
from receiver.capabilities.idle_shutdown.capability import CAPABILITY
from receiver.config.settings import load_text
from receiver.doctor.checks import Finding, Installation
from receiver.doctor.kubernetes import AREA
from receiver.doctor.rounds import go_round
from receiver.ports import IDLE_SHUTDOWN_ANNOTATION
from receiver.replay.world.objects import PodSpec
from tests.config.builders import one_pool
from tests.doctor.cluster import run, well_kept
from tests.doctor.conftest import Told
from tests.simulator.builders import Starter


def problems(installation: Installation) -> list[Finding]:
    ((_, findings),) = go_round([AREA], installation)
    return [finding for finding in findings if finding.verdict != "pass"]


def test_a_workload_that_asks_for_idle_shutdown_makes_its_rights_needed(start: Starter, told: Told) -> None:
    sim = well_kept(start, kubernetes={"denied": ["patch deployments/scale"]})
    assert problems(told(sim)) == []
    run(sim, PodSpec(namespace="ml", name="lab", annotations={IDLE_SHUTDOWN_ANNOTATION: "2h"}))
    (finding,) = problems(told(sim))
    assert (finding.check, finding.verdict) == ("kubernetes.rights", "fail")
    assert "patch deployments/scale.apps" in finding.said


@pytest.mark.parametrize("action, needed", [("tell", False), ("scale_to_zero", True)])
def test_a_policy_that_ends_makes_the_rights_needed_and_one_that_tells_does_not(action: str, needed: bool) -> None:
    text = one_pool(top=f"idle_shutdown: {{covers: ['namespace/*'], action: {action}}}\n")
    case = RightsCase(configuration=load_text(text).configuration, groups=frozenset())
    rows = {(verbs, resources): wanted for wanted, verbs, _, resources, *_ in CAPABILITY.rights(case)}
    assert rows["patch", "deployments/scale replicasets/scale statefulsets/scale"] is needed
    assert rows["get", "pods"] is needed
    assert rows["get patch", "jobs"] is False  # a policy suspends none
