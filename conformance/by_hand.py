"""What people change beside the product, in the cluster and at Civo."""

from conformance.removal import emptied, one_busy_one_idle
from conformance.rights import DELETE_NODE, DEPLOYMENTS
from conformance.scenario import Seen, UnmetError, scenario
from conformance.stage import Stage


@scenario(
    "a Node object deleted by hand",
    "its instance, which nothing can run on, is removed after provision_timeout; the busy node stays",
    levers=True,
    pool={"provision_timeout": "12s", "idle_for": "5m"},
    rights=DELETE_NODE,
)
def node_deleted(stage: Stage) -> Seen:
    """The machine goes on costing money."""
    _, idle = one_busy_one_idle(stage)
    instance = stage.instance_of(idle)
    stage.serve()
    stage.cluster.delete_node(idle)
    gone = emptied(stage, left=1)
    stage.holds(lambda: stage.cluster.running() == ["train"], "the busy node", 3.0)
    if set(stage.removals()) != {instance}:
        raise UnmetError(f"removed: {stage.removals()}, and not only {instance}")
    return Seen(said="1 DELETE", figures={"gone_after": gone})


@scenario("an instance deleted at Civo", "its work gets 1 other node", rights=DEPLOYMENTS)
def instance_deleted(stage: Stage) -> Seen:
    """With the work on it: its controller creates the pod anew."""
    stage.serve()
    stage.cluster.deployment("serve")
    stage.until(lambda: len(stage.cluster.running()) == 1, "a pod that runs")
    (instance,) = stage.civo.instances()
    (before,) = stage.cluster.running()
    stage.civo.delete(instance)

    def runs_again() -> bool:
        return len(stage.cluster.running()) == 1 and stage.cluster.running() != [before]

    again = stage.until(runs_again, "a pod that runs again", 120.0)
    stage.holds(lambda: stage.civo.required() == 1, "1 node", 5.0)
    if len(stage.bought) != 2:
        raise UnmetError(f"{len(stage.bought) - 1} nodes were bought for the one that was lost")
    return Seen(said=f"Civo was asked for {stage.resizes()}", figures={"runs_again_after": again})


@scenario("an instance added at Civo", "the count is accepted, no further node is bought, and the idle one goes")
def instance_added(stage: Stage) -> Seen:
    """A count that a person raised in Civo's dashboard."""
    stage.serve()
    stage.civo.set_count(1)
    stage.until(lambda: len(stage.bought) == 1, "a node")
    gone = emptied(stage)
    if stage.resizes():
        raise UnmetError(f"Civo was asked for {stage.resizes()}")
    return Seen(said=f"0 PUT, {len(stage.removals())} DELETE", figures={"gone_after": gone})
