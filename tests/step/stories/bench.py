"""Beginnings and tools that several stories share: pools that exist already, ports whose every call is numbered."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from receiver.core.model.policy import Policy, Pool
from receiver.core.model.signals import COMPONENT, Alert
from receiver.core.notices.notice import Notice
from receiver.ports import Delivery, Store
from receiver.replay.world.objects import VM, PodSpec, WorldPool
from tests.step.harness import FAST, GPU, PRICE, SIZE, START, TICK, Life, a_policy, a_world

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
POOL = "l40s-id"
POOL_LABEL = "kubernetes.civo.com/civo-node-pool"
BIG_SIZE = "an.g1.l40s.kube.x8"
# From the PUT to a running pod, and two ticks for us to see the pod and to step.
PROVISIONING = FAST.create + FAST.build + FAST.boot + FAST.driver + FAST.image_pull + 2 * TICK


def a_pool(**changes: Any) -> Pool:
    """The policy's one pool of one-GPU nodes, with *changes*."""
    return replace(a_policy().pools[0], **changes)


def idle_nodes(store: Store, count: int = 1, *, policy: Policy | None = None, **world: Any) -> Life:
    """A life that begins with *count* usable, empty nodes created at START."""
    pool = WorldPool(id=POOL, size=SIZE, resources={GPU: 1}, count=count)
    return Life(world=a_world(pool, **world), policy=policy or a_policy(), store=store)


def two_pools(store: Store, *, big: dict[str, Any] | None = None, **given: Any) -> Life:
    """A life of an empty pool `small` of one GPU a node and a dearer empty one, `big`, of eight."""
    world = a_world(
        WorldPool(id="small-id", size=SIZE, resources={GPU: 1}),
        WorldPool(id="big-id", size=BIG_SIZE, resources={GPU: 8}),
        **given,
    )
    small = a_pool(id="small-id", name="small")
    said = {"id": "big-id", "name": "big", "size": BIG_SIZE, "resources": {GPU: 8}, **(big or {})}
    return Life(
        world=world,
        policy=a_policy(small, a_pool(price_usd_per_hour=9 * PRICE, **said)),
        store=store,
    )


def bound(name: str, node: str, **given: Any) -> PodSpec:
    """A GPU pod that the scheduler has bound to *node* already; it runs until it is deleted."""
    return PodSpec(**{"namespace": "ml", "name": name, "requests": {GPU: 1}, "node": node, **given})


def waiting(name: str, **given: Any) -> PodSpec:
    """A GPU pod without a node, which runs until it is deleted."""
    return PodSpec(**{"namespace": "ml", "name": name, "requests": {GPU: 1}, **given})


def alert(name: str, action: str, pool: str = POOL, *, firing: bool = True, at: datetime = START) -> Alert:
    """One alert of ours as Alertmanager sends it."""
    labels = {"alertname": name, "component": COMPONENT, "action": action, "pool": pool}
    return Alert(fingerprint=f"{name}-{pool}", labels=labels, starts_at=at, firing=firing)


def deliver(life: Life, *alerts: Alert) -> None:
    """Let a webhook with *alerts* arrive now."""
    life.store.remember(Delivery(receiver="test", group_key="stories", alerts=alerts), life.now)


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


@dataclass
class Calls:
    """Numbers the calls of all ports that it watches; before call *at* it does *then*, once."""

    at: int | None = None
    then: Callable[[], None] = lambda: None
    made: list[str] = field(default_factory=list)

    def before(self, call: str) -> None:
        """A call begins."""
        number = len(self.made)
        self.made.append(call)
        if number == self.at:
            self.then()

    def last(self, call: str) -> int:
        """The number of the last *call*."""
        return len(self.made) - 1 - self.made[::-1].index(call)


class Watched:
    """A port that tells *calls* before each of its methods."""

    def __init__(self, inner: Any, name: str, calls: Calls) -> None:
        self._inner, self._name, self._calls = inner, name, calls

    def __getattr__(self, verb: str) -> Any:
        method = getattr(self._inner, verb)
        if not callable(method) or verb.startswith("fail_"):
            return method

        def called(*args: Any, **given: Any) -> Any:
            self._calls.before(f"{self._name}.{verb}")
            return method(*args, **given)

        return called


def watch(life: Life, calls: Calls) -> None:
    """Number every call to Civo and Kubernetes, reads and writes, from now on."""
    life.cloud = Watched(life.cloud, "cloud", calls)  # type: ignore[assignment]
    life.cluster = Watched(life.cluster, "cluster", calls)  # type: ignore[assignment]
