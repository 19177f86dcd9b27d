"""What is told of idle workloads, case by case."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from receiver.capabilities.idle_shutdown.judging import Candidate, IdleCase, IdleStanding, candidates
from receiver.capabilities.idle_shutdown.notices import idle_cleared, idle_notice, idle_told
from receiver.core.model.pods import PodPhase
from receiver.core.model.policy import IdleAction, IdlePolicy, KeepUntil
from receiver.core.model.usage import IdleSpan
from receiver.core.notices.notice import Notice
from tests.core.builders import NOW, with_fields
from tests.core.notices.scene import L40S, POLICY
from tests.core.notices.scene import training as jobs


def _idle(mode: str = "act", idle: IdlePolicy | None = None, **changes: Any) -> tuple[Candidate, IdleCase]:
    given: dict[str, Any] = {
        "phase": PodPhase.RUNNING,
        "node": "l40s-1",
        "owner": "ReplicaSet/notebook-5d9c",
        "labels": {"pod-template-hash": "5d9c", "team": "vision"},
        "idle_shutdown": timedelta(hours=2),
    }
    namespaces = frozenset() if idle else frozenset({"ml"})
    policy = replace(POLICY, keep_until=KeepUntil(namespaces=namespaces), idle=idle or POLICY.idle)
    (workload,) = candidates([with_fields(p, **{**given, **changes}) for p in jobs(0, 1)], policy)
    return workload, IdleCase(policy=policy, mode=mode, now=NOW, pools={"l40s-1": L40S.id}, held=frozenset())


TELLS = IdlePolicy(namespaces=frozenset({"ml"}))
ENDS = replace(TELLS, action=IdleAction.SCALE_TO_ZERO)
HELD = IdleSpan(workload="ml/Deployment/notebook", since=NOW, gpus=2.0, usd_per_hour=Decimal("2.58"))
JOB: Mapping[str, Any] = {"owner": "Job/train", "labels": {"team": "vision"}, "idle_shutdown": None}


def _told(topic: str) -> Mapping[str, tuple[str, datetime]]:
    return {topic: ("told:act", NOW)}


def _no_longer_told() -> Notice:
    workload, case = _idle(idle=TELLS, idle_shutdown=None)
    return idle_cleared(workload.topic, workload, replace(case, told=_told(workload.topic)))


CASES: Mapping[str, Callable[[], Notice]] = {
    "idle_told": lambda: idle_told(*_idle(idle=TELLS, idle_shutdown=None), HELD),
    "job_told": lambda: idle_told(*_idle(idle=ENDS, **JOB), replace(HELD, usd_per_hour=None)),
    "no_longer_told": _no_longer_told,
    "warned_by_policy": lambda: idle_notice(IdleStanding.WARNED, *_idle(idle=ENDS, idle_shutdown=None)),
    "idle_warned": lambda: idle_notice(IdleStanding.WARNED, *_idle()),
    "would_be_shut_down": lambda: idle_notice(IdleStanding.WARNED, *_idle("observe")),
    "idle_kept": lambda: idle_notice(IdleStanding.KEPT, *_idle(), "2026-11-21 12:00 UTC"),
    "idle_stays": lambda: idle_cleared(_idle()[0].topic, *_idle()),
    "idle_cannot": lambda: idle_notice(IdleStanding.CANNOT, *_idle(owner="DaemonSet/agent", labels={})),
    "idle_shut_down": lambda: idle_notice(IdleStanding.DONE, *_idle(), "scaled Deployment ml/notebook from 2 to 0"),
    "idle_observed": lambda: idle_notice(IdleStanding.OBSERVED, *_idle(), "would scale Deployment ml/notebook to 0"),
    "idle_failed": lambda: idle_notice(
        IdleStanding.FAILED, *_idle(), "forbidden: may not patch deployments/scale in ml"
    ),
}
