"""What is said about overrides: when one is set, when somebody ends it, when its time is over; each told once."""

from collections.abc import Iterable, Sequence

from receiver.core.model.model import PoolState
from receiver.core.model.overrides import Override, OverrideKind
from receiver.core.model.policy import Policy
from receiver.core.model.text import some
from receiver.core.notices import wording
from receiver.core.notices.sentences import Cause, Notice, Severity

TOPIC = "override:"
MEANING = {
    OverrideKind.PIN: "pinned to {nodes}",
    OverrideKind.FLOOR: "at least {nodes}",
    OverrideKind.CEILING: "at most {nodes}",
    OverrideKind.PAUSE: "paused",
    OverrideKind.SNOOZE: "snoozed (no removals)",
}
EFFECT = {
    OverrideKind.PIN: "the pool goes to this size and stays there",
    OverrideKind.FLOOR: "the pool grows to this size now, and not below it later",
    OverrideKind.CEILING: "idle nodes beyond it go now, and the pool does not grow above it",
    OverrideKind.PAUSE: "nothing grows and nothing is removed",
    OverrideKind.SNOOZE: "no node is removed but dead ones; growth goes on",
}
AFTERWARDS = {
    OverrideKind.PAUSE: "waiting work gets nodes again, and idle nodes go",
    OverrideKind.SNOOZE: "idle nodes go, each before its next paid hour",
}


def was_set(override: Override, policy: Policy, idle: Sequence[str] = ()) -> Notice:
    """The notice of a new override: what, until when, who, why, what it does, what follows, and how to end it.

    *idle* are the nodes that idle now, of the pools that it is about.
    """
    return _notice(
        override,
        policy,
        "set",
        f"{meaning(override)} until {override.until:%Y-%m-%d %H:%M} UTC",
        wording.worded(
            why=f"{override.who}: {override.why}",
            after=f"until then {EFFECT[override.kind]}. After that {_afterwards(override, idle)}",
            do=f"To end it earlier: gpu-autoscaler override end {override.id}",
        ),
        Severity.WARNING,
    )


def was_ended(override: Override, by: str, policy: Policy) -> Notice:
    """The notice that *by* ended an override before its time."""
    body = wording.worded(
        why=f"{by} ended it early; {override.who} had set it until {wording.moment(override.until, override.at)}:"
        f" {override.why}",
        after=_afterwards(override),
    )
    return _notice(override, policy, "ended", f"no longer {meaning(override)}", body)


def ran_out(override: Override, policy: Policy, pools: Iterable[PoolState] = ()) -> Notice:
    """The notice that an override's time is over; *pools* as found now."""
    nodes = [n for state in pools if override.concerns(state.pool) for n in state.nodes]
    idle = [n.name for n in nodes if n.idle_since is not None]
    body = wording.worded(
        why=f"its time is over; {override.who} had set it: {override.why}", after=_afterwards(override, idle)
    )
    return _notice(override, policy, "ran out", f"no longer {meaning(override)}", body)


def goes_on(override: Override, policy: Policy) -> Notice:
    """The notice that an override is in force again, which a step under a clock that was ahead had ended."""
    body = wording.worded(
        why=f"our clock was ahead for a moment and had ended it; {override.who} had set it: {override.why}",
        after=f"until then {EFFECT[override.kind]}",
        do=f"To end it earlier: gpu-autoscaler override end {override.id}",
    )
    title = f"again {meaning(override)} until {override.until:%Y-%m-%d %H:%M} UTC"
    return _notice(override, policy, "goes on", title, body, Severity.WARNING)


def meaning(override: Override) -> str:
    """What it does, in a few words: ``pinned to 3 nodes``."""
    nodes = "" if override.nodes is None else some(override.nodes, "node")
    return MEANING[override.kind].format(nodes=nodes)


def _afterwards(override: Override, idle: Sequence[str] = ()) -> str:
    if override.kind not in AFTERWARDS:
        return "the configured size and demand decide again"
    return AFTERWARDS[override.kind] + (f" (idle now: {wording.named(idle)})" if idle else "")


def _notice(
    override: Override, policy: Policy, key: str, title: str, body: str, severity: Severity = Severity.INFO
) -> Notice:
    pool = policy.pool(override.pool) if override.pool is not None else None
    whose = "all GPU pools" if override.pool is None else f"GPU pool {pool.name if pool else override.pool}"
    return Notice(
        cause=Cause.OVERRIDE_SET if key in ("set", "goes on") else Cause.OVERRIDE_ENDED,
        topic=f"{TOPIC}{override.id}",
        key=key,
        title=f"{whose[:1].upper()}{whose[1:]}: {title}",
        body=body,
        severity=severity,
        pool=override.pool,
    )
