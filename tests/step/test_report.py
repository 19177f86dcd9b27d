"""A report of hours that the product lived through, from the store that its steps filled."""

from datetime import timedelta
from decimal import Decimal

from receiver.capabilities.costs.monthly import report_of
from receiver.core.model.policy import Billing
from receiver.core.money.budget import month_of
from receiver.core.report.lines import PaidFor
from receiver.ports import Store
from tests.core.builders import MINUTE
from tests.given import lives
from tests.given.life import PRICE, a_job


def test_a_report_of_lived_hours_has_what_was_bought_who_held_it_and_how_long_it_waited(store: Store) -> None:
    life = lives.waiting(
        store,
        a_job("train", team="vision"),
        a_job("tune", team="search", duration=30 * MINUTE),
        billing=Billing(),
        rest=2 * MINUTE,
    )
    life.run(timedelta(minutes=100), tick=timedelta(seconds=30))
    month = month_of(life.now, life.policy.timezone)
    found = report_of(store, life.policy, month, life.now)
    spent = life.step().facts.spend.usd
    assert found.everything.total.usd == spent == 2 * PRICE
    assert {part.name: part.total.usd > 0 for part in found.teams} == {"vision": True, "search": True}
    assert sum((part.total.usd for part in found.teams), Decimal(0)) + found.nobodys.total.usd == spent
    assert found.everything.of(PaidFor.UNALLOCATED).usd > 0  # booting, and kept until the paid hour's end
    assert (found.jobs.completed, found.waits.started) == (2, 2)
    assert found.waits.p50 is not None
    assert 3 * MINUTE < found.waits.p50 < 5 * MINUTE  # build, boot and driver take 200 s in this world
    assert found.always_on is not None
    assert found.always_on.peaks == {"l40s": 2}
    [train, tune] = store.in_use(month.name)
    assert (train.gpus, train.used) == (tune.gpus, tune.used) == (1, 1)
    assert 1200 < tune.seconds <= 1800
    vision = report_of(store, life.policy, month, life.now, "vision")
    search = report_of(store, life.policy, month, life.now, "search")
    assert vision.jobs.completed == search.jobs.completed == 1
    assert search.everything.total.gpu_hours > 2 * vision.everything.total.gpu_hours
