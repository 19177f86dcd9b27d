"""A whole life with a CapacityBuffer: nodes bought, reported, used, refilled, and gone with it."""

from datetime import timedelta

from receiver.core.model.pods import Buffer
from receiver.ports import Store, TryLater
from tests.core.builders import MINUTE, a_pod
from tests.given import lives
from tests.given.life import Life, Wrapped, a_job

WARM = Buffer(key="ml/warm", replicas=2, pod=a_pod("capacity-buffer-warm", uid=""))


def a_life(store: Store, *buffers: Buffer) -> Life:
    life = lives.at_zero(store)
    life.world.buffers = buffers or (WARM,)
    return life


def test_a_buffer_is_bought_for_reported_used_refilled_and_given_back(store: Store) -> None:
    life = a_life(store)
    life.step()
    assert life.required() == 2
    on_the_way = "2 of 2 chunks have room, 2 of them on nodes that are on their way; $2.58 per hour"
    assert life.world.buffer_messages == {"ml/warm": on_the_way}
    life.run(5 * MINUTE)
    assert life.world.buffer_messages == {"ml/warm": "2 of 2 chunks have room; $2.58 per hour"}

    life.submit(a_job(duration=timedelta(hours=3)))
    life.run(5 * MINUTE)
    assert life.required() == 3

    life.run(timedelta(minutes=70))
    assert life.required() == 3  # beyond the paid hour
    life.world.buffers = ()
    life.run(timedelta(minutes=60))
    assert (life.required(), list(life.world.kills)) == (1, [])


def test_a_status_is_written_only_where_it_differs(store: Store) -> None:
    life = a_life(store)
    life.run(30 * MINUTE)
    assert len(life.writes("report_buffer")) == 2


def test_observe_mode_writes_no_status(store: Store) -> None:
    life = lives.observing(a_life(store))
    life.run(5 * MINUTE)
    assert (life.world.buffer_messages, life.required()) == ({}, 0)


def test_a_status_that_cannot_be_written_delays_neither_the_others_nor_the_pools(store: Store) -> None:
    other = Buffer(key="ml/other", problem="Buffer not ready for provisioning: no template")

    def wrapped(inner: object) -> Wrapped:
        def fails(buffer: Buffer, message: str) -> object:
            if buffer is WARM:
                raise TryLater("no")
            return inner.report_buffer(buffer, message)  # type: ignore[attr-defined]  # the cluster

        return Wrapped(inner, report_buffer=fails)

    life = a_life(store, WARM, other)
    life.wrap_cluster = wrapped
    life.step()
    assert (life.required(), life.world.buffer_messages) == (2, {"ml/other": ""})
