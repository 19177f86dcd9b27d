"""Deliveries that take turns: large ones, and those that do not say how large they are."""

import io
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from werkzeug.test import TestResponse

from receiver.web import create_app, webhook
from tests.web.builders import TOKEN, Bench, a_payload

BEARER = {"Authorization": f"Bearer {TOKEN}"}


def test_a_delivery_of_unknown_length_takes_its_turn_as_a_large_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "PATIENCE_SECONDS", 0.01)
    reading, read = threading.Event(), threading.Event()

    def first_one_takes_long() -> None:
        if not reading.is_set():
            reading.set()
            assert read.wait(60)

    app = create_app(Bench(wake=first_one_takes_long).parts())

    def send() -> TestResponse:
        body = io.BytesIO(json.dumps(a_payload()).encode())
        environ = {"wsgi.input": body, "wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked"}
        return app.test_client().post("/webhook", headers=BEARER, environ_overrides=environ)

    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(send)
        assert reading.wait(60)
        try:
            assert send().status_code == 503
        finally:
            read.set()
        assert first.result(60).status_code == 202
