"""What the port `Alarms` promises."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import pytest
from pytest_httpserver import HTTPServer

from receiver.adapters.monitoring.alertmanager import AlertmanagerAlarms
from receiver.core.model.signals import COMPONENT, Alert, Matcher, Silence
from receiver.ports import AlarmFacts, Alarms
from simulator.server import Simulator
from simulator.world import SimulatedAlarms
from tests.contracts.conftest import FLAKY
from tests.contracts.monitoring import Board, serve_alertmanager
from tests.contracts.stage import ON_THE_WIRE
from tests.simulator.builders import START
from tests.world_ports import FlakyAlarms

HOUR = timedelta(hours=1)


@pytest.fixture
def board() -> Board:
    """An Alertmanager that knows nothing."""
    return Board()


@pytest.fixture(params=[ON_THE_WIRE, "simulated", FLAKY])
def alarms(sim: Simulator, board: Board, request: pytest.FixtureRequest, httpserver: HTTPServer) -> Iterator[Alarms]:
    """The product's adapter, the simulated Alertmanager, and the one of the tests of the step."""
    if request.param == ON_THE_WIRE:
        serve_alertmanager(httpserver, sim, board)
        with closing(AlertmanagerAlarms([httpserver.url_for("")], timeout=60)) as adapter:
            yield adapter
        return
    found = SimulatedAlarms(sim.world) if request.param == "simulated" else FlakyAlarms(sim.world)
    found.extra, found.silences = board.alerts, board.silences
    yield _Started(found, board)


class _Started:
    """An Alertmanager in memory that started when the board says."""

    def __init__(self, alarms: SimulatedAlarms, board: Board) -> None:
        self._alarms, self._board = alarms, board

    def look(self) -> AlarmFacts:
        self._alarms.started_at = self._board.started_at
        return self._alarms.look()


def an_alert(name: str, **labels: str) -> Alert:
    """A firing alert of ours."""
    found = {"alertname": name, "component": COMPONENT, **labels}
    return Alert(fingerprint=name.lower(), labels=found, starts_at=START, annotations={"summary": "why"})


def a_silence(name: str, *matchers: Matcher, ends_in: timedelta = HOUR) -> Silence:
    """A silence that began before."""
    return Silence(id=name, matchers=matchers, ends_at=START + ends_in, created_by="ada", comment="maintenance")


def firing(alarms: Alarms) -> list[str]:
    """The names of the alerts on the board that fire; a world raises others of its own."""
    return sorted({a.labels["alertname"] for a in alarms.look().alerts} & {"One", "Two", "Three"})


def test_without_alerts_and_silences_nothing_is_shown(alarms: Alarms) -> None:
    assert firing(alarms) == []
    assert (alarms.look().silences, alarms.look().started_at) == ((), None)


def test_every_firing_alert_is_shown_with_its_labels_and_its_start(alarms: Alarms, board: Board) -> None:
    board.alerts += [an_alert("One", pool="a"), an_alert("Two", pool="b")]
    assert firing(alarms) == ["One", "Two"]
    shown = {a.fingerprint: a for a in alarms.look().alerts}
    assert [shown[alert.fingerprint] for alert in board.alerts] == board.alerts
    assert shown["one"].firing


def test_an_alert_is_shown_until_it_fires_no_longer(alarms: Alarms, board: Board) -> None:
    board.alerts.append(an_alert("One"))
    assert firing(alarms) == ["One"]
    board.alerts.clear()
    assert firing(alarms) == []


def test_an_alert_that_a_silence_matches_is_not_shown_and_every_other_is(alarms: Alarms, board: Board) -> None:
    board.alerts += [an_alert("One", pool="a"), an_alert("Two", pool="b"), an_alert("Three", pool="a")]
    board.silences.append(a_silence("s-1", Matcher(name="pool", value="a")))
    assert firing(alarms) == ["Two"]


def test_an_alert_is_silenced_only_where_every_matcher_holds(alarms: Alarms, board: Board) -> None:
    board.alerts += [an_alert("One", pool="a"), an_alert("Two", pool="a")]
    board.silences.append(
        a_silence("s-1", Matcher(name="pool", value="a"), Matcher(name="alertname", value="T.*", is_regex=True))
    )
    assert firing(alarms) == ["One"]


def test_any_of_several_silences_silences_an_alert(alarms: Alarms, board: Board) -> None:
    board.alerts += [an_alert("One", pool="a"), an_alert("Two", pool="b")]
    board.silences += [a_silence(f"s-{pool}", Matcher(name="pool", value=pool)) for pool in ("a", "b")]
    assert firing(alarms) == []


def test_every_silence_is_shown_with_its_author_its_end_and_its_matchers(alarms: Alarms, board: Board) -> None:
    without = Matcher(name="pool", value="a", is_equal=False)
    board.silences += [a_silence("s-1", Matcher(name="pool", value="a|b", is_regex=True)), a_silence("s-2", without)]
    assert sorted(alarms.look().silences, key=lambda s: s.id) == board.silences


def test_a_silence_that_has_ended_is_not_shown_and_silences_nothing(
    sim: Simulator, alarms: Alarms, board: Board
) -> None:
    board.alerts.append(an_alert("One", pool="a"))
    board.silences += [
        a_silence("short", Matcher(name="pool", value="a"), ends_in=HOUR),
        a_silence("long", Matcher(name="pool", value="b"), ends_in=2 * HOUR),
    ]
    assert firing(alarms) == []
    sim.live.turn(HOUR)
    assert (firing(alarms), [s.id for s in alarms.look().silences]) == (["One"], ["long"])


def test_the_start_of_alertmanager_is_told_where_it_is_known(alarms: Alarms, board: Board) -> None:
    board.started_at = START - HOUR
    assert alarms.look().started_at == START - HOUR
