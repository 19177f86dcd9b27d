"""A whole life with a CapacityBuffer: nodes bought, reported, used, refilled, and gone with it."""

from datetime import timedelta

import pytest

from receiver.core.model.room_requests import RoomAnswer, RoomRequest
from receiver.ports import Store, TryLater
from receiver.step import gather
from tests.core.builders import MINUTE
from tests.given import lives
from tests.given.life import Life, Wrapped, a_job
from tests.given.requests import a_buffer, buffer_of

WARM = a_buffer(2)


def messages(life: Life) -> dict[str, str]:
    """What was written into the status of each buffer."""
    return {key: answer.message for (_, key), answer in life.world.answers.items()}


def a_life(store: Store, *buffers: RoomRequest) -> Life:
    life = lives.at_zero(store)
    life.world.requests = buffers or (WARM,)
    return life


def test_a_buffer_is_bought_for_reported_used_refilled_and_given_back(store: Store) -> None:
    life = a_life(store)
    life.step()
    assert life.required() == 2
    on_the_way = "2 of 2 chunks have room, 2 of them on nodes that are on their way; $2.58 per hour"
    assert messages(life) == {"ml/warm": on_the_way}
    life.run(5 * MINUTE)
    assert messages(life) == {"ml/warm": "2 of 2 chunks have room; $2.58 per hour"}

    life.submit(a_job(duration=timedelta(hours=3)))
    life.run(5 * MINUTE)
    assert life.required() == 3

    life.run(timedelta(minutes=70))
    assert life.required() == 3  # beyond the paid hour
    life.world.requests = ()
    life.run(timedelta(minutes=60))
    assert (life.required(), list(life.world.kills)) == (1, [])


def test_a_status_is_written_only_where_it_differs(store: Store) -> None:
    life = a_life(store)
    life.run(30 * MINUTE)
    assert len(life.writes("answer_request")) == 2


def test_observe_mode_writes_no_status(store: Store) -> None:
    life = lives.observing(a_life(store))
    life.run(5 * MINUTE)
    assert (messages(life), life.required()) == ({}, 0)


def test_a_status_that_cannot_be_written_delays_neither_the_others_nor_the_pools(store: Store) -> None:
    other = buffer_of("ml/other", None, problem="Buffer not ready for provisioning: no template")

    def wrapped(inner: object) -> Wrapped:
        def fails(answer: RoomAnswer) -> object:
            if answer.key == WARM.key:
                raise TryLater("no")
            return inner.answer_request(answer)  # type: ignore[attr-defined]  # the cluster

        return Wrapped(inner, answer_request=fails)

    life = a_life(store, WARM, other)
    life.wrap_cluster = wrapped
    life.step()
    assert (life.required(), messages(life)) == (2, {"ml/other": other.problem})


def test_a_bug_in_whose_work_it_is_takes_no_room_from_a_buffer(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    life = a_life(store)
    life.run(10 * MINUTE)
    monkeypatch.setattr(gather, "own_work", lambda *_: 1 / 0)
    life.run(timedelta(minutes=90))
    assert life.required() == 2
