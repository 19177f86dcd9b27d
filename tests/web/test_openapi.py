"""/api/v1/openapi.json: it is valid, every route is in it, and every answer is what it says."""

import re
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from receiver.capabilities import registry
from receiver.config.web import ReadAccess
from receiver.core.model.policy import Approval, Budget
from receiver.ports import TryLater
from receiver.web.app import create_app
from receiver.web.auth.tokens import MOST_FAILURES
from receiver.web.openapi import document
from simulator.store import MemoryStore
from tests.clocks import FixedClock
from tests.core.builders import a_pool
from tests.given import lives
from tests.given.life import a_job, a_policy
from tests.web.builders import READER, Bench, a_payload
from tests.web.documented import ADDED, a_bench, ask, holds, told
from tests.web.fakes import FakeHealth

PROGRAMS = ("/api/", "/webhook", "/healthz", "/readyz", "/metrics")
PAUSE = {"kind": "pause", "for": "1h", "who": "ada", "why": "new driver"}
BUDGET = {"scope": "cluster", "monthly_usd": "6000", "who": "ada", "why": "release"}
WITHOUT_STORE = {"/metrics", "/healthz"}
RESET = "/api/v1/budget?scope=cluster&who=ada&why=over"
RESET_BELOW = "/api/v1/budget?scope=team&name=research&who=ada&why=over"  # to less than the team has spent

# What each request of the document is asked with, so that it succeeds.
WELL: dict[tuple[str, str], tuple[str, Any]] = {
    ("post", "/webhook"): ("/webhook", a_payload()),
    ("get", "/api/v1/pools/{pool}"): ("/api/v1/pools/l40s", None),
    ("get", "/api/v1/waiting/{namespace}/{name}"): ("/api/v1/waiting/research/train-llm-2", None),
    ("get", "/api/v1/decisions/{number}"): ("/api/v1/decisions/42", None),
    ("get", "/api/v1/overrides/{override_id}"): ("/api/v1/overrides/pin-l40s-1", None),
    ("post", "/api/v1/overrides"): ("/api/v1/overrides", PAUSE),
    ("delete", "/api/v1/overrides/{override_id}"): ("/api/v1/overrides/pin-l40s-1?who=ada", None),
    ("post", "/api/v1/budget"): ("/api/v1/budget", BUDGET),
    ("delete", "/api/v1/budget"): (RESET, None),
}
# And so that it is refused, by the status that the document names.
BADLY: dict[tuple[str, str, int], tuple[str, Any]] = {
    ("post", "/webhook", 400): ("/webhook", {"version": "3"}),
    ("post", "/webhook", 413): ("/webhook", {"x": "x" * 200_000}),
    ("get", "/api/v1/pools/{pool}", 404): ("/api/v1/pools/h100", None),
    ("get", "/api/v1/waiting", 400): ("/api/v1/waiting?limit=0", None),
    ("get", "/api/v1/waiting", 404): ("/api/v1/waiting?pool=h100", None),
    ("get", "/api/v1/waiting/{namespace}/{name}", 404): ("/api/v1/waiting/a/b", None),
    ("get", "/api/v1/decisions", 400): ("/api/v1/decisions?limit=x", None),
    ("get", "/api/v1/decisions", 404): ("/api/v1/decisions?pool=h100", None),
    ("get", "/api/v1/decisions/{number}", 400): ("/api/v1/decisions/x", None),
    ("get", "/api/v1/decisions/{number}", 404): ("/api/v1/decisions/7", None),
    ("get", "/api/v1/actions", 400): ("/api/v1/actions?limit=501", None),
    ("get", "/api/v1/actions", 404): ("/api/v1/actions?pool=h100", None),
    ("get", "/api/v1/overrides", 400): ("/api/v1/overrides?ended=perhaps", None),
    ("get", "/api/v1/overrides", 404): ("/api/v1/overrides?pool=h100", None),
    ("post", "/api/v1/overrides", 400): ("/api/v1/overrides", {**PAUSE, "kind": "stop"}),
    ("post", "/api/v1/overrides", 413): ("/api/v1/overrides", {**PAUSE, "why": "x" * 20_000}),
    ("get", "/api/v1/overrides/{override_id}", 404): ("/api/v1/overrides/none", None),
    ("delete", "/api/v1/overrides/{override_id}", 404): ("/api/v1/overrides/none", None),
    ("post", "/api/v1/budget", 400): ("/api/v1/budget", {**BUDGET, "monthly_usd": "much"}),
    ("post", "/api/v1/budget", 413): ("/api/v1/budget", {**BUDGET, "why": "x" * 20_000}),
    ("post", "/api/v1/budget", 409): ("/api/v1/budget", {**BUDGET, "monthly_usd": "1"}),
    ("delete", "/api/v1/budget", 409): (RESET_BELOW, None),
    ("delete", "/api/v1/budget", 400): ("/api/v1/budget?scope=cluster", None),
}
for name in {capability.name for capability in registry.installed() if capability.web.requests}:
    examples = import_module(f"tests.capabilities.{name}.examples")
    WELL |= examples.WELL
    BADLY |= examples.BADLY
    WITHOUT_STORE |= examples.WITHOUT_STORE


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, requests in told()["paths"].items():
        for method, operation in requests.items():
            yield method, path, operation


ALL = [(method, path) for method, path, _ in operations()]
REFUSALS = [
    (method, path, int(status))
    for method, path, operation in operations()
    for status in operation["responses"]
    if status in ("400", "404", "409", "413")
]


# --- the document


def test_it_is_a_valid_openapi_document() -> None:
    validate(told())


def test_every_route_that_programs_use_is_in_it_and_nothing_else() -> None:
    served = {
        (method.lower(), re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule))
        for rule in create_app(Bench().parts()).url_map.iter_rules()
        if rule.rule.startswith(PROGRAMS)
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    assert set(ALL) == served


def test_requests_of_one_resource_stand_together() -> None:
    resources = [path.removeprefix("/api/v1/").partition("/")[0] or path for path in told()["paths"]]
    changes = sum(before != after for before, after in pairwise(resources))
    assert changes == len(set(resources)) - 1


def test_every_schema_is_used() -> None:
    used = set(re.findall(r"#/components/schemas/(\w+)", str(told())))
    assert used == set(told()["components"]["schemas"])


def test_it_is_served_with_the_servers_version_and_who_may_read() -> None:
    opened = Bench().client().get("/api/v1/openapi.json").get_json()
    assert opened == document("0.1.0", added=ADDED)
    assert opened["paths"]["/api/v1/pools"]["get"]["security"] == []
    closed = a_bench().client().get("/api/v1/openapi.json", headers={"Authorization": f"Bearer {READER}"}).get_json()
    assert closed["paths"]["/api/v1/pools"]["get"]["security"] == [{"reader": []}, {"operator": []}, {"session": []}]


# --- what is served


@pytest.mark.parametrize(("method", "path"), ALL)
def test_every_answer_is_what_the_document_says(method: str, path: str) -> None:
    address, body = WELL.get((method, path), (path, None))
    response = ask(a_bench(), method, path, address, body)
    assert 200 <= response.status_code < 300, response.text
    holds(method, path, response)


@pytest.mark.parametrize(("method", "path"), [pair for pair in ALL if pair[0] == "get" and "{" not in pair[1]])
def test_it_is_so_before_the_first_step_too(method: str, path: str) -> None:
    response = ask(Bench(reading=ReadAccess.TOKEN, reader_token=READER), method, path, path, None)
    assert response.status_code == 200
    holds(method, path, response)


@pytest.mark.parametrize(("method", "path", "status"), REFUSALS)
def test_every_refusal_that_is_told_happens_and_is_what_it_says(method: str, path: str, status: int) -> None:
    address, body = BADLY[method, path, status]
    response = ask(a_bench(), method, path, address, body)
    assert response.status_code == status
    holds(method, path, response)


def test_no_refusal_is_tried_that_the_document_does_not_tell() -> None:
    assert set(BADLY) == set(REFUSALS)


@pytest.mark.parametrize(
    ("method", "path"), [(m, p) for m, p, operation in operations() if "401" in operation["responses"]]
)
def test_whoever_brings_no_token_is_refused_as_told(method: str, path: str) -> None:
    address, body = WELL.get((method, path), (path, None))
    response = ask(a_bench(), method, path, address, body, token=None)
    assert response.status_code == 401
    holds(method, path, response)


@pytest.mark.parametrize(("method", "path"), [pair for pair in ALL if pair[1] not in WITHOUT_STORE])
def test_while_the_store_is_down_the_answer_is_as_told(method: str, path: str) -> None:
    bench = a_bench()
    bench.error = TryLater("disk full", code="store")
    address, body = WELL.get((method, path), (path, None))
    response = ask(bench, method, path, address, body)
    tells = "503" in told()["paths"][path][method]["responses"]
    assert response.status_code == (503 if tells else 200)
    holds(method, path, response)


def test_a_loop_that_does_not_beat_answers_as_told() -> None:
    bench = a_bench()
    bench.health = FakeHealth(state="stopped")
    response = ask(bench, "get", "/healthz", "/healthz", None)
    assert response.status_code == 503
    holds("get", "/healthz", response)


@pytest.mark.parametrize(
    "path", sorted({p for _, p, o in operations() if "application/json" in str(o.get("requestBody"))})
)
def test_a_body_that_is_taken_is_one_that_the_document_allows(path: str) -> None:
    schema = told()["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    whole = {**schema, "components": told()["components"]}
    Draft202012Validator(whole).validate(WELL["post", path][1])
    assert list(Draft202012Validator(whole).iter_errors(BADLY["post", path, 400][1])) or path == "/api/v1/budget"


# --- what a real life leaves


def test_what_a_working_pool_leaves_is_as_told() -> None:
    """Real steps: a node is bought and used, is idle, goes; work waits; people say something."""
    asks = Approval(growth_above_usd_per_hour=Decimal(1), removals=True, wait=timedelta(seconds=30))
    pool = a_pool(approval=asks)
    policy = a_policy(pool, budget=Budget(monthly_usd=Decimal(5000), teams={"vision": Decimal(100)}))
    store = MemoryStore()
    life = lives.at_zero(store, policy=policy)
    life.submit(a_job("train", duration=timedelta(minutes=2)), a_job("misfit", gpus_per_pod=3))
    empty = {path for method, path in ALL if method == "get"}
    for seconds in (65, 240, 120, 2980, 180):  # asked, bought, in use, asked again, gone
        life.run(timedelta(seconds=seconds), tick=timedelta(minutes=1))
        bench = a_bench(store=store, policy=policy, clock=FixedClock(life.now), wake=lambda: None)
        floor = {**PAUSE, "kind": "floor", "nodes": 0, "pool": "l40s"}
        assert ask(bench, "post", "/api/v1/overrides", "/api/v1/overrides", floor).status_code == 201
        ids = {
            "pool": "l40s",
            "number": store.decisions(limit=1)[0].id,
            "question_id": store.questions()[0].id,
            "override_id": store.overrides()[0].override.id,
        }
        for path in (path for method, path in ALL if method == "get"):
            name = "misfit-0" if path.startswith("/api/v1/waiting") else "n1"
            response = ask(bench, "get", path, path.format(**ids, namespace="ml", name=name), None)
            assert response.status_code == 200, response.text
            holds("get", path, response)
            if response.text.strip() != "[]":
                empty.discard(path)
    assert empty == set(), "nothing to look at"


def test_a_guesser_is_answered_as_the_document_says() -> None:
    client = a_bench().client()
    for number in range(MOST_FAILURES):
        client.get("/api/v1/pools", headers={"Authorization": f"Bearer guess-{number}"})
    response = client.get("/api/v1/pools", headers={"Authorization": "Bearer guess-again"})
    assert response.status_code == 429
    holds("get", "/api/v1/pools", response)


# --- the page of the documentation


DOCS = (Path(__file__).parents[2] / "docs" / "http-api.md").read_text(encoding="utf-8")


def test_every_schema_of_the_document_says_what_it_is() -> None:
    """tests/web/test_openapi.py proves that every field that is served is in its schema."""
    schemas = document("1")["components"]["schemas"]
    assert [name for name, schema in schemas.items() if not schema.get("description")] == []


def test_the_health_answers_fields_are_documented() -> None:
    client = Bench().client()
    for path in ("healthz", "readyz"):
        part = next(s for s in DOCS.split("\n## ") if s.startswith(f"GET /{path}"))
        assert set(client.get(f"/{path}").get_json()) <= set(re.findall(r'"(\w+)":', part))
