"""How promises ended, as a scrape reads it."""

from tests.metrics.scrapes import samples_named, scraped_samples
from tests.web.builders import A100, L40S, a_full_store


def test_ended_promises_are_counted_by_how_they_ended_and_start_at_zero() -> None:
    store = a_full_store()
    store.count_promises({(L40S, "by_p90"): 3})
    found = samples_named(scraped_samples(store), "promises_total")
    assert found[f'promises_total{{came="by_p90",pool="{L40S}"}}'] == 3
    assert found[f'promises_total{{came="late",pool="{A100}"}}'] == 0
    assert len(found) == 6
