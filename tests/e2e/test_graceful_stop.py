"""SIGTERM, as Kubernetes sends it: the step under way is finished, the lock is given up, the exit status is 0."""

from receiver.adapters.leader import WriterLock
from simulator.server import Simulator
from tests.e2e.clouds import calls, last_call, submit
from tests.e2e.installing import Install
from tests.e2e.receivers import Receiver
from tests.e2e.waiting import PATIENCE, until
from tests.payloads import a_payload

LONGEST = 15.0  # seconds; what does not stop by itself, gunicorn kills after 20


def test_a_server_that_is_told_to_stop_finishes_its_step_and_gives_up_the_lock(
    cloud: Simulator, install: Install
) -> None:
    receiver = install(cloud).serve(forked=False)  # the command itself, as Kubernetes starts it
    lock = WriterLock(f"sqlite:///{receiver.store}")
    assert not lock.try_acquire()
    receiver.until_at_rest()  # the step that is stopped is the delivery's
    before = last_call(cloud)
    cloud.fault(kind="slow", face="civo", method="GET|PUT", seconds="1s", times=None)
    submit(cloud)
    receiver.deliver(a_payload())
    until(lambda: calls(cloud, "GET", after=before), "a step that waits for Civo")

    assert receiver.terminate(PATIENCE) == 0

    assert [c["body"]["count"] for c in calls(cloud, "PUT")] == [1]
    assert receiver.rows("SELECT outcome FROM actions") == [("confirmed",)]
    assert receiver.unconsidered() == []
    assert lock.try_acquire()
    lock.release()
    assert "Traceback" not in receiver.said()
    assert "[ERROR]" not in receiver.said()


def test_an_idle_server_stops_at_once(receiver: Receiver) -> None:
    assert receiver.terminate(LONGEST) == 0
