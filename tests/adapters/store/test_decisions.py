"""Decisions: stored when they say something else, and given back as they were."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.engine.default import DefaultDialect

from receiver.adapters.store import SqlStore
from receiver.adapters.store.columns import Json
from receiver.core.model.actions import Decision, Reason, Verdict
from receiver.core.model.model import Node, Source, Stage
from receiver.ports import DecisionFilter, DecisionKind, StoredDecision
from receiver.reports.state import scaling_state, unseen
from tests.adapters.store.builders import NOW, POOL, after, decision, grow, outcome, reason
from tests.core.builders import a_node, a_state, all_up, decision_on


def test_a_decision_comes_back_exactly(store: SqlStore) -> None:
    told = decision(
        reasons=(reason(), reason("cooldown", Verdict.HOLDS, 1, "30 s after the last growth")),
        target=1,
        candidates=("i-1", "i-2"),
        evicted=("i-2",),
        evidence={"waiting": ["a/b"], "ratio": 0.1, "none": None, "deep": {"flag": True}},
        reconsider_at=after(seconds=30),
    )
    number = store.decided(told)
    assert store.decision(number) == StoredDecision(id=number, decision=told)


def test_an_unknown_number_is_no_decision(store: SqlStore) -> None:
    assert store.decision(99) is None


def test_the_same_verdicts_are_stored_once(store: SqlStore) -> None:
    number = store.decided(decision())
    later = decision(at=after(seconds=10), reasons=(reason(detail="3 pods"),), evidence={"n": 3}, reconsider_at=NOW)
    assert store.decided(later) == number
    assert len(store.decisions()) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"target": 4},
        {"present": 2},
        {"reasons": (reason("floor"),)},
        {"reasons": (reason(verdict=Verdict.LIMITS),)},
        {"reasons": (reason(), reason("budget", Verdict.ALLOWS))},
    ],
    ids=["target", "present", "rule", "verdict", "one more reason"],
)
def test_a_decision_that_says_something_else_is_stored(store: SqlStore, change: Mapping[str, Any]) -> None:
    first = store.decided(decision())
    assert store.decided(decision(at=after(seconds=10), **change)) > first


def test_a_return_to_an_earlier_decision_is_stored_again(store: SqlStore) -> None:
    numbers = [store.decided(decision(target=t)) for t in (3, 4, 3)]
    assert len(set(numbers)) == 3


def test_each_pool_is_compared_with_its_own_last_decision(store: SqlStore) -> None:
    first = store.decided(decision())
    store.decided(decision(pool="other", target=9))
    assert store.decided(decision()) == first


def test_decisions_are_listed_newest_first_and_by_pool(store: SqlStore) -> None:
    for target in (3, 4, 5):
        store.decided(decision(target=target))
    store.decided(decision(pool="other", target=9))
    assert [d.decision.target for d in store.decisions(limit=3)] == [9, 5, 4]
    assert [d.decision.target for d in store.decisions(DecisionFilter(pool=POOL))] == [5, 4, 3]


@pytest.mark.parametrize(
    ("only", "targets"),
    [
        (DecisionFilter(kind=DecisionKind.GROW), [4]),
        (DecisionFilter(kind=DecisionKind.SHRINK), [0]),
        (DecisionFilter(kind=DecisionKind.BLOCKED), [1]),
        (DecisionFilter(kind=DecisionKind.STEADY), [2]),
        (DecisionFilter(kind=DecisionKind.NEWS), [4, 1, 0]),
        (DecisionFilter(rule="within_budget"), [1]),
        (DecisionFilter(rule="demand"), [4, 1]),
        (DecisionFilter(rule="not_silenced"), [2]),
        (DecisionFilter(since=after(minutes=1), until=after(minutes=3)), [2, 1]),
        (DecisionFilter(rule="demand", until=after(minutes=3)), [1]),
        (DecisionFilter(before=3), [1, 0]),
        (DecisionFilter(pool="other"), []),
    ],
    ids=str,
)
def test_decisions_are_found_by_what_they_came_to_rule_and_time(
    store: SqlStore, only: DecisionFilter, targets: list[int]
) -> None:
    allows = reason("within_budget", Verdict.ALLOWS, 2)
    notes = reason("not_silenced", Verdict.NOTES, 2, 'ben said: [["within_budget","holds"]]')
    told = (
        (0, (reason("scale_down", Verdict.NOTES), allows)),
        (1, (reason("demand"), reason("within_budget", Verdict.HOLDS, 1, "no money"))),
        (2, (notes, allows)),
        (4, (reason("demand"), allows)),
    )
    for minute, (target, reasons) in enumerate(told):
        present = target if target in (1, 2) else 1
        store.decided(decision(target=target, present=present, reasons=reasons, at=after(minutes=minute)))
    assert [d.decision.target for d in store.decisions(only)] == targets


@pytest.mark.parametrize(
    "silent", [(), ("civo",), ("kubernetes", "prometheus"), ("kubernetes",), ("prometheus",)], ids=str
)
@pytest.mark.parametrize(
    "nodes", [(), (a_node(),), (a_node(stage=Stage.UNKNOWN, idle_since=None),)], ids=["none", "idle", "unknown"]
)
def test_a_decision_is_found_by_the_state_that_pages_show(
    store: SqlStore, silent: tuple[str, ...], nodes: tuple[Node, ...]
) -> None:
    decided = decision_on(a_state(*nodes, required=len(nodes)), sources=all_up(*map(Source, silent)))
    shown = scaling_state(decided.change, decided.reasons, "act", unseen=unseen(decided.evidence))
    store.decided(decided)
    kinds = set(DecisionKind) - {DecisionKind.NEWS}
    assert [kind for kind in kinds if store.decisions(DecisionFilter(kind=kind))] == [shown.word.value]


def test_another_silence_is_another_decision_and_other_figures_are_not(store: SqlStore) -> None:
    alice = reason("not_silenced", Verdict.HOLDS, 1, "silenced by alice until 18:00")
    first = store.decided(decision(reasons=(reason(), alice)))
    figures = decision(reasons=(reason(detail="3 pods"), alice), at=after(seconds=10))
    assert store.decided(figures) == first
    bob = replace(alice, detail="silenced by bob until 22:00")
    assert store.decided(decision(reasons=(reason(), bob))) > first


def test_what_a_person_said_matters_only_where_it_held_or_is_noted(store: SqlStore) -> None:
    first = store.decided(decision(reasons=(reason("not_paused", Verdict.ALLOWS, 3, ""),)))
    assert store.decided(decision(reasons=(reason("not_paused", Verdict.ALLOWS, 3, "x"),))) == first


def test_the_same_decision_in_another_mode_is_stored_anew(store: SqlStore) -> None:
    first = store.decided(decision(evidence={"mode": "observe"}))
    assert store.decided(decision(evidence={"mode": "act"})) > first


def test_the_neighbours_of_a_decision_are_those_of_its_pool(store: SqlStore) -> None:
    numbers = [store.decided(decision(target=t)) for t in (3, 4, 5)]
    store.decided(decision(pool="other", target=9))
    first, middle, last = (store.decision(n) for n in numbers)
    assert first is not None
    assert middle is not None
    assert last is not None
    assert store.beside(first) == (None, numbers[1])
    assert store.beside(middle) == (numbers[0], numbers[2])
    assert store.beside(last) == (numbers[1], None)


def test_what_followed_a_decision_is_found_however_much_came_after_it(store: SqlStore) -> None:
    number = store.decided(decision())
    for n in range(3):
        action = grow(n, decision=number if n < 2 else number + 1, opened_at=after(seconds=n))
        assert store.opened(action)
        store.closed(action, outcome(), None)
    assert [a.action.id for a in store.followed(number)] == ["grow-0", "grow-1"]
    assert store.followed(number + 7) == ()


MOMENTS = st.datetimes(
    min_value=datetime(1, 1, 2),  # noqa: DTZ001 (hypothesis asks for naive bounds)
    max_value=datetime(9999, 12, 30),  # noqa: DTZ001
    timezones=st.just(UTC),
).map(lambda moment: moment.replace(fold=0))  # UTC has no hour twice
PLAIN = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | MOMENTS
    | st.decimals(allow_nan=False) | st.timedeltas()
)  # fmt: skip
VALUES = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text() | st.just("$"), inner, max_size=4)
    ),
    max_leaves=12,
)
WRITABLE = st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
COUNTS = st.integers(min_value=-(2**31), max_value=2**31 - 1)
REASONS = st.builds(
    Reason, rule=st.text(max_size=20), verdict=st.sampled_from(Verdict), target=COUNTS, detail=st.text()
)
DECISIONS = st.builds(
    Decision,
    pool=WRITABLE,
    at=MOMENTS,
    present=COUNTS,
    target=COUNTS,
    reasons=st.lists(REASONS, max_size=5).map(tuple),
    candidates=st.lists(st.text(max_size=10), max_size=3).map(tuple),
    evidence=st.dictionaries(st.text() | st.just("$"), VALUES, max_size=5),
    reconsider_at=st.none() | MOMENTS,
)


NUMBERS = count()


# One store for all examples is meant; each has a pool of its own, so every decision is a new one.
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(told=DECISIONS)
def test_any_decision_comes_back_exactly(store: SqlStore, told: Decision) -> None:
    told = replace(told, pool=f"{told.pool}-{next(NUMBERS)}")
    found = store.decision(store.decided(told))
    assert found is not None
    assert found.decision == told
    assert typed(found.decision.evidence) == typed(told.evidence)


@settings(deadline=None)
@given(value=VALUES)
def test_any_value_survives_the_json_it_is_kept_as(value: Any) -> None:
    column, dialect = Json(), DefaultDialect()
    assert typed(column.process_result_value(column.process_bind_param(value, dialect), dialect)) == typed(value)


def typed(value: Any) -> Any:
    """*value* with its types and signs spelled out: 1, 1.0, True and Decimal(1) are equal to each other."""
    match value:
        case Mapping():
            return {k: typed(v) for k, v in value.items()}
        case list() | tuple():
            return type(value).__name__, [typed(v) for v in value]
        case _:
            return type(value).__name__, repr(value)


def test_evidence_that_is_no_number_comes_back_as_such(store: SqlStore) -> None:
    number = store.decided(decision(evidence={"utilization": float("nan")}))
    found = store.decision(number)
    assert found is not None
    assert repr(found.decision.evidence["utilization"]) == "nan"


def test_evidence_of_an_unknown_type_is_refused(store: SqlStore) -> None:
    with pytest.raises(TypeError, match="cannot keep a set"):
        store.decided(decision(evidence={"pods": {"a"}}))


def test_evidence_by_anything_but_text_is_refused(store: SqlStore) -> None:
    with pytest.raises(TypeError, match="keys of stored objects must be strings, not 1"):
        store.decided(decision(evidence={1: "pod"}))


def test_a_time_in_another_zone_comes_back_as_the_same_moment_in_utc(store: SqlStore) -> None:
    there = NOW.astimezone(ZoneInfo("Asia/Kathmandu"))
    found = store.decision(store.decided(decision(at=there)))
    assert found is not None
    assert (found.decision.at, found.decision.at.tzinfo) == (NOW, UTC)


def test_money_and_durations_in_evidence_stay_what_they_are(store: SqlStore) -> None:
    evidence = {"usd": Decimal("1.10"), "wait": timedelta(minutes=2, microseconds=1)}
    found = store.decision(store.decided(decision(evidence=evidence)))
    assert found is not None
    assert typed(found.decision.evidence) == typed(evidence)
