"""Beyond the budget's stop line nothing is bought, and only nodes enter another paid unit whose pod ran at the line.

Work of equal and of higher priority waits there all the time: no new pod begins on a node, however much of it is free.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random

import pytest

from receiver.core.model.policy import Billing, Budget
from receiver.core.scaling.removal import SAFETY_MINIMUM
from receiver.ports import Store
from receiver.replay.world.objects import VM, Behaviour, WorldPod
from tests.core.builders import MINUTE, a_pool
from tests.given import lives
from tests.given.life import GPU, Life, a_job

pytestmark = pytest.mark.chores(False)

UNIT = 10 * MINUTE
STEP = timedelta(seconds=30)
JUST_NOW = SAFETY_MINIMUM + 2 * STEP  # an empty node rests before it goes, also at the line
LINE = Decimal("0.90")
BEYOND = 40 * MINUTE  # that far beyond the line it goes on: four paid units


def submit_some(life: Life, dice: Random, number: int) -> None:
    """One more job for either pool or for both, some of them more urgent than the others."""
    pods = dice.choice([1, 1, 2])
    only = dice.choice([{}, {"kubernetes.civo.com/civo-node-pool": dice.choice(["one-id", "two-id"])}])
    duration, priority = dice.choice([5, 12, 25, 70]) * MINUTE, dice.choice([0, 0, 1000])
    job = a_job(f"job{number}", pods=pods, duration=duration, node_selector=only, priority=priority)
    life.submit(replace(job, submit_at=life.now))


def running(life: Life) -> list[WorldPod]:
    return [p for p in life.world.active_pods.values() if p.requests and p.node is not None]


def works_there(life: Life, vm: VM) -> bool:
    return any(p.requests for p in life.world.pods_on(vm.hostname))


def units_begun(vm: VM, at: datetime) -> int:
    return (at - vm.created_at) // UNIT


@pytest.mark.parametrize("seed", [1, 2])
def test_beyond_the_stop_line_only_nodes_whose_pod_ran_at_the_line_cost_more(store: Store, seed: int) -> None:
    """Two pools of one price race for the same dollars; a paid unit of ten minutes costs USD 0.215."""
    life = lives.at_zero(
        store,
        a_pool("one"),
        a_pool("two", resources={GPU: 2}),
        behaviour=Behaviour(granularity=UNIT),
        budget=Budget(monthly_usd=LINE),
        billing=Billing(granularity=UNIT, removal_margin=2 * MINUTE),
    )
    dice, number = Random(seed), 0
    worked: dict[str, datetime] = {}
    begun: dict[str, int] = {}
    bought: int | None = None  # PUTs sent when the line was reached
    ran: set[str] = set()  # the pods that ran then
    refused, end = 0, life.now + 4 * 60 * MINUTE
    while life.now < end:
        beyond = life.world.paid() >= LINE
        if beyond and bought is None:
            bought, ran, end = len(life.writes("resize")), {p.uid for p in running(life)}, life.now + BEYOND
        if dice.random() < 0.15:
            submit_some(life, dice, number)
            number += 1
        life.run(STEP, tick=STEP)
        if beyond:
            new = [p.name for p in running(life) if p.uid not in ran]
            assert not new, f"{new} began beyond the line"
            refused = max(refused, len(life.world.active_pods) - len(running(life)))
        for vm in (v for pool in life.world.pools.values() for v in pool.living):
            units = units_begun(vm, life.now)
            if works_there(life, vm):
                worked[vm.id] = life.now
            if beyond and units > begun.get(vm.id, units):
                assert vm.id in worked, f"{vm.hostname} never had work, and costs another unit"
                assert life.now - worked[vm.id] <= JUST_NOW, f"{vm.hostname} was empty, and costs another unit"
            begun[vm.id] = units
    assert bought is not None, "the line was never reached: this shows nothing"
    assert refused > 0, "nothing waited beyond the line: this shows nothing"
    assert len(life.writes("resize")) == bought
    assert life.world.kills == []
