"""What owners of idle workloads are told."""

import pytest

from receiver import ports
from receiver.capabilities.idle_shutdown.judging import IdleStanding, shutdown_at
from receiver.capabilities.idle_shutdown.notices import IDLE_SHUTDOWN, idle_notice
from receiver.core.model.pods import KEEP_UNTIL, Pod
from tests.capabilities.idle_shutdown.builders import LISTED, a_case, a_web_pod, the, told
from tests.core.builders import MINUTE, NOW


def test_a_warning_says_when_and_how_to_keep_the_workload() -> None:
    said = idle_notice(IdleStanding.WARNED, the(a_web_pod()), a_case(policy=LISTED))
    assert said.title == "GPU workload Deployment ml/web will be scaled to zero at 12:15 UTC"
    command = "kubectl annotate pod -n ml web-5d9c-a --overwrite gpu-autoscaler.io/keep-until=2026-11-21T12:00:00Z"
    assert command in said.body


def test_a_warning_of_observe_mode_promises_nothing() -> None:
    said = idle_notice(IdleStanding.WARNED, the(a_web_pod()), a_case(mode="observe"))
    assert "would be scaled to zero at 12:15 UTC (observing" in said.title
    assert "kubectl" not in said.body


def test_where_a_snooze_is_not_honoured_the_warning_names_another_way() -> None:
    said = idle_notice(IdleStanding.WARNED, the(a_web_pod()), a_case())
    assert "keep-until" not in said.body
    assert "gpu-autoscaler.io/idle-shutdown-" in said.body


@pytest.mark.parametrize(
    "pod, undo",
    [
        (a_web_pod(), "kubectl scale -n ml deployment/web --replicas=1"),
        (a_web_pod("db-0", owner="StatefulSet/db"), "kubectl scale -n ml statefulset/db --replicas=1"),
        (
            a_web_pod("train-0", owner="Job/train"),
            """kubectl patch -n ml job/train --type=merge -p '{"spec":{"suspend":false}}'""",
        ),
    ],
    ids=["Deployment", "StatefulSet", "Job"],
)
def test_a_shutdown_is_told_with_the_command_that_undoes_it(pod: Pod, undo: str) -> None:
    said = idle_notice(IdleStanding.DONE, the(pod), a_case(), "scaled it")
    assert said.body.splitlines()[-1] == f"To start it again: {undo}"
    assert said.body.startswith("Scaled it.")


def test_the_time_told_is_that_of_the_warning() -> None:
    case = a_case(told=told(IdleStanding.WARNED, 5 * MINUTE))
    assert shutdown_at(the(a_web_pod()), case) == NOW + 10 * MINUTE


def test_the_annotations_that_notices_name_are_those_that_are_read() -> None:
    assert IDLE_SHUTDOWN == ports.IDLE_SHUTDOWN_ANNOTATION
    assert KEEP_UNTIL == ports.KEEP_UNTIL_ANNOTATION
