"""What each source is for, which changes stop while it is silent, and where to read what to do about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from receiver.core.model.model import Source
from receiver.core.model.policy import Fallback, Policy

DOWN = "runbooks/GpuAutoscalerSourceDown.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """One source: its name for people, what it tells, whether growth and removal need it, what goes on without it."""

    title: str
    tells: str
    growth: bool
    removal: bool
    instead: str = ""
    guide: str = DOWN


ABOUT = {
    Source.CIVO: About(
        title="Civo", tells="which nodes there are; it is where pools are changed", growth=True, removal=True
    ),
    Source.KUBERNETES: About(
        title="Kubernetes",
        tells="which pods wait and run, and which nodes are usable",
        growth=False,
        removal=True,
        instead="Waiting pods are counted by kube-state-metrics meanwhile.",
    ),
    Source.PROMETHEUS: About(
        title="Prometheus", tells="utilization, and demand where Kubernetes is silent", growth=True, removal=True
    ),
    Source.DCGM: About(
        title="DCGM",
        tells="whether GPUs are in use",
        growth=False,
        removal=False,
        instead="Busy and idle are told by pods alone.",
        guide="runbooks/GpuTelemetryMissing.md",
    ),
    Source.ALERTMANAGER: About(
        title="Alertmanager",
        tells="which alerts fire, and which pools somebody silenced",
        growth=False,
        removal=True,
        instead="Alerts that were delivered count meanwhile; silences are not seen.",
    ),
    Source.HEARTBEAT: About(
        title="Heartbeat",
        tells="that alerts get from Prometheus through Alertmanager to here",
        growth=False,
        removal=True,
        guide="runbooks/GpuAutoscalerHeartbeat.md",
    ),
    Source.STORE: About(title="Store", tells="everything that a restart needs", growth=True, removal=True),
}


def about(source: Any, policy: Policy) -> About | None:
    """Return what there is to know of *source* (its name in the picture) under *policy*, None of an unknown one."""
    if source not in list(Source):
        return None
    found = ABOUT[Source(source)]
    if found is ABOUT[Source.PROMETHEUS] and policy.fallback is Fallback.KUBERNETES:
        told = "Growth goes on by what Kubernetes says (fallback: kubernetes)."
        return About(title=found.title, tells=found.tells, growth=False, removal=True, instead=told, guide=found.guide)
    return found


def stops(found: About) -> str:
    """Return which changes stop while it is silent, as a sentence."""
    if found.growth and found.removal:
        return "Nothing grows and nothing is removed."
    if found.removal:
        return "Nothing is removed; growth goes on."
    return "Nothing stops."


def titled(entry: Mapping[str, Any], policy: Policy) -> str:
    """Return the name for people of a source of the picture."""
    found = about(entry.get("source"), policy)
    return found.title if found else str(entry.get("source") or "a source")
