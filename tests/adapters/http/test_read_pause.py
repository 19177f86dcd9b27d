"""How long a source is not read that asked to wait."""

from datetime import timedelta

import pytest

from receiver.adapters.http.sessions import ReadPause
from receiver.ports import TryLater

BUSY = TryLater("Civo is busy", code="http_429", delay=timedelta(seconds=120))


def test_the_pause_says_why_and_ends_with_the_delay() -> None:
    at = [1000.0]
    pause = ReadPause(now=lambda: at[0])
    pause.begin(BUSY)
    at[0] += 100
    with pytest.raises(TryLater, match="Civo is busy") as caught:
        pause.check()
    assert (caught.value.code, caught.value.delay) == ("http_429", timedelta(seconds=20))
    at[0] += 20
    pause.check()


def test_an_error_without_a_delay_begins_none() -> None:
    pause = ReadPause()
    pause.begin(TryLater("down"))
    pause.check()


def test_a_pause_of_one_thing_leaves_the_others() -> None:
    pause = ReadPause()
    pause.begin(BUSY, "clusterqueues")
    pause.check("nodes")
    with pytest.raises(TryLater):
        pause.check("clusterqueues")


def test_a_pause_of_everything_holds_for_each() -> None:
    pause = ReadPause()
    pause.begin(BUSY)
    with pytest.raises(TryLater):
        pause.check("nodes")
