"""What engine, memory and power say together: every cell of the two tables, and the stories behind them."""

from dataclasses import replace
from datetime import timedelta
from itertools import product

import pytest

from receiver.core.model.usage import (
    COVERAGE_ENOUGH,
    ENGINE_FULL,
    ENGINE_IN_USE,
    ENGINE_QUIET,
    MEMORY_HELD,
    MEMORY_STILL,
    POWER_AT_REST,
    POWER_STEADY,
    Activity,
    Course,
    Use,
    judge,
    was_idle,
)

ACTIVE, QUIET, UNKNOWN = Use.ACTIVE, Use.QUIET, Use.UNKNOWN
HOURS = timedelta(hours=2)

# by engine and memory: the verdict with the power at rest, at work, and unknown
NODES: dict[tuple[str, str], tuple[Use, Use, Use]] = {
    ("quiet", "held"): (ACTIVE, ACTIVE, ACTIVE),
    ("works", "held"): (ACTIVE, ACTIVE, ACTIVE),
    ("full", "held"): (ACTIVE, ACTIVE, ACTIVE),
    ("-", "held"): (ACTIVE, ACTIVE, ACTIVE),
    ("works", "empty"): (ACTIVE, ACTIVE, ACTIVE),
    ("works", "-"): (ACTIVE, ACTIVE, ACTIVE),
    ("full", "empty"): (UNKNOWN, ACTIVE, UNKNOWN),
    ("full", "-"): (UNKNOWN, ACTIVE, ACTIVE),
    ("quiet", "empty"): (QUIET, UNKNOWN, QUIET),
    ("quiet", "-"): (QUIET, UNKNOWN, UNKNOWN),
    ("-", "empty"): (QUIET, UNKNOWN, UNKNOWN),
    ("-", "-"): (UNKNOWN, UNKNOWN, UNKNOWN),
}
NOW_ENGINE = {"-": None, "quiet": 0.0, "works": 0.4, "full": 1.0}
NOW_MEMORY = {"-": None, "empty": 0.0, "held": 0.5}
NOW_POWER = {"rest": 72.0, "work": 400.0, "-": None}


@pytest.mark.parametrize("engine, memory, power", list(product(NOW_ENGINE, NOW_MEMORY, NOW_POWER)))
def test_every_cell_of_the_table_for_a_node_is_as_written(engine: str, memory: str, power: str) -> None:
    seen = Activity(engine=NOW_ENGINE[engine], memory=NOW_MEMORY[memory], power=NOW_POWER[power])
    assert judge(seen) is NODES[engine, memory][list(NOW_POWER).index(power)]


# by peak of the engine and memory: the verdict with steady power, moved power, high power, and none
PODS: dict[tuple[str, str], tuple[Use, Use, Use, Use]] = {
    ("quiet", "changed"): (ACTIVE, ACTIVE, ACTIVE, ACTIVE),
    ("works", "changed"): (ACTIVE, ACTIVE, ACTIVE, ACTIVE),
    ("full", "changed"): (ACTIVE, ACTIVE, ACTIVE, ACTIVE),
    ("-", "changed"): (ACTIVE, ACTIVE, ACTIVE, ACTIVE),
    ("works", "still"): (ACTIVE, ACTIVE, ACTIVE, ACTIVE),
    ("works", "-"): (ACTIVE, ACTIVE, ACTIVE, ACTIVE),
    ("full", "still"): (UNKNOWN, ACTIVE, ACTIVE, ACTIVE),
    ("full", "-"): (UNKNOWN, ACTIVE, ACTIVE, ACTIVE),
    ("quiet", "still"): (QUIET, UNKNOWN, UNKNOWN, QUIET),
    ("quiet", "-"): (QUIET, UNKNOWN, UNKNOWN, UNKNOWN),
    ("-", "still"): (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN),
    ("-", "-"): (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN),
}
PEAKS = {"-": None, "quiet": 0.0, "works": 0.004, "full": 1.0}
CHANGES = {"-": None, "still": 0.0, "changed": 0.3}
SWINGS = {"steady": (122.0, 118.0), "moved": (180.0, 72.0), "high": (400.0, 395.0), "-": (None, None)}


def a_course(engine: str, memory: str, power: str, coverage: float = 1.0) -> Course:
    watts, floor = SWINGS[power]
    return Course(
        window=HOURS,
        engine=PEAKS[engine],
        memory=CHANGES[memory],
        power=watts,
        power_floor=floor,
        coverage=coverage,
    )


@pytest.mark.parametrize("engine, memory, power", list(product(PEAKS, CHANGES, SWINGS)))
def test_every_cell_of_the_table_for_a_pod_is_as_written(engine: str, memory: str, power: str) -> None:
    assert was_idle(a_course(engine, memory, power)) is PODS[engine, memory][list(SWINGS).index(power)]


@pytest.mark.parametrize("engine, memory, power", list(product(PEAKS, CHANGES, SWINGS)))
def test_with_too_few_samples_nothing_is_quiet_and_seen_work_stays_seen(engine: str, memory: str, power: str) -> None:
    full = was_idle(a_course(engine, memory, power))
    thin = was_idle(a_course(engine, memory, power, coverage=0.79))
    assert thin is (UNKNOWN if full is QUIET else full)


IDLE = Course(window=HOURS, engine=0.0, memory=0.0, power=102.0, power_floor=100.0, coverage=1.0)


@pytest.mark.parametrize("coverage, use", [(0.0, UNKNOWN), (COVERAGE_ENOUGH, QUIET), (1.0, QUIET)])
def test_four_fifths_of_the_window_are_enough(coverage: float, use: Use) -> None:
    assert was_idle(replace(IDLE, coverage=coverage)) is use


def test_what_was_never_seen_is_unknown_and_not_idle() -> None:
    assert was_idle(Course(window=HOURS)) is UNKNOWN


@pytest.mark.parametrize("engine", [0.0, 0.35])
def test_a_mig_instance_has_no_watts_of_its_own_and_is_judged_without(engine: float) -> None:
    course = replace(IDLE, engine=engine, power=None, power_floor=None)
    assert was_idle(course) is (ACTIVE if engine else QUIET)


@pytest.mark.parametrize("watts", [36.0, 54.0, 72.0, 145.0, 196.0])
def test_an_engine_stuck_at_100_percent_on_an_empty_gpu_is_not_believed(watts: float) -> None:
    assert judge(Activity(engine=1.0, memory=0.002, power=watts)) is UNKNOWN
    assert was_idle(replace(IDLE, engine=1.0, power=watts, power_floor=watts - 3)) is UNKNOWN


def test_a_full_engine_that_draws_power_is_believed() -> None:
    assert judge(Activity(engine=1.0, memory=0.002, power=620.0)) is ACTIVE
    assert was_idle(replace(IDLE, engine=1.0, power=620.0, power_floor=590.0)) is ACTIVE


def test_a_process_that_holds_92_percent_of_the_memory_and_computes_nothing_uses_a_node() -> None:
    assert judge(Activity(engine=0.0, memory=0.92, power=122.0)) is ACTIVE


def test_a_model_that_sits_in_memory_for_the_whole_window_is_idle() -> None:
    assert was_idle(replace(IDLE, memory=0.0, power=122.0, power_floor=117.0)) is QUIET


def test_a_pod_that_loads_its_model_is_not_idle_though_its_engine_and_power_rest() -> None:
    assert was_idle(replace(IDLE, memory=0.1)) is ACTIVE


def test_a_gpu_that_is_held_without_a_process_is_idle() -> None:
    assert was_idle(replace(IDLE, power=36.0, power_floor=35.0)) is QUIET


def test_a_request_of_thirty_milliseconds_in_the_window_is_work() -> None:
    assert was_idle(replace(IDLE, engine=0.03 / 30)) is ACTIVE


@pytest.mark.parametrize("watts", [35.6, 53.7, 71.8, 80.0, 102.1, 121.7, 145.0, 196.0])
def test_no_gpu_at_rest_draws_what_counts_as_work(watts: float) -> None:
    assert judge(Activity(engine=0.0, memory=0.0, power=watts)) is QUIET


@pytest.mark.parametrize("step", [26.3, 49.9, 66.4])
def test_a_process_that_comes_or_goes_moves_the_power(step: float) -> None:
    assert was_idle(replace(IDLE, power=54 + step, power_floor=54.0)) is UNKNOWN


def test_watts_without_a_floor_say_nothing_unless_they_are_high() -> None:
    assert was_idle(replace(IDLE, memory=None, power_floor=None)) is UNKNOWN
    assert was_idle(replace(IDLE, power_floor=None)) is QUIET
    assert was_idle(replace(IDLE, power=300.0, power_floor=None)) is UNKNOWN


JUST = 1e-9


def test_each_threshold_for_a_node_lies_where_it_is_said() -> None:
    rest = Activity(engine=0.0, memory=0.0, power=POWER_AT_REST)
    assert judge(rest) is QUIET
    assert judge(replace(rest, power=POWER_AT_REST + JUST)) is UNKNOWN
    assert judge(replace(rest, engine=ENGINE_IN_USE - JUST)) is QUIET
    assert judge(replace(rest, engine=ENGINE_IN_USE)) is ACTIVE
    assert judge(replace(rest, engine=ENGINE_FULL - JUST)) is ACTIVE
    assert judge(replace(rest, engine=ENGINE_FULL)) is UNKNOWN
    assert judge(replace(rest, memory=MEMORY_HELD - JUST)) is QUIET
    assert judge(replace(rest, memory=MEMORY_HELD)) is ACTIVE


def test_each_threshold_for_a_pod_lies_where_it_is_said() -> None:
    assert was_idle(replace(IDLE, engine=ENGINE_QUIET - JUST)) is QUIET
    assert was_idle(replace(IDLE, engine=ENGINE_QUIET)) is ACTIVE
    assert was_idle(replace(IDLE, engine=ENGINE_FULL - JUST)) is ACTIVE
    assert was_idle(replace(IDLE, engine=ENGINE_FULL)) is UNKNOWN
    assert was_idle(replace(IDLE, memory=MEMORY_STILL)) is QUIET
    assert was_idle(replace(IDLE, memory=MEMORY_STILL + JUST)) is ACTIVE
    assert was_idle(replace(IDLE, power=100.0 + POWER_STEADY)) is QUIET
    assert was_idle(replace(IDLE, power=100.0 + POWER_STEADY + JUST)) is UNKNOWN
    assert was_idle(replace(IDLE, power=POWER_AT_REST, power_floor=POWER_AT_REST - JUST)) is QUIET
    assert was_idle(replace(IDLE, power=POWER_AT_REST + JUST, power_floor=POWER_AT_REST)) is UNKNOWN
