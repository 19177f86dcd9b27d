"""Cordon the nodes under repair. A failed write is tried again by the next step."""

from functools import partial

from receiver.core.model.model import REPAIR
from receiver.step.parts import StepContext, Write, WriteKind

CORDON = WriteKind("sick node not cordoned", "repair")


def cordon_for_repair(work: StepContext) -> None:
    """Cordon the nodes under repair; a removal cordons those that go now."""
    cluster = work.hands.cluster
    assert cluster is not None
    for pool in work.policy.pools:
        repairs, decision = work.assignment.pools[pool.id].nodes.repairs, work.decisions[pool.id]
        going = decision.candidates[: max(0, decision.present - decision.target)]
        for node in work.facts.pool(pool.id).living if repairs else ():
            if node.instance not in repairs or node.instance in going or node.cordon.by is not None:
                continue
            work.hands.write(CORDON, Write({"node": node.name}, partial(cluster.cordon, node.name, REPAIR)))
