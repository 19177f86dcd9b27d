"""The lines of a budget."""

from conformance.kubernetes_api import ApiRefused
from conformance.plan import NAMESPACE
from conformance.scenario import Seen, UnmetError, scenario
from conformance.stage import Stage

LINES = {"monthly_usd": "3.00", "hold": {"namespaces": [NAMESPACE]}}  # two node-hours of $1.29 are 86 %


@scenario(
    "budget lines",
    "at 86 % of the budget new GPU pods are refused by a quota and no node is bought; with more money both end",
    config={"budget": LINES, "billing": {"granularity": "1h"}},
)
def lines(stage: Stage) -> Seen:
    """The first hours of two nodes reach the hold line."""
    stage.serve()
    for name in ("first", "second"):
        stage.cluster.pod(name)
    stage.until(lambda: len(stage.cluster.running()) == 2, "2 pods that run")
    stage.until(lambda: _stage_of(stage) == "hold", "the budget's hold")
    held = stage.until(lambda: _refused(stage), "a third pod that a quota refuses")
    stage.holds(lambda: stage.civo.required() == 2, "2 nodes", 3.0)
    more = {"scope": "cluster", "monthly_usd": "1000", "who": "conformance", "why": "a scenario"}
    stage.product.post("/api/v1/budget", more)
    stage.until(lambda: not _refused(stage), "a third pod that is let in")
    ran = stage.until(lambda: len(stage.cluster.running()) == 3, "3 pods that run")
    if len(stage.bought) != 3:
        raise UnmetError(f"{len(stage.bought)} nodes were bought for 3 pods")
    return Seen(said="held at 2 nodes, and 3 with more money", figures={"held_after": held, "third_runs_after": ran})


def _stage_of(stage: Stage) -> str:
    scopes = stage.product.get("/api/v1/budget")["scopes"]
    return str(next((s["stage"] for s in scopes if s["scope"] == "cluster"), ""))


def _refused(stage: Stage) -> bool:
    """True if the cluster refuses a third pod; it is there afterwards unless it was refused."""
    try:
        stage.cluster.pod("third")
    except ApiRefused as refused:
        if refused.status not in (403, 409):
            raise
        return refused.status == 403
    return False
