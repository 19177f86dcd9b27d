"""Work that the scheduler leaves waiting beside a usable node with room: told once per try, with its words first."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

from receiver.core.model.model import Node, PoolState
from receiver.core.model.pods import Pod, Workload
from receiver.core.model.policy import Pool
from receiver.core.model.refusals import SchedulerRefusal
from receiver.core.model.text import cut, dollars, lasting, some
from receiver.core.money.cost import HOUR
from receiver.core.notices import wording
from receiver.core.notices.notice import Cause, Concern, Seen
from receiver.core.scaling.wanted import Wanted
from receiver.core.scaling.witness import REFUSED_AFTER, request_of, spent, wait_after

IGNORED_FOR = timedelta(minutes=2)  # the scheduler needs a moment after a node became usable
LONGEST_WORDS = 240  # characters of the scheduler's message, of the 280 of a sentence
NO_WORDS = "the scheduler does not say why: check volumes, pod affinity and topology spread"


def of_pool(pool: Pool, state: PoolState, wanted: Wanted, seen: Seen) -> Iterator[Concern]:
    """What stands beside room of *pool*, and what the scheduler has refused after a while."""
    refusals = {refusal.request: refusal for refusal in seen.facts.other_work.refusals}
    beside: dict[str, list[tuple[Workload, Node]]] = {}
    nodes = {n.instance: n for n in state.nodes}
    for key, instance in wanted.work.placed:
        pod = next((p for p in reversed(seen.facts.waiting_of(key)) if p.key == key), None)
        if pod is not None:
            workload, node = Workload(key=key, pods=(pod,)), nodes[instance]
            request = request_of(workload)
            if _is_long(pod, node, refusals.get(request), seen.reopened.get(pool.id), seen.now):
                beside.setdefault(request, []).append((workload, node))
    for request, placements in beside.items():
        yield _beside(pool, placements, request, refusals.get(request), seen)
    refused: dict[str, list[Pod]] = {}
    for held in wanted.work.held:
        if held.refusal is not None and held.refusal.holds(seen.now):
            refused.setdefault(held.refusal.request, []).extend(seen.facts.waiting_of(held.workload))
    for request, pods in refused.items():
        yield _refused(pool, refusals[request], pods, seen)


def _is_long(pod: Pod, node: Node, evidence: SchedulerRefusal | None, reopened: datetime | None, now: datetime) -> bool:
    since = node.idle_since or node.times.usable_since
    if since is None or node.cordon.stop is not None:
        return False
    stands = evidence.beside_since if evidence is not None else None
    return now - max(since, pod.created_at, reopened or since, stands or since) >= IGNORED_FOR


def _beside(
    pool: Pool,
    placements: Sequence[tuple[Workload, Node]],
    request: str,
    evidence: SchedulerRefusal | None,
    seen: Seen,
) -> Concern:
    """It has stood there for a moment: said once, with what follows if that goes on."""
    now, (first, node) = seen.now, placements[0]
    past = evidence or SchedulerRefusal(request=request, configured="", seen_at=now)
    nodes = {beside.instance: beside for _, beside in placements}.values()
    paid, usd = spent([(pool, beside) for beside in nodes], seen.policy, now)
    stands = replace(
        past,
        tries=past.tries + 1,
        empty=not all(beside.busy for beside in nodes),
        node=node.name,
        says=first.pods[0].scheduler_says,
        paid=past.paid + paid,
        usd=None if past.usd is None or usd is None else past.usd + usd,
    )
    due = wording.moment((past.beside_since or now) + REFUSED_AFTER, now)
    then = "an empty node is tried for it"
    if stands.empty:
        wait = lasting(wait_after(stands.tries, first.pods))
        then = f"no node is kept or bought for it for {wait}, unless the scheduler's words change"
    return _concern(pool, stands, [w.pods[0] for w, _ in placements], f"if that is still so at {due}, {then}", seen)


def _refused(pool: Pool, refusal: SchedulerRefusal, pods: Sequence[Pod], seen: Seen) -> Concern:
    """The scheduler has had its time."""
    until = wording.moment(refusal.until, seen.now) if refusal.until is not None else "that"
    doing = (
        f"no node is kept or bought for it before {until}, unless the scheduler's words, its owner or the pools change;"
        " other work may use the node"
    )
    return _concern(pool, refusal, pods, doing, seen)


def _concern(pool: Pool, refusal: SchedulerRefusal, pods: Sequence[Pod], doing: str, seen: Seen) -> Concern:
    first, node = pods[0], refusal.node
    subject = f"{first.key} is" if len(pods) == 1 else f"{first.key} and {some(len(pods) - 1, 'more pod')} are"
    fit = "should fit it" if len(pods) == 1 else "should fit them"
    words = cut(" ".join(refusal.says.split()).rstrip("."), LONGEST_WORDS)
    return Concern(
        kind=Cause.UNUSED,
        what=f"{subject} pending although {node} {fit}",
        title=f"{subject} pending although {node} of GPU pool {pool.name} {fit}",
        why=f"the scheduler says: {words}" if words else NO_WORDS,
        whose=wording.whose(wording.asked_by(pods, seen.policy)),
        cost=_sum(refusal.paid, refusal.usd),
        doing=doing,
        todo=f"Look at: kubectl describe pod -n {first.namespace} {first.name} (volumes: kubectl describe pvc -n"
        f" {first.namespace}; pod affinity, topology spread, ports, resources that no node has)",
        topic=f"refused:{refusal.request}",
        key=f"{refusal.tries}{'' if refusal.empty else ':shared'}",
    )


def _sum(paid: timedelta, usd: Decimal | None) -> str:
    hours = Decimal(paid // timedelta(seconds=1)) / Decimal(HOUR // timedelta(seconds=1))
    if not hours:
        return "no paid time of a node has begun for it"
    many = some(int(hours), "node-hour") if hours == int(hours) else f"{hours:.1f} node-hours"
    price = "at an unknown price" if usd is None else f"{dollars(usd)} spent"
    return f"{many}, {price} on nodes that it did not use"
