"""The OpenAPI document with what capabilities add, a server that has something for each request, and what both say."""

import copy
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from werkzeug.test import TestResponse

from receiver.capabilities import registry
from receiver.config.web import ReadAccess
from receiver.core.model.policy import Budget
from receiver.web.openapi import document
from tests.core.builders import a_question
from tests.web.builders import L40S, NOW, OPERATOR, READER, TOKEN, Bench, a_full_store
from tests.web.builders import a_policy as a_web_policy
from tests.web.last_step import a_last_step
from tests.web.override_form import a_stored_override
from tests.web.stores import add_overrides, add_questions

ADDED = [request for capability in registry.installed() for request in capability.web.requests]


@cache
def told() -> dict[str, Any]:
    """The document of a server that asks for a token from who reads: it has every refusal."""
    return document("0.1.0", closed=True, added=ADDED)


@cache
def strict() -> dict[str, Any]:
    """The same, in which an object has no field that is not told."""
    closed: dict[str, Any] = copy.deepcopy(told()["components"])

    def close(node: Any) -> None:
        for part in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            close(part)
        if isinstance(node, dict) and isinstance(node.get("properties"), dict) and "required" in node:
            node.setdefault("additionalProperties", False)

    close(closed)
    return closed


def a_bench(**more: Any) -> Bench:
    store = a_full_store()
    add_overrides(store, a_stored_override())
    asked = {"pool": L40S, "asked_at": NOW, "due_at": NOW, "wait_ends": NOW + timedelta(minutes=10)}
    ends = {"open": NOW + timedelta(hours=1), "over": NOW}
    add_questions(store, *(a_question("i-1", id=q, expires_at=at, **asked) for q, at in ends.items()))
    policy = replace(a_web_policy(), budget=Budget(monthly_usd=Decimal(5000), teams={"research": Decimal(50)}))
    given = {
        "store": store,
        "policy": policy,
        "reading": ReadAccess.TOKEN,
        "reader_token": READER,
        "last_step": a_last_step(),
    }
    return Bench(**{**given, **more})


def ask(bench: Bench, method: str, path: str, address: str, body: Any, *, token: str | None = "") -> TestResponse:
    """Send one request with the token that its path takes, or with none."""
    right = TOKEN if path == "/webhook" else OPERATOR
    headers = {} if token is None else {"Authorization": f"Bearer {token or right}"}
    sent = {"data": body} if isinstance(body, str) else {"json": body}
    return bench.client().open(address, method=method.upper(), headers=headers, buffered=True, **sent)


def holds(method: str, path: str, response: TestResponse) -> None:
    """Fail unless *response* is what the document says of its status."""
    said = told()["paths"][path][method]["responses"][str(response.status_code)]
    for name, header in said.get("headers", {}).items():
        value: Any = response.headers[name]
        value = int(value) if header["schema"].get("type") == "integer" else value
        Draft202012Validator(header["schema"]).validate(value)
    kind = response.content_type.partition(";")[0]
    assert kind in said["content"]
    if kind == "application/json":
        schema = {**said["content"][kind]["schema"], "components": strict()}
        Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(response.get_json())
