"""price_is_known: an unknown price never counts as 0."""

from decimal import Decimal

from tests.core.builders import a_policy, a_pool, growing, remedies, shrinking
from tests.core.scaling.guardrails.cases import held

PRICELESS = a_policy(a_pool(price_usd_per_hour=None))


def test_a_pool_without_a_price_does_not_grow_and_the_reason_says_what_to_configure() -> None:
    decision = growing(PRICELESS)
    said = held(decision, "price_is_known")
    assert said.detail == "size an.g1.l40s.kube.x1 has no price: add price_usd_per_hour to the pool"
    assert (said.until, decision.reconsider_at) == (None, None)  # only the configuration changes it
    assert remedies(decision, "price_is_known") == {
        "set a price for size an.g1.l40s.kube.x1: price_usd_per_hour of the pool, or a prices_file that has it": None
    }
    assert growing().target == 1


def test_a_price_of_zero_is_a_price() -> None:
    assert growing(a_policy(a_pool(price_usd_per_hour=Decimal(0)))).target == 1


def test_it_shrinks_all_the_same() -> None:
    assert shrinking(PRICELESS).target == 0
