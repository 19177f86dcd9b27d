"""What the step puts into messages: the reason that began a change, its money, whose it was, and its decision."""

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from receiver.adapters.store import open_store
from receiver.core.model.policy import Budget
from receiver.core.notices.notice import Cause, Notice
from receiver.ports import DecisionFilter, Store, TryLater, WontWork
from tests.adapters.store.builders import migrated
from tests.core.builders import MINUTE
from tests.given import lives
from tests.given.life import Life, a_job, a_policy

BUDGET = Budget(monthly_usd=Decimal(100))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(migrated(tmp_path / "store.db"))
    yield opened
    opened.close()


def the(life: Life, cause: Cause) -> Notice:
    """The one message of this kind."""
    found = life.store.notices_due(life.now + timedelta(days=1), limit=1000)
    (notice,) = [n.notice for n in found if n.notice.cause == cause]
    return notice


def lines(notice: Notice) -> dict[str, str]:
    """The lines of a message by their names."""
    return dict(line.split(": ", 1) for line in notice.body.splitlines() if ": " in line)


def test_a_growth_is_told_with_whose_work_it_is_for_and_what_is_left_of_the_budget(store: Store) -> None:
    life = lives.waiting(store, a_job(pods=2), budget=BUDGET)
    life.step()
    notice = the(life, Cause.GREW)
    said = lines(notice)
    assert said["Why"] == "ml/train-0, ml/train-1 wait for 2 GPUs: 2 more nodes."
    assert said["For"].endswith(" of team vision (2 pods, 2 GPUs).")
    assert said["Cost"] == "$2.58 an hour (before: $0.00); budget left: $100.00 of $100.00 for 2026-11."
    assert said["Next"] == "usable by 12:20 UTC; if not, a message follows."
    assert notice.decision is not None


def test_a_removal_is_told_with_the_reason_that_began_it_though_another_decision_is_in_force(store: Store) -> None:
    life = lives.idle_nodes(store, budget=BUDGET)
    life.step()
    life.pass_time(54 * MINUTE)
    life.run(4 * MINUTE, tick=MINUTE)
    notice = the(life, Cause.SHRANK)
    said = lines(notice)
    assert "no GPU pod, and the next paid hour begins within 5m; idle since 12:0" in said["Why"]
    assert said["Cost"] == "$0.00 an hour (before: $1.29); budget left: $98.71 of $100.00 for 2026-11."
    begun = store.decision(notice.decision or 0)
    assert begun is not None
    assert begun.decision.target == 0


def test_a_full_cloud_is_told_with_the_pool_that_takes_the_work_and_until_when_it_backs_off(store: Store) -> None:
    life = lives.small_and_big(store)
    life.submit(a_job())
    life.cloud.fail_next(WontWork("none left", code="gpu_count_exceeded"), "resize")
    life.step()
    said = lines(the(life, Cause.OUT_OF_STOCK))
    assert said["Next"] == "the next attempt is at 12:01 UTC (in 1 min). Until then big can take the work."


def test_what_is_told_of_a_pool_leads_to_its_decision(store: Store) -> None:
    life = lives.waiting(store, budget=Budget(monthly_usd=Decimal(1)))
    life.step()
    (kept,) = store.decisions(DecisionFilter(pool="l40s-id"), limit=1)
    assert the(life, Cause.HELD).decision == kept.id


def test_a_held_pool_is_no_longer_told_once_it_may_grow(store: Store) -> None:
    life = lives.waiting(store, budget=Budget(monthly_usd=Decimal(1)))
    life.step()
    assert the(life, Cause.HELD).title == "GPU pool l40s does not grow: the cluster budget is $0.29 short; 1 pod waits"
    life.policy = a_policy(budget=BUDGET)
    life.pass_time(MINUTE)
    life.step()
    found = life.store.notices_due(life.now + timedelta(days=1), limit=1000)
    assert Cause.HELD not in {n.notice.cause for n in found}


def test_while_kubernetes_is_silent_nothing_counts_as_over(store: Store) -> None:
    life = lives.waiting(store, budget=Budget(monthly_usd=Decimal(1)))
    life.step()
    life.cluster.fail_always(TryLater("no answer", code="timeout"))
    life.pass_time(MINUTE)
    life.step()
    assert the(life, Cause.HELD)
