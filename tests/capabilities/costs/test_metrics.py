"""GET /api/v1/costs and the metrics of cost: the same figures, and no more series than are bounded."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.capabilities.costs.metrics import MOST_SERIES, CostFamilies
from receiver.core.model.charges import Seed
from receiver.core.model.usage import Owner, Unwatched
from receiver.core.money.attribution import By, Watch
from receiver.ports import Store, TryLater
from simulator.store import MemoryStore
from tests.metrics.scrapes import samples_of, scrape
from tests.web.builders import NOW, Bench, a_full_store, a_life, a_policy, a_usage, a_workload
from tests.web.stores import failing, logged


def get(query: str = "", store: Store | None = None, code: int = 200) -> Any:
    response = Bench(store=store or a_full_store()).client().get(f"/api/v1/costs{query}")
    assert response.status_code == code, response.get_data(as_text=True)
    return response.get_json()


def series(store: MemoryStore, name: str) -> dict[str, float]:
    found = samples_of(scrape(store))
    return {key.partition("{")[2].rstrip("}"): v for key, v in found.items() if key.partition("{")[0] == name}


# --- the API


def test_this_months_costs_are_told_by_team() -> None:
    document = get()
    assert (document["month"], document["by"], document["total_usd"]) == ("2026-03", "team", "12.90")
    assert document["until"] == "2026-03-10T14:30:00Z"
    assert document["lines"][1] == {
        "part": "held",
        "key": "vision",
        "usd": "5.16",
        "burn_usd_per_hour": "0.02",
        "gpu_hours": 4.0,
        "measured_gpu_hours": 2.0,
        "idle_gpu_hours": 1.0,
        "idle_usd": "1.29",
        "utilization": 0.4,
        "memory": 0.5,
    }


@pytest.mark.parametrize("by", By)
def test_lines_add_up_to_the_total_whatever_they_are_told_by(by: By) -> None:
    store = a_full_store(
        lives=[a_life(), a_life("i-n2")],
        usage=[a_usage(), a_usage("b", 1 / 3, instance="i-n2", owner=Owner())],
        unwatched=[Unwatched(month="2026-03", instance="i-n2", seconds=1000.0)],
    )
    document = get(f"?by={by.value}", store)
    assert sum(Decimal(line["usd"]) for line in document["lines"]) == Decimal(document["total_usd"]) == Decimal("25.80")


def test_a_month_says_from_when_on_it_is_known_who_held_what() -> None:
    store = a_full_store(watch=Watch(since=NOW - timedelta(days=3), until=NOW))
    document = get("", store)
    assert (document["observed_from"], document["complete"]) == ("2026-03-07T14:30:00Z", False)
    assert series(store, "cost_observed_from_timestamp_seconds") == {"": (NOW - timedelta(days=3)).timestamp()}


def test_without_a_cluster_nobody_is_said_to_have_held_nothing() -> None:
    store = a_full_store(watch=Watch(), usage=[])
    document = get("", store)
    assert document["observed_from"] is None
    assert {line["part"] for line in document["lines"]} <= {"unwatched", "ahead"}
    assert series(store, "cost_observed_from_timestamp_seconds") == {}
    assert 'gpu_kind="an.g1.l40s.kube.x1",part="unwatched"' in series(store, "cost_usd")


def test_what_was_not_measured_is_null() -> None:
    store = a_full_store(usage=[a_usage(measured=0.0, idle=0.0, busy=0.0, memory=0.0)])
    line = next(line for line in get("", store)["lines"] if line["part"] == "held")
    assert (line["utilization"], line["memory"], line["idle_usd"]) == (None, None, "0.00")


def test_an_earlier_month_can_be_asked_for() -> None:
    life = a_life(created_at=NOW - timedelta(days=30), gone_at=NOW - timedelta(days=30, hours=-2))
    store = a_full_store(lives=[life], usage=[a_usage(month="2026-02", hours=2)])
    document = get("?month=2026-02", store)
    assert (document["total_usd"], document["until"]) == ("2.58", "2026-03-01T00:00:00Z")
    assert [line["usd"] for line in document["lines"]] == ["2.58"]


def test_what_the_month_had_cost_before_the_ledger_began_is_in_the_total() -> None:
    store = a_full_store()
    store.keep_seed(Seed(month="2026-03", at=NOW, hours={"an.g1.l40s.kube.x1": Decimal(10), "odd": Decimal(1)}))
    document = get("", store)
    assert {line["part"]: line["usd"] for line in document["lines"]}["seeded"] == "12.90"
    assert (document["total_usd"], document["unpriced"]) == ("25.80", ["odd"])


def test_a_size_without_a_price_is_named() -> None:
    store = a_full_store(lives=[a_life(price_usd_per_hour=None)])
    assert get("", store)["unpriced"] == ["an.g1.l40s.kube.x1"]


@pytest.mark.parametrize("month", ["2026-04", "2026-13", "2026-3", "march", "", "0000-01", "1969-12", "\u0662026-01"])
def test_a_month_that_is_none_or_has_not_begun_is_refused(month: str) -> None:
    document = get(f"?month={month}", code=400)
    assert document["field"] == "month"
    assert document["remedy"] == "write it as 2026-03, or leave it out for this month"


def test_what_cost_is_not_told_by_is_refused_with_what_it_is() -> None:
    document = get("?by=colour", code=400)
    assert document["field"] == "by"
    assert "team, namespace, project" in document["remedy"]


def test_a_store_that_is_down_says_so() -> None:
    get("", failing(TryLater("the disk is full", code="store")), code=503)


# --- the metrics


def test_cost_is_told_by_what_became_of_it_and_by_kind_of_gpu() -> None:
    assert series(a_full_store(), "cost_usd") == {
        'gpu_kind="an.g1.l40s.kube.x1",part="held"': 5.16,
        'gpu_kind="an.g1.l40s.kube.x1",part="unallocated"': 7.74,
    }


def test_teams_namespaces_and_workloads_have_their_series() -> None:
    store = a_full_store()
    assert series(store, "cost_team_usd") == {'team="vision"': 5.16}
    assert series(store, "cost_team_idle_usd") == {'team="vision"': 1.29}
    assert series(store, "cost_namespace_usd") == {'workload_namespace="ml"': 5.16}
    assert series(store, "cost_workload_usd") == {'workload="ml/Job/train",workload_namespace="ml"': 5.16}
    assert series(store, "team_gpu_seconds") == {
        'state="held",team="vision"': 14400.0,
        'state="measured",team="vision"': 7200.0,
        'state="idle",team="vision"': 3600.0,
    }


@pytest.mark.parametrize(
    "name, label, key",
    [
        ("cost_project_usd", "project", "p"),
        ("cost_workload_class_usd", "workload_class", "training"),
        ("cost_environment_usd", "environment", "prod"),
        ("cost_center_usd", "cost_center", "42"),
        ("cost_priority_class_usd", "priority_class", "urgent"),
    ],
)
def test_every_label_that_cost_is_told_by_has_its_family(name: str, label: str, key: str) -> None:
    owner = Owner(
        team="vision",
        project="p",
        workload_class="training",
        environment="prod",
        cost_center="42",
        priority_class="urgent",
    )
    store = a_full_store(usage=[a_usage(hours=4, owner=owner), a_usage("b", hours=1, owner=Owner())])
    other = "none" if label == "priority_class" else "unlabelled"
    assert series(store, name) == {f'{label}="{key}"': 5.16, f'{label}="{other}"': 1.29}


def test_a_workload_that_has_ended_keeps_its_name() -> None:
    store = a_full_store(workloads=[a_workload(ended_at=NOW - timedelta(minutes=1))])
    assert series(store, "cost_workload_usd") == {'workload="ml/Job/train",workload_namespace="ml"': 5.16}


@pytest.mark.parametrize("name", ["cost_team_usd", "cost_project_usd", "cost_namespace_usd", "cost_workload_usd"])
def test_a_thousand_teams_and_workloads_do_not_make_a_thousand_series(name: str) -> None:
    names = [f"w{n}" for n in range(1000)]
    usage = [
        a_usage(
            name,
            hours=0.009,
            namespace=f"ns-{name}",
            workload=f"ns-{name}/Job/{name}",
            owner=Owner(team=f"t-{name}", project=f"p-{name}"),
        )
        for name in names
    ]
    found = series(a_full_store(usage=usage), name)
    assert len(found) == MOST_SERIES + 1
    assert sum(found.values()) == pytest.approx(11.61, abs=1e-6)


def test_before_anything_was_bought_there_is_no_cost_to_tell() -> None:
    assert series(MemoryStore(), "cost_usd") == {}


def test_costs_are_worked_out_once_a_minute_however_often_they_are_scraped() -> None:
    log: list[str] = []
    families = CostFamilies(logged(a_full_store(), log), a_policy())
    for seconds in (0, 15, 59, 60, 75):
        families.at(NOW + timedelta(seconds=seconds))
    assert log.count("usage") == 2


def test_costs_that_could_not_be_read_are_asked_for_again() -> None:
    store = a_full_store()
    families = CostFamilies(store, a_policy())
    store.illness = "lost"
    with pytest.raises(TryLater):
        families.at(NOW)
    store.illness = None
    assert families.at(NOW)
