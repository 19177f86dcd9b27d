"""How the situations of an incident come about: each is played by the real step on a simulated world."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.config import ConfigError
from receiver.config.settings import load_text
from receiver.core.model.configuration import ConfigurationFile
from receiver.core.model.policy import Approval, Budget, Unanswered
from receiver.core.model.signals import Alert
from receiver.ports import TryLater
from simulator.store import MemoryStore
from tests.core.builders import a_pool
from tests.given import lives, troubles
from tests.given.life import BIG_SIZE, FAST, GPU, SIZE, Life, a_job, a_policy
from tests.step.stories.bench import fail

SECOND, MINUTE, HOUR, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
BAD = """
pools:
  - name: l40s
    civo_pool_id: l40s-id
    size: an.g1.l40s.kube.x1
    resources: {nvidia.com/gpu: 1}
    max_nodes: twelve
"""


def a_life(count: int = 0, **changes: Any) -> Life:
    """A pool of L40S nodes, *count* of them usable, that have run for a while."""
    life = lives.at_zero(MemoryStore(), nodes=count, rest=MINUTE, **changes)
    life.run(20 * MINUTE if count else MINUTE, tick=MINUTE)
    return life


def working(life: Life, pods: int) -> Life:
    """Put *pods* to work that take a day."""
    life.submit(a_job("serve", pods=pods, duration=DAY, submit_at=life.now))
    life.run(2 * MINUTE)
    return life


def waiting(life: Life, pods: int = 2) -> None:
    life.submit(a_job("train", pods=pods, submit_at=life.now, duration=HOUR))


def frozen() -> Life:
    life = working(a_life(1), 1)
    labels = {"alertname": "Maintenance", "component": "gpu-autoscaler", "action": "freeze", "severity": "critical"}
    life.alarms.extra.append(Alert(fingerprint="f", labels=labels, starts_at=life.now))
    waiting(life)
    life.run(3 * MINUTE)
    return life


def out_of_stock() -> Life:
    life = working(a_life(1), 1)
    life.world.faults.stock[SIZE] = 0
    waiting(life)
    life.run(5 * MINUTE)
    return life


def stuck_node() -> Life:
    life = a_life(timings=replace(FAST, driver=DAY))
    waiting(life, pods=1)
    life.run(40 * MINUTE, tick=MINUTE)
    return life


def a_budget(spent: float) -> Budget:
    """A budget of which the node that has run since the start has spent that share after four hours."""
    return Budget(monthly_usd=(Decimal("1.29") * 5 / Decimal(str(spent))).quantize(Decimal("0.01")))


def spending(share: float) -> Life:
    life = working(a_life(1, budget=a_budget(share)), 1)
    life.run(4 * HOUR, tick=5 * MINUTE)
    return life


def held_with_waiting_work() -> Life:
    life = spending(0.85)
    waiting(life)
    life.run(5 * MINUTE)
    return life


def held_without_waiting_work() -> Life:
    life = spending(0.85)
    life.step()
    return life


def stopped() -> Life:
    life = spending(1.0)
    waiting(life)
    life.run(5 * MINUTE)
    return life


def telemetry_lost() -> Life:
    life = working(a_life(1), 1)
    troubles.dcgm_gone(life)
    life.run(30 * MINUTE, tick=MINUTE)
    return life


def prometheus_silent() -> Life:
    life = working(a_life(1), 1)
    life.telemetry.fail_always(TryLater("connection refused", code="connection_refused"))
    waiting(life)
    life.run(10 * MINUTE)
    return life


def sick_gpu() -> Life:
    life = working(a_life(1), 1)
    [node] = life.world.nodes
    life.world.faults.lose_gpu(node)
    life.run(30 * MINUTE, tick=MINUTE)
    return life


def foreign_cordon() -> Life:
    life = a_life(1)
    [node] = life.world.nodes
    life.world.patch_node(node, unschedulable=True)
    waiting(life, pods=1)
    life.run(20 * MINUTE)
    return life


def refused_configuration() -> Life:
    life = working(a_life(1), 1)
    with pytest.raises(ConfigError) as refused:
        load_text(BAD)
    mistakes = tuple(str(mistake) for mistake in refused.value.mistakes)
    life.file = ConfigurationFile(at=life.now, mistakes=mistakes, digest="of the file")
    life.run(2 * MINUTE)
    return life


def stock_out_of_three() -> Life:
    """One of three nodes is there, nine pods wait, and Civo has no other node."""
    life = working(a_life(1, policy=a_policy(a_pool(max_nodes=3))), 1)
    life.world.faults.stock[SIZE] = 0
    waiting(life, pods=8)
    life.run(5 * MINUTE)
    return life


def full_for_seconds() -> Life:
    life = working(a_life(1, policy=a_policy(a_pool(max_nodes=1))), 1)
    waiting(life, pods=5)
    life.run(7 * SECOND)
    return life


def full_for_long() -> Life:
    life = full_for_seconds()
    life.run(3 * HOUR, tick=5 * MINUTE)  # longer than queue_wait
    life.step()
    return life


def frozen_below() -> Life:
    life = working(a_life(1, policy=a_policy(a_pool(max_nodes=2))), 1)
    labels = {"alertname": "Maintenance", "component": "gpu-autoscaler", "action": "freeze", "severity": "critical"}
    life.alarms.extra.append(Alert(fingerprint="f", labels=labels, starts_at=life.now))
    waiting(life, pods=5)
    life.run(3 * MINUTE)
    return life


def stopped_for_a_team() -> Life:
    """The budget of team vision is spent, that of the cluster is not."""
    spent = Decimal("1.29") * 5
    budget = Budget(monthly_usd=Decimal(1000), teams={"vision": spent})
    life = working(a_life(1, budget=budget), 1)
    life.run(4 * HOUR, tick=5 * MINUTE)
    waiting(life)
    life.run(5 * MINUTE)
    return life


def gang_beyond_maximum() -> Life:
    big = a_pool("h100", size=BIG_SIZE, resources={GPU: 8}, max_nodes=1, price_usd_per_hour=Decimal("23.92"))
    life = lives.at_zero(MemoryStore(), big, rest=MINUTE)
    life.run(MINUTE)
    life.submit(a_job("pretrain", pods=2, gpus_per_pod=8, gang=True, submit_at=life.now, duration=HOUR))
    life.run(2 * MINUTE)
    return life


def xid_under_a_pod() -> Life:
    life = working(a_life(1), 1)
    [node] = life.world.nodes
    fail(life, node)
    life.run(3 * MINUTE)
    return life


def node_on_its_way() -> Life:
    life = a_life()
    waiting(life, pods=1)
    life.run(2 * MINUTE)
    return life


def observed() -> Life:
    life = lives.at_zero(MemoryStore(), nodes=1, rest=MINUTE, mode="observe")
    life.run(20 * MINUTE, tick=MINUTE)
    working(life, 1)
    waiting(life, pods=5)
    life.run(MINUTE)
    return life


def waiting_for_an_approval() -> Life:
    approval = Approval(growth_above_usd_per_hour=Decimal(1), wait=HOUR, unanswered=Unanswered.HOLD)
    life = a_life(policy=a_policy(a_pool(approval=approval)))
    waiting(life, pods=2)
    life.run(2 * MINUTE)
    return life
