"""Why a pool is as it is, how long a message has waited, and what scaling saves, as metrics."""

from dataclasses import replace
from datetime import timedelta

from prometheus_client import CollectorRegistry, generate_latest

from receiver.core.model.windows import Window
from receiver.metrics.collector import StoreCollector
from tests.clocks import FixedClock
from tests.metrics.counted import a_message
from tests.metrics.scrapes import samples_named, samples_of, scrape
from tests.settings import settings_of
from tests.web.builders import A100, L40S, NOW, a_full_store, a_node, a_picture, a_policy
from tests.web.stores import add_messages


def test_a_window_is_open_or_not_and_one_that_policy_does_not_have_is_not_told() -> None:
    policy = a_policy()
    l40s, *others = policy.pools
    nights = (Window(name="nights", max_nodes=0), Window(name="weekend", max_nodes=1))
    store = a_full_store()
    picture = a_picture()
    picture["pools"][0]["windows"] = ["nights", "gone"]
    store.keep_snapshot(picture, NOW)
    found = samples_of(scrape(store, replace(policy, pools=(replace(l40s, windows=nights), *others))))
    assert samples_named(found, "pool_window_open") == {
        f'pool_window_open{{pool="{L40S}",window="nights"}}': 1,
        f'pool_window_open{{pool="{L40S}",window="weekend"}}': 0,
    }


def test_the_rules_that_held_the_last_decision_are_told() -> None:
    store = a_full_store()
    picture = a_picture()
    picture["pools"][1]["held_by"] = ["within_budget", "within_maximum"]
    store.keep_snapshot(picture, NOW)
    assert samples_named(samples_of(scrape(store)), "pool_held_by") == {
        f'pool_held_by{{pool="{A100}",rule="within_budget"}}': 1,
        f'pool_held_by{{pool="{A100}",rule="within_maximum"}}': 1,
    }


def test_a_node_tells_since_when_it_is_idle_and_until_when_it_is_paid_and_nothing_where_that_is_unknown() -> None:
    found = samples_of(scrape(a_full_store()))
    idle = f'node_idle_since_timestamp_seconds{{node="l40s-2",pool="{L40S}"}}'
    assert samples_named(found, "node_idle_since_timestamp_seconds") == {
        idle: (NOW - timedelta(minutes=12)).timestamp()
    }
    paid = {f'node_paid_until_timestamp_seconds{{node="l40s-{n}",pool="{L40S}"}}' for n in (0, 1, 2)}
    assert samples_named(found, "node_paid_until_timestamp_seconds") == dict.fromkeys(
        paid, (NOW + timedelta(minutes=22)).timestamp()
    )


def test_a_node_that_kubernetes_does_not_know_has_no_series() -> None:
    store = a_full_store()
    picture = a_picture()
    picture["pools"][0]["nodes"] = [a_node("l40s-9") | {"name": None}]
    store.keep_snapshot(picture, NOW)
    assert samples_named(samples_of(scrape(store)), "node_paid_until_timestamp_seconds") == {}


def test_the_oldest_pending_message_has_its_age_and_none_has_0() -> None:
    store = a_full_store()
    assert samples_of(scrape(store))["notices_oldest_seconds{}"] == 0
    add_messages(store, a_message("newer", timedelta(minutes=1)), a_message("older", timedelta(minutes=3)))
    assert samples_of(scrape(store))["notices_oldest_seconds{}"] == 180


def test_what_always_on_would_have_cost_is_told_beside_what_was_spent() -> None:
    found = samples_of(scrape(a_full_store()))
    assert found["always_on_usd{}"] >= found["always_on_spent_usd{}"] > 0


def test_messages_are_counted_by_destination_and_start_at_0() -> None:
    store = a_full_store()
    for _ in range(4):
        store.tell({}, "a-digest", ("destination 1 (slack)", "delivered"))
    names = ("destination 1 (slack)", "of team vision destination 1 (tgram)")
    collector = StoreCollector(store, settings_of(a_policy()), FixedClock(NOW), destinations=names)
    registry = CollectorRegistry()
    registry.register(collector)
    found = samples_named(samples_of(generate_latest(registry).decode()), "messages_total")
    assert found == {
        'messages_total{destination="destination 1 (slack)",outcome="delivered"}': 4,
        'messages_total{destination="destination 1 (slack)",outcome="failed"}': 0,
        'messages_total{destination="of team vision destination 1 (tgram)",outcome="delivered"}': 0,
        'messages_total{destination="of team vision destination 1 (tgram)",outcome="failed"}': 0,
    }
