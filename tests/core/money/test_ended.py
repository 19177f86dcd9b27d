"""What ended lives cost, counted once: no other sum than counting all of them each time."""

from datetime import datetime, timedelta
from decimal import Decimal
from random import Random

import pytest

from receiver.core.model.memory import NodeLife
from receiver.core.model.policy import Anchor, Billing, Rounding
from receiver.core.money.cost import EndedLog, paid_units, spend_by_pool
from tests.core.builders import HOUR, NOW, a_life

BILLINGS = (
    Billing(),
    Billing(anchor=Anchor.CLOCK),
    Billing(rounding=Rounding.FLOOR_MIN_ONE),
    Billing(granularity=timedelta(seconds=1)),
)


def drawn(dice: Random, number: int, gone_at: datetime | None) -> NodeLife:
    """One of two pools, created before *gone_at*; some sizes have no price."""
    price = dice.choice((Decimal("1.29"), Decimal("1.29"), Decimal("2.58"), None))
    return a_life(
        f"i-{number}",
        pool=dice.choice(("a", "b")),
        size=f"size-{price}",
        created_at=(gone_at or NOW) - dice.uniform(0, 90) * HOUR,
        price_usd_per_hour=price,
        gone_at=gone_at,
    )


@pytest.mark.parametrize("billing", BILLINGS)
@pytest.mark.parametrize("since", [NOW - 60 * HOUR, NOW - 20 * HOUR])
def test_what_ended_lives_and_others_cost_is_what_counting_all_of_them_gives(billing: Billing, since: datetime) -> None:
    dice = Random(7)
    living = [drawn(dice, 1000 + number, None) for number in range(5)]
    ended, all_of_them = EndedLog(), list(living)
    for number in range(40):
        life = drawn(dice, number, NOW - dice.uniform(0, 50) * HOUR)
        ended.add(life)
        all_of_them.append(life)
        assert spend_by_pool(living, since, NOW, billing, ended) == spend_by_pool(all_of_them, since, NOW, billing)


def test_another_month_is_counted_anew() -> None:
    dice, ended = Random(8), EndedLog()
    for number in range(20):
        ended.add(drawn(dice, number, NOW - dice.uniform(0, 50) * HOUR))
    for since in (NOW - 60 * HOUR, NOW - 20 * HOUR, NOW - 60 * HOUR):
        assert ended.paid_units(since, Billing()) == paid_units(ended.lives, since, NOW, Billing())


def test_a_life_that_goes_on_is_refused() -> None:
    with pytest.raises(ValueError, match="instance i-1 is not gone"):
        EndedLog().add(drawn(Random(1), 1, None))


def test_two_logs_of_the_same_lives_are_equal() -> None:
    lives = [drawn(Random(2), number, NOW) for number in range(3)]
    assert EndedLog(lives) == EndedLog(lives)
    assert EndedLog(lives) != EndedLog(lives[:2])
