"""Values of accounting, attribution and charges with defaults: a node of eight GPUs, and November 2026."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from receiver.core.model.charges import Charge, Charged
from receiver.core.model.memory import NodeLife
from receiver.core.model.model import Node
from receiver.core.model.pods import Pod, PodPhase
from receiver.core.model.usage import Owner, Sample, Usage
from receiver.core.money.accounting import StepSight
from receiver.core.money.budget import month_of
from tests.core.builders import HOUR, MINUTE, NOW, a_life, a_node, a_pod, a_policy, a_pool

EIGHT_GPU_POLICY = a_policy(a_pool(resources={"nvidia.com/gpu": 8}))
WORKING = Sample(engine=0.8, memory=0.5, peak_memory=0.6, least_memory=0.4)
RESTING = Sample(engine=0.01, memory=0.3, peak_memory=0.3, least_memory=0.3)
NOVEMBER = month_of(NOW, "UTC")
MONTH_START = datetime(2026, 11, 1, tzinfo=UTC)
SIZE = "an.g1.l40s.kube.x1"


def a_big_life(**changes: Any) -> NodeLife:
    """A node of eight GPUs that was watched from its creation two hours ago on."""
    born = NOW - 2 * HOUR
    said: dict[str, Any] = {"created_at": born, "seen_at": born, "usable_at": born + 5 * MINUTE, "gpus": 8}
    return a_life(**{**said, **changes})


def a_bound_pod(name: str = "train", at: datetime = NOW - HOUR, **changes: Any) -> Pod:
    """A pod that has run on n1 since *at*."""
    said: dict[str, Any] = {
        "phase": PodPhase.RUNNING,
        "node": "n1",
        "bound_at": at,
        "created_at": at - MINUTE,
    }
    return a_pod(name, **{"owner": f"Job/{name}", **said, **changes})


def a_step_sight(*pods: Pod, at: datetime = NOW, life: NodeLife | None = None, **changes: Any) -> StepSight:
    """What a step sees *at* a moment: the node n1, and *pods*."""
    node: Node = a_node(pods=tuple(p for p in pods if p.node == "n1"))
    return StepSight(**{"at": at, "lives": (life or a_big_life(),), "nodes": (node,), "pods": pods, **changes})


def a_usage(workload: str = "train", hours: float = 1, instance: str = "i-n1", **changes: Any) -> Usage:
    """A workload of team vision that held a GPU for so many *hours* in November."""
    said: dict[str, Any] = {"namespace": "ml", "owner": Owner(team="vision"), "month": "2026-11"}
    return Usage(**{**said, "instance": instance, "workload": f"ml/Job/{workload}", "held": hours * 3600.0, **changes})


def month_hour(hours: float) -> datetime:
    """A moment, in hours after the month's beginning."""
    return MONTH_START + timedelta(hours=hours)


def a_charge(begins: float | None = 10, ends: float | None = 14, hours: float | None = 4, **more: Any) -> Charge:
    """A record of a node of ours."""
    said: dict[str, Any] = {
        "code": f"kube-node-{SIZE}",
        "label": "n1",
        "frm": None if begins is None else month_hour(begins),
        "to": None if ends is None else month_hour(ends),
        "hours": None if hours is None else Decimal(str(hours)),
    }
    return Charge(**{**said, **more})


def a_ledger_life(begins: float = 10, ends: float | None = 14, name: str = "n1", **more: Any) -> NodeLife:
    """What the ledger has of a node."""
    gone = None if ends is None else month_hour(ends)
    return a_life(f"i-{name}", **{"created_at": month_hour(begins), "gone_at": gone, **more})


def an_answer_of_charges(*records: Charge, **more: Any) -> Charged:
    """Civo's answer of NOW."""
    return Charged(**{"month": "2026-11", "asked_at": NOW, "answered_at": NOW, "records": records, **more})
