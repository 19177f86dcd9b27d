"""Answers that are lost after the effect, and ends of the process at the worst moment."""

from conformance.removal import EMPTY, emptied, one_busy_one_idle
from conformance.scenario import Seen, UnmetError, scenario
from conformance.stage import REMOVAL, RESIZE, Stage

LONG = 60.0  # seconds for which an answer is held: longer than the process lives
CORDON = r"/api/v1/nodes/[^/?]+"


def _ran_on_one_node(stage: Stage) -> float:
    def closed_with_a_node() -> bool:
        return stage.product.settled() and stage.product.pool().get("ready") == 1

    stage.until(lambda: stage.cluster.running() == ["train"], "a pod that runs")
    closed = stage.until(closed_with_a_node, "a growth that is closed")
    stage.holds(lambda: stage.civo.required() == 1, "1 node", 5.0)
    if len(stage.bought) != 1:
        raise UnmetError(f"{len(stage.bought)} nodes were bought for 1 pod")
    return closed


def _only_the_idle_one_went(stage: Stage, idle: str) -> float:
    gone = emptied(stage, left=1)
    stage.holds(lambda: stage.cluster.running() == ["train"] and not stage.cluster.cordoned(), "the busy node", 5.0)
    if set(stage.removals()) != {idle}:
        raise UnmetError(f"removed: {stage.removals()}, and not only {idle}")
    return gone


@scenario("PUT lost after its effect", "the node is bought once, though the answer never came")
def put_lost(stage: Stage) -> Seen:
    """Civo did it and the connection was cut."""
    stage.serve()
    stage.civo_lever.lose("PUT", RESIZE)
    stage.cluster.pod("train")
    closed = _ran_on_one_node(stage)
    puts = len(stage.resizes())
    return Seen(said=f"{puts} PUT, 1 node", figures={"puts": puts, "closed_after": closed})


@scenario("DELETE lost after its effect", "the idle node goes once, and the busy one stays")
def delete_lost(stage: Stage) -> Seen:
    """The same of a removal."""
    _, idle = one_busy_one_idle(stage)
    instance = stage.instance_of(idle)
    stage.civo_lever.lose("DELETE", REMOVAL)
    stage.serve()
    gone = _only_the_idle_one_went(stage, instance)
    deletes = len(stage.removals())
    return Seen(said=f"{deletes} DELETE of one instance", figures={"deletes": deletes, "gone_after": gone})


@scenario("kill -9 in growth", "after its restart the node is counted as bought: 1 node, 1 PUT")
def killed_in_growth(stage: Stage) -> Seen:
    """Between the effect of the PUT and its answer."""
    stage.serve()
    stage.civo_lever.hold("PUT", RESIZE, LONG)
    stage.cluster.pod("train")
    stage.until(lambda: stage.civo.required() == 1, "the effect of the PUT")
    stage.product.kill()
    stage.civo_lever.release()
    stage.product.start()
    closed = _ran_on_one_node(stage)
    if stage.resizes() != [1]:
        raise UnmetError(f"Civo was asked for {stage.resizes()}")
    return Seen(said="1 PUT, 1 node", figures={"closed_after": closed})


@scenario("kill -9 in removal", "after its restart the removal ends: the idle node is gone, the busy one stays")
def killed_in_removal(stage: Stage) -> Seen:
    """Between the effect of the DELETE and its answer."""
    _, idle = one_busy_one_idle(stage)
    instance = stage.instance_of(idle)
    stage.civo_lever.hold("DELETE", REMOVAL, LONG)
    stage.serve()
    stage.until(stage.removals, "a DELETE", EMPTY)
    stage.product.kill()
    stage.civo_lever.release()
    stage.product.start()
    stage.product.beat()
    gone = _only_the_idle_one_went(stage, instance)
    return Seen(said=f"{len(stage.removals())} DELETE of one instance", figures={"gone_after": gone})


@scenario(
    "kill -9 after a cordon",
    "after its restart the removal goes on, and no cordon is left behind",
    config={"packing": "scheduler"},
)
def killed_after_a_cordon(stage: Stage) -> Seen:
    """Between the effect of the cordon and its answer."""
    _, idle = one_busy_one_idle(stage)
    instance = stage.instance_of(idle)
    stage.kubernetes_lever.hold("PATCH", CORDON, LONG)
    stage.serve()
    stage.until(lambda: stage.cluster.cordoned() == [idle], "the effect of the cordon", EMPTY)
    stage.product.kill()
    stage.kubernetes_lever.release()
    stage.product.start()
    stage.product.beat()
    gone = _only_the_idle_one_went(stage, instance)
    return Seen(said=f"{len(stage.removals())} DELETE, no cordon left", figures={"gone_after": gone})
