"""/metrics on new nodes: how long their stages took, how soon one is ready, and counts that somebody else changed."""

from collections.abc import Mapping
from typing import Any

import pytest

from simulator.store import MemoryStore
from tests.metrics.counted import build
from tests.metrics.scrapes import samples_named, samples_of, scrape, scraped_samples
from tests.web.builders import A100, L40S, a_full_store, a_picture
from tests.web.fakes import without


def test_a_stage_of_provisioning_is_a_cumulative_histogram() -> None:
    found, of = scraped_samples(), f'pool="{L40S}",stage="build"'
    upto = {
        le: found[f'provision_seconds_bucket{{le="{le}",{of}}}'] for le in ("60.0", "120.0", "180.0", "1800.0", "+Inf")
    }
    assert upto == {"60.0": 0, "120.0": 2, "180.0": 2, "1800.0": 3, "+Inf": 4}
    assert found[f"provision_seconds_count{{{of}}}"] == 4
    assert found[f"provision_seconds_sum{{{of}}}"] == 2400.125


def test_every_stage_of_every_pool_is_there_before_the_first_node() -> None:
    found = samples_of(scrape(MemoryStore()))
    for pool in (L40S, A100):
        for stage in ("build", "boot", "driver", "start", "total"):
            of = f'pool="{pool}",stage="{stage}"'
            assert found[f'provision_seconds_bucket{{le="+Inf",{of}}}'] == 0
            assert (found[f"provision_seconds_count{{{of}}}"], found[f"provision_seconds_sum{{{of}}}"]) == (0, 0)


def test_a_bucket_that_an_earlier_version_counted_in_stays_in_the_sum() -> None:
    class Older(MemoryStore):
        def counts(self) -> Mapping[str, Any]:
            buckets = {(L40S, "boot", "7.0"): 1, (L40S, "boot", "30.0"): 1}
            return {
                **super().counts(),
                "provision_buckets": buckets,
                "provision_milliseconds": {(L40S, "boot"): 30_000},
            }

    found = scraped_samples(Older())
    of = f'pool="{L40S}",stage="boot"'
    assert found[f'provision_seconds_bucket{{le="5.0",{of}}}'] == 0
    assert found[f'provision_seconds_bucket{{le="15.0",{of}}}'] == 1
    assert found[f"provision_seconds_count{{{of}}}"] == 2


def test_provisioning_of_a_pool_that_policy_no_longer_names_stays() -> None:
    store = a_full_store()
    build(store, 20, pool="gone-pool")
    assert scraped_samples(store)['provision_seconds_sum{pool="gone-pool",stage="build"}'] == 20


def test_drifts_are_counted_and_start_at_zero() -> None:
    assert samples_named(scraped_samples(), "pool_drifts_total") == {
        f'pool_drifts_total{{pool="{L40S}"}}': 2,
        f'pool_drifts_total{{pool="{A100}"}}': 0,
    }


@pytest.mark.parametrize(
    ("said", "shown"), [({"ready_in_seconds": 301.5}, 301.5), ({"ready_in_seconds": None}, None), ({}, None)]
)
def test_how_soon_a_node_is_ready_is_told_once_known(said: Mapping[str, Any], shown: float | None) -> None:
    found = scraped_samples(pools=[{**without(a_picture()["pools"][0], "ready_in_seconds"), **said}])
    assert found.get(f'pool_ready_in_seconds{{pool="{L40S}"}}') == shown
    assert f'pool_ready_in_seconds{{pool="{A100}"}}' not in found
