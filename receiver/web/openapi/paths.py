"""The paths of the OpenAPI document: one row per request, made into what the specification asks for."""

from collections.abc import Sequence
from typing import Any

from receiver.core.model.policy import Scope
from receiver.core.money.attribution import By
from receiver.web.api.request_parts import DEFAULT_LIMIT, MAX_LIMIT
from receiver.web.openapi.shapes import WORDS, Schema, listed, moment, month, one_of, shared, text

Operation = dict[str, Any]

_HEADERS = {
    "Gpu-Autoscaler-Snapshot-At": {
        "description": "the step that the answer stems from",
        "schema": {"anyOf": [moment(), {"const": "none"}]},
    }
}
_TOTAL = {
    "Gpu-Autoscaler-Waiting-Total": {"description": "how many pods wait", "schema": {"type": "integer", "minimum": 0}}
}
_RETRY = {"Retry-After": {"description": "seconds", "schema": {"type": "integer", "minimum": 1}}}
_CHALLENGE = {"WWW-Authenticate": {"description": "Bearer", "schema": text()}}
_REFUSALS: dict[int, tuple[str, dict[str, Any]]] = {
    400: ("a part of the request cannot be meant; field says which", {}),
    401: ("no token, or another one", _CHALLENGE),
    404: ("there is no such thing", {}),
    409: ("it was answered otherwise, or is over", {}),
    413: ("the body is too large", {}),
    429: ("many different wrong tokens came from this address within a minute", _RETRY),
    503: ("the store does not answer now", _RETRY),
}
_POOL = ("pool", text("a pool's name or id"))
_LIMIT = (
    "limit",
    {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
)
_ID = ("number", text("its id"))
_NTH = ("number", {"type": "integer", "minimum": 0, "description": "its id"})


def _answer(says: str, schema: Schema, headers: dict[str, Any] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"description": says, "content": {"application/json": {"schema": schema}}}
    return {**found, "headers": headers} if headers else found


def _parameters(where: str, named: Sequence[tuple[str, Schema]], *, needed: bool) -> list[dict[str, Any]]:
    return [{"name": name, "in": where, "required": needed, "schema": schema} for name, schema in named]


def _operation(
    name: str,
    says: str,
    answer: Schema,
    *,
    path: Sequence[tuple[str, Schema]] = (),
    query: Sequence[tuple[str, Schema]] = (),
    needs: Sequence[str] = (),
    body: str = "",
    refusals: Sequence[int] = (),
    security: Sequence[str] = (),
    status: int = 200,
    headers: dict[str, Any] | None = None,
) -> Operation:
    """One request: *needs* names the parts of *query* that must be there, *security* whose token it takes."""
    found: Operation = {"operationId": name, "summary": says}
    parameters = _parameters("path", path, needed=True)
    for parameter in query:
        parameters += _parameters("query", [parameter], needed=parameter[0] in needs)
    if parameters:
        found["parameters"] = parameters
    if body:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": shared(body)}}}
    found["responses"] = {
        str(status): _answer("done" if status != 200 else "found", answer, headers),
        **{str(code): _answer(_REFUSALS[code][0], shared("Problem"), _REFUSALS[code][1]) for code in refusals},
    }
    found["security"] = [{scheme: []} for scheme in security]
    return found


def paths(*, closed: bool) -> dict[str, dict[str, Operation]]:
    """Return every path with its requests; *closed* when reading takes a token."""
    readers = ("reader", "operator", "session") if closed else ()

    def read(name: str, says: str, answer: Schema, *refusals: int, **more: Any) -> Operation:
        asked = {401, 429, 503, *refusals} if closed else {503, *refusals}
        return _operation(name, says, answer, refusals=sorted(asked), security=readers, **more)

    def write(name: str, says: str, answer: str, *refusals: int, **more: Any) -> Operation:
        asked = sorted({401, 429, 503, *refusals})
        return _operation(name, says, shared(answer), refusals=asked, security=("operator",), **more)

    return {
        **_machines(),
        **_steps(read),
        "/api/v1/overrides": {
            "get": read(
                "overrides",
                "Overrides that are not over, the newest first",
                listed(shared("Override")),
                400,
                404,
                query=[_POOL, _LIMIT, ("ended", one_of(("true", "false"), "with those that are over"))],
            ),
            "post": write("setOverride", "Set an override", "Override", 400, 413, body="OverrideAsked", status=201),
        },
        "/api/v1/overrides/{number}": {
            "get": read("override", "One override", shared("Override"), 404, path=[_ID]),
            "delete": write(
                "endOverride",
                "End one before its time",
                "Override",
                404,
                path=[_ID],
                query=[("who", text("who ends it"))],
            ),
        },
        "/api/v1/questions": {
            "get": read(
                "questions",
                "What people are or were asked, the newest first",
                listed(shared("Question")),
                400,
                404,
                query=[_POOL, _LIMIT],
            )
        },
        "/api/v1/questions/{number}": {
            "get": read("question", "One question", shared("Question"), 404, path=[_ID]),
            "post": write("answer", "Answer one", "Question", 400, 404, 409, 413, body="AnswerAsked", path=[_ID]),
        },
        "/api/v1/budget": {
            "get": read("budget", "This month's money", shared("Budget"), headers=_HEADERS),
            "post": write("setBudget", "Set this month's allowance", "BudgetChange", 400, 413, body="BudgetAsked"),
            "delete": write(
                "resetBudget",
                "Go back to the configured allowance",
                "BudgetChange",
                400,
                query=[
                    ("scope", one_of(Scope)),
                    ("name", text("of the pool or team")),
                    ("who", text("the person", **WORDS)),
                    ("why", text("the reason", **WORDS)),
                ],
                needs=("scope", "who", "why"),
            ),
        },
        "/api/v1/openapi.json": {
            "get": _operation(
                "openapi",
                "This document",
                {"type": "object"},
                refusals=(401, 429) if closed else (),
                security=readers,
            )
        },
    }


def _steps(read: Any) -> dict[str, dict[str, Operation]]:
    """What steps found, decided and did, and what it cost."""
    which = {"headers": _HEADERS}
    lists = {"query": [_POOL, _LIMIT], **which}
    return {
        "/api/v1/status": {"get": read("status", "Everything that one screen shows", shared("Status"), **which)},
        "/api/v1/pools": {
            "get": read("pools", "Every pool as the last step found it", listed(shared("Pool")), **which)
        },
        "/api/v1/pools/{pool}": {"get": read("pool", "One of them", shared("Pool"), 404, path=[_POOL], **which)},
        "/api/v1/waiting": {
            "get": read(
                "waiting",
                "Pods that wait for GPUs, in the order of service",
                listed(shared("WaitingPod")),
                400,
                404,
                query=[_POOL, _LIMIT],
                headers={**_HEADERS, **_TOTAL},
            )
        },
        "/api/v1/waiting/{namespace}/{name}": {
            "get": read(
                "waitingPod",
                "One of them",
                shared("WaitingPod"),
                404,
                path=[("namespace", text()), ("name", text())],
                **which,
            )
        },
        "/api/v1/decisions": {
            "get": read("decisions", "The newest decisions", listed(shared("Decision")), 400, 404, **lists)
        },
        "/api/v1/decisions/{number}": {
            "get": read("decision", "One of them, explained", shared("ExplainedDecision"), 400, 404, path=[_NTH])
        },
        "/api/v1/decisions/{number}/grounds": {
            "get": read("grounds", "What it was made from, to make it again", shared("Grounds"), 400, 404, path=[_NTH])
        },
        "/api/v1/actions": {"get": read("actions", "The newest actions", listed(shared("Action")), 400, 404, **lists)},
        "/api/v1/alerts": {
            "get": read(
                "alerts",
                "Alerts that were delivered within the last hour, the newest first",
                listed(shared("ReceivedAlert")),
                query=[("alertname", text("those of this name"))],
            )
        },
        "/api/v1/charges": {"get": read("charges", "What Civo charged, beside the ledger", shared("Charges"), **which)},
        "/api/v1/costs": {
            "get": read(
                "costs",
                "What a month has cost, by one thing",
                shared("Costs"),
                400,
                query=[("month", month("this one without it")), ("by", one_of(By, "team without it"))],
            )
        },
        "/api/v1/report": {
            "get": read(
                "report",
                "The report of a month",
                shared("Report"),
                400,
                404,
                query=[("month", month("this one without it")), ("team", text("everybody's without it"))],
            )
        },
    }


def _machines() -> dict[str, dict[str, Operation]]:
    """What Alertmanager, a kubelet and Prometheus ask. None of them has the reader's token."""
    metrics = _operation("metrics", "Prometheus' text format, or OpenMetrics for who asks for it", text())
    metrics["responses"]["200"]["content"] = {
        kind: {"schema": text()} for kind in ("text/plain", "application/openmetrics-text")
    }
    answers: dict[str, Operation] = {}
    left_out = [("exclude", one_of(("steps",), "leave out whether steps succeed"))]
    for name, schema, query in (("healthz", "Health", []), ("readyz", "Readiness", left_out)):
        answers[name] = _operation(name, "Whether it works", shared(schema), query=query)
        answers[name]["responses"]["503"] = _answer("it does not", shared(schema))
    return {
        "/webhook": {
            "post": _operation(
                "webhook",
                "Take one delivery of Alertmanager",
                shared("DeliveryTaken"),
                body="AlertmanagerPayload",
                refusals=(400, 401, 413, 503),
                security=("webhook",),
                status=202,
            )
        },
        "/healthz": {"get": answers["healthz"]},
        "/readyz": {"get": answers["readyz"]},
        "/metrics": {"get": metrics},
    }
