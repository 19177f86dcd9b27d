"""Messages about overrides."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from receiver.core.model.model import PoolState
from receiver.core.model.overrides import (
    Override,
    OverrideKind,
)
from receiver.core.model.policy import Policy
from receiver.core.model.text import listed, some
from receiver.core.notices import wording
from receiver.core.notices.notice import Cause, Notice, Severity

MEANING = {
    OverrideKind.PIN: "pinned to {nodes}",
    OverrideKind.FLOOR: "at least {nodes}",
    OverrideKind.CEILING: "at most {nodes}",
    OverrideKind.PAUSE: "paused",
    OverrideKind.SNOOZE: "snoozed (no removals)",
}
EFFECT = {
    OverrideKind.PIN: "the pool is resized to this size now and stays there",
    OverrideKind.FLOOR: "the pool grows to this size now and does not shrink below it",
    OverrideKind.CEILING: "idle nodes above it are removed now; the pool does not grow above it",
    OverrideKind.PAUSE: "nothing grows and nothing is removed",
    OverrideKind.SNOOZE: "only dead nodes are removed; growth continues",
}
AFTERWARDS = {
    OverrideKind.PAUSE: "waiting work gets nodes again, and idle nodes are removed",
    OverrideKind.SNOOZE: "idle nodes are removed, each before its next paid hour",
}


def was_set(override: Override, policy: Policy, idle: Sequence[str] = ()) -> Notice:
    """The notice of a new override; *idle* are the nodes of its pools that are idle now."""
    after = f"{EFFECT[override.kind]}. When it ends, {_afterwards(override, idle)}"
    return _set(override, policy, "set", "", f"{override.who}: {override.why}", after)


def goes_on(override: Override, policy: Policy) -> Notice:
    """The notice that an override is in force again, which a step under a clock that was ahead had ended."""
    reason = f"a clock jump ended {override.who}'s {override.kind} too early (reason: {override.why})"
    return _set(override, policy, "goes on", " again", reason, EFFECT[override.kind])


def was_ended(override: Override, by: str, policy: Policy) -> Notice:
    """The notice that *by* ended an override early."""
    until = wording.moment(override.until, override.at)
    reason = f"{by} ended the {override.kind} that {override.who} had set until {until} (reason: {override.why})"
    body = wording.worded(why=reason, after=_afterwards(override))
    return _notice(override, policy, "ended", f"no longer {_meaning(override)}", body)


def ran_out(override: Override, policy: Policy, pools: Iterable[PoolState] = ()) -> Notice:
    """The notice that an override has expired; *pools* as found now."""
    nodes = [n for state in pools if override.concerns(state.pool) for n in state.nodes]
    idle = [n.name for n in nodes if n.idle_since is not None]
    reason = f"the {override.kind} set by {override.who} has expired (reason: {override.why})"
    body = wording.worded(why=reason, after=_afterwards(override, idle))
    return _notice(override, policy, "ran out", f"no longer {_meaning(override)}", body)


def _meaning(override: Override) -> str:
    nodes = "" if override.nodes is None else some(override.nodes, "node")
    return MEANING[override.kind].format(nodes=nodes)


def _afterwards(override: Override, idle: Sequence[str] = ()) -> str:
    if override.kind not in AFTERWARDS:
        return "the configured size and demand apply again"
    return AFTERWARDS[override.kind] + (f" (idle now: {listed(idle)})" if idle else "")


def _set(override: Override, policy: Policy, key: str, again: str, reason: str, after: str) -> Notice:
    title = f"{_meaning(override)}{again} until {override.until:%Y-%m-%d %H:%M} UTC"
    do = f"To end it earlier: gpu-autoscaler override end {override.id}"
    notice = _notice(override, policy, key, title, wording.worded(why=reason, after=after, do=do))
    return replace(notice, cause=Cause.OVERRIDE_SET, severity=Severity.WARNING)


def _notice(override: Override, policy: Policy, key: str, title: str, body: str) -> Notice:
    pool = policy.pool(override.pool) if override.pool is not None else None
    scope = "All GPU pools" if override.pool is None else f"GPU pool {pool.name if pool else override.pool}"
    return Notice(
        cause=Cause.OVERRIDE_ENDED,
        topic=f"override:{override.id}",
        key=key,
        title=f"{scope}: {title}",
        body=body,
        pool=override.pool,
    )
