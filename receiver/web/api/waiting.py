"""GET /api/v1/waiting: every pod that waits, or one of them, with what becomes of it and what a person can do."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flask import Blueprint, Response, jsonify

from receiver.core.explain.explain import State
from receiver.web.api.documents import decision_document, mode_of, waiting_document
from receiver.web.api.request_parts import limit_asked, pool_asked
from receiver.web.errors import Problem
from receiver.web.parts import WebParts

FEW = 5  # pods or decisions that are told beside something else
SEARCHED = 200  # decisions that are searched for a pod that does not wait any more
ROWS = 20  # on the page; the API has all that are kept
TOTAL_HEADER = "Gpu-Autoscaler-Waiting-Total"
NOT_WAITING = (
    "it runs, or it is bound to a node and starts",
    "it is gated, or the scheduler has not refused it yet: a queue may hold it",
    "it has finished, or it was deleted",
    "it asks for no GPU, or for one by a ResourceClaim that does not exist yet",
    "it was created after the last step",
    "there is no pod of this name in this cluster",
)


def add_waiting(routes: Blueprint, parts: WebParts, picture: Callable[[], Mapping[str, Any]]) -> None:
    """Add both routes to *routes*; *picture* returns the last step's, and notes its age for the answer's header."""

    @routes.get("/waiting")
    def waiting() -> Response:
        pool, limit = pool_asked(parts), limit_asked()
        found = picture()
        kept = [e for e in found.get("waiting") or () if pool in (None, e.get("pool"))]
        response = jsonify([waiting_document(e, parts, mode_of(found, parts)) for e in kept[:limit]])
        response.headers[TOTAL_HEADER] = str(found.get("waiting_total") or 0)
        return response

    @routes.get("/waiting/<namespace>/<name>")
    def one_waiting(namespace: str, name: str) -> Response:
        found = picture()
        for entry in found.get("waiting") or ():
            if (entry.get("namespace"), entry.get("name")) == (namespace, name):
                return jsonify(waiting_document(entry, parts, mode_of(found, parts)))
        raise not_waiting(found, namespace, name, last_asked(parts, f"{namespace}/{name}"))


def fits_nowhere(found: Mapping[str, Any], pool: str) -> list[dict[str, Any]]:
    """Return the first waiting pods of the picture *found* that no pool can hold, with why *pool* cannot."""
    lost = [e for e in found.get("waiting") or () if e.get("state") == State.FITS_NOWHERE]
    return [
        {
            "pod": f"{entry.get('namespace')}/{entry.get('name')}",
            "why_not": next((f.get("why_not") for f in entry.get("fits") or () if f.get("pool") == pool), None),
            "detail": entry.get("detail"),
        }
        for entry in lost[:FEW]
    ]


def last_asked(parts: WebParts, pod: str) -> list[str]:
    """Return sentences on the latest decisions that a node was wanted for *pod* in, as far as they are searched."""
    said = []
    for stored in parts.store.decisions(limit=SEARCHED):
        decision = stored.decision
        if pod in (decision.evidence.get("asking") or ()):
            change = f"{decision.present} -> {decision.target} nodes"
            named = decision_document(stored, parts)["pool_name"]
            said.append(
                f"decision {stored.id} at {decision.at:%Y-%m-%d %H:%M:%S} UTC was about it: GPU pool {named}, "
                f"{decision.change}, {change}"
            )
    return said[:FEW]


def not_waiting(found: Mapping[str, Any], namespace: str, name: str, known: Sequence[str] = ()) -> Problem:
    """Return the 404 for a pod that the picture *found* does not show as waiting, with all that this can mean and what
    is *known* of it from before."""
    pod = f"{namespace}/{name}"
    again = "ask again after the next step; /healthz tells whether the loop beats"
    before = {"history": list(known)} if known else {}
    if not found:
        return Problem(404, "no step has finished yet: nobody knows which pods wait", again, field="name")
    for entry in found.get("pools") or ():
        for node in entry.get("nodes") or ():
            if pod in (node.get("pods") or ()):
                where = f"node {node.get('name')} of GPU pool {entry.get('name')}"
                remedy = f"nothing to do here: `kubectl describe pod -n {namespace} {name}` shows how it starts or runs"
                return Problem(404, f"pod {pod} does not wait: it is bound to {where}", remedy, field="name", **before)
    for source in found.get("sources") or ():
        if source.get("source") == "kubernetes" and not source.get("up"):
            unseen = f"pod {pod} is not known to wait, and Kubernetes did not answer: {source.get('detail')}"
            return Problem(404, unseen, "bring Kubernetes back, then ask again", field="name")
    kept, total = len(found.get("waiting") or ()), found.get("waiting_total") or 0
    more = [f"it is one of the {total - kept} pods that wait behind the {kept} kept here"] if total > kept else []
    return Problem(
        404,
        f"pod {pod} does not wait for a GPU as of the last step",
        f"see `kubectl get pod -n {namespace} {name} -o wide`",
        field="name",
        can_mean=[*more, *NOT_WAITING],
        **before,
    )


def waiting_rows(found: Mapping[str, Any], parts: WebParts) -> list[dict[str, Any]]:
    """Return the page's rows: pods of one owner and one fate share one. Those that no pool fits have their own list."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for entry in found.get("waiting") or ():
        if entry.get("state") == State.FITS_NOWHERE:
            continue
        whose = (entry.get("namespace"), entry.get("owner") or entry.get("name"))
        key = (*whose, *(entry.get(name) for name in ("state", "pool", "rule", "node")))
        row = rows.get(key)
        if row is None and len(rows) < ROWS:
            rows[key] = {**waiting_document(entry, parts, mode_of(found, parts)), "pods": 1}
        elif row is not None:
            row["pods"] += 1
            row["gpus"] = (row["gpus"] or 0) + (entry.get("gpus") or 0)
    return list(rows.values())
