"""What is told of pools, nodes, waiting work and sources, case by case."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from receiver.core.model.actions import OutcomeKind, VictimStage
from receiver.core.model.model import Backoff, CordonedBy, Drift, Facts, PoolState, Source, SourceState, Stage
from receiver.core.model.pods import Nomination, PodPhase, Workload
from receiver.core.model.policy import Limits, Policy
from receiver.core.model.refusals import SchedulerRefusal
from receiver.core.model.rights import Rights, never_asked
from receiver.core.model.signals import SignalAction
from receiver.core.notices.action_notices import removals_stop
from receiver.core.notices.notice import Notice
from receiver.core.scaling.witness import request_of
from tests.core.builders import GPU, MINUTE, NOW, a_node, a_pool, a_signal, a_state, all_up, with_fields
from tests.core.notices.scene import (
    BUDGET,
    H100,
    L40S,
    NUMBER,
    POLICY,
    busy,
    idle,
    known,
    late,
    pool_of,
    standing,
    told_of,
)
from tests.core.notices.scene import training as jobs

RIGHTS = never_asked(NOW - 6 * MINUTE)
NO_STOCK = (
    "gpu_count_exceeded: Civo rejected the request to resize pool l40s-id to 3 nodes: gpu_count_exceeded (No L40S left"
    " in LON1): not enough GPUs of this kind are free in the region; wait, or use another size or region"
)
NO_QUOTA = (
    "quota_limit_reached: Civo rejected the request to resize pool l40s-id to 3 nodes: quota_limit_reached (instance"
    " quota 32 of 32): ask Civo to raise the account's quota, or free what uses it up"
)
NO_ANSWER = "timeout: 6 times in a row: Civo did not answer within 10 s"
LATER = Backoff(failures=3, until=NOW + 17 * MINUTE, reason="refused")
FOR_A_DAY = Backoff(
    failures=1, until=NOW + timedelta(hours=24), reason="after we removed l40s-2 Civo built another node"
)


def _grew(kind: OutcomeKind, detail: str = "done", policy: Policy = POLICY, **around: Any) -> Notice:
    return told_of(known(pool_of(busy()), waiting=jobs()), kind, detail, policy, **around)


def _would_shrink() -> Notice:
    return told_of(known(pool_of(busy(), idle())), OutcomeKind.OBSERVED, "would remove l40s-2")


def _shrank(**more: Any) -> Notice:
    found = known(pool_of(busy(), idle(), idle("l40s-3")))
    return told_of(found, OutcomeKind.CONFIRMED, "2 nodes removed, 1 left", gone=True)


def _shrank_at_a_stop() -> Notice:
    found = known(pool_of(busy(), idle()), spent="5012.40")
    return told_of(found, OutcomeKind.CONFIRMED, "1 node removed, 1 left", gone=True)


def _shrank_by_fewer() -> Notice:
    """Of four nodes that were chosen two got a pod before they went."""
    found = known(pool_of(busy(), *(idle(f"l40s-{n}") for n in range(2, 6))))
    stages = (VictimStage.GONE, VictimStage.SPARED, VictimStage.GONE, VictimStage.SPARED)
    return told_of(found, OutcomeKind.CONFIRMED, "2 nodes removed, 3 left", stages=stages)


def _held(found: Facts, policy: Policy = POLICY) -> Notice:
    (notice,) = [n for n in standing(found, policy) if n.topic.startswith("held:")]
    return replace(notice, decision=NUMBER)


def _misfit() -> Notice:
    found = known(a_state(), waiting=jobs(0, 1, 2, requests={GPU: 4}))
    (notice,) = [n for n in standing(found, POLICY) if n.topic.startswith("misfit:")]
    return notice


def _warned(found: Facts, policy: Policy = POLICY, drifts: Mapping[str, Drift] | None = None) -> Notice:
    (notice,) = [n for n in standing(found, policy, drifts) if not n.topic.startswith("held:")]
    return replace(notice, decision=NUMBER) if notice.pool else notice


def _source(source: Source, *, up: bool, minutes: int) -> Notice:
    said = "" if up else "no answer from http://prometheus-operated.monitoring:9090 within 10 s"
    state = SourceState(source=source, up=up, at=NOW, since=NOW - minutes * MINUTE, detail=said)
    return _warned(known(pool_of(busy(), busy("l40s-2")), sources={**all_up(), source: state}))


def _rights(rights: Rights) -> Notice:
    return _warned(known(pool_of(busy(), busy("l40s-2")), rights=rights))


def _drift(before: int, after: int, *, undoes: bool = False) -> Notice:
    drift = Drift(at=NOW, from_count=before, to_count=after, undoes=undoes)
    seen = tuple(replace(drift, at=NOW - n * 60 * MINUTE) for n in range(3)) if undoes else (drift,)
    return _warned(known(pool_of(required=after, drifts=seen)), drifts={L40S.id: drift})


def _removals_stop() -> Notice:
    state = pool_of(busy(), idle(), idle("l40s-3"))
    return replace(removals_stop(state, FOR_A_DAY, POLICY, NOW), decision=NUMBER)


def _stuck(**state: Any) -> Notice:
    found: PoolState = pool_of(late(), late("l40s-4", Stage.BUILDING), **state)
    return _warned(known(found))


def _starting() -> Notice:
    (pod,) = jobs(0, phase=PodPhase.STARTING, node="l40s-1", created_at=NOW - 21 * MINUTE)
    return _warned(known(pool_of(busy(pods=(pod,), usable_since=NOW - 60 * MINUTE))))


def _stuck_pod(**node: Any) -> Notice:
    (pod,) = jobs(0, phase=PodPhase.RUNNING, node="l40s-1", leaves_at=NOW - 10 * MINUTE)
    return _warned(known(pool_of(busy(pods=(pod,), was_usable=True, **node))))


def _nominated() -> Notice:
    lapsed = Nomination(node="l40s-7", since=NOW - 3 * MINUTE, lapsed="does not exist")
    (pod,) = jobs(0, created_at=NOW - 3 * MINUTE, nomination=lapsed)
    coming = a_node("l40s-2", stage=Stage.BOOTING, created_at=NOW - MINUTE, idle_since=None, allocatable={})
    return _warned(known(pool_of(busy(), coming), waiting=(pod,)))


def _beside() -> Notice:
    (pod,) = jobs(0, created_at=NOW - 3 * MINUTE, scheduler_says="0/1 nodes are available: 1 Insufficient cpu")
    node = a_node("l40s-2", idle_since=NOW - 5 * MINUTE)
    return _warned(known(pool_of(node), waiting=(pod,)))


def _refused_by_the_scheduler() -> Notice:
    words = '0/4 nodes are available: persistentvolumeclaim "data" not found.'
    pods = jobs(0, 1, scheduler_says=words)
    refusal = SchedulerRefusal(
        request=request_of(Workload(key=pods[0].key, pods=pods[:1])),
        configured="",
        seen_at=NOW,
        refused_at=NOW - 2 * MINUTE,
        until=NOW + timedelta(hours=96),
        tries=2,
        empty=True,
        pods=tuple(pod.key for pod in pods),
        says=words,
        node="l40s-2",
        paid=timedelta(hours=2),
        usd=Decimal("2.58"),
    )
    return _warned(known(pool_of(a_node("l40s-2")), waiting=pods, refusals=(refusal,)))


LOW = replace(POLICY, budget=replace(BUDGET, teams={}))
SPENT = "4012.00"
SMALL = a_pool(labels={"gpu": "l40s"}, max_nodes=1)
UNPRICED = a_pool(labels={"gpu": "l40s"}, price_usd_per_hour=None)

CASES: Mapping[str, Callable[[], Notice]] = {
    "grew": lambda: _grew(OutcomeKind.CONFIRMED),
    "grew_for_a_spare_node": lambda: told_of(
        known(pool_of(busy(), ready_in=None)),
        OutcomeKind.CONFIRMED,
        policy=replace(POLICY, pools=(replace(L40S, standby_nodes=1), H100)),
    ),
    "grew_less_than_wanted": lambda: _grew(
        OutcomeKind.CONFIRMED, policy=replace(POLICY, pools=(replace(L40S, max_nodes=2),))
    ),
    "shrank": _shrank,
    "shrank_at_a_stop": _shrank_at_a_stop,
    "shrank_by_fewer": _shrank_by_fewer,
    "would_grow": lambda: _grew(OutcomeKind.OBSERVED),
    "would_shrink": _would_shrink,
    "growth_failed": lambda: _grew(OutcomeKind.FAILED, NO_ANSWER, backoff=LATER),
    "out_of_stock": lambda: _grew(OutcomeKind.FAILED, NO_STOCK, backoff=LATER),
    "out_of_stock_everywhere": lambda: _grew(
        OutcomeKind.FAILED, NO_STOCK, policy=replace(POLICY, pools=(L40S,)), backoff=LATER
    ),
    "out_of_quota": lambda: _grew(OutcomeKind.FAILED, NO_QUOTA, backoff=LATER),
    "removal_failed": lambda: told_of(
        known(pool_of(busy(), idle())),
        OutcomeKind.FAILED,
        "node l40s-2 was not drained within 15m: PodDisruptionBudget web blocks the eviction of ml/web-5d9c-a from node"
        " l40s-2; no pod is evicted there until all can go",
        backoff=replace(LATER, instances=("i-l40s-2",)),
    ),
    "removals_stop": _removals_stop,
    "growth_called_off": lambda: _grew(
        OutcomeKind.SUPERSEDED, "the pool's count at Civo is 5, the decision assumed 1; nothing was sent"
    ),
    "removal_called_off": lambda: told_of(
        known(pool_of(busy(), idle())),
        OutcomeKind.WITHDRAWN,
        "l40s-2: waiting work fits on it: ml/train-0",
    ),
    "held_by_the_budget": lambda: _held(known(pool_of(busy()), waiting=jobs(), spent=SPENT), LOW),
    "held_by_the_price": lambda: _held(known(pool_of(), waiting=jobs()), replace(POLICY, pools=(UNPRICED,))),
    "held_by_the_maximum": lambda: _held(
        known(pool_of(busy()), waiting=jobs(0, 1, 2, 3, 4)), replace(POLICY, pools=(SMALL,))
    ),
    "held_by_the_limits": lambda: _held(
        known(pool_of(busy()), waiting=jobs(), grown_last_hour=3),
        replace(POLICY, pools=(L40S,), limits=Limits(max_growth_per_hour=4)),
    ),
    "held_by_an_alert": lambda: _held(
        known(pool_of(busy()), waiting=jobs(), signals=(a_signal(SignalAction.FREEZE, alertname="Maintenance"),)),
        replace(POLICY, pools=(L40S,)),
    ),
    "held_with_its_gang": lambda: _held(
        known(pool_of(), waiting=jobs(0, 1, 2, gang="ml/train", gang_min=3)), replace(POLICY, pools=(SMALL,))
    ),
    "misfit": _misfit,
    "stuck": _stuck,
    "stuck_again": lambda: _stuck(
        provisioning=Backoff(failures=2, until=NOW + timedelta(hours=1), reason="l40s-2 never became usable")
    ),
    "unknown": lambda: _warned(
        known(pool_of(a_node("l40s-2", unknown_since=NOW - 16 * MINUTE, idle_since=None, was_usable=True)))
    ),
    "removed_stuck": lambda: told_of(
        known(pool_of(busy(), late())), OutcomeKind.CONFIRMED, "1 node removed, 1 left", gone=True
    ),
    "sick": lambda: _warned(
        known(pool_of(with_fields(busy("l40s-2"), sick="XID 79 on GPU 0", sick_since=NOW - 16 * MINUTE)))
    ),
    "cordoned": lambda: _warned(
        known(pool_of(a_node("l40s-2", idle_since=NOW - 16 * MINUTE, cordoned_by=CordonedBy.SOMEONE)))
    ),
    "not_drained": lambda: _warned(
        known(
            pool_of(
                a_node(
                    "l40s-2",
                    idle_since=NOW - timedelta(minutes=70),
                    kept_by=("default/debug has no controller that would start it again",),
                )
            )
        )
    ),
    "misdescribed": lambda: _warned(
        known(pool_of(a_node("l40s-2", allocatable={GPU: 1}))),
        replace(POLICY, pools=(replace(L40S, resources={GPU: 2}), H100)),
    ),
    "unjoined": lambda: _warned(
        known(
            pool_of(
                late("l40s-3", Stage.BOOTING, created_at=NOW - MINUTE, registered=False),
                unjoined=("k3s-a", "k3s-b", "k3s-c", "k3s-d"),
            )
        )
    ),
    "slow_to_start": _starting,
    "stuck_pod": _stuck_pod,
    "stuck_pod_on_a_lost_node": lambda: _stuck_pod(stage=Stage.BROKEN, ready=False, lost_at=NOW - 15 * MINUTE),
    "nomination": _nominated,
    "waits_beside_a_usable_node": _beside,
    "refused_by_the_scheduler": _refused_by_the_scheduler,
    "drift_up": lambda: _drift(1, 3),
    "drift_down": lambda: _drift(3, 1),
    "drift_again_and_again": lambda: _drift(3, 1, undoes=True),
    "prometheus_silent": lambda: _source(Source.PROMETHEUS, up=False, minutes=3),
    "telemetry_silent": lambda: _source(Source.DCGM, up=False, minutes=3),
    "rights_missing": lambda: _rights(RIGHTS.answered(("get nodes", "patch nodes", "create pods/eviction"), NOW)),
    "rights_unknown": lambda: _rights(
        RIGHTS.unanswered("Kubernetes API: create selfsubjectaccessreviews failed: 405 Method Not Allowed", NOW)
    ),
    "rights_back": lambda: _rights(RIGHTS.answered((), NOW)),
    "source_back": lambda: _source(Source.PROMETHEUS, up=True, minutes=1),
}
assert Decimal(SPENT) > BUDGET.monthly_usd * BUDGET.hold_at  # the hold line
