"""GET /api/v1/alerts: whether an alert has arrived."""

import json
from datetime import timedelta
from typing import Any

from receiver.ports.alert_payload import parse
from tests.web.builders import NOW, Bench, a_payload


def delivered(bench: Bench, ago: timedelta = timedelta(0), **labels: str) -> None:
    """Let the store have one delivery that came so long *ago*."""
    payload = a_payload(**labels)
    payload["alerts"][0]["fingerprint"] = "-".join(labels.values()) or "none"
    body = json.dumps(payload).encode()
    bench.store.remember(parse(body, received_at=NOW), NOW - ago)


def asked(bench: Bench, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = bench.client().get(f"/api/v1/alerts{query}").get_json()
    return found


def test_what_was_delivered_is_told_with_its_labels_and_the_deliverys_number() -> None:
    bench = Bench()
    delivered(bench, test="one")
    (alert,) = asked(bench)
    assert (alert["alertname"], alert["labels"]["test"]) == ("GpuPoolPendingPods", "one")
    assert (alert["delivery"], alert["firing"]) == (1, True)


def test_the_newest_comes_first_and_what_is_older_than_an_hour_not_at_all() -> None:
    bench = Bench()
    delivered(bench, timedelta(hours=1), test="old")
    delivered(bench, timedelta(minutes=9), test="before")
    delivered(bench, test="last")
    assert [alert["labels"]["test"] for alert in asked(bench)] == ["last", "before"]


def test_a_name_asks_for_those_of_that_name() -> None:
    bench = Bench()
    delivered(bench, alertname="GpuAutoscalerHeartbeat")
    delivered(bench)
    assert [alert["alertname"] for alert in asked(bench, "?alertname=GpuAutoscalerHeartbeat")] == [
        "GpuAutoscalerHeartbeat"
    ]
    assert asked(bench, "?alertname=Nothing") == []
