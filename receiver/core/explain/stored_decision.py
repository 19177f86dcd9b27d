"""A decision with what was stored with it, read with care, and words for that."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from receiver.core.model.actions import Decision, Reason, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A decision's stored evidence, read with care: what an older version did not keep is unknown."""

    decision: Decision
    reason: Reason

    @property
    def grows(self) -> bool:
        """True when what was held back is growth."""
        wanted = [r.target for r in self.decision.reasons if r.verdict is Verdict.WANTS]
        return bool(wanted) and wanted[-1] > self.decision.present

    def of(self, name: str) -> Any:
        """The part *name* of the evidence, or None."""
        return self.decision.evidence.get(name)

    def part(self, name: str) -> Mapping[str, Any]:
        """The object *name* of the evidence; empty where there is none."""
        found = self.of(name)
        return found if isinstance(found, Mapping) else {}

    def each(self, name: str) -> Sequence[Mapping[str, Any]]:
        """The objects of the list *name* of the evidence."""
        found = self.of(name)
        return [x for x in found if isinstance(x, Mapping)] if isinstance(found, Sequence) else []

    def wait(self, kind: str) -> Mapping[str, Any]:
        """What holds the direction for a while by *kind*; empty where nothing does."""
        way = "grow" if self.grows else "shrink"
        return next((w for w in self.each("waits") if (w.get("kind"), w.get("direction")) == (kind, way)), {})

    def override(self, *kinds: str) -> Mapping[str, Any]:
        """The override of one of *kinds* that was in force; empty without one."""
        return next((o for o in self.each("overrides") if o.get("kind") in kinds), {})

    def alert(self, action: str) -> Mapping[str, Any]:
        """The first firing alert that asked for *action*."""
        return next((s for s in self.each("signals") if s.get("action") == action), {})


def ends(spoken: Mapping[str, Any]) -> str:
    """When the override *spoken* ends, by itself and by a person."""
    by = f"the {spoken.get('kind')} of {spoken.get('who')}"
    return (
        f"{by} ends by itself at {clock(spoken.get('until'))}, or with gpu-autoscaler override end {spoken.get('id')}"
    )


def window(bounds: Mapping[str, Any]) -> str:
    """Which windows are open, and when that changes next."""
    names, at = ", ".join(map(str, bounds.get("windows") or ())), bounds.get("next_change_at")
    return f"window {names} is open; a window of the pool next opens or closes at {clock(at)}"


def alert_ends(signal: Mapping[str, Any], stored: Stored) -> str:
    """What ends the hold of the alert *signal*."""
    if not signal:
        return f"by itself, once the alert is resolved: {stored.reason.detail}"
    since = clock(signal.get("starts_at"))
    return f"by itself, once {signal.get('alertname')} ({signal.get('fingerprint')}), firing since {since}, is resolved"


def clock(moment: Any) -> str:
    """A stored time in words."""
    if not isinstance(moment, str):
        return "an unknown time"
    return f"{datetime.fromisoformat(moment).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
