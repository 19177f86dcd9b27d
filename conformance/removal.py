"""Removal: which node goes, how, and what stays."""

from conformance.levers import Call
from conformance.plan import RUNS_FOR
from conformance.rights import BUDGETS, CORDON, DEPLOYMENTS, JOBS
from conformance.scenario import Seen, UnmetError, scenario
from conformance.stage import Stage

EMPTY = 90.0  # seconds until an idle node is gone: idle time, the wait behind a cordon, Civo


def emptied(stage: Stage, left: int = 0, seconds: float = EMPTY) -> float:
    """Wait until *left* nodes are left, at Civo and in its count, and no action is open; return the seconds."""
    return stage.until(
        lambda: (
            len(stage.civo.instances()) == left == stage.civo.required()
            and len(stage.cluster.nodes()) == left
            and stage.product.settled()
        ),
        f"a pool of {left} nodes with nothing under way",
        seconds,
    )


def one_busy_one_idle(stage: Stage) -> tuple[str, str]:
    """Bring the pool to two nodes, with a pod on one of them; return the names of the busy and the idle one."""
    both = stage.have_nodes(2)
    stage.cluster.pod("train")
    stage.until(lambda: stage.cluster.running() == ["train"], "a pod that runs")
    busy = stage.node_of("train")
    return busy, next(node for node in both if node != busy)


@scenario("zero and back", "a Job's node is bought, and removed once it is idle: Civo's count is 0 again", rights=JOBS)
def zero_and_back(stage: Stage) -> Seen:
    """By one instance's deletion, never by a lower count."""
    stage.serve()
    stage.cluster.job("train", annotations={RUNS_FOR: "2"})
    stage.until(stage.resizes, "a request for a node")
    stage.until(lambda: len(stage.bought) == 1, "a node")
    zero = emptied(stage)
    stage.holds(lambda: stage.civo.required() == 0, "an empty pool", 3.0)
    said = f"{len(stage.resizes())} PUT, {len(stage.removals())} DELETE, count 0"
    return Seen(said=said, figures={"empty_after": zero})


@scenario(
    "count late",
    "Civo's count falls 12 s after a removal: nothing is replaced, and a pod that comes meanwhile gets 1 node",
    levers=True,
    civo={"behaviour": {"decrement": "12s"}},
)
def count_late(stage: Stage) -> Seen:
    """The nodes are gone, the count is not: growth starts from the nodes that are left."""
    stage.have_nodes(2)
    stage.serve()
    stage.until(lambda: not stage.civo.instances(), "no instance", EMPTY)
    counted = stage.civo.required()
    stage.cluster.pod("late")
    ran = stage.until(lambda: stage.cluster.running() == ["late"], "a pod that runs", EMPTY)
    stage.until(lambda: stage.civo.required() == 1 == len(stage.civo.instances()), "a count of 1")
    if len(stage.bought) != 3:
        raise UnmetError(f"{len(stage.bought) - 2} nodes were bought for 1 pod")
    said = f"{counted} counted with none left; then the pod's node alone"
    return Seen(said=said, figures={"counted_with_none": counted, "runs_after": ran})


@scenario(
    "count never decremented",
    "Civo replaces a removed node: 1 removal, no second one, and the pool says why",
    levers=True,
    civo={"behaviour": {"decrement": "never"}},
)
def count_never(stage: Stage) -> Seen:
    """Removals that Civo answers with replacements only cost money."""
    stage.have_nodes(1)
    stage.serve()
    stage.until(lambda: len(stage.bought) == 2, "a replacement", EMPTY)
    stopped = stage.until(lambda: "backoff" in stage.product.waits("shrink"), "removals that stop")
    stage.holds(lambda: len(stage.removals()) == 1, "1 removal", 12.0)
    reason = next(w["reason"] for w in stage.product.pool()["waits"] if w["kind"] == "backoff")
    return Seen(said=reason, figures={"removals": len(stage.removals()), "stopped_after": stopped})


@scenario(
    "a pod lands between cordon and delete",
    "its node is opened again and stays; nothing is deleted",
    config={"packing": "scheduler"},
)
def lands_between(stage: Stage) -> Seen:
    """A pod that names its node needs no scheduler, and no cordon keeps it out."""
    (node,) = stage.have_nodes(1)
    stage.serve()
    stage.kubernetes_lever.after("PATCH", f"/api/v1/nodes/{node}", lambda _: stage.cluster.pod("lands", nodeName=node))
    stage.until(lambda: stage.cluster.running() == ["lands"], "the pod that lands after the cordon", EMPTY)
    opened = stage.until(lambda: not stage.cluster.cordoned(), "a node that is open again")
    stage.holds(lambda: not stage.removals() and node in stage.cluster.nodes(), "the node stays", 10.0)
    return Seen(said="uncordoned, 0 DELETE", figures={"opened_after": opened})


@scenario(
    "a pod lands while its node is drained",
    "the last look before the DELETE sees it: its node is opened again and stays; nothing is deleted",
    config={"packing": "scheduler"},
)
def lands_at_the_last_look(stage: Stage) -> Seen:
    """The node's pods are read three times after the cordon: first, for the drain, and right before the DELETE."""
    (node,) = stage.have_nodes(1)
    stage.serve()
    lever, reads = stage.kubernetes_lever, rf"/api/v1/pods\?.*spec\.nodeName(=|%3D){node}"

    def read_for_the_drain(_: Call) -> None:
        lever.after("GET", reads, lambda _: stage.cluster.pod("lands", nodeName=node))

    lever.after("GET", reads, read_for_the_drain)
    stage.until(lambda: stage.cluster.running() == ["lands"], "the pod that lands while the node is drained", EMPTY)
    opened = stage.until(lambda: not stage.cluster.cordoned(), "a node that is open again")
    stage.holds(lambda: not stage.removals() and node in stage.cluster.nodes(), "the node stays", 10.0)
    return Seen(said="uncordoned, 0 DELETE", figures={"opened_after": opened})


@scenario(
    "a foreign cordon", "the node that a person cordoned stays as it is; the other idle node is removed", rights=CORDON
)
def foreign_cordon(stage: Stage) -> Seen:
    """A cordon of others is theirs."""
    theirs, ours = stage.have_nodes(2)
    stage.cluster.cordon(theirs)
    other = stage.instance_of(ours)
    stage.serve()
    gone = emptied(stage, left=1)
    stage.holds(lambda: stage.cluster.cordoned() == [theirs], "their node as they left it", 8.0)
    if stage.removals() != [other]:
        raise UnmetError(f"removed: {stage.removals()}, and not only {other}")
    return Seen(said="1 DELETE, the cordon untouched", figures={"removed_after": gone})


@scenario(
    "a PodDisruptionBudget",
    "a pod without a GPU keeps its idle node while its budget forbids the eviction; without the budget the node goes",
    rights=(*DEPLOYMENTS, *BUDGETS),
)
def disruption_budget(stage: Stage) -> Seen:
    """Nodes are emptied through the eviction API alone."""
    stage.have_nodes(1)
    stage.cluster.deployment("web", gpus=0)
    stage.cluster.disruption_budget("web", app="web")
    stage.until(lambda: len(stage.cluster.running()) == 1, "a pod that runs")
    (web,) = stage.cluster.running()
    stage.serve()
    stage.holds(lambda: not stage.removals() and stage.cluster.running() == [web], "the pod and its node stay", 15.0)
    refused = [c for c in stage.kubernetes_lever.sent("POST", f"/pods/{web}/eviction") if c.status == 429]
    stage.cluster.delete_budget("web")
    gone = emptied(stage)
    return Seen(said=f"{len(refused)} evictions refused, then 1 DELETE", figures={"gone_after": gone})
