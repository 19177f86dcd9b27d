"""Growth: from waiting pods to nodes, exactly as many as they need."""

from conformance.scenario import Seen, UnmetError, scenario
from conformance.stage import Stage

BURST = 40


@scenario("one pod", "1 node is bought, and the pod runs")
def one_pod(stage: Stage) -> Seen:
    """A pod alone wakes the loop by the watch."""
    stage.serve()
    stage.cluster.pod("train")
    asked = stage.until(lambda: stage.resizes(), "a request for a node")
    runs = stage.until(lambda: stage.cluster.running() == ["train"], "a pod that runs")
    stage.holds(lambda: stage.civo.required() == 1, "1 node", 3.0)
    return Seen(
        said=f"Civo was asked for {stage.resizes()}", figures={"asked_after": asked, "runs_after": asked + runs}
    )


@scenario(
    "one pod by its alert",
    "without a watch and before any tick, the alert alone buys 1 node",
    monitoring=True,
    config={"kubernetes": {"watch": False}, "tick": "5m"},
)
def one_pod_by_its_alert(stage: Stage) -> Seen:
    """The whole line: kube-state-metrics, the shipped rules, Alertmanager's routes, the webhook."""
    stage.serve()
    stage.cluster.pod("train")
    asked = stage.until(lambda: stage.resizes(), "a request for a node", 120.0)
    stage.until(lambda: stage.cluster.running() == ["train"], "a pod that runs")
    grown = [d for d in stage.product.get("/api/v1/decisions?limit=50") if d["verdict"] == "grow"]
    woken = sum(bool(d["evidence"]["woken_by"]) for d in grown)
    if not woken:
        raise UnmetError("the growth was not woken by a delivery")
    return Seen(said=f"Civo was asked for {stage.resizes()}, woken by a delivery", figures={"asked_after": asked})


@scenario(
    f"burst of {BURST} with a late driver",
    "exactly 1.00 nodes are bought per node needed, while GPUs become allocatable 8 s after their node is Ready",
    nodes=60,
    civo={"timings": {"driver": "8s"}},
)
def burst(stage: Stage) -> Seen:
    """Nodes are Ready without GPUs for many steps, and the pods wait all the time."""
    stage.serve()
    for number in range(BURST):
        stage.cluster.pod(f"burst-{number:02}")
    ran = stage.until(lambda: len(stage.cluster.running()) == BURST, f"{BURST} pods that run", 180.0)
    stage.holds(lambda: stage.civo.required() == BURST, f"{BURST} nodes", 3.0)
    ratio = len(stage.bought) / BURST
    if len(stage.bought) != BURST:
        stage.broken.append(f"{len(stage.bought)} nodes were bought for {BURST}")
    return Seen(
        said=f"{ratio:.2f} nodes per node needed, in {len(stage.resizes())} requests",
        figures={"ratio": ratio, "all_run_after": ran},
    )
