"""Four pools with something to do in the same minutes: one of each kind belongs to the bug, one must be served."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from receiver.core.model.policy import Budget, Pool
from receiver.core.model.signals import Alert
from receiver.ports import Delivery, Store
from receiver.replay.world.objects import WorldPool
from tests.given.life import GPU, PRICE, SIZE, START, Life, a_job, a_policy, a_world

POOLS = ("bad-grow", "bad-shrink", "good-grow", "good-shrink")
LABEL = "for"
AN_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Came:
    """What a run came to: the pools whose growth or removal was sent and closed as *done*, whether every delivery was
    *considered*, whether anything was bought or removed *twice*, and how many of its steps failed whole."""

    done: frozenset[str]
    considered: bool
    twice: bool
    steps: int
    failed_steps: int

    @property
    def served(self) -> bool:
        """True when the pools that are not the bug's got what they were due, and deliveries were considered."""
        return self.considered and self.done >= {p for p in POOLS if p.startswith("good")}

    @property
    def all_served(self) -> bool:
        """The same of every pool."""
        return self.considered and self.done >= set(POOLS)


def prepared(store: Store) -> Life:
    """A life at the moment at which the idle nodes are to go, with work waiting for the pools that are to grow."""
    world = a_world(*(WorldPool(id=p, size=SIZE, resources={GPU: 1}, labels={LABEL: p}, count=1) for p in POOLS))
    policy = a_policy(*(_pool(p) for p in POOLS), budget=_budget())
    life = Life(world, policy, store)
    for pool in POOLS:
        if pool.endswith("grow"):
            life.submit(_job(pool, "long", timedelta(hours=9)))
    for number in range(10):
        life.step()
        life.pass_time(timedelta(minutes=5))
        for pool in POOLS if number == 5 else ():
            if pool.endswith("shrink"):
                world.resize(pool, 2)  # a younger node, which is to stay idle for longer
    life.run(timedelta(minutes=3))
    for pool in POOLS:
        if pool.endswith("grow"):
            life.submit(_job(pool, "next", timedelta(hours=1)))
    life.world.advance(START + timedelta(minutes=55))
    alert = Alert(fingerprint="waiting", labels={"alertname": "GpuPodsPending", "action": "scale_up"}, starts_at=START)
    store.remember(Delivery(receiver="test", group_key="waiting", alerts=(alert,)), life.now)
    return life


def _pool(name: str) -> Pool:
    return Pool(
        id=name,
        name=name,
        size=SIZE,
        resources={GPU: 1},
        labels={LABEL: name},
        max_nodes=4,
        price_usd_per_hour=PRICE,
        grow_cooldown=timedelta(seconds=30),
    )


def _budget() -> Budget:
    return Budget(monthly_usd=PRICE * 10000)


def _job(pool: str, name: str, duration: timedelta):  # type: ignore[no-untyped-def]
    return a_job(
        f"{name}-{pool}",
        namespace=pool,
        team=pool,
        duration=duration,
        node_selector={LABEL: pool},
    )


def is_bad(life: Life) -> Callable[[str], bool | None]:
    """Tell of a string whether it names a pool, an instance, a node or a workload of the bug's (None: none at all)."""
    known: dict[str, bool] = {p: p.startswith("bad") for p in POOLS}

    def told(text: str) -> bool | None:
        if text in known:
            return known[text]
        if text.startswith(POOLS):
            return text.startswith("bad")
        for pool in life.world.pools.values():
            for vm in (*pool.instances, *pool.coming):
                known[vm.id] = known[vm.hostname] = pool.id.startswith("bad")
        return known.get(text)

    return told
