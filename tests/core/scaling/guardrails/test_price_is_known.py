"""price_is_known: an unknown price stays unknown and blocks growth."""

from decimal import Decimal

from tests.core.builders import a_policy, a_pool, growing, outcome, remedies, shrinking

UNPRICED = a_policy(a_pool(price_usd_per_hour=None))


def test_a_pool_without_a_price_does_not_grow() -> None:
    held = growing(UNPRICED)
    assert outcome(held) == ("price_is_known", 0)
    assert "an.g1.l40s.kube.x1" in held.deciding.detail


def test_a_price_of_zero_is_a_price() -> None:
    assert outcome(growing(a_policy(a_pool(price_usd_per_hour=Decimal(0))))) == ("demand", 1)


def test_a_pool_without_a_price_still_shrinks() -> None:
    assert outcome(shrinking(UNPRICED)) == ("idle_nodes", -1)


def test_the_remedy_is_a_price_for_the_size() -> None:
    assert "a price for size an.g1.l40s.kube.x1" in remedies(growing(UNPRICED), "price_is_known")[0][0]
