"""Waiting workloads that get no node now, as planners read them: one line for the pods of one owner that the same
reason holds. It is read from what the last step published."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Annotated

from receiver.config.model import Mode
from receiver.core.explain.explain import State
from receiver.core.explain.rules import plainly
from receiver.reports.document import Count, Listed, Moment, Price, Published, says
from receiver.reports.picture import Picture, PoolDocument, WaitingPod

OBSERVED = "observe_mode"
REFUSED = {
    State.FITS_NOWHERE: "no pool can hold it",
    State.NOT_DEMAND: "no node is bought for pods like these",
    State.GANG_INCOMPLETE: "other pods of its gang do not exist yet",
}


class HeldPods(Published):
    """Pods of one owner that get no node now."""

    namespace: str = ""
    owner: Annotated[str, says("what created them, such as Job/train; Pod and its name for a pod of its own")] = ""
    pods: Annotated[Listed[str], says("their names")] = ()
    reason: Annotated[str, says("a rule of docs/guardrails.md, `observe_mode`, or a state of a waiting pod")] = ""
    meaning: Annotated[str, says("the reason in plain words")] = ""
    detail: Annotated[str, says("what becomes of the first pod, in a sentence")] = ""
    pool: Annotated[str | None, says("Civo's id of the pool that does not grow; null where none fits")] = None
    pool_name: str | None = None
    gpus: Annotated[Count, says("GPUs that they ask for")] = 0
    since: Annotated[Moment | None, says("since when the first of them waits")] = None
    not_before: Annotated[
        Moment | None, says("asking again is of no use before; null: no time is known, people or other work decide")
    ] = None
    usd_per_hour: Annotated[Price | None, says("what their GPUs cost in this pool; null: not known")] = None


class HeldWorkDocument(Published):
    """All work that gets no node now."""

    at: Annotated[Moment | None, says("the step that decided it; null before the first")] = None
    held: Listed[HeldPods] = ()
    pods_beyond: Annotated[Count, says("waiting pods that the step counted and did not describe")] = 0


def held_work(picture: Picture, at: datetime | None) -> HeldWorkDocument:
    """Return what the step of *at*, which published *picture*, gives no node, in the order of service."""
    pools = {pool.pool: pool for pool in picture.pools}
    groups: dict[tuple[str, str, str, str | None], list[WaitingPod]] = {}
    for pod in picture.waiting:
        reason = reason_of(pod, observing=picture.mode == Mode.OBSERVE)
        if reason is not None:
            key = (pod.namespace, pod.owner or f"Pod/{pod.name}", reason, pod.pool)
            groups.setdefault(key, []).append(pod)
    lines = tuple(_lines(groups, pools))
    beyond = max(0, (picture.waiting_total or 0) - len(picture.waiting))
    return HeldWorkDocument(at=at, held=lines, pods_beyond=beyond)


def reason_of(pod: WaitingPod, *, observing: bool) -> str | None:
    """Why *pod* gets no node; None where it needs none, has one on its way, or may wait. *observing* is True where
    nothing is written."""
    if pod.state == State.HELD or pod.state in REFUSED:
        return pod.rule or pod.state
    return OBSERVED if observing and pod.state == State.BUYING else None


def _lines(
    groups: dict[tuple[str, str, str, str | None], list[WaitingPod]], pools: dict[str, PoolDocument]
) -> Iterator[HeldPods]:
    for (namespace, owner, reason, pool_id), pods in groups.items():
        pool, first = pools.get(pool_id or ""), pods[0]
        gpus, moments = sum(pod.gpus for pod in pods), [pod.held_until for pod in pods]
        yield HeldPods(
            namespace=namespace,
            owner=owner,
            pods=tuple(pod.name for pod in pods),
            reason=reason,
            meaning=_plainly(reason, first.state),
            detail=first.detail,
            pool=pool_id,
            pool_name=pool.name if pool is not None else None,
            gpus=gpus,
            since=min((pod.since for pod in pods if pod.since is not None), default=None),
            not_before=min((at for at in moments if at is not None), default=None) if all(moments) else None,
            usd_per_hour=_price(pool, gpus),
        )


def _plainly(reason: str, state: str) -> str:
    if reason == OBSERVED:
        return "in observe mode nothing is bought"
    return REFUSED[State(state)] if reason == state and state in REFUSED else plainly(reason)


def _price(pool: PoolDocument | None, gpus: int) -> Decimal | None:
    """USD per hour of *gpus* in *pool*, each a part of its node."""
    if pool is None or pool.price_usd_per_hour is None or not pool.gpus_per_node or not gpus:
        return None
    return pool.price_usd_per_hour * gpus / pool.gpus_per_node


def of_namespace(lines: Sequence[HeldPods], namespace: str | None) -> tuple[HeldPods, ...]:
    """Return those of *lines* in *namespace*, all for None."""
    return tuple(line for line in lines if namespace in (None, line.namespace))
