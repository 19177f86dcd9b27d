"""Without an answer of Alertmanager's API, a delivered alert counts until it is resolved or its repeat is overdue."""

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.model.signals import Alert, Matcher, SignalAction, Silence, payload_life
from receiver.ports import Delivery, Store
from receiver.step.gather import Sources, gather
from receiver.step.parts import Parts
from tests.core.builders import HOUR, MINUTE
from tests.given import lives, troubles
from tests.given.life import START, Life, a_job
from tests.step.process_builders import outside_of


def tell(store: Store, action: str, at: datetime, *, firing: bool = True) -> None:
    """Deliver one alert of pool l40s that began at START."""
    alert = Alert(
        fingerprint=action,
        labels={"alertname": "Ours", "action": action, "pool": "l40s"},
        starts_at=START,
        firing=firing,
    )
    store.remember(Delivery(receiver="r", group_key=action, alerts=(alert,)), at)


def test_a_freeze_that_still_fires_holds_until_its_next_repeat(store: Store) -> None:
    life = lives.at_zero(store)
    troubles.alertmanager_down(life)
    tell(store, "freeze", START)
    life.submit(a_job())
    for passed in (5 * MINUTE, 2 * HOUR, 4 * HOUR):  # the next delivery is due after 4 h to 4 h 5 min
        life.pass_time(START + passed - life.now)
        assert life.step().decisions["l40s-id"].deciding.rule == "not_frozen"
    assert life.required() == 0


def test_a_freeze_ends_when_it_is_resolved(store: Store) -> None:
    life = lives.at_zero(store)
    troubles.alertmanager_down(life)
    tell(store, "freeze", START)
    life.submit(a_job())
    life.pass_time(5 * MINUTE)
    tell(store, "freeze", life.now, firing=False)
    life.run(MINUTE)
    assert life.required() == 1


def after_a_restart(store: Store, action: str) -> Life:
    """Alertmanager has just started, and knows no alert until Prometheus sends it again."""
    life = lives.at_zero(store, rest=MINUTE)
    tell(store, action, START)
    life.alarms.started_at = START
    life.submit(a_job())
    return life


@pytest.mark.parametrize("action", ["freeze", "pause_scale_up"])
def test_an_alert_that_a_restarted_alertmanager_has_forgotten_counts_for_five_minutes(
    store: Store, action: str
) -> None:
    life = after_a_restart(store, action)
    life.run(4 * MINUTE)
    assert life.required() == 0
    life.run(2 * MINUTE)
    assert life.required() == 1


def test_an_alert_that_is_resolved_or_silenced_after_the_restart_does_not_count(store: Store) -> None:
    life = after_a_restart(store, "freeze")
    tell(store, "freeze", life.now, firing=False)
    life.run(MINUTE)
    assert life.required() == 1
    tell(store, "freeze", life.now)
    matcher = Matcher(name="alertname", value="Ours")
    life.alarms.silences.append(Silence(id="s", matchers=(matcher,), ends_at=START + HOUR))
    life.submit(a_job("another"))
    life.run(MINUTE)
    assert life.required() == 2


@pytest.mark.parametrize("action", [SignalAction.FREEZE, SignalAction.PAUSE_SCALE_UP, SignalAction.HOLD])
def test_an_alert_counts_as_long_as_the_configured_intervals_say(store: Store, action: SignalAction) -> None:
    life = lives.at_zero(store)
    troubles.alertmanager_down(life)
    sources = replace(life.sources, payload_life=payload_life(2 * MINUTE, MINUTE / 2))
    tell(store, action.value, START)

    def signals(passed: timedelta) -> list[SignalAction]:
        return [s.action for s in gather(sources, life.policy, START + passed, Parts()).facts.signals]

    assert signals(4 * MINUTE) == [action]
    assert signals(5 * MINUTE) == []


@pytest.mark.parametrize("api", ["", "urls: ['http://alertmanager:9093'], "])
def test_the_configuration_says_how_long(tmp_path: Path, api: str) -> None:
    top = f"alertmanager: {{{api}repeat_interval: 12h, group_interval: 10m}}\n"
    assert outside_of(tmp_path, top=top).sources.payload_life == timedelta(hours=24, minutes=10)


def test_the_configuration_assumes_what_alertmanager_does(tmp_path: Path) -> None:
    default = Sources.__dataclass_fields__["payload_life"].default
    assert outside_of(tmp_path).sources.payload_life == default
    assert default == payload_life(4 * HOUR, 5 * MINUTE)


intervals = st.integers(min_value=1, max_value=24 * 3600).map(lambda seconds: timedelta(seconds=seconds))


@given(intervals, intervals)
def test_a_firing_alert_is_repeated_before_it_lapses(repeat: timedelta, group: timedelta) -> None:
    life = payload_life(repeat, group)
    flushes = repeat // group + 1  # what falls due at a flush may just miss it
    assert flushes * group <= life
    if repeat >= group:  # one delivery fails: Alertmanager tries again at the next flush
        assert (flushes + 1) * group <= life
