"""Past nodes of the L40S pool, as the ledger keeps them."""

from datetime import timedelta
from typing import Any

from receiver.core.model.memory import NodeLife
from tests.core.builders import DAY, NOW, SECOND, a_life


def a_past_node(number: int, usable: float, *, built: float = 60, ready: float = 80, **changes: Any) -> NodeLife:
    """One that was built, Ready and usable so many seconds after its creation, a day ago; its pod was bound at once."""
    created = NOW - DAY + timedelta(minutes=number)
    given: dict[str, Any] = {
        "created_at": created,
        "seen_at": created,
        "active_at": created + built * SECOND,
        "ready_at": created + ready * SECOND,
        "usable_at": created + usable * SECOND,
        "bound_at": created + usable * SECOND,
        "gone_at": created + DAY / 2,
    }
    return a_life(f"i-past-{number}", **{**given, **changes})


def nine_nodes(**changes: Any) -> list[NodeLife]:
    """Nine that took 100 to 180 seconds: of the next ones, half take at most 140, and nine in ten at most 180."""
    return [a_past_node(n, usable=100 + 10 * n, **changes) for n in range(9)]
