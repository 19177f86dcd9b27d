"""The cluster's name on every page and in the API, and the summary for a list of many clusters."""

from datetime import datetime, timedelta
from decimal import Decimal

from receiver.core.notices.notice import Level
from simulator.store import MemoryStore
from tests.lint import none_of
from tests.web.builders import NOW, Bench, a_full_store, a_picture
from tests.web.stores import a_store_with


def test_every_page_has_the_clusters_name_in_its_header_and_its_tab() -> None:
    client = Bench(store=a_full_store(), cluster_name="prod-lon1").client()
    places = ("/", "/costs", "/sources", "/decisions/42", "/docs", "/login")
    html = {place: client.get(place, follow_redirects=True).get_data(as_text=True) for place in places}
    none_of(place for place, text in html.items() if " · prod-lon1</title>" not in text)
    none_of(place for place, text in html.items() if '<span class="cluster">prod-lon1</span>' not in text)


def test_without_a_name_nothing_stands_for_it() -> None:
    html = Bench(store=a_full_store()).client().get("/").get_data(as_text=True)
    assert 'class="cluster"' not in html
    assert " · </title>" not in html


def test_the_status_says_which_cluster_it_is_of() -> None:
    client = Bench(store=a_full_store(), cluster_name="prod-lon1").client()
    assert client.get("/api/v1/status").json["cluster_name"] == "prod-lon1"  # type: ignore[index]  # it is JSON


def test_the_summary_adds_up_what_the_pools_show() -> None:
    client = Bench(store=a_full_store(), cluster_name="prod-lon1").client()
    pools = client.get("/api/v1/pools").json or []
    found = client.get("/api/v1/summary").json or {}
    assert (found["cluster_name"], found["mode"], found["alive"]) == ("prod-lon1", "act", True)
    assert found["gpus_paid"] == sum(p["required"] * p["gpus_per_node"] for p in pools)
    assert found["gpus_busy"] == sum(p["held_gpus"] for p in pools)
    priced = [p for p in pools if p["price_usd_per_hour"] is not None]
    total = sum(p["required"] * Decimal(p["price_usd_per_hour"]) for p in priced)
    assert found["usd_per_hour"] is None if len(priced) < len(pools) else Decimal(found["usd_per_hour"]) == total
    waiting = client.get("/api/v1/waiting").json or []
    assert found["gpus_waiting"] == sum(pod["gpus"] for pod in waiting)
    assert datetime.fromisoformat(found["waiting_since"]) == min(
        datetime.fromisoformat(pod["since"]) for pod in waiting
    )
    assert found["forecast_usd"] == "6100.50"  # the higher one
    assert found["monthly_usd"] == client.get("/api/v1/budget").json["monthly_usd"]  # type: ignore[index]


def test_the_summary_counts_what_is_wrong_apart_from_what_is_to_be_looked_at() -> None:
    concerns = [{"kind": f"k{n}", "level": level} for n, level in enumerate((*Level, Level.BAD))]
    picture = {**a_picture(), "concerns": concerns}
    store = a_store_with(picture=(picture, NOW - timedelta(seconds=4)))
    found = Bench(store=store).client().get("/api/v1/summary").json or {}
    assert (found["wrong"], found["to_look_at"]) == (2, 2)


def test_before_the_first_step_a_summary_knows_the_allowance_and_no_figure() -> None:
    found = Bench(store=MemoryStore(), cluster_name="prod-lon1").client().get("/api/v1/summary").json or {}
    assert found["cluster_name"] == "prod-lon1"
    unknown = ("at", "wrong", "to_look_at", "gpus_paid", "gpus_busy", "usd_per_hour")
    assert [found[name] for name in unknown] == [None] * len(unknown)
