"""Which course of a figure counts as growth without bound, and what a soak reads of a process and of a store."""

import os
import random
from collections.abc import Callable
from pathlib import Path

from campaigns.soak import figures
from campaigns.soak.figures import Course, Sample, courses
from campaigns.soak.play import LEFT_OUT, POOLS, chapters, long_schedule
from receiver.adapters.store import open_store
from tests.adapters.store.builders import migrated

DICE = random.Random(7)


def course(name: str, value: Callable[[float], float], minutes: int = 120) -> Course:
    """The course of one figure, a sample a minute; *value* is given the minute. An hour is a simulated day."""
    samples = [Sample(m / 60, m / 60, {name: value(float(m))}) for m in range(minutes)]
    (found,) = courses(samples)
    return found


def test_a_figure_that_wavers_about_its_level_is_bounded() -> None:
    assert course("memory", lambda _: 150 + DICE.uniform(-5, 5)).grows == ""


def test_a_slow_leak_is_seen_before_it_doubles_the_memory() -> None:
    found = course("memory", lambda m: 150 + 0.1 * m + DICE.uniform(-1, 1))
    assert found.last < 1.5 * found.first
    assert "in 30 days" in found.grows


def test_what_is_taken_once_while_the_process_warms_up_is_no_leak() -> None:
    assert course("memory", lambda m: 100 + 8 * min(m, 20.0)).grows == ""


def test_a_level_that_rises_in_one_leap_after_the_warm_up_is_seen() -> None:
    assert course("handles", lambda m: 25.0 if m < 90 else 60.0).grows == "above 45.5"


def test_a_log_that_grows_at_one_pace_is_bounded() -> None:
    assert course("log", lambda m: 0.2 * m).grows == ""


def test_a_log_that_grows_ever_faster_is_seen() -> None:
    assert "a day, after" in course("log", lambda m: 0.001 * m**2.5).grows


def test_rows_that_would_be_too_many_before_the_oldest_are_deleted_are_seen() -> None:
    assert course("of it, 400 days", lambda m: 0.05 * m).grows == ""
    assert "in 400 days" in course("of it, 400 days", lambda m: 0.1 * m).grows
    assert course("of it, 90 days", lambda m: 0.1 * m).grows == ""
    assert "in 90 days" in course("of it, 90 days", lambda m: 0.5 * m).grows


def test_a_soak_that_was_stopped_early_is_not_judged() -> None:
    assert course("memory", lambda m: 100 * m, minutes=25).grows == ""


def test_the_table_has_a_line_for_each_figure_and_says_which_one_grows() -> None:
    lines = list(figures.table([course("memory", lambda m: 100 + m), course("rows of actions", lambda _: 3.0)]))
    assert len(lines) == 3
    assert lines[1].startswith("memory, MB")
    assert "GROWS" in lines[1]
    assert lines[2].endswith("bounded")


def test_a_process_is_read_from_proc() -> None:
    found = figures.of_process(os.getpid(), os.getpid())
    assert found["memory"] > 10
    assert found["handles"] >= 3
    assert found["threads"] >= 1
    assert figures.cpu_seconds(os.getpid()) > 0


def test_the_steps_are_read_from_the_metrics() -> None:
    text = "gpu_autoscaler_loop_step_seconds_count 12.0\ngpu_autoscaler_loop_step_seconds_sum 1.5\nother 3.0\n"
    assert figures.of_metrics(text) == (12.0, 1.5)


def test_a_store_is_read_with_the_rows_of_every_table_that_has_any(tmp_path: Path) -> None:
    open_store(migrated(tmp_path / "ledger.db")).close()
    found = figures.of_store(tmp_path / "ledger.db")
    assert found["database"] > 0
    assert 0 < found["of it, 400 days"] < found["of it, 90 days"] < found["database"]
    assert found["rows of alembic_version"] == 1


def test_a_soak_goes_on_as_long_as_asked_and_never_ends_the_process() -> None:
    events = list(chapters(seed=1, seconds=1800))
    assert not {e.kind for e in events} & LEFT_OUT
    assert max(e.at for e in events) > 1700
    jobs = [e.what["id"] for e in events if e.kind == "job"]
    assert len(jobs) == len(set(jobs)) > 50
    assert {e.what["pool"] for e in events if e.kind == "job"} == {p.id for p in POOLS}


def test_a_seed_has_one_schedule() -> None:
    assert long_schedule(3, 0.2) == long_schedule(3, 0.2)
    assert long_schedule(3, 0.2) != long_schedule(4, 0.2)
