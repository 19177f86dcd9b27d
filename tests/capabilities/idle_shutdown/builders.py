"""A Deployment that consented to be shut down after two idle hours, and what is known of it."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from receiver.capabilities.idle_shutdown.judging import Candidate, IdleCase, IdleStanding, candidates, key_of
from receiver.core.model.pods import Pod, PodPhase
from receiver.core.model.policy import KeepUntil, Policy
from receiver.core.model.usage import Course
from tests.core.builders import MINUTE, NOW, a_pod, a_policy

WINDOW = timedelta(hours=2)
GRACE = timedelta(minutes=15)
WEB = "idle-shutdown:ml/Deployment/web"
QUIET = Course(window=WINDOW, engine=0.0, memory=0.0, power=80.0, power_floor=75.0, coverage=1.0)
ACTIVE = replace(QUIET, engine=0.5)
LISTED = replace(a_policy(), keep_until=KeepUntil(namespaces=frozenset({"ml"}), longest=timedelta(days=7)))


def a_web_pod(name: str = "web-5d9c-a", **changes: Any) -> Pod:
    """A running pod of the Deployment web that consented to be shut down after two idle hours."""
    given: dict[str, Any] = {
        "phase": PodPhase.RUNNING,
        "node": "n1",
        "created_at": NOW - timedelta(days=1),
        "running_since": NOW - timedelta(hours=20),
        "owner": "ReplicaSet/web-5d9c",
        "labels": {"pod-template-hash": "5d9c"},
        "idle_shutdown": WINDOW,
    }
    return a_pod(name, **{**given, **changes})


def a_case(
    courses: Mapping[str, Course] | None = None, told: Mapping[str, Any] | None = None, **given: Any
) -> IdleCase:
    """What is known of pods on n1, in a pool of ours: quiet, unless *courses* say something else."""
    known = {"ml/web-5d9c-a": QUIET, "ml/web-5d9c-b": QUIET} if courses is None else courses
    values: dict[str, Any] = {
        "policy": a_policy(),
        "mode": "act",
        "now": NOW,
        "pools": {"n1": "l40s-id"},
        "held": frozenset(),
        "told": told or {},
        "courses": {WINDOW: known},
    }
    return IdleCase(**{**values, **given})


def told(standing: IdleStanding, ago: timedelta = MINUTE, mode: str = "act") -> Mapping[str, tuple[str, datetime]]:
    """What the store says when the Deployment web was brought to *standing* that long *ago*."""
    case = a_case(now=NOW - ago, mode=mode)
    return {WEB: (key_of(standing, case), case.now)}


def the(*pods: Pod, policy: Policy | None = None) -> Candidate:
    """The one workload that *pods* make up."""
    (found,) = candidates(pods, policy or a_policy())
    return found
