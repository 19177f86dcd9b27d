"""SIGKILL between remembering an alert and acting on it, and between an effect and its answer: one PUT, one node."""

import pytest

from simulator.server import Simulator
from tests.e2e.clouds import calls, last_call, required, submit, until_running
from tests.e2e.receivers import Receiver, is_running
from tests.e2e.waiting import until
from tests.payloads import a_payload

# Longer than any test: a step waits until its server is dead, or until the test clears the faults.
STUCK = {"kind": "slow", "face": "civo", "method": "GET", "seconds": "5m", "times": None}


def _caught_between_remembering_and_acting(cloud: Simulator, receiver: Receiver, reads: int = 1) -> None:
    """Deliver an alert, and return while the step it woke waits for Civo's answer number *reads*.

    The first answer is the look's; the second is read again right before the count is raised. Civo is slow before the
    pod is there: the watch of pods, too, may wake the step.
    """
    before = last_call(cloud)
    for _ in range(reads - 1):
        cloud.fault(**{**STUCK, "seconds": "0s", "times": 1})
    cloud.fault(**STUCK)
    submit(cloud)
    receiver.deliver(a_payload())
    until(lambda: len(calls(cloud, "GET", after=before)) == reads, "a step that waits for Civo")
    assert receiver.unconsidered() == [1]


def _one_node_in_the_end(cloud: Simulator, receiver: Receiver) -> None:
    """Hold the end of every test here; the same alert once more changes nothing."""
    receiver.until_considered()
    until_running(cloud)
    receiver.deliver(a_payload())
    receiver.until_considered()
    assert [c["body"]["count"] for c in calls(cloud, "PUT")] == [1]
    assert required(cloud) == 1
    until(lambda: receiver.pool()["required"] == 1, "the picture, which comes last")
    assert receiver.rows("SELECT outcome FROM actions") == [("confirmed",)]


def test_an_alert_survives_the_death_of_every_process(cloud: Simulator, receiver: Receiver) -> None:
    _caught_between_remembering_and_acting(cloud, receiver)
    receiver.server.kill()
    assert calls(cloud, "PUT") == []
    receiver.start().until_loop("leading")
    assert calls(cloud, "PUT") == []
    cloud.faults.clear()
    _one_node_in_the_end(cloud, receiver)


def test_an_alert_survives_the_death_of_the_worker(cloud: Simulator, receiver: Receiver) -> None:
    _caught_between_remembering_and_acting(cloud, receiver)
    dead = receiver.worker
    receiver.kill_worker()
    assert calls(cloud, "PUT") == []
    until(lambda: receiver.worker != dead, "another worker of the same master")
    receiver.until_loop("leading")
    assert calls(cloud, "PUT") == []
    cloud.faults.clear()
    _one_node_in_the_end(cloud, receiver)


@pytest.mark.parametrize("reads", [1, 2], ids=["while it looks", "right before it raises the count"])
def test_an_orphaned_worker_writes_nothing_and_the_next_server_takes_over(
    reads: int, cloud: Simulator, receiver: Receiver
) -> None:
    _caught_between_remembering_and_acting(cloud, receiver, reads)
    orphan = receiver.worker
    receiver.kill_master()
    assert is_running(orphan)
    receiver.start()  # on the same port and the same store, while the orphan still holds both
    cloud.faults.clear()  # the orphan gets its answer
    cloud.fault(**{**STUCK, "seconds": "5s"})  # the next server must not act before the orphan has ended
    until(lambda: not is_running(orphan), "the end of the orphaned worker")
    assert calls(cloud, "PUT") == []
    receiver.until_loop("leading")
    cloud.faults.clear()
    _one_node_in_the_end(cloud, receiver)


def test_a_crash_between_the_effect_of_a_put_and_its_answer_sends_no_second_one(
    cloud: Simulator, receiver: Receiver
) -> None:
    cloud.fault(kind="timeout", face="civo", method="PUT", seconds="5m", after_effect=True)
    submit(cloud)
    receiver.deliver(a_payload())
    until(lambda: required(cloud) == 1, "the effect of the PUT")
    assert receiver.rows("SELECT outcome FROM actions") == [(None,)]
    receiver.server.kill()
    receiver.start().until_loop("leading")
    cloud.faults.clear()
    _one_node_in_the_end(cloud, receiver)
