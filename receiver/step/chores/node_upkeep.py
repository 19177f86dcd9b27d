"""Maintain nodes: lift cordons that outlived their removal, apply the pool's labels and taints."""

from datetime import datetime

import structlog

from receiver.core.model.actions import VictimStage
from receiver.core.model.model import CordonedBy, Node, PoolState, Source, Stage
from receiver.core.model.policy import Pool
from receiver.core.scaling.packing import LAST_WORKLOADS, Survival, changes_at, compares, soft_taints
from receiver.ports import Cluster, TryLater, WontWork
from receiver.step.carry_out import FINISHED, Progress
from receiver.step.parts import StepContext

log = structlog.get_logger("receiver")
RECENT_ACTIONS = 50


def undo_orphaned_cordons(state: PoolState, progress: Progress | None, work: StepContext) -> None:
    """Lift our cordons that outlived their action, for example after a crash before the uncordon.

    Cordons of a budget stop belong to no action and stay.
    """
    hands = work.hands
    if hands.cluster is None or not work.facts.up(Source.KUBERNETES):
        return
    action = progress.action if progress and progress.outcome is None else state.open_action
    if progress is not None and progress.outcome is not None:
        return  # it ended in this step: the next step sees what is left of it
    ours = {v.node for v in action.victims if v.stage not in FINISHED} if action else set()
    for node in state.living:
        for_removal = node.cordoned_by is CordonedBy.US and node.cordoned_for is not None
        orphaned = for_removal and node.name not in ours and not _is_going(state, node.instance)
        if orphaned and not _was_deleted(node, state, work):
            try:
                hands.ready()
                hands.cluster.uncordon(node.name)
            except (TryLater, WontWork) as error:
                log.warning("orphaned cordon not lifted", node=node.name, error=str(error))


def _was_deleted(node: Node, state: PoolState, work: StepContext) -> bool:
    """True when Civo accepted our DELETE of *node*, however that action ended: the cordon must stay."""
    recent = work.store.actions(pool=state.pool, limit=RECENT_ACTIONS)
    mine = [v for a in recent if a.action.id == node.cordoned_for for v in a.action.victims]
    return any(v.instance == node.instance and v.stage is VictimStage.DELETED for v in mine)


def _is_going(state: PoolState, instance: str) -> bool:
    victims = state.open_action.victims if state.open_action else ()
    return any(v.instance == instance and v.stage is VictimStage.DELETED for v in victims)


def apply_labels_and_taints(work: StepContext) -> None:
    """Add the pool's labels and taints to nodes that lack them, where `apply_to_nodes` asks for it.

    Failures are tried again by the next step; nothing is ever removed from a node.
    """
    cluster = work.hands.cluster
    if cluster is None or not work.facts.up(Source.KUBERNETES):
        return
    for pool in work.policy.pools:
        with work.parts.part("labels_and_taints", pool.id):
            _apply_labels_and_taints(pool, cluster, work)


def _apply_labels_and_taints(pool: Pool, cluster: Cluster, work: StepContext) -> None:
    bare = [n for n in work.facts.pool(pool.id).living if pool.apply_to_nodes and _is_bare(n, pool)]
    for node in bare:
        try:
            work.hands.ready()
            receipt = cluster.apply_labels_and_taints(node.name, pool.labels, pool.taints)
            log.info("labels and taints", node=node.name, did=receipt.did.value, detail=receipt.sentence)
        except (TryLater, WontWork) as error:
            log.warning("labels and taints not applied", node=node.name, error=str(error))
            return  # go on with the next pool


def apply_packing_taints(work: StepContext) -> datetime | None:
    """Apply the soft taints that make the scheduler fill one node after another (`receiver.core.scaling.packing`).

    Returns the first moment at which they change without any event. Failures are tried again by the next step.
    """
    cluster = work.hands.cluster
    if cluster is None or not work.facts.up(Source.KUBERNETES):
        return None
    matters = compares(work.facts, work.policy)
    survival = Survival.of(work.store.lasted(LAST_WORKLOADS)) if matters else Survival()
    for node, taints in soft_taints(work.facts, work.policy, survival):
        try:
            work.hands.ready()
            receipt = cluster.set_soft_taints(node.name, taints)
            log.debug("soft taints", node=node.name, did=receipt.did.value, detail=receipt.sentence)
        except (TryLater, WontWork) as error:
            log.warning("soft taints not applied", node=node.name, error=str(error))
            break
    return changes_at(work.facts, work.policy)


def _is_bare(node: Node, pool: Pool) -> bool:
    lacks = any(node.labels.get(key) != value for key, value in pool.labels.items())
    return node.registered and node.stage is not Stage.DELETING and (lacks or not set(pool.taints) <= set(node.taints))
