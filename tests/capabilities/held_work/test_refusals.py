"""What the API and the metrics say of waiting work that gets no node."""

from typing import Any

import pytest

from tests.metrics.scrapes import samples_named, scraped_samples
from tests.web.builders import L40S, Bench, a_full_store, a_misfit_pod, a_waiting_pod, ago, showing


def held(*pods: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    """The lines of the API over a picture with *pods*."""
    answer = Bench(store=showing(waiting=list(pods), **more)).client().get("/api/v1/held-work")
    assert answer.status_code == 200
    lines: list[dict[str, Any]] = answer.get_json()["held"]
    return lines


def test_pods_of_one_owner_that_one_rule_holds_are_one_line() -> None:
    first, second = a_waiting_pod("a", gpus=2), a_waiting_pod("b", gpus=2, since=ago(minutes=1))
    (line,) = held(first, second)
    assert (line["namespace"], line["owner"], line["pods"]) == ("research", "Job/train-llm", ["a", "b"])
    assert (line["reason"], line["pool_name"], line["gpus"]) == ("within_budget", "l40s", 4)
    assert line["since"] == first["since"]
    assert line["usd_per_hour"] == "5.16"  # a node of one GPU costs 1.29


def test_a_pod_of_its_own_is_its_own_owner() -> None:
    (line,) = held(a_misfit_pod())
    assert (line["owner"], line["reason"], line["pool"]) == ("Pod/needs-mig", "fits_nowhere", None)
    assert (line["usd_per_hour"], line["not_before"]) == (None, None)


def test_asking_again_is_of_use_when_the_first_of_them_is_no_longer_held() -> None:
    soon, later = ago(minutes=-5), ago(minutes=-9)
    (line,) = held(a_waiting_pod("a", held_until=later), a_waiting_pod("b", held_until=soon))
    assert line["not_before"] == soon


def test_no_time_is_named_where_one_of_them_waits_for_people() -> None:
    (line,) = held(a_waiting_pod("a", held_until=ago(minutes=-5)), a_waiting_pod("b"))
    assert line["not_before"] is None


@pytest.mark.parametrize("state", ["on_its_way", "buying", "may_wait", "room_ends", "fits_free_node"])
def test_work_that_gets_its_node_is_not_held(state: str) -> None:
    assert held(a_waiting_pod(state=state, rule=None)) == []


def test_in_observe_mode_what_would_be_bought_is_held() -> None:
    (line,) = held(a_waiting_pod(state="buying", rule=None), mode="observe")
    assert (line["reason"], line["meaning"]) == ("observe_mode", "in observe mode nothing is bought")


def test_other_namespaces_are_left_out_where_one_is_asked_for() -> None:
    client = Bench(store=showing(waiting=[a_waiting_pod(), a_misfit_pod() | {"namespace": "ml"}])).client()
    lines = client.get("/api/v1/held-work?namespace=ml").get_json()["held"]
    assert [line["namespace"] for line in lines] == ["ml"]


def test_pods_that_the_step_did_not_describe_are_counted() -> None:
    answer = Bench(store=showing(waiting=[a_waiting_pod()], waiting_total=612)).client().get("/api/v1/held-work")
    assert answer.get_json()["pods_beyond"] == 611


def test_before_the_first_step_nothing_is_held() -> None:
    answer = Bench().client().get("/api/v1/held-work")
    assert answer.get_json() == {"at": None, "held": [], "pods_beyond": 0}


def test_a_scrape_has_the_gpus_the_time_and_the_price_of_each() -> None:
    waiting = [a_waiting_pod(held_until=ago(minutes=-5)), a_misfit_pod()]
    found = scraped_samples(a_full_store(), waiting=waiting)
    mine = f'{{pool="{L40S}",reason="within_budget",workload="Job/train-llm",workload_namespace="research"}}'
    other = '{pool="",reason="fits_nowhere",workload="Pod/needs-mig",workload_namespace="research"}'
    gpus = samples_named(found, "held_work_gpus")
    assert gpus == {f"held_work_gpus{mine}": 1, f"held_work_gpus{other}": 4}
    assert list(samples_named(found, "held_work_until_timestamp_seconds")) == [
        f"held_work_until_timestamp_seconds{mine}"
    ]
    assert samples_named(found, "held_work_usd_per_hour") == {f"held_work_usd_per_hour{mine}": 1.29}


def test_a_scrape_has_the_first_hundred_owners_and_the_api_all() -> None:
    waiting = [a_waiting_pod(f"p{n}", owner="") for n in range(101)]
    found = scraped_samples(a_full_store(), waiting=waiting)
    assert len(samples_named(found, "held_work_gpus")) == 100
    assert len(held(*waiting)) == 101
