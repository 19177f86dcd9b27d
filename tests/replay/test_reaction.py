"""How soon a replayed controller notices a change."""

from datetime import timedelta

from receiver.replay.reaction import Reaction
from tests.reconcile.harness import START

SECOND = timedelta(seconds=1)
AT = START + 7 * SECOND


def reacting(**given: timedelta) -> float:
    """Seconds from a change 7 s after the start until it is noticed, with a tick of 60 s."""
    reaction = Reaction(**{"start": START, "tick": 60 * SECOND, **given})  # type: ignore[arg-type]
    return (reaction.noticed(AT) - AT).total_seconds()


def test_without_alert_and_watch_the_tick_finds_it() -> None:
    assert reacting() == 53


def test_an_alert_takes_a_scrape_then_an_evaluation_then_the_group_wait() -> None:
    assert reacting(scrape=4 * SECOND, evaluation=5 * SECOND, group_wait=1 * SECOND) == 8 + 2 + 1 - 7


def test_a_watch_tells_of_it_before_the_alert_does() -> None:
    assert reacting(scrape=5 * SECOND, evaluation=5 * SECOND, watch=1 * SECOND) == 1


def test_a_watch_needs_no_prometheus() -> None:
    assert reacting(watch=timedelta(0)) == 0


def test_a_slow_watch_delays_neither_the_alert_nor_the_tick() -> None:
    assert reacting(scrape=5 * SECOND, evaluation=5 * SECOND, watch=20 * SECOND) == 3
    assert reacting(tick=10 * SECOND, watch=20 * SECOND) == 3


def test_what_is_no_waiting_pod_is_found_at_the_tick() -> None:
    reaction = Reaction(start=START, tick=60 * SECOND, scrape=5 * SECOND, evaluation=5 * SECOND, watch=1 * SECOND)
    assert reaction.noticed(AT, waits=False) == START + 60 * SECOND
