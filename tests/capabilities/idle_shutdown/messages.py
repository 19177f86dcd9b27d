"""What is told of idle workloads, case by case."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from receiver.capabilities.idle_shutdown.judging import Consenting, IdleCase, IdleStanding, consenting
from receiver.capabilities.idle_shutdown.notices import idle_cleared, idle_notice
from receiver.core.model.pods import PodPhase
from receiver.core.model.policy import KeepUntil
from receiver.core.notices.notice import Notice
from tests.core.builders import NOW, with_fields
from tests.core.notices.scene import L40S, POLICY
from tests.core.notices.scene import training as jobs


def _idle(mode: str = "act", **changes: Any) -> tuple[Consenting, IdleCase]:
    given: dict[str, Any] = {
        "phase": PodPhase.RUNNING,
        "node": "l40s-1",
        "owner": "ReplicaSet/notebook-5d9c",
        "labels": {"pod-template-hash": "5d9c", "team": "vision"},
        "idle_shutdown": timedelta(hours=2),
    }
    (workload,) = consenting(with_fields(p, **{**given, **changes}) for p in jobs(0, 1))
    policy = replace(POLICY, keep_until=KeepUntil(namespaces=frozenset({"ml"})))
    return workload, IdleCase(policy=policy, mode=mode, now=NOW, pools={"l40s-1": L40S.id}, held=frozenset())


CASES: Mapping[str, Callable[[], Notice]] = {
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
