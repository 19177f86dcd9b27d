"""The same news many times, in any order, buys one node."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from simulator.server import Simulator
from tests.e2e.clouds import QUICK, ClockAhead, a_cloud, calls, required, submit, until_running
from tests.e2e.receivers import Receiver
from tests.payloads import a_payload, an_alert

BUILD = timedelta(minutes=3)
FIRING = a_payload(an_alert("firing"))
RESOLVED = a_payload(an_alert("resolved"))


@pytest.fixture
def clock() -> ClockAhead:
    """The cloud's."""
    return ClockAhead()


@pytest.fixture
def cloud(clock: ClockAhead) -> Iterator[Simulator]:
    """A cloud that builds nodes as slowly as a real one."""
    with a_cloud(clock=clock, timings={**QUICK, "build": f"{BUILD.seconds}s"}) as simulator:
        yield simulator


def _one_node_was_asked_for(cloud: Simulator, clock: ClockAhead, receiver: Receiver, deliveries: int) -> None:
    """Hold the end of every test here: all considered, one PUT, one node."""
    receiver.until_considered()
    with cloud.moved() as world:
        assert world.pods["ml", "train-0"].phase == "Pending"  # the node is still being built
    receiver.deliver(FIRING)
    receiver.until_considered()
    clock.skip(BUILD)
    until_running(cloud)
    receiver.deliver(FIRING)
    receiver.until_considered()
    assert [c["body"]["count"] for c in calls(cloud, "PUT")] == [1]
    assert required(cloud) == 1
    assert receiver.rows("SELECT count(*) FROM deliveries") == [(deliveries + 2,)]
    assert receiver.rows("SELECT outcome FROM actions") == [("confirmed",)]


def test_the_same_payload_twenty_times_from_eight_threads_asks_civo_once(
    cloud: Simulator, clock: ClockAhead, receiver: Receiver
) -> None:
    submit(cloud)
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(receiver.post, [FIRING] * 20))
    assert {a.status_code for a in answers} == {202}
    assert len({a.json()["delivery"] for a in answers}) == 20
    _one_node_was_asked_for(cloud, clock, receiver, 20)


@pytest.mark.parametrize(
    "messages",
    [(RESOLVED, FIRING), (FIRING, RESOLVED, FIRING), (RESOLVED,)],
    ids=["resolved before firing", "firing, resolved, firing", "resolved alone, as the pod waits on"],
)
def test_the_order_of_messages_does_not_matter(
    messages: tuple[dict[str, object], ...], cloud: Simulator, clock: ClockAhead, receiver: Receiver
) -> None:
    submit(cloud)
    for message in messages:
        receiver.deliver(message)
    _one_node_was_asked_for(cloud, clock, receiver, len(messages))
