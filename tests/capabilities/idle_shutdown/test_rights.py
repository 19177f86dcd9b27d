"""What the doctor says of the rights that idle shutdown needs."""

from receiver.doctor.checks import Finding, Installation
from receiver.doctor.kubernetes import AREA
from receiver.doctor.rounds import go_round
from receiver.ports import IDLE_SHUTDOWN_ANNOTATION
from receiver.replay.world.objects import PodSpec
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
