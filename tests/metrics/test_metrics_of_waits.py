"""/metrics: that for which a pool waits, and the thresholds that the alert rules compare with."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from receiver.core.model.policy import Limits
from simulator.store import MemoryStore
from tests.metrics.scrapes import samples_named, samples_of, scrape, scraped_samples
from tests.web.builders import A100, L40S, a_policy, a_pool, a_wait, ago


def _causes(reason: str, direction: str = "grow") -> dict[str, float]:
    """The causes of the pool's back-off whose reason is *reason*."""
    waits = [a_wait(direction, "backoff", ago(minutes=-7), reason)]
    found = samples_named(scraped_samples(pools=[a_pool(waits=waits)]), "pool_backoff_cause")
    return {
        cause: found[f'pool_backoff_cause{{cause="{cause}",pool="{L40S}"}}'] for cause in ("stock", "quota", "other")
    }


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("gpu_count_exceeded: Civo did not resize the pool", "stock"),
        ("out_of_capacity: 6 times in a row: Civo did not resize the pool", "stock"),
        ("quota_limit_reached: Civo did not resize the pool", "quota"),
        ("http_500: Civo did not resize the pool (quota_limit_reached)", "other"),
        ("", "other"),
    ],
)
def test_why_a_pool_backs_off_is_told(reason: str, cause: str) -> None:
    assert _causes(reason) == {name: float(name == cause) for name in ("stock", "quota", "other")}


def test_a_removal_that_backs_off_has_no_cause_of_growth() -> None:
    assert set(_causes("gpu_count_exceeded: odd", "shrink").values()) == {0}


def test_a_pool_that_does_not_back_off_has_every_cause_at_zero() -> None:
    found = samples_named(scraped_samples(pools=[a_pool(waits=[])]), "pool_backoff_cause")

    assert len(found) == 3
    assert set(found.values()) == {0}


def test_how_long_a_pool_waits_for_nodes_is_told() -> None:
    assert scraped_samples()[f'pool_awaited_seconds{{pool="{L40S}"}}'] == 240


def test_a_pool_that_waits_for_no_node_says_zero() -> None:
    assert scraped_samples(pools=[a_pool(awaited_since=None)])[f'pool_awaited_seconds{{pool="{L40S}"}}'] == 0


def test_nothing_is_said_of_a_pool_that_nobody_looked_at() -> None:
    found = scraped_samples(pools=[a_pool()])

    assert not [name for name in found if A100 in name and ("backoff" in name or "awaited" in name)]


def test_the_thresholds_of_alerts_are_there_before_the_first_step() -> None:
    policy = replace(
        a_policy(),
        limits=Limits(max_growth_per_hour=12),
        queue_wait={"production": timedelta(minutes=3), "batch": timedelta(days=1)},
        idle_cost_usd_per_hour=Decimal("7.5"),
    )
    found = samples_of(scrape(MemoryStore(), policy))

    assert samples_named(found, "policy_queue_wait_seconds") == {
        'policy_queue_wait_seconds{priority_class="production"}': 180,
        'policy_queue_wait_seconds{priority_class="batch"}': 86400,
    }
    assert found["policy_idle_cost_usd_per_hour{}"] == 7.5
    assert found["policy_max_growth_per_hour{}"] == 12
    assert found[f'policy_provision_timeout_seconds{{pool="{L40S}"}}'] == 1200


def test_each_pool_has_its_own_thresholds_of_heat_and_of_waste() -> None:
    first, *others = a_policy().pools
    own = replace(first, underutilized=0.3, idle=0.1, temperature_celsius=90)
    found = samples_of(scrape(MemoryStore(), replace(a_policy(), pools=(own, *others))))

    names = ("policy_underutilized_ratio", "policy_idle_ratio", "policy_temperature_celsius")
    assert [found[f'{name}{{pool="{own.id}"}}'] for name in names] == [0.3, 0.1, 90]
    assert [found[f'{name}{{pool="{others[0].id}"}}'] for name in names] == [0.2, 0.05, 85]


def test_a_limit_of_growth_that_is_not_set_has_no_series() -> None:
    assert not samples_named(samples_of(scrape(MemoryStore())), "policy_max_growth_per_hour")
