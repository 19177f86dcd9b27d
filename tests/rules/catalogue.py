"""Faults with the alerts that they must raise: what the catalogues of `campaigns/alerts` are written in.

Everything begins with two nodes of a pool that may have three, and with a pool of eight GPUs a node that has none yet
(WITH_LARGE: that has one).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from receiver.core.model.policy import Budget, Policy, Pool
from receiver.replay.world.objects import POOL_LABEL
from tests.given.life import GPU
from tests.rules.hours import Hours

SMALL, LARGE = "l40s-id", "h100-id"
SMALL_SIZE, LARGE_SIZE = "an.g1.l40s.kube.x1", "an.g1.h100.kube.x8"
ON_SMALL, ON_LARGE = {"node_selector": {POOL_LABEL: SMALL}}, {"node_selector": {POOL_LABEL: LARGE}}

WITH_LARGE: Mapping[str, Any] = {
    "pools": [
        {"id": SMALL, "size": SMALL_SIZE, "resources": {GPU: 1}, "count": 2},
        {"id": LARGE, "size": LARGE_SIZE, "resources": {GPU: 8}, "count": 1},
    ]
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault: *raises* are the alerts that must fire beside the heartbeat, *also* its companions, each with why.

    No other alert may fire. *course* is what happens, *policy* and *config* what the receiver and the simulator are
    told at the beginning.
    """

    title: str
    raises: tuple[str, ...] = ()
    also: Mapping[str, str] = field(default_factory=dict)
    course: Callable[[Hours], None]
    policy: Policy = field(default_factory=lambda: a_policy())
    config: Mapping[str, Any] = field(default_factory=dict)

    def start(self) -> Mapping[str, Any]:
        """Return the simulator's configuration."""
        pools = [
            {"id": SMALL, "size": SMALL_SIZE, "resources": {GPU: 1}, "count": 2},
            {"id": LARGE, "size": LARGE_SIZE, "resources": {GPU: 8}, "count": 0},
        ]
        return {"pools": pools, **self.config}


def a_policy(*, small: Mapping[str, Any] | None = None, large: Mapping[str, Any] | None = None, **given: Any) -> Policy:
    """Return what the receiver is told, with changes to the pools and to the whole."""
    first = Pool(
        id=SMALL,
        name="l40s",
        size=SMALL_SIZE,
        resources={GPU: 1},
        min_nodes=2,
        max_nodes=3,
        price_usd_per_hour=Decimal("1.29"),
        grow_cooldown=timedelta(seconds=30),
    )
    second = Pool(
        id=LARGE, name="h100", size=LARGE_SIZE, resources={GPU: 8}, max_nodes=1, price_usd_per_hour=Decimal("23.92")
    )
    pools = (replace(first, **(small or {})), replace(second, **(large or {})))
    return Policy(**{"pools": pools, "budget": Budget(monthly_usd=Decimal(100_000)), **given})


def busy(hours: Hours, minutes: float = 5) -> None:
    """Let the two nodes work at 60 %: neither busy nor under-used."""
    hours.submit("a", gpu_util=0.6, **ON_SMALL)
    hours.submit("b", gpu_util=0.6, **ON_SMALL)
    hours.steps = False  # the receiver starts when they run
    hours.pass_time(1)
    hours.steps = True
    hours.pass_time(minutes - 1)
