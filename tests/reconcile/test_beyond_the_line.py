"""Beyond the budget's stop line nothing is bought, and only nodes on which work goes on enter another paid unit.

New work is handed in up to the line only: keeping it out beyond is what `budget.hold` is for.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random

import pytest

from receiver.core.moments import SAFETY_MINIMUM
from receiver.core.policy import Billing, Budget
from receiver.ports import Store
from receiver.replay.world import VM, Behaviour, WorldPool
from tests.reconcile.harness import GPU, SIZE, Life, a_job, a_policy, a_world

MINUTE = timedelta(minutes=1)
UNIT = 10 * MINUTE
STEP = timedelta(seconds=20)
JUST_NOW = SAFETY_MINIMUM + 2 * STEP  # an empty node rests before it goes, also at the line
LINE = Decimal("2.00")


def two_pools(store: Store) -> Life:
    """Two pools of one price that race for the same dollars; a paid unit of ten minutes costs USD 0.215."""
    pools = [WorldPool(id=f"{name}-id", size=SIZE, resources={GPU: gpus}) for name, gpus in (("one", 1), ("two", 2))]
    base = a_policy().pools[0]
    policy = a_policy(
        replace(base, id="one-id", name="one"),
        replace(base, id="two-id", name="two", resources={GPU: 2}),
        budget=Budget(monthly_usd=LINE),
        billing=Billing(granularity=UNIT, removal_margin=2 * MINUTE),
    )
    return Life(world=a_world(*pools, behaviour=Behaviour(granularity=UNIT)), policy=policy, store=store)


def submit_some(life: Life, dice: Random, number: int) -> None:
    """One more job for either pool or for both."""
    pods = dice.choice([1, 1, 2])
    only = dice.choice([{}, {"kubernetes.civo.com/civo-node-pool": dice.choice(["one-id", "two-id"])}])
    job = a_job(f"job{number}", pods=pods, duration=dice.choice([5, 12, 25, 70]) * MINUTE, node_selector=only)
    life.submit(replace(job, submit_at=life.now))


def works_there(life: Life, vm: VM) -> bool:
    return any(p.requests for p in life.world.pods_on(vm.hostname))


def units_begun(vm: VM, at: datetime) -> int:
    return (at - vm.created_at) // UNIT


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_beyond_the_stop_line_only_nodes_with_work_on_them_cost_more(store: Store, seed: int) -> None:
    life, dice, number = two_pools(store), Random(seed), 0
    worked: dict[str, datetime] = {}
    begun: dict[str, int] = {}
    bought: int | None = None  # PUTs sent when the line was reached
    for _ in range(2 * 60 * 3):
        beyond = life.world.paid() >= LINE
        if beyond and bought is None:
            bought = len(life.writes("resize"))
        if not beyond and dice.random() < 0.15:
            submit_some(life, dice, number)
            number += 1
        life.run(STEP, tick=STEP)
        for vm in (v for pool in life.world.pools.values() for v in pool.living):
            units = units_begun(vm, life.now)
            if works_there(life, vm):
                worked[vm.id] = life.now
            if beyond and units > begun.get(vm.id, units):
                assert vm.id in worked, f"{vm.hostname} never had work, and costs another unit"
                assert life.now - worked[vm.id] <= JUST_NOW, f"{vm.hostname} was empty, and costs another unit"
            begun[vm.id] = units
    assert bought is not None, "the line was never reached: this shows nothing"
    assert len(life.writes("resize")) == bought
    assert life.world.kills == []
