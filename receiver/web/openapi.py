"""GET /api/v1/openapi.json: every route that programs use, as an OpenAPI 3.1 document (https://spec.openapis.org/oas/v3.1.1)."""

import re
from collections.abc import Sequence, Set
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from receiver.core.explain.rules import RULES
from receiver.core.model.policy import Scope
from receiver.ports import DecisionKind
from receiver.reports.document import SUFFIX
from receiver.reports.picture import ChargesDocument, PoolDocument, WaitingPod
from receiver.web.api import alert_documents as alerts
from receiver.web.api import documents as api
from receiver.web.api.documents import LONGEST_TEXT
from receiver.web.api.request_parts import LIMIT_QUERY, POOL_QUERY, Last
from receiver.web.api.summary import SummaryDocument
from receiver.web.operation import (
    COUNT,
    MOMENT,
    OF_A_STEP,
    OF_AN_ANSWER,
    OPERATOR,
    READERS,
    TEXT,
    WEBHOOK,
    Request,
    Schema,
    one_of,
)

WORDS: Schema = {**TEXT, "minLength": 1, "maxLength": LONGEST_TEXT, "pattern": r"\S"}

_TOTAL = {"Gpu-Autoscaler-Waiting-Total": {"description": "how many pods wait", "schema": COUNT}}
_RETRY = {"Retry-After": {"description": "seconds", "schema": {"type": "integer", "minimum": 1}}}
_CHALLENGE = {"WWW-Authenticate": {"description": "Bearer", "schema": TEXT}}
_REFUSALS: dict[int, tuple[str, dict[str, Any]]] = {
    400: ("a part of the request is not valid; field says which", {}),
    401: ("no token, or a wrong one", _CHALLENGE),
    403: ("a browser sent it from another site", {}),
    404: ("there is no such thing", {}),
    409: ("it was answered otherwise, is over, or must be confirmed", {}),
    413: ("the body is too large", {}),
    429: ("many different wrong tokens came from this address within a minute", _RETRY),
    503: ("the store does not answer now", _RETRY),
}
_NTH = {"number": {**COUNT, "description": "its id"}}
_BEARER = {"type": "http", "scheme": "bearer"}


_STEPS: dict[str, Any] = {"headers": OF_A_STEP}
_LISTS: dict[str, Any] = {"many": True, "query": (POOL_QUERY, LIMIT_QUERY)}
_POST: dict[str, Any] = {"method": "post", "token": OPERATOR}
_DELETE: dict[str, Any] = {"method": "delete", "token": OPERATOR}
_ENDED = ("ended", one_of(("true", "false"), "with those that are over"))
_WHO = ("who", {**TEXT, "description": "who ends it"})
_RESET = (
    ("scope", one_of(list(Scope))),
    ("name", {**TEXT, "description": "of the pool or team"}),
    ("who", {**WORDS, "description": "the person"}),
    ("why", {**WORDS, "description": "the reason"}),
    ("confirm", one_of(("true", "false"), "take an amount that stops growth or cordons nodes")),
)
_ALERTNAME = ("alertname", {**TEXT, "description": "those of this name"})
_EXCLUDE = ("exclude", one_of(("steps",), "leave out whether steps succeed"))

_WHICH_DECISIONS = (
    ("rule", one_of(tuple(RULES), "those in which it did not just allow the change")),
    ("kind", one_of(list(DecisionKind))),
    ("last", one_of(list(Last), "made within this time")),
    ("from", {**MOMENT, "description": "made then or later"}),
    ("until", {**MOMENT, "description": "made before"}),
    ("before", {**COUNT, "description": "with a lower number"}),
)

REQUESTS = (
    Request("/webhook", "webhook", "Take one delivery of Alertmanager", alerts.DeliveryTaken, (400, 401, 413, 503),
            method="post", body=alerts.AlertmanagerPayload, status=202, token=WEBHOOK),
    Request("/healthz", "healthz", "Whether the loop beats", api.HealthDocument, token=()),
    Request("/readyz", "readyz", "Whether deliveries are taken, and steps succeed", api.ReadinessDocument,
            query=(_EXCLUDE,), token=()),
    Request("/metrics", "metrics", "Prometheus' text format, or OpenMetrics on request", TEXT, token=()),
    Request("status", "status", "Everything that one screen shows", api.StatusDocument, **_STEPS),
    Request("summary", "summary", "The cluster in one line, for a list of many", SummaryDocument, **_STEPS),
    Request("pools", "pools", "Every pool as the last step found it", PoolDocument, many=True, **_STEPS),
    Request("pools/{pool}", "pool", "One of them", PoolDocument, (404,), **_STEPS),
    Request("waiting", "waiting", "Pods that wait for GPUs, in the order of service", WaitingPod, (400, 404),
            headers={**OF_A_STEP, **_TOTAL}, **_LISTS),
    Request("waiting/{namespace}/{name}", "waitingPod", "One of them", WaitingPod, (404,), **_STEPS),
    Request("decisions", "decisions", "The newest decisions", api.DecisionDocument, (400, 404), many=True,
            query=(POOL_QUERY, LIMIT_QUERY, *_WHICH_DECISIONS), **_STEPS),
    Request("decisions/{number}", "decision", "One of them, explained", api.ExplainedDecision, (400, 404)),
    Request("actions", "actions", "The newest actions", api.ActionDocument, (400, 404), **_LISTS, **_STEPS),
    Request("alerts", "alerts", "Alerts that were delivered within the last hour, the newest first",
            alerts.ReceivedAlert, many=True, query=(_ALERTNAME,)),
    Request("charges", "charges", "What Civo charged, beside the ledger", ChargesDocument, **_STEPS),
    Request("overrides", "overrides", "Overrides that are not over, the newest first", api.OverrideDocument, (400, 404),
            many=True, query=(POOL_QUERY, LIMIT_QUERY, _ENDED)),
    Request("overrides", "setOverride", "Set an override", api.OverrideDocument, (400, 413), body=api.OverrideAsked,
            status=201, **_POST),
    Request("overrides/{override_id}", "override", "One override", api.OverrideDocument, (404,)),
    Request("overrides/{override_id}", "endOverride", "End one before its time", api.OverrideDocument, (404,),
            query=(_WHO,), **_DELETE),
    Request("budget", "budget", "This month's money", api.BudgetDocument, **_STEPS),
    Request("budget", "setBudget", "Set this month's allowance", api.BudgetChangeDocument, (400, 409, 413),
            body=api.BudgetAsked, **_POST),
    Request("budget", "resetBudget", "Go back to the configured allowance", api.BudgetChangeDocument, (400, 409),
            query=_RESET, needs=("scope", "who", "why"), **_DELETE),
)  # fmt: skip
THIS_DOCUMENT = Request("/api/v1/openapi.json", "openapi", "This document", {"type": "object"})


def _named(model: type[BaseModel]) -> str:
    return model.__name__.removesuffix(SUFFIX)


def _by_resource(requests: Sequence[Request]) -> Sequence[Request]:
    """*requests* with those of one resource (``decisions``) together, in the order of the first of each."""
    firsts: dict[str, int] = {}
    for place, request in enumerate(requests):
        firsts.setdefault(_resource(request), place)
    return sorted(requests, key=lambda request: firsts[_resource(request)])


def _resource(request: Request) -> str:
    return request.path.partition("/")[0] or request.path


def _models(requests: Sequence[Request]) -> frozenset[type[BaseModel]]:
    return frozenset(m for r in requests for m in (r.answer, r.body) if isinstance(m, type)) | {api.ProblemDocument}


@cache
def _schemas(models: Set[type[BaseModel]]) -> dict[str, Schema]:
    _, json_schema = models_json_schema(
        [(m, "serialization") for m in sorted(models, key=_named)], ref_template="#/components/schemas/{model}"
    )
    return {name.removesuffix(SUFFIX): _renamed(schema) for name, schema in json_schema["$defs"].items()}


def _renamed(node: object) -> Any:
    """*node* with references to the names without the suffix of classes."""
    if isinstance(node, dict):
        return {key: value.removesuffix(SUFFIX) if key == "$ref" else _renamed(value) for key, value in node.items()}
    return [_renamed(part) for part in node] if isinstance(node, list) else node


def _shown(answer: type[BaseModel] | Schema, *, many: bool = False) -> Schema:
    schema = answer if isinstance(answer, dict) else {"$ref": f"#/components/schemas/{_named(answer)}"}
    return {"type": "array", "items": schema} if many else schema


def _operation(request: Request, path: str, *, closed: bool) -> Schema:
    kinds = ("text/plain", "application/openmetrics-text") if request.answer is TEXT else ("application/json",)
    content = {kind: {"schema": _shown(request.answer, many=request.many)} for kind in kinds}
    content |= {kind: {"schema": TEXT} for kind in request.kinds}
    success: dict[str, Any] = {"description": "done" if request.status != 200 else "found", "content": content}
    if headers := {**({} if request.path.startswith("/") else OF_AN_ANSWER), **request.headers}:
        success["headers"] = headers
    answers = {str(request.status): success}
    if path in ("/healthz", "/readyz"):
        answers["503"] = {"description": "it does not", "content": content}
    takes_token = request.token is OPERATOR or (request.token is READERS and closed)
    asks_store = not request.path.startswith("/")
    refusals = {*request.refusals, *((401, 429) if takes_token else ()), *((503,) if asks_store else ())}
    for status in sorted(refusals):
        says, headers = _REFUSALS[status]
        problem = {"application/json": {"schema": _shown(api.ProblemDocument)}}
        answers[str(status)] = {"description": says, "content": problem, **({"headers": headers} if headers else {})}
    parameters = [
        {"name": part, "in": "path", "required": True, "schema": _NTH.get(part, TEXT)}
        for part in re.findall(r"{(\w+)}", path)
    ] + [
        {"name": name, "in": "query", "required": name in request.needs, "schema": schema}
        for name, schema in request.query
    ]
    operation: Schema = {"operationId": request.name, "summary": request.summary, "responses": answers}
    is_open = request.token is READERS and not closed
    operation["security"] = [] if is_open else [{scheme: []} for scheme in request.token]
    if parameters:
        operation["parameters"] = parameters
    if request.body is not None:
        kind = "application/yaml" if isinstance(request.body, dict) else "application/json"
        operation["requestBody"] = {"required": True, "content": {kind: {"schema": _shown(request.body)}}}
    return operation


def document(version: str, *, closed: bool = False, added: Sequence[Request] = ()) -> Schema:
    """Return the document of the server's *version*; *closed* when reading takes a token. *added* are the requests of
    capabilities."""
    requests, paths = _by_resource((*REQUESTS, *added, THIS_DOCUMENT)), dict[str, Schema]()
    for request in requests:
        path = request.path if request.path.startswith("/") else f"/api/v1/{request.path}"
        paths.setdefault(path, {})[request.method] = _operation(request, path, closed=closed)
    reader = "GPU_AUTOSCALER_READER_TOKEN, where web.reading is token"
    cookie = {"type": "apiKey", "in": "cookie", "name": "gpu_autoscaler_session"}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "GPU autoscaler",
            "version": version or "0",
            "summary": "Why GPU node pools grow and shrink, what that costs, and overrides of policy.",
            "description": "Times are RFC 3339 in UTC, money is USD as text, ratios are 0 to 1, null is not known."
            " docs/http-api.md has examples. Newer servers may answer more fields.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": _schemas(_models(requests)),
            "securitySchemes": {
                "webhook": {**_BEARER, "description": "GPU_AUTOSCALER_WEBHOOK_TOKEN"},
                "operator": {**_BEARER, "description": "GPU_AUTOSCALER_OPERATOR_TOKEN"},
                "reader": {**_BEARER, "description": reader},
                "session": {**cookie, "description": "what /login gives a browser; it reads and does not write"},
            },
        },
    }
