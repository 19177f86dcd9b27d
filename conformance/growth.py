"""Growth: from waiting pods to nodes, exactly as many as they need."""

from conformance.kubernetes_api import ApiRefused
from conformance.plan import SIZE
from conformance.removal import emptied
from conformance.rights import CLAIMS
from conformance.scenario import Seen, UnavailableError, UnmetError, scenario
from conformance.stage import Stage

BURST = 40
GANG = {"gpu-autoscaler.io/gang": "ring"}


@scenario("one pod", "1 node is bought, and the pod runs")
def one_pod(stage: Stage) -> Seen:
    """A pod alone wakes the loop by the watch."""
    stage.serve()
    stage.cluster.pod("train")
    asked = stage.until(stage.resizes, "a request for a node")
    runs = stage.until(lambda: stage.cluster.running() == ["train"], "a pod that runs")
    stage.holds(lambda: stage.civo.required() == 1, "1 node", 3.0)
    figures = {"asked_after": asked, "runs_after": asked + runs}
    return Seen(said=f"Civo was asked for {stage.resizes()}", figures=figures)


@scenario(
    "one pod by its alert",
    "without a watch and before any tick, the alert alone buys 1 node",
    monitoring=True,
    config={"kubernetes": {"watch": False}, "tick": "5m"},
)
def one_pod_by_its_alert(stage: Stage) -> Seen:
    """The whole line: kube-state-metrics, the shipped rules, Alertmanager's routes, the webhook."""
    stage.own_alertmanager()
    stage.serve()
    stage.cluster.pod("train")
    asked = stage.until(stage.resizes, "a request for a node", 120.0)
    stage.until(lambda: stage.cluster.running() == ["train"], "a pod that runs")
    grown = [d for d in stage.product.get("/api/v1/decisions?limit=50") if d["verdict"] == "grow"]
    if not any(decision["evidence"]["woken_by"] for decision in grown):
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
        raise UnmetError(f"{len(stage.bought)} nodes were bought for {BURST} pods")
    said = f"{ratio:.2f} nodes per node needed, in {len(stage.resizes())} requests"
    return Seen(said=said, figures={"ratio": ratio, "all_run_after": ran})


@scenario(
    "GPUs served by DRA",
    "a pod that claims a device gets 1 node, which shows its GPU in a ResourceSlice, and the node goes when it is idle",
    levers=True,
    civo={"pool": {"dra": True}},
    pool={"devices": [{"attributes": {"type": "gpu"}}]},
    rights=CLAIMS,
)
def devices(stage: Stage) -> Seen:
    """The node's status shows no GPU."""
    stage.serve()
    try:
        stage.cluster.claim_template("one")
    except ApiRefused as refused:
        if refused.status != 404:
            raise
        raise UnavailableError("the cluster does not serve resource.k8s.io/v1") from None
    stage.cluster.claiming_pod("train", "one")
    ran = stage.until(lambda: stage.cluster.running() == ["train"], "a pod that runs")
    stage.holds(lambda: not stage.cluster.usable(), "no GPU in a node's status", 3.0)
    stage.cluster.delete_pod("train")
    gone = emptied(stage)
    return Seen(said=f"Civo was asked for {stage.resizes()}", figures={"runs_after": ran, "empty_after": gone})


@scenario("gang whole or not", "a gang of 4 buys nothing where 3 nodes may be bought; as a gang of 3 it runs", nodes=3)
def gang(stage: Stage) -> Seen:
    """Some of a gang are of no use to it."""
    stage.serve()
    for number in range(4):
        stage.cluster.pod(f"ring-{number}", annotations=GANG)
    stage.until(lambda: len(stage.cluster.unschedulable()) == 4, "4 pods without room")
    stage.holds(lambda: not stage.resizes(), "nothing bought for a part of a gang", 6.0)
    because = stage.product.pool()["because"]
    stage.cluster.delete_pod("ring-3")
    ran = stage.until(lambda: len(stage.cluster.running()) == 3, "a gang of 3 that runs")
    if stage.resizes() != [3]:
        raise UnmetError(f"the gang was bought in parts: {stage.resizes()}")
    return Seen(said=f"nothing for 4 ({because}), then [3]", figures={"runs_after": ran})


@scenario(
    "stock-out",
    "Civo has none: the pool backs off and asks no more; with stock again the pod gets its node",
    levers=True,
    civo={"stock": {SIZE: 0}},
)
def stock_out(stage: Stage) -> Seen:
    """An empty shelf is not asked at every step."""
    simulator = stage.levered()
    stage.serve()
    stage.cluster.pod("train")
    stage.until(lambda: "backoff" in stage.product.waits("grow"), "a pool that backs off")
    asked = len(stage.resizes())
    stage.holds(lambda: len(stage.resizes()) == asked, "no further request while it backs off", 8.0)
    simulator.fault(kind="stock", size=SIZE, units=4)
    came = stage.until(lambda: stage.cluster.running() == ["train"], "a pod that runs", 120.0)
    return Seen(said=f"{asked} refused, then Civo was asked again", figures={"refused": asked, "runs_after": came})


@scenario(
    "partial stock",
    "3 pods and 2 nodes in stock: 2 nodes are bought at once, and the third when there is stock",
    levers=True,
    civo={"stock": {SIZE: 2}},
)
def partial_stock(stage: Stage) -> Seen:
    """Civo refuses a request whole when it has fewer than requested."""
    simulator = stage.levered()
    stage.serve()
    for number in range(3):
        stage.cluster.pod(f"part-{number}")
    two = stage.until(lambda: len(stage.cluster.running()) == 2, "2 pods that run")
    simulator.fault(kind="stock", size=SIZE, units=4)
    three = stage.until(lambda: len(stage.cluster.running()) == 3, "3 pods that run", 120.0)
    figures = {"two_run_after": two, "the_third_after": three}
    return Seen(said=f"Civo was asked for {stage.resizes()}", figures=figures)
