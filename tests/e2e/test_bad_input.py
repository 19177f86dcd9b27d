"""What is wrong with a message is said by the running server, in JSON, with a status that Alertmanager understands."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from receiver.adapters.clock import SystemClock
from tests.e2e.clouds import a_cloud
from tests.e2e.installing import installing
from tests.e2e.receivers import WEBHOOK_TOKEN, Receiver
from tests.payloads import a_payload, an_alert, stamp

LIMIT = 4000
TOO_LARGE = json.dumps(a_payload(padding="x" * LIMIT)).encode()


@pytest.fixture(scope="module")
def receiver(tmp_path_factory: pytest.TempPathFactory, prometheus: str) -> Iterator[Receiver]:
    """One receiver for all tests of this module: bad input leaves nothing behind."""
    with a_cloud() as cloud, installing(tmp_path_factory.mktemp("bad-input"), prometheus) as install:
        yield install(cloud, webhook={"max_bytes": LIMIT}).serve()


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        (b"\xff\xfe", "body", "is not UTF-8"),
        (b"{not json", "body", "is not JSON: Expecting property name"),
        (b"", "body", "is not JSON"),
        ([a_payload()], "body", "must be an object, not a list"),
        ({"hello": "world"}, "version", 'is missing; this receiver supports "4"'),
        (a_payload(version="5"), "version", '"5" is unknown; this receiver supports "4"'),
        ({**a_payload(), "alerts": []}, "alerts", "is empty; Alertmanager never sends a message without alerts"),
        ({**a_payload(), "alerts": ["x"]}, "alerts[0]", "must be an object, not a string"),
    ],
    ids=["bytes", "broken", "empty", "a list", "another shape", "another version", "no alerts", "alerts of text"],
)
def test_a_body_that_is_no_payload_is_refused_with_the_place_and_a_remedy(
    body: Any, field: str, message: str, receiver: Receiver
) -> None:
    answer = receiver.post(body)
    said = answer.json()
    assert (answer.status_code, said["field"]) == (400, field)
    assert said["error"].startswith(f"{field}: ")
    assert message in said["error"]
    assert said["remedy"]
    assert receiver.rows("SELECT count(*) FROM deliveries WHERE body LIKE '%hello%'") == [(0,)]


@pytest.mark.parametrize(
    "body", [TOO_LARGE, (TOO_LARGE[i : i + 500] for i in range(0, len(TOO_LARGE), 500))], ids=["at once", "chunked"]
)
def test_a_body_over_the_limit_is_413_with_the_limit(body: Any, receiver: Receiver) -> None:
    answer = receiver.post(body)
    assert answer.status_code == 413
    assert answer.json()["error"] == f"the body is larger than {LIMIT} bytes"
    assert answer.json()["limit_bytes"] == LIMIT
    assert "group by more labels" in answer.json()["remedy"]


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (None, "the Authorization header is missing"),
        ("another-token-of-somebody", "the bearer token is not the one this server knows"),
        (f"{WEBHOOK_TOKEN}x", "the bearer token is not the one this server knows"),
    ],
    ids=["none", "another", "a longer one"],
)
def test_a_sender_without_our_token_is_401_with_what_is_missing(
    token: str | None, message: str, receiver: Receiver
) -> None:
    answer = receiver.post(a_payload(), token)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"].startswith("Bearer ")
    assert message in answer.json()["error"]
    assert answer.json()["remedy"]
    assert token is None or token not in answer.text


@pytest.mark.parametrize(
    ("body", "warning"),
    [
        (a_payload(an_alert(pool="h100")), 'pool "h100" of alert GpuPodsPending is not configured; known: '),
        (a_payload(truncatedAlerts=3), "Alertmanager left 3 alerts out of this message; set max_alerts: 0"),
        (a_payload(an_alert(began="0001-01-01T00:00:00Z")), "has the impossible start time 0001-01-01T00:00:00Z"),
        (
            a_payload(an_alert(began=stamp(SystemClock().now() + timedelta(days=3650)))),
            "impossible start time 20",
        ),
    ],
    ids=["unknown pool", "truncated", "year 1", "in ten years"],
)
def test_what_can_be_looked_at_again_is_taken_with_a_warning_and_considered(
    body: Any, warning: str, receiver: Receiver
) -> None:
    answer = receiver.post(body)
    assert answer.status_code == 202
    (said,) = answer.json()["warnings"]
    assert warning in said
    receiver.until_considered()
