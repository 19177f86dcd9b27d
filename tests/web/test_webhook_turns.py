"""Deliveries that take turns: large ones, and those that do not say how large they are."""

import io
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from receiver.web import create_app, webhook
from tests.web.builders import TOKEN, Bench, a_payload

BEARER = {"Authorization": f"Bearer {TOKEN}"}


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
