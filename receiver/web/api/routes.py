"""GET /api/v1: what the pages show, as JSON. It reads the store; only `receiver.web.api.changes` changes anything."""

from collections.abc import Sequence
from datetime import timedelta

from flask import Blueprint, Response, g, jsonify, request

from receiver.config.web import ReadAccess
from receiver.core.explain.explain import State
from receiver.core.model.model import Source
from receiver.ports import DecisionFilter, StoredDecision
from receiver.reports.document import utc
from receiver.reports.picture import ChargesDocument, Picture, PoolDocument, Unfit, kept_picture
from receiver.web.api import documents as api
from receiver.web.api.alert_documents import ReceivedAlert
from receiver.web.api.changes import add_budget_changes, add_overrides
from receiver.web.api.episodes import latest_episodes
from receiver.web.api.request_parts import MAX_ROW, decisions_asked, invalid, limit_asked, pool_asked, pool_called
from receiver.web.api.summary import SummaryDocument
from receiver.web.errors import Problem
from receiver.web.openapi import document
from receiver.web.parts import WebParts

SNAPSHOT_HEADER = "Gpu-Autoscaler-Snapshot-At"
ZONE_HEADER = "Gpu-Autoscaler-Timezone"  # of the budgets, in which people read times
TOTAL_HEADER = "Gpu-Autoscaler-Waiting-Total"
LATEST = 5  # decisions of the status
UNDELIVERED = 20
AN_HOUR = timedelta(hours=1)
FEW = 5  # pods or decisions that are named beside something else
SEARCHED = 200  # decisions that are searched for a pod that no longer waits
NOT_WAITING = (
    "it runs, or it is bound to a node and starts",
    "it is gated, or the scheduler has not refused it yet: a queue may hold it",
    "it has finished, or it was deleted",
    "it requests no GPU, or one by a ResourceClaim that does not exist yet",
    "it was created after the last step",
    "no pool here can hold it, and another installation in the cluster may",
    "there is no pod of this name in this cluster",
)


def decision_asked(parts: WebParts, number: str) -> StoredDecision:
    """Return the decision with that *number*; Problem 400 unless it is one, 404 for one that is not kept."""
    if not (number.isascii() and number.isdigit()):
        raise invalid("id", "a decision's id is a whole number", "`gpu-autoscaler status` lists the latest")
    stored = parts.store.decision(min(int(number[:20]), MAX_ROW))
    if stored is None:
        raise Problem(
            404,
            "no decision has this id",
            "`gpu-autoscaler status` lists the latest, /decisions every one that is kept",
            field="id",
        )
    return stored


def blueprint(parts: WebParts) -> Blueprint:
    """Return the API."""
    routes = Blueprint("api", __name__, url_prefix="/api/v1")

    @routes.after_request
    def name_the_step(response: Response) -> Response:
        """Name the zone of the budgets, and the step that the answer stems from; ``none`` before the first."""
        response.headers[ZONE_HEADER] = parts.policy.timezone
        if "step_at" in g:
            response.headers[SNAPSHOT_HEADER] = utc(g.step_at) if g.step_at else "none"
        return response

    _add_picture(routes, parts)
    _add_waiting(routes, parts)
    _add_decisions(routes, parts)
    add_overrides(routes, parts)
    add_budget_changes(routes, parts)
    for addition in parts.added:
        addition.add_routes(routes, parts)
    added = [request for addition in parts.added for request in addition.requests]

    @routes.get("/openapi.json")
    def openapi() -> Response:
        closed = parts.configuration.web.reading is ReadAccess.TOKEN
        return jsonify(document(parts.version, closed=closed, added=added))

    return routes


def _picture(parts: WebParts) -> Picture:
    """The last step's picture, whose time the answer's header names."""
    picture, g.step_at = kept_picture(parts.store)
    return picture


def _add_picture(routes: Blueprint, parts: WebParts) -> None:
    @routes.get("/status")
    def status() -> Response:
        document = _status(_picture(parts), parts).document()
        for pool in document["pools"]:
            pool.pop("nodes", None)
        return jsonify(document)

    @routes.get("/summary")
    def summary() -> Response:
        return jsonify(SummaryDocument.of_picture(_picture(parts), parts))

    @routes.get("/pools")
    def pools() -> Response:
        picture = _picture(parts)
        return jsonify([api.pool_document(pool, api.mode_of(picture, parts)) for pool in picture.pools])

    @routes.get("/pools/<pool>")
    def one_pool(pool: str) -> Response:
        configured, picture = pool_called(parts, pool), _picture(parts)
        document = picture.pool(configured.id) or PoolDocument(
            name=configured.name, pool=configured.id, size=configured.size
        )
        additions = {"fits_nowhere": fits_nowhere(picture, configured.id), "messages_to": parts.messages_to}
        return jsonify(api.pool_document(document, api.mode_of(picture, parts)).model_copy(update=additions))

    @routes.get("/budget")
    def budget() -> Response:
        return jsonify(api.BudgetDocument.of_picture(_picture(parts), parts))

    @routes.get("/charges")
    def charges() -> Response:
        return jsonify(_picture(parts).charges or ChargesDocument())

    @routes.get("/alerts")
    def alerts() -> Response:
        """List what Alertmanager delivered within the last hour, so that people can see whether it arrives."""
        name = request.args.get("alertname")
        received_alerts = [
            ReceivedAlert.of(a, alertname=a.labels.get("alertname", ""))
            for a in parts.store.remembered_alerts(parts.clock.now() - AN_HOUR)
            if name in (None, a.labels.get("alertname"))
        ]
        return jsonify(list(reversed(received_alerts)))


def _status(picture: Picture, parts: WebParts) -> api.StatusDocument:
    mode = api.mode_of(picture, parts)
    undelivered = parts.store.undelivered(limit=UNDELIVERED)
    failing = [notice for notice in undelivered if notice.attempts]
    likely = (pod.expected_by for pod in picture.waiting if pod.state != State.MAY_WAIT)  # theirs is the latest start
    return api.StatusDocument(
        at=picture.at,
        cluster_name=parts.configuration.cluster_name,
        mode=mode,
        version=parts.version,
        loop=api.LoopDocument.of(parts.heartbeat()),
        budget=api.BudgetDocument.of_picture(picture, parts),
        pools=tuple(api.pool_document(pool, mode) for pool in picture.pools),
        sources=picture.sources,
        rights=picture.rights,
        concerns=picture.concerns,
        waiting_total=picture.waiting_total,
        fits_nowhere=sum(pod.state == State.FITS_NOWHERE for pod in picture.waiting),
        next_by=min((by for by in likely if by), default=None),
        decisions=tuple(
            api.DecisionLine.of(api.DecisionDocument.of_stored(episode.latest, parts))
            for episode in latest_episodes(parts, DecisionFilter(), LATEST)
        ),
        messages=api.MessagesDocument(
            to=parts.messages_to,
            undelivered=len(undelivered),
            failing=len(failing),
            last_error=failing[0].last_error if failing else None,
        ),
        observed=picture.observed,
    )


def _add_waiting(routes: Blueprint, parts: WebParts) -> None:
    @routes.get("/waiting")
    def waiting() -> Response:
        pool, limit = pool_asked(parts), limit_asked()
        picture = _picture(parts)
        pods = [pod for pod in picture.waiting if pool in (None, pod.pool)]
        response = jsonify([api.waiting_document(pod, picture, parts) for pod in pods[:limit]])
        response.headers[TOTAL_HEADER] = str(picture.waiting_total or 0)
        return response

    @routes.get("/waiting/<namespace>/<name>")
    def one_waiting(namespace: str, name: str) -> Response:
        picture = _picture(parts)
        for pod in picture.waiting:
            if (pod.namespace, pod.name) == (namespace, name):
                return jsonify(api.waiting_document(pod, picture, parts))
        raise not_waiting(picture, namespace, name, last_asked(parts, f"{namespace}/{name}"))


def _add_decisions(routes: Blueprint, parts: WebParts) -> None:
    @routes.get("/decisions")
    def decisions() -> Response:
        only, limit = decisions_asked(parts, request.args), limit_asked()
        _picture(parts)
        stored_decisions = parts.store.decisions(only, limit=limit)
        return jsonify([api.DecisionDocument.of_stored(stored, parts) for stored in stored_decisions])

    @routes.get("/decisions/<number>")
    def one_decision(number: str) -> Response:
        return jsonify(api.explained(decision_asked(parts, number), parts))

    @routes.get("/actions")
    def actions() -> Response:
        pool, limit = pool_asked(parts), limit_asked()
        _picture(parts)
        stored_actions = parts.store.actions(pool=pool, limit=limit)
        return jsonify([api.ActionDocument.of(a, pool_name=parts.pool_name(a.action.pool)) for a in stored_actions])


def fits_nowhere(picture: Picture, pool: str) -> tuple[Unfit, ...]:
    """Return the first waiting pods that no pool can hold, with why *pool* cannot."""
    unfit_pods = [pod for pod in picture.waiting if pod.state == State.FITS_NOWHERE]
    return tuple(
        Unfit(
            pod=f"{pod.namespace}/{pod.name}",
            why_not=next((fit.why_not for fit in pod.fits if fit.pool == pool), None),
            detail=pod.detail,
        )
        for pod in unfit_pods[:FEW]
    )


def last_asked(parts: WebParts, pod: str) -> list[str]:
    """Return sentences on the latest decisions that wanted a node for *pod*, as far back as they are searched."""
    sentences = []
    for stored in parts.store.decisions(limit=SEARCHED):
        decision = stored.decision
        if pod in (decision.evidence.get("asking") or ()):
            named = api.DecisionDocument.of_stored(stored, parts).pool_name
            sentences.append(
                f"decision {stored.id} at {decision.at:%Y-%m-%d %H:%M:%S} UTC was about it: GPU pool {named}, "
                f"{decision.change}, {decision.present} -> {decision.target} nodes"
            )
    return sentences[:FEW]


def not_waiting(picture: Picture, namespace: str, name: str, history: Sequence[str] = ()) -> Problem:
    """Return the 404 for a pod that does not wait, with all that this can mean and its *history*."""
    pod = f"{namespace}/{name}"
    before = {"history": list(history)} if history else {}
    if not picture.model_fields_set:
        again = "try again after the next step; /healthz shows whether the loop runs"
        return Problem(404, "no step has finished yet: waiting pods are not known", again, field="name")
    for pool in picture.pools:
        for node in pool.nodes:
            if pod in node.pods:
                where = f"node {node.name} of GPU pool {pool.name}"
                remedy = f"nothing to do here: `kubectl describe pod -n {namespace} {name}` shows how it starts or runs"
                return Problem(404, f"pod {pod} does not wait: it is bound to {where}", remedy, field="name", **before)
    for source in picture.sources:
        if source.source == Source.KUBERNETES and not source.up:
            unseen = f"pod {pod} is not known to wait, and Kubernetes did not answer: {source.detail}"
            return Problem(404, unseen, "make Kubernetes reachable, then try again", field="name")
    stored_count, total = len(picture.waiting), picture.waiting_total or 0
    overflow_note = (
        [f"it is one of the {total - stored_count} waiting pods beyond the {stored_count} stored here"]
        if total > stored_count
        else []
    )
    problem, can_mean = f"pod {pod} does not wait for a GPU as of the last step", [*overflow_note, *NOT_WAITING]
    remedy = f"see `kubectl get pod -n {namespace} {name} -o wide`"
    return Problem(404, problem, remedy, field="name", can_mean=can_mean, **before)
