"""Pods that wait for GPUs, and what it can mean that one does not."""

from collections.abc import Sequence

from receiver.core.explain.explain import State
from receiver.core.model.model import Source
from receiver.reports.picture import Picture, Unfit, WaitingPod
from receiver.web.api.documents import DecisionDocument, mode_of, waiting_document
from receiver.web.errors import Problem
from receiver.web.parts import WebParts

FEW = 5  # pods or decisions that are named beside something else
SEARCHED = 200  # decisions that are searched for a pod that no longer waits
ROWS = 20  # on the page; the API has all that are kept
NOT_WAITING = (
    "it runs, or it is bound to a node and starts",
    "it is gated, or the scheduler has not refused it yet: a queue may hold it",
    "it has finished, or it was deleted",
    "it asks for no GPU, or for one by a ResourceClaim that does not exist yet",
    "it was created after the last step",
    "there is no pod of this name in this cluster",
)


def fits_nowhere(found: Picture, pool: str) -> tuple[Unfit, ...]:
    """Return the first waiting pods that no pool can hold, with why *pool* cannot."""
    lost = [pod for pod in found.waiting if pod.state == State.FITS_NOWHERE]
    return tuple(
        Unfit(
            pod=f"{pod.namespace}/{pod.name}",
            why_not=next((fit.why_not for fit in pod.fits if fit.pool == pool), None),
            detail=pod.detail,
        )
        for pod in lost[:FEW]
    )


def last_asked(parts: WebParts, pod: str) -> list[str]:
    """Return sentences on the latest decisions that wanted a node for *pod*, as far back as they are searched."""
    said = []
    for stored in parts.store.decisions(limit=SEARCHED):
        decision = stored.decision
        if pod in (decision.evidence.get("asking") or ()):
            named = DecisionDocument.of_stored(stored, parts).pool_name
            said.append(
                f"decision {stored.id} at {decision.at:%Y-%m-%d %H:%M:%S} UTC was about it: GPU pool {named}, "
                f"{decision.change}, {decision.present} -> {decision.target} nodes"
            )
    return said[:FEW]


def not_waiting(found: Picture, namespace: str, name: str, history: Sequence[str] = ()) -> Problem:
    """Return the 404 for a pod that does not wait, with all that this can mean and its *history*."""
    pod = f"{namespace}/{name}"
    before = {"history": list(history)} if history else {}
    if not found.model_fields_set:
        again = "ask again after the next step; /healthz tells whether the loop beats"
        return Problem(404, "no step has finished yet: waiting pods are not known", again, field="name")
    for pool in found.pools:
        for node in pool.nodes:
            if pod in node.pods:
                where = f"node {node.name} of GPU pool {pool.name}"
                remedy = f"nothing to do here: `kubectl describe pod -n {namespace} {name}` shows how it starts or runs"
                return Problem(404, f"pod {pod} does not wait: it is bound to {where}", remedy, field="name", **before)
    for source in found.sources:
        if source.source == Source.KUBERNETES and not source.up:
            unseen = f"pod {pod} is not known to wait, and Kubernetes did not answer: {source.detail}"
            return Problem(404, unseen, "bring Kubernetes back, then ask again", field="name")
    kept, total = len(found.waiting), found.waiting_total or 0
    more = [f"it is one of the {total - kept} pods that wait behind the {kept} kept here"] if total > kept else []
    return Problem(
        404,
        f"pod {pod} does not wait for a GPU as of the last step",
        f"see `kubectl get pod -n {namespace} {name} -o wide`",
        field="name",
        can_mean=[*more, *NOT_WAITING],
        **before,
    )


def waiting_rows(found: Picture, parts: WebParts) -> list[tuple[WaitingPod, int]]:
    """Return the page's rows, each with its number of pods: pods of one owner and one fate share a row, which has the
    first one's words and the GPUs of all. Those that no pool fits have their own list."""
    rows: dict[tuple[str | None, ...], tuple[WaitingPod, int]] = {}
    for pod in found.waiting:
        if pod.state == State.FITS_NOWHERE:
            continue
        key = (pod.namespace, pod.owner or pod.name, pod.state, pod.pool, pod.rule, pod.node)
        if key in rows:
            first, pods = rows[key]
            rows[key] = (first.model_copy(update={"gpus": first.gpus + pod.gpus}), pods + 1)
        elif len(rows) < ROWS:
            rows[key] = (waiting_document(pod, parts, mode_of(found, parts)), 1)
    return list(rows.values())
