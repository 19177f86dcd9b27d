"""POST /webhook: what is taken, what is refused and in which words, in which order things happen.

Deliveries take turns: large ones, and those that do not say how large they are.
"""

import hmac
import io
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from receiver.ports import TryLater
from receiver.web import webhook
from receiver.web.app import create_app
from receiver.web.auth.tokens import is_one_of
from tests.web.builders import L40S, NOW, TOKEN, Bench, a_payload

BEARER = {"Authorization": f"Bearer {TOKEN}"}


def post(bench: Bench, headers: dict[str, str] = BEARER, **more: Any) -> TestResponse:
    """Send one delivery."""
    if "data" not in more:
        more["json"] = more.get("json", a_payload())
    return bench.client().post("/webhook", headers=headers, **more)


def chunked(bench: Bench, body: io.BytesIO, headers: dict[str, str] = BEARER) -> TestResponse:
    """Send *body* without a Content-Length, as gunicorn hands a chunked request on."""
    environ = {"wsgi.input": body, "wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked"}
    return bench.client().post("/webhook", headers=headers, environ_overrides=environ)


def test_a_delivery_is_remembered_and_answered_202() -> None:
    bench = Bench()
    response = post(bench)
    assert (response.status_code, response.json) == (202, {"delivery": 1, "alerts": 1, "warnings": []})
    [arrival] = bench.store.arrivals(NOW, NOW)
    assert arrival.alert.labels["pool"] == L40S


def test_the_loop_is_woken_after_the_delivery_is_remembered_and_nothing_else_happens() -> None:
    bench = Bench()
    post(bench)
    assert bench.log == ["remember", "wake"]


def test_a_delivery_that_cannot_be_remembered_is_not_acknowledged_and_wakes_nobody() -> None:
    bench = Bench(error=TryLater("database is locked", code="locked"))
    response = post(bench)
    assert response.status_code == 503
    assert "database is locked" in response.get_json()["error"]
    assert bench.log == []


def test_a_store_that_says_how_long_to_wait_is_believed() -> None:
    bench = Bench(error=TryLater("restarting", delay=timedelta(seconds=11.2)))
    assert post(bench).headers["Retry-After"] == "12"


def test_a_store_that_does_not_say_how_long_gets_a_short_default() -> None:
    bench = Bench(error=TryLater("restarting"))
    assert post(bench).headers["Retry-After"] == "5"


def test_a_bug_becomes_a_500_without_a_trace_so_that_alertmanager_retries() -> None:
    bench = Bench(error=RuntimeError("secret detail"))
    response = post(bench)
    assert response.status_code == 500
    assert response.get_json() == {"error": "internal error", "remedy": "the server's log has the details"}


def test_an_alert_that_policy_will_refuse_is_taken_all_the_same() -> None:
    assert post(Bench(), json=a_payload(action="freeze")).status_code == 202


def test_an_alert_about_a_pool_nobody_configured_is_taken_with_a_warning() -> None:
    response = post(Bench(), json=a_payload(pool="nope"))
    assert response.status_code == 202
    assert "nope" in json.dumps(response.get_json()["warnings"])


def test_an_alert_may_name_a_pool_as_people_do() -> None:
    assert post(Bench(), json=a_payload(pool="l40s")).get_json()["warnings"] == []


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_is_case_insensitive(scheme: str) -> None:
    assert post(Bench(), headers={"Authorization": f"{scheme} {TOKEN}"}).status_code == 202


@pytest.mark.parametrize("token", ["old-token", "new-token"])
def test_two_tokens_are_taken_during_a_rotation(token: str) -> None:
    bench = Bench(tokens=("old-token", "new-token"))
    assert post(bench, headers={"Authorization": f"Bearer {token}"}).status_code == 202


@pytest.mark.parametrize("token", ["a-t\u00f6ken", "voil\u00e0", "\u00c5", "\u2026"])
def test_a_token_beyond_ascii_is_taken_as_the_bytes_that_it_is(token: str) -> None:
    sent = f"Bearer {token}".encode().decode("latin-1")  # as WSGI hands headers on
    assert post(Bench(tokens=(token,)), headers={"Authorization": sent}).status_code == 202


REFUSED = {
    "no header": ({}, "the Authorization header is missing"),
    "empty header": ({"Authorization": ""}, "the Authorization header is missing"),
    "basic": ({"Authorization": "Basic dXNlcjpwYXNz"}, "another scheme than Bearer"),
    "token without scheme": ({"Authorization": TOKEN}, "another scheme than Bearer"),
    "empty token": ({"Authorization": "Bearer "}, "the bearer token is empty"),
    "wrong token": ({"Authorization": "Bearer wrong"}, "not the one this server knows"),
    "prefix of the token": ({"Authorization": f"Bearer {TOKEN[:-1]}"}, "not the one this server knows"),
    "token and more": ({"Authorization": f"Bearer {TOKEN} x"}, "not the one this server knows"),
    "not ascii": ({"Authorization": "Bearer t\xf6ken"}, "not the one this server knows"),
    "other case": ({"Authorization": f"Bearer {TOKEN.upper()}"}, "not the one this server knows"),
}


@pytest.mark.parametrize(("headers", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_a_request_without_our_token_is_refused_with_what_is_missing(headers: dict[str, str], message: str) -> None:
    bench = Bench()
    response = post(bench, headers=headers)
    document = response.get_json()
    assert response.status_code == 401
    assert message in document["error"]
    assert document["remedy"]
    assert response.headers["WWW-Authenticate"].startswith("Bearer ")
    assert bench.log == []


@pytest.mark.parametrize("sent", [b"old-token", b"old-toke?", b"x"])
def test_every_token_is_compared_in_constant_time_whatever_its_length(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare, compared = hmac.compare_digest, []

    def noted(left: bytes, right: bytes) -> bool:
        compared.append((len(left), len(right)))
        return compare(left, right)

    monkeypatch.setattr(hmac, "compare_digest", noted)
    assert is_one_of(sent, ("old-token", "a-much-longer-new-token")) is (sent == b"old-token")
    assert compared == [(32, 32), (32, 32)]


def test_a_refusal_never_repeats_the_token_that_was_sent() -> None:
    response = post(Bench(), headers={"Authorization": "pasted-without-scheme"})
    assert "pasted-without-scheme" not in response.text + str(response.headers)


def test_only_a_wrong_token_is_called_invalid() -> None:
    wrong = post(Bench(), headers={"Authorization": "Bearer wrong"})
    missing = post(Bench(), headers={})
    assert 'error="invalid_token"' in wrong.headers["WWW-Authenticate"]
    assert "invalid_token" not in missing.headers["WWW-Authenticate"]


def test_a_server_without_tokens_takes_nothing() -> None:
    response = post(Bench(tokens=()), headers={"Authorization": "Bearer "})
    assert response.status_code == 401
    assert "GPU_AUTOSCALER_WEBHOOK_TOKEN" in response.get_json()["remedy"]


def test_an_empty_token_cannot_be_configured() -> None:
    with pytest.raises(ValueError, match="a webhook token is empty"):
        Bench(tokens=("good", " ")).parts()


def test_tokens_stay_out_of_repr() -> None:
    assert TOKEN not in repr(Bench().parts())


def test_the_token_is_checked_before_the_body_is_read() -> None:
    body = io.BytesIO(b"{}")
    assert chunked(Bench(), body, {}).status_code == 401
    assert body.tell() == 0


def test_a_body_that_says_it_is_too_large_is_refused() -> None:
    response = post(Bench(max_body_bytes=100), data=b"x" * 101)
    assert response.status_code == 413
    document = response.get_json()
    assert (document["error"], document["limit_bytes"]) == ("the body is larger than 100 bytes", 100)
    assert "group by more labels" in document["remedy"]
    assert "max_alerts" not in document["remedy"]  # a pool that was cut off would look quiet


def test_a_chunked_body_that_is_too_large_is_refused_and_not_read_to_its_end() -> None:
    body = io.BytesIO(b"x" * 5000)
    assert chunked(Bench(max_body_bytes=100), body).status_code == 413
    assert body.tell() == 101


def test_a_chunked_body_within_the_limit_is_taken() -> None:
    text = json.dumps(a_payload()).encode()
    assert chunked(Bench(max_body_bytes=len(text)), io.BytesIO(text)).status_code == 202


def test_a_body_of_exactly_the_limit_is_taken() -> None:
    text = json.dumps(a_payload()).encode()
    assert post(Bench(max_body_bytes=len(text)), data=text).status_code == 202


def test_a_body_that_arrives_in_small_pieces_is_put_together() -> None:
    class Trickle(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(7)

    assert chunked(Bench(), Trickle(json.dumps(a_payload()).encode())).status_code == 202


BAD_BODIES = {
    "empty": (b"", "body", "is not JSON"),
    "not json": (b"{", "body", "is not JSON"),
    "not utf-8": (b"\xff\xfe", "body", "is not UTF-8"),
    "a list": (b"[]", "body", "must be an object, not a list"),
    "no version": (b"{}", "version", "is missing"),
    "another version": (b'{"version": "3"}', "version", '"3" is unknown'),
    "no status": (b'{"version": "4"}', "status", "is missing"),
    "no alerts": (b'{"version": "4", "status": "firing"}', "alerts", "is missing"),
    "alerts is no list": (b'{"version": "4", "status": "firing", "alerts": {}}', "alerts", "must be a list"),
    "an alert is no object": (b'{"version": "4", "status": "firing", "alerts": [1]}', "alerts[0]", "not a number"),
}


@pytest.mark.parametrize(("body", "field", "message"), BAD_BODIES.values(), ids=BAD_BODIES.keys())
def test_a_bad_body_is_refused_with_what_is_wrong_and_what_helps(body: bytes, field: str, message: str) -> None:
    bench = Bench()
    response = post(bench, data=body)
    document = response.get_json()
    assert response.status_code == 400
    assert set(document) == {"error", "remedy", "field"}
    assert message in document["error"]
    assert document["field"] == field
    assert document["remedy"]
    assert bench.log == []


def test_a_wrong_method_is_answered_in_json() -> None:
    response = Bench().client().get("/webhook")
    assert response.status_code == 405
    assert "POST" in response.headers["Allow"]
    assert response.get_json()["error"] == "method not allowed"


def test_every_answer_is_counted_by_its_code() -> None:
    bench = Bench(max_body_bytes=5000)
    client = bench.client()
    client.post("/webhook", headers=BEARER, json=a_payload())
    client.post("/webhook", headers=BEARER, data=b"{")
    client.post("/webhook", json=a_payload())
    client.get("/webhook")
    client.post("/webhook", headers=BEARER, data=b"x" * 5001)
    bench.error = TryLater("down")
    client.post("/webhook", headers=BEARER, json=a_payload())
    bench.error = RuntimeError("bug")
    client.post("/webhook", headers=BEARER, json=a_payload())
    client.get("/healthz")
    assert bench.instruments.codes == [202, 400, 401, 405, 413, 503, 500]
    assert all(seconds >= 0 for seconds in bench.instruments.seconds)


def test_large_deliveries_come_one_at_a_time_and_small_ones_need_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    small = json.dumps(a_payload()).encode()
    large = small + b" "
    monkeypatch.setattr(webhook, "LARGE", len(small))
    monkeypatch.setattr(webhook, "PATIENCE_SECONDS", 0.01)
    reading, read = threading.Event(), threading.Event()

    def first_one_takes_long() -> None:
        if not reading.is_set():
            reading.set()
            assert read.wait(60)

    bench = Bench(wake=first_one_takes_long)
    app = create_app(bench.parts())

    def send(body: bytes) -> TestResponse:
        return app.test_client().post("/webhook", data=body, headers=BEARER)

    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(send, large)
        assert reading.wait(60)
        second = send(large)
        assert (second.status_code, second.headers["Retry-After"]) == (503, "5")
        assert send(small).status_code == 202
        read.set()
        assert first.result(60).status_code == 202
    assert send(large).status_code == 202


# --- turns


def sent(app: Flask, text: str) -> TestResponse:
    """Deliver *text* without saying how long it is."""
    body = io.BytesIO(text.encode())
    environ = {"wsgi.input": body, "wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked"}
    return app.test_client().post("/webhook", headers=BEARER, environ_overrides=environ)


def test_a_refused_delivery_gives_its_turn_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "PATIENCE_SECONDS", 0.01)
    app = create_app(Bench().parts())
    assert [sent(app, text).status_code for text in ("{}", json.dumps(a_payload()))] == [400, 202]


def test_a_delivery_of_unknown_length_takes_its_turn_as_a_large_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "PATIENCE_SECONDS", 0.01)
    reading, read = threading.Event(), threading.Event()

    def first_one_takes_long() -> None:
        if not reading.is_set():
            reading.set()
            assert read.wait(60)

    app = create_app(Bench(wake=first_one_takes_long).parts())

    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(sent, app, json.dumps(a_payload()))
        assert reading.wait(60)
        try:
            assert sent(app, json.dumps(a_payload())).status_code == 503
        finally:
            read.set()
        assert first.result(60).status_code == 202
