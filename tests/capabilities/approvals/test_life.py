"""People are asked before a change: whole lives in which they answer, answer late, answer twice or not at all."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from receiver.adapters.store import open_store
from receiver.capabilities.approvals.api import size_of, take_answer
from receiver.core.model.overrides import Answer, Question
from receiver.core.model.policy import Approval, Budget, Unanswered
from receiver.ports import Store
from tests.core.builders import HOUR, MINUTE, a_pool
from tests.given import lives
from tests.given.life import PRICE, START, Life, a_job

HOLD, PROCEED = Unanswered.HOLD, Unanswered.PROCEED
TICK = timedelta(minutes=5)
ASKED, GOES, NEXT_HOUR = START + 40 * MINUTE, START + 55 * MINUTE, START + 60 * MINUTE


def with_an_idle_node(store: Store, **approval: Any) -> Life:
    """A node whose work ended at 12:13 or so, at 12:39:59; its paid hour ends at 13:00."""
    life = lives.waiting(store, pool=a_pool(approval=Approval(removals=True, **approval)))
    run_to(life, ASKED - timedelta(seconds=10))
    assert asked(life) == []
    return life


def with_work_for_eight(store: Store, **approval: Any) -> Life:
    """Eight GPUs wait, and growth that costs more than USD 5 an hour is asked about."""
    life = lives.at_zero(store, a_pool(approval=Approval(growth_above_usd_per_hour=Decimal(5), **approval)))
    life.step()
    life.submit(*(a_job(f"j{n}", duration=10 * HOUR) for n in range(8)))
    life.run(30 * timedelta(seconds=1))
    return life


def run_to(life: Life, moment: Any) -> None:
    life.run(moment - life.now, tick=TICK)


def asked(life: Life) -> list[Question]:
    """Every question so far, the oldest first."""
    return list(reversed(life.store.questions()))


def answer(life: Life, word: str, question: Question | None = None) -> bool:
    """Answer the newest question as page and API do."""
    chosen = question or asked(life)[-1]
    present = size_of(chosen.pool, life.store)
    assert present is not None
    given = replace(chosen, answer=Answer(word), who="alice", answered_at=life.now)
    return take_answer(given, life.store, life.policy, present=present)


def titles(life: Life) -> list[str]:
    return [t for t in life.notices() if "?" in t or "alice" in t]


def test_an_idle_node_is_asked_about_a_wait_before_its_moment_and_goes_then_if_approved(store: Store) -> None:
    life = with_an_idle_node(store, unanswered=HOLD)
    run_to(life, ASKED + MINUTE)
    [question] = asked(life)
    assert question.wait_ends - question.asked_at == 15 * MINUTE
    assert NEXT_HOUR <= question.expires_at < NEXT_HOUR + 2 * timedelta(seconds=1)
    [node] = question.nodes
    assert titles(life) == [f"GPU pool l40s: remove {node} at 12:55 UTC?"]
    assert answer(life, "approve")
    run_to(life, GOES - timedelta(seconds=10))
    assert life.required() == 1
    run_to(life, NEXT_HOUR)
    assert (life.required(), len(asked(life))) == (0, 1)


def test_without_an_answer_it_goes_at_its_moment_where_the_policy_says_proceed(store: Store) -> None:
    life = with_an_idle_node(store)
    run_to(life, GOES - timedelta(seconds=10))
    assert life.required() == 1
    run_to(life, NEXT_HOUR)
    assert (life.required(), len(asked(life))) == (0, 1)


def test_without_an_answer_it_stays_where_the_policy_says_hold_and_is_asked_about_once_an_hour(store: Store) -> None:
    life = with_an_idle_node(store, unanswered=HOLD)
    run_to(life, START + 3 * HOUR)
    assert life.required() == 1
    assert [(q.asked_at - START) // MINUTE for q in asked(life)] == [40, 100, 160]
    assert len({q.id for q in asked(life)}) == len(titles(life)) == 3


def test_a_snooze_keeps_it_and_asks_again_before_the_first_hour_that_it_does_not_cover(store: Store) -> None:
    life = with_an_idle_node(store)
    run_to(life, ASKED + MINUTE)
    assert answer(life, "snooze-1h")
    run_to(life, START + 100 * MINUTE)
    assert (life.required(), len(asked(life))) == (1, 1)
    run_to(life, START + 2 * HOUR)
    assert (life.required(), len(asked(life))) == (0, 2)


def test_a_rejection_keeps_it_for_its_paid_hour_and_the_next_hour_is_asked_about(store: Store) -> None:
    life = with_an_idle_node(store)
    run_to(life, ASKED + MINUTE)
    assert answer(life, "reject")
    run_to(life, NEXT_HOUR + MINUTE)
    assert (life.required(), len(asked(life)), store.overrides()) == (1, 1, ())
    run_to(life, START + 2 * HOUR)
    assert (life.required(), len(asked(life))) == (0, 2)


def test_a_pin_in_answer_keeps_the_size_for_a_day(store: Store) -> None:
    life = with_an_idle_node(store)
    run_to(life, ASKED + MINUTE)
    answered_at = life.now
    assert answer(life, "pin")
    [kept] = store.overrides()
    assert (kept.override.nodes, kept.override.until) == (1, answered_at + 24 * HOUR)
    run_to(life, START + 3 * HOUR)
    assert (life.required(), len(asked(life))) == (1, 1)


def test_the_first_answer_counts_and_a_second_sets_nothing(store: Store) -> None:
    life = with_an_idle_node(store)
    run_to(life, ASKED + MINUTE)
    assert answer(life, "approve")
    assert not answer(life, "snooze-4h")
    assert store.overrides() == ()
    assert len(titles(life)) == 2


def test_an_answer_outlives_a_restart(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    first = open_store(url)
    life = with_an_idle_node(first, unanswered=HOLD)
    run_to(life, ASKED + MINUTE)
    assert answer(life, "approve")
    first.close()
    second = open_store(url)
    again = lives.restarted(life, second)
    run_to(again, NEXT_HOUR)
    assert (again.required(), len(asked(again))) == (0, 1)
    second.close()


def test_a_node_that_works_again_stays_whatever_was_approved(store: Store) -> None:
    life = with_an_idle_node(store)
    run_to(life, ASKED + MINUTE)
    assert answer(life, "approve")
    life.submit(a_job("more", submit_at=life.now, duration=HOUR))
    run_to(life, NEXT_HOUR + MINUTE)
    assert life.required() == 1


def test_a_node_that_nobody_asks_about_at_the_budgets_stop_goes_without_an_answer(store: Store) -> None:
    life = with_an_idle_node(store, unanswered=HOLD)
    life.policy = replace(life.policy, budget=Budget(monthly_usd=PRICE))
    run_to(life, NEXT_HOUR)
    assert (life.required(), asked(life)) == (0, [])


def test_observe_mode_asks_nobody_and_shows_what_would_go(store: Store) -> None:
    life = lives.waiting(store, pool=a_pool(approval=Approval(removals=True)))
    run_to(life, ASKED - timedelta(seconds=10))
    lives.observing(life)
    run_to(life, NEXT_HOUR)
    assert asked(life) == []
    assert any("would go 1 -> 0 nodes" in title for title in life.notices())


def test_growth_that_costs_much_waits_for_approval_and_comes_at_once_with_it(store: Store) -> None:
    life = with_work_for_eight(store, unanswered=HOLD)
    [question] = asked(life)
    assert (question.from_count, question.to_count, question.usd_per_hour) == (0, 8, 8 * PRICE)
    run_to(life, life.now + HOUR)
    assert (life.required(), len(asked(life))) == (0, 1)
    assert answer(life, "approve")
    life.step()
    assert life.required() == 8


def test_growth_that_nobody_answered_comes_after_the_wait_where_the_policy_says_proceed(store: Store) -> None:
    life = with_work_for_eight(store)
    [question] = asked(life)
    run_to(life, question.wait_ends - timedelta(seconds=1))
    assert life.required() == 0
    run_to(life, question.wait_ends + timedelta(seconds=1))
    assert life.required() == 8


def test_one_step_after_a_jump_of_the_clock_takes_no_wait_for_over_and_asks_nobody(store: Store) -> None:
    life = with_work_for_eight(store)
    life.pauses_are_jumps = True
    life.pass_time(20 * MINUTE)
    life.step()
    assert (life.required(), len(asked(life))) == (0, 1)
    life.pass_time(timedelta(seconds=10))
    life.step()
    assert life.required() == 8


def test_an_approval_outlasts_a_jump_of_the_clock(store: Store) -> None:
    life = with_work_for_eight(store)
    life.pauses_are_jumps = True
    assert answer(life, "approve")
    life.pass_time(20 * MINUTE)
    life.step()
    assert life.required() == 0
    life.step()
    assert life.required() == 8


def test_growth_that_nobody_answers_is_asked_about_again_where_the_policy_says_hold(store: Store) -> None:
    life = with_work_for_eight(store, unanswered=HOLD)
    run_to(life, START + 2 * HOUR)
    first, second = asked(life)
    assert (life.required(), second.asked_at - first.asked_at) == (0, 75 * MINUTE)


def test_a_snooze_of_growth_keeps_the_present_size_and_then_asks_again(store: Store) -> None:
    life = with_work_for_eight(store)
    assert answer(life, "snooze-1h")
    run_to(life, life.now + HOUR - timedelta(seconds=1))
    assert (life.required(), len(asked(life))) == (0, 1)
    run_to(life, life.now + MINUTE)
    assert (life.required(), len(asked(life))) == (0, 2)


def test_rejected_growth_is_not_asked_about_before_the_request_expires_even_if_more_waits(store: Store) -> None:
    life = with_work_for_eight(store, unanswered=HOLD)
    [rejected] = asked(life)
    assert answer(life, "reject")
    life.submit(*(a_job(f"more{n}", duration=10 * HOUR) for n in range(2)))
    run_to(life, rejected.expires_at - timedelta(seconds=10))
    assert (life.required(), len(asked(life))) == (0, 1)
    run_to(life, rejected.expires_at + MINUTE)
    assert (life.required(), len(asked(life))) == (0, 2)


def test_growth_beyond_what_was_approved_is_asked_about_anew_and_what_was_approved_comes(store: Store) -> None:
    pool = a_pool(approval=Approval(growth_above_usd_per_hour=Decimal(3), unanswered=HOLD))
    life = lives.at_zero(store, pool)
    life.step()
    life.submit(*(a_job(f"j{n}", duration=10 * HOUR) for n in range(4)))
    life.step()
    assert answer(life, "approve")
    life.submit(*(a_job(f"k{n}", duration=10 * HOUR) for n in range(4)))
    life.run(3 * MINUTE)
    assert life.required() == 4
    assert [(q.from_count, q.to_count) for q in asked(life)] == [(0, 4), (4, 8)]


def test_one_answer_buys_once_and_the_same_growth_later_is_asked_about_again(store: Store) -> None:
    life = with_work_for_eight(store)
    assert answer(life, "approve")
    life.run(20 * MINUTE, tick=TICK)
    for instance in life.cloud.look()["l40s-id"].instances[:6]:
        life.cloud.retire("l40s-id", instance.id)
    life.run(2 * MINUTE)
    assert life.required() < 8
    assert len(asked(life)) == 2


def test_growth_by_one_node_after_the_other_is_asked_about_when_together_it_costs_much(store: Store) -> None:
    life = lives.at_zero(store, a_pool(approval=Approval(growth_above_usd_per_hour=Decimal(3), unanswered=HOLD)))
    life.step()
    for number in range(5):
        life.submit(a_job(f"j{number}", duration=10 * HOUR))
        life.run(45 * timedelta(seconds=1))
    assert life.required() == 2
    assert asked(life)[0].from_count == 2


def test_a_persons_floor_is_not_asked_about(store: Store) -> None:
    life = lives.at_zero(store, a_pool(approval=Approval(growth_above_usd_per_hour=Decimal(0))))
    life.step()
    life.set_override("floor", 3)
    life.step()
    assert (life.required(), asked(life)) == (3, [])


def test_a_persons_pin_to_zero_is_not_asked_about(store: Store) -> None:
    life = with_an_idle_node(store)
    life.set_override("pin", 0)
    life.run(2 * MINUTE)
    assert (life.required(), asked(life)) == (0, [])
