"""Why Civo brought no node, by the code that its answer begins with, and how many may still be asked for."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum

from receiver.core.model.actions import Action, Outcome, OutcomeKind
from receiver.core.money.unanswered import may_have_landed

REFUSAL_LASTS = timedelta(seconds=30)  # stock changes by the minute: an older refusal says nothing of a smaller request


class Shortage(StrEnum):
    """Why Civo brought no node, as far as people can do something about it."""

    STOCK = "stock"  # no GPU of the kind is free, or the region is full: wait, or another size or region
    QUOTA = "quota"  # the account's: ask Civo for more, or free some
    OTHER = "other"


_BY_CODE = {
    "gpu_count_exceeded": Shortage.STOCK,
    "out_of_capacity": Shortage.STOCK,
    "quota_limit_reached": Shortage.QUOTA,
}


def shortage_of(reason: str) -> Shortage:
    """Return the shortage that the *reason* of a back-off from growth tells: it begins with Civo's code."""
    code = reason.split(maxsplit=1)[0] if reason.strip() else ""
    return _BY_CODE.get(code.rstrip(":"), Shortage.OTHER)


def refused_counts(ended: Iterable[tuple[Action, Outcome]], now: datetime) -> Mapping[str, int]:
    """Return, by pool id, the lowest node count that Civo has just refused for lack of stock or quota.

    *ended* is growth in the order in which it ended. A pool is left out once a growth of it succeeds. So is one whose
    refused request may have been sent before: asking for fewer could then take nodes away.
    """
    lowest: dict[str, int] = {}
    for action, outcome in ended:
        if outcome.kind is OutcomeKind.CONFIRMED:
            lowest.pop(action.pool, None)
        elif _is_fresh_refusal(action, outcome, now):
            lowest[action.pool] = min(action.to_count, lowest.get(action.pool, action.to_count))
    return lowest


def _is_fresh_refusal(action: Action, outcome: Outcome, now: datetime) -> bool:
    return (
        outcome.kind is OutcomeKind.FAILED
        and shortage_of(outcome.detail) is not Shortage.OTHER
        and not may_have_landed(action, outcome)
        and now - REFUSAL_LASTS < outcome.at <= now
    )


def smaller_request(present: int, refused: int) -> tuple[int, int] | None:
    """Return how many new nodes to ask for after *refused* nodes were refused, and how many a gang may need at most.

    The first is half of what was refused, rounded up; None when no smaller request is left.
    """
    if refused - present < 2:
        return None
    return -(-(refused - present) // 2), refused - present - 1
