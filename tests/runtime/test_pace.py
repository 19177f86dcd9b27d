"""Many pods, few wake-ups."""

from collections.abc import Callable

import pytest

from receiver.runtime.loop import BURST, LONGEST_SECONDS, QUIET_SECONDS, SPACING_SECONDS, WakeupBurst


class Agenda:
    """A clock that is turned by hand, and what is due on it."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.due: list[tuple[float, Callable[[], None]]] = []
        self.woken: list[float] = []
        self.pace = WakeupBurst(lambda: self.woken.append(round(self.now - 1000, 3)), self.after, lambda: self.now)

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        self.due.append((self.now + seconds, call))

    def run_to(self, seconds: float) -> None:
        """Turn the clock to so many seconds after the beginning."""
        while self.due and min(self.due, key=lambda d: d[0])[0] <= 1000 + seconds:
            first = min(self.due, key=lambda d: d[0])
            self.due.remove(first)
            self.now = max(self.now, first[0])
            first[1]()
        self.now = 1000 + seconds

    def pods(self, *moments: float) -> None:
        """Find a pod at each of these seconds."""
        for at in moments:
            self.run_to(at)
            self.pace.found()


@pytest.fixture
def agenda() -> Agenda:
    return Agenda()


def test_one_pod_wakes_the_loop_once_and_soon(agenda: Agenda) -> None:
    agenda.pods(0)
    agenda.run_to(600)
    assert agenda.woken == [QUIET_SECONDS]


def test_the_pods_of_one_job_wake_it_once_when_all_have_come(agenda: Agenda) -> None:
    agenda.pods(*(n * 0.05 for n in range(21)))
    agenda.run_to(600)
    assert agenda.woken == [pytest.approx(1 + QUIET_SECONDS)]


def test_pods_without_end_do_not_put_it_off_for_ever(agenda: Agenda) -> None:
    agenda.pods(*(n * 0.1 for n in range(30)))
    assert agenda.woken == [LONGEST_SECONDS]


def test_a_pod_while_nothing_gathers_begins_anew(agenda: Agenda) -> None:
    agenda.pods(0, 3)
    agenda.run_to(600)
    assert agenda.woken == [QUIET_SECONDS, 3 + QUIET_SECONDS]


def test_an_hour_of_pods_wakes_it_no_oftener_than_the_long_pace_and_one_burst(agenda: Agenda) -> None:
    agenda.pods(*(n * 0.5 for n in range(7200)))
    assert len(agenda.woken) <= 3600 / SPACING_SECONDS + BURST
    assert len(agenda.woken) >= 3600 / SPACING_SECONDS - 1
    gaps = [b - a for a, b in zip(agenda.woken, agenda.woken[1:], strict=False)]
    assert max(gaps) <= SPACING_SECONDS + LONGEST_SECONDS


def test_after_a_quiet_time_a_whole_burst_is_free_again(agenda: Agenda) -> None:
    agenda.pods(*(n * 0.5 for n in range(200)))
    agenda.run_to(200)
    before = len(agenda.woken)
    agenda.pods(*(200 + n for n in range(BURST)))
    agenda.run_to(200 + BURST)
    assert len(agenda.woken) == before + BURST
