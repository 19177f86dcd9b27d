"""What a life came to: questions that many tests ask."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from receiver.core.notices.notice import Notice
from receiver.ports import STOP_ANNOTATION, Store
from receiver.replay.world.objects import VM, WorldNode
from tests.core.builders import HOUR
from tests.given.life import POOL, Life


def told(life: Life) -> list[Notice]:
    """Every notice that was put into the outbox, oldest first."""
    return [n.notice for n in life.store.notices_due(life.now + timedelta(days=30), limit=10_000)]


def titles(life: Life, *words: str) -> list[str]:
    """The titles of the notices that hold every one of *words*, in any case, in title or body."""
    return [n.title for n in told(life) if all(w.lower() in f"{n.title}\n{n.body}".lower() for w in words)]


def living(life: Life, pool: str = POOL) -> list[VM]:
    """The instances of *pool* whose deletion was not asked for."""
    return [vm for vm in life.world.lives if vm.pool == pool and vm.living]


def bought(life: Life, pool: str = POOL) -> int:
    """How many instances of *pool* there ever were."""
    return sum(vm.pool == pool for vm in life.world.lives)


def paid_hours(vm: VM, until: datetime) -> int:
    """Started hours of an instance's life."""
    return -(-((vm.gone_at or until) - vm.created_at) // HOUR)


def nodes(life: Life) -> list[WorldNode]:
    """The nodes that Kubernetes has."""
    return list(life.world.nodes.values())


def closed(life: Life) -> list[bool]:
    """Which nodes are cordoned for the stop of a budget."""
    return [n.unschedulable and STOP_ANNOTATION in n.annotations for n in nodes(life)]


def removed(life: Life) -> int:
    """How many instances Civo was asked to delete."""
    return len(life.writes("retire"))


def phases(life: Life) -> set[str]:
    """The phases of the pods that have not ended."""
    return {pod.phase for pod in life.world.active_pods.values()}


def deciding_rule(life: Life, pool: str = POOL) -> str:
    """The rule that decided about *pool* in the last step."""
    return life.steps[-1].decisions[pool].deciding.rule


def published(store: Store) -> Mapping[str, Any]:
    """What the last step published for the pages."""
    snapshot = store.snapshot()
    assert snapshot is not None
    return snapshot[0]
