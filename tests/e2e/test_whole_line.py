"""The whole line, nothing replaced but the cloud: a pod waits, a node is bought, used, and gone with its paid unit."""

import math
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from demo.plan import PoolPlan, StackPlan
from demo.stack import Stack, running
from tests.e2e.receivers import POOL
from tests.rules.versions import PAIRS, Chosen, label, using

UNIT, MARGIN = 24, 10  # seconds of one paid unit, and at its end

# Nothing happens by the tick: growth follows the alert, and what comes later the sign of life's deliveries.
PLAN = StackPlan(
    pools=(PoolPlan(name="l40s", id=POOL, idle_for="3s"),),
    tick="5m",
    granularity=f"{UNIT}s",
    removal_margin=f"{MARGIN}s",
    heartbeat_group_interval="5s",
    heartbeat_repeat_interval="4s",
    simulator={"timings": {"build": "2s", "boot": "500ms", "driver": "1s"}},
)


def _pool(stack: Stack) -> dict[str, Any]:
    found: dict[str, Any] = stack.get("receiver", f"/api/v1/pools/{POOL}")
    return found


def _outcomes(stack: Stack) -> list[str | None]:
    """Return how each action ended, oldest first."""
    return [a["outcome"] and a["outcome"]["kind"] for a in reversed(stack.get("receiver", "/api/v1/actions"))]


@pytest.mark.parametrize("versions", PAIRS, ids=label)
def test_a_waiting_pod_gets_a_node_that_is_gone_before_its_next_paid_unit(versions: Chosen, tmp_path: Path) -> None:
    with using(versions), running(PLAN, tmp_path) as stack:
        stack.wait_for_heartbeat(60)
        assert stack.requests(method="PUT") == []

        stack.submit({"id": "train", "duration": "2s", "namespace": "ml", "team": "vision"})
        stack.wait_until(lambda: bool(stack.state()["finished"]), 60, "the job done")
        stack.wait_until(lambda: _outcomes(stack) == ["confirmed", "confirmed"], 60, "one growth and one removal")
        stack.wait_until(lambda: not stack.state()["nodes"], 60, "no node left")

        def settled() -> bool:  # a pool is shown as the last whole step left it: a moment after its action's end
            pool = _pool(stack)
            return (pool["required"], pool["ready"], pool["open_action"]) == (0, 0, None)

        stack.wait_until(settled, 60, "an empty pool with nothing under way")
        state = stack.state()
        (bought,) = stack.requests(method="PUT", face="civo")
        (removed,) = stack.requests(method="DELETE", face="civo")
        assert bought["body"]["count"] == 1
        assert state["kills"] == []
        lived = (datetime.fromisoformat(removed["at"]) - datetime.fromisoformat(bought["at"])).total_seconds()
        assert lived % UNIT > UNIT - MARGIN - 1  # at the end of a unit, of the first if the machine is not busy
        assert state["paid"]["node_hours"] == pytest.approx(math.ceil(lived / UNIT) * UNIT / 3600)
        grown = next(d for d in stack.get("receiver", "/api/v1/decisions") if d["verdict"] == "grow")
        assert "GpuPodsPending" in [s["alertname"] for s in grown["evidence"]["signals"]]
        assert grown["evidence"]["woken_by"]
