"""Node objects that were deleted while their instances live on. A list that lacks a node for a moment is no proof."""

from collections.abc import Collection, Mapping
from datetime import datetime

import structlog

from receiver.core.model.memory import Memory
from receiver.core.model.model import DELETING_AT_CIVO
from receiver.core.scaling.waits import SHORT_LOSS
from receiver.ports import CloudPool, Cluster, TryLater, WontWork

MOST_READ = 5  # Node objects in one step: where more are missing at once, the list may be at fault

log = structlog.get_logger("receiver")


def deleted_node_objects(
    cluster: Cluster, memory: Memory, cloud: Mapping[str, CloudPool], listed: Collection[str], now: datetime
) -> Collection[str]:
    """Return the living instances whose Node object was deleted lately.

    It was there, the look lacks it (*listed* are the instances that it has), and a read of it alone finds nothing.
    After `SHORT_LOSS` it counts as deleted without that.
    """
    living = {i.id for pool in cloud.values() for i in pool.instances if i.status != DELETING_AT_CIVO} - {*listed}
    lives = (life for life in memory.lives if life.instance in living and life.registered_at is not None)
    names = {life.instance: life.name for life in lives if life.lost_at is None or now - life.lost_at <= SHORT_LOSS}
    deleted_instances: set[str] = set()
    try:
        for instance in sorted(names)[:MOST_READ]:
            if not cluster.has_node(names[instance]):
                deleted_instances.add(instance)
    except (TryLater, WontWork) as error:
        log.warning("cannot read a Node object that the list lacks", error=str(error))
    return deleted_instances
