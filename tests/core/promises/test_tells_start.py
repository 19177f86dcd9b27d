"""Which promises say when the work starts, and which only speak of the nodes."""

from datetime import timedelta

import pytest

from receiver.core.promises.promise import Promise
from tests.core.builders import NOW

SOON, LATER = NOW + timedelta(minutes=4), NOW + timedelta(minutes=7)


@pytest.mark.parametrize(
    ("promise", "tells"),
    [
        (Promise(starts_p50=SOON, starts_p90=LATER, learnt=True), True),
        (Promise(starts_p90=LATER), True),
        (Promise(starts_p50=SOON, starts_p90=LATER), False),
        (Promise(starts_p50=LATER, starts_p90=LATER), False),
        (Promise(), False),
    ],
)
def test_a_promise_tells_the_start_exactly_when_its_sentence_does(promise: Promise, tells: bool) -> None:
    assert promise.tells_start is tells
    assert promise.sentence(NOW).startswith("starts ") is tells
