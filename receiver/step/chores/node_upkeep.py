"""Maintain nodes: lift cordons that outlived their removal, apply the pool's labels and taints.

A failed write is tried again by the next step.
"""

import logging
from datetime import datetime
from functools import partial

from receiver.core.model.flights import may_arrive
from receiver.core.model.model import REPAIR, CordonedBy, Node, PoolState, Source
from receiver.core.scaling.packing import LAST_WORKLOADS, Survival, changes_at, compares, soft_taints
from receiver.core.scaling.retirement import FINISHED
from receiver.ports import Did
from receiver.step.carry_out import RECENT_ACTIONS, Progress
from receiver.step.parts import StepContext, Write, WriteKind

UNCORDON = WriteKind("orphaned cordon not lifted")
LABELS = WriteKind("labels and taints not applied", "labels and taints", tuple(Did))
SOFT_TAINTS = WriteKind("soft taints not applied", "soft taints", tuple(Did), level=logging.DEBUG)


def undo_orphaned_cordons(state: PoolState, progress: Progress | None, work: StepContext) -> None:
    """Lift our cordons that outlived their action, for example after a crash before the uncordon.

    Cordons of a budget stop belong to no action and stay, and so do those of nodes under repair, of nodes that others
    maintain, and of nodes whose DELETE may still take effect. A node that a person made schedulable again loses our
    annotation, so that their next cordon is not taken for ours; after a repair once it is well, so that a later
    sickness counts.
    """
    cluster = work.hands.cluster
    if cluster is None or not work.facts.up(Source.KUBERNETES):
        return
    if progress is not None and progress.outcome is not None:
        return  # it ended in this step: the next step sees what is left of it
    action = progress.action if progress else state.open_action
    ours = {v.node for v in action.victims if v.stage not in FINISHED} if action else set()
    for node in state.living:
        if node.name in ours or node.cordon.deleted or node.cordon.action is None:
            continue
        lifted = node.cordon.by is None and (node.cordon.action != REPAIR or node.health.since is None)
        if not (lifted or (node.cordon.by is CordonedBy.US and not node.health.maintained)):
            continue
        if node.cordon.action == REPAIR and node.instance in work.assignment.pools[state.pool].nodes.repairs:
            continue
        if _may_still_vanish(node, state.pool, work):
            continue
        work.hands.write(UNCORDON, Write({"node": node.name}, partial(cluster.uncordon, node.name)))


def _may_still_vanish(node: Node, pool: str, work: StepContext) -> bool:
    """True while an unanswered DELETE of *node* may still take effect, however the removal ended meanwhile."""
    removals = (stored.action for stored in work.store.actions(pool=pool, limit=RECENT_ACTIONS))
    victims = (v for removal in removals for v in removal.victims if removal.id == node.cordon.action)
    return any(v.instance == node.instance and may_arrive(v.asked_at, work.now) for v in victims)


def apply_labels_and_taints(work: StepContext) -> None:
    """Add the pool's labels and taints to nodes that lack them, where `apply_to_nodes` asks for it. Nothing is ever
    removed from a node."""
    cluster = work.hands.cluster
    assert cluster is not None
    for pool in work.policy.pools:
        if not pool.apply_to_nodes:
            continue
        with work.parts.part("labels_and_taints", pool.id):
            for node in work.facts.pool(pool.id).living:
                labelled = pool.labels.items() <= node.labels.items() and set(pool.taints) <= set(node.taints)
                if labelled or not node.registered:
                    continue
                apply = partial(cluster.apply_labels_and_taints, node.name, pool.labels, pool.taints)
                if work.hands.write(LABELS, Write({"node": node.name}, apply)).error is not None:
                    break  # go on with the next pool


def apply_packing_taints(work: StepContext) -> datetime | None:
    """Apply the soft taints that make the scheduler fill one node after another (`receiver.core.scaling.packing`).

    Returns the first moment at which they change without any event.
    """
    cluster = work.hands.cluster
    assert cluster is not None
    matters = compares(work.facts, work.policy)
    survival = Survival.of(work.store.lasted(LAST_WORKLOADS)) if matters else Survival()
    for node, taints in soft_taints(work.facts, work.policy, survival):
        apply = partial(cluster.set_soft_taints, node.name, taints)
        if work.hands.write(SOFT_TAINTS, Write({"node": node.name}, apply)).error is not None:
            break
    return changes_at(work.facts, work.policy)
