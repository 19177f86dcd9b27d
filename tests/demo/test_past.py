"""The month behind the playground: its ledger is as the autoscaler writes it, and nothing is left at its end."""

from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from demo import past
from demo.configs import write_configs
from demo.playground import playground_plan
from demo.stack import places_for
from receiver.adapters.store import open_store

DAY = timedelta(days=1)
FRIDAY = datetime(2026, 11, 27, 18, tzinfo=UTC)


def test_the_same_seed_has_the_same_month_behind_it() -> None:
    plan = playground_plan()
    assert list(past.a_month(plan, 1, FRIDAY)) == list(past.a_month(plan, 1, FRIDAY))
    assert list(past.a_month(plan, 1, FRIDAY)) != list(past.a_month(plan, 2, FRIDAY))


def test_nobody_works_at_weekends_and_every_job_is_over_when_the_month_ends() -> None:
    jobs = list(past.a_month(playground_plan(), 1, FRIDAY))
    assert {job.submit_at.weekday() for job in jobs} == {0, 1, 2, 3, 4}
    assert max(job.submit_at + job.duration for job in jobs) < FRIDAY


def test_its_ledger_has_nodes_that_all_went_and_the_teams_that_held_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past, "DAYS", 1)
    plan = playground_plan()
    places = places_for(plan, tmp_path)
    write_configs(plan, places)

    past.live_through(plan, places, seed=1, ends=FRIDAY)

    with closing(open_store(f"sqlite:///{places.database}")) as store:
        memory = store.memory(FRIDAY, FRIDAY - 2 * DAY)
        teams = {used.owner.team for used in store.usage("2026-11")}
    assert memory.lives
    assert all(life.gone_at is not None for life in memory.lives)
    assert teams == {job.team for job in past.a_month(plan, 1, FRIDAY)}
