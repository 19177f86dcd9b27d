"""The last step of a server whose pool l40s is full while pods wait, for what-if."""

from decimal import Decimal
from typing import Any

from receiver.config.settings import load_text
from receiver.core.model.model import Facts, Spend
from receiver.web.parts import LastStep
from tests.clocks import FixedClock
from tests.core.builders import NOW, a_busy_node, a_pod, a_state, facts
from tests.web.builders import Bench

CONFIGURATION = """\
mode: act
budget: {monthly_usd: 5000}
pools:
  - name: l40s
    civo_pool_id: l40s-id
    size: an.g1.l40s.kube.x1
    resources: {nvidia.com/gpu: 1}
    max_nodes: 4
    price_usd_per_hour: 1.29
  - name: spare
    civo_pool_id: spare-id
    size: an.g1.l40s.kube.x1
    resources: {nvidia.com/gpu: 1}
    labels: {tier: spare}
    max_nodes: 2
    price_usd_per_hour: 1.29
"""
SPEND = Spend(month="2026-11", usd=Decimal(1000))


def facts_of_a_full_pool(**changes: Any) -> Facts:
    """Three busy nodes of l40s and three pods that wait."""
    state = a_state(*(a_busy_node(f"n{n}") for n in range(3)), pool="l40s-id")
    waiting = tuple(a_pod(f"wait-{n}") for n in range(3))
    return facts(state, a_state(pool="spare-id"), waiting=waiting, **{"spend": SPEND, **changes})


def a_last_step(found: Facts | None = None, text: str = CONFIGURATION, mode: str = "act") -> LastStep:
    """The last step on *found* with the configuration *text*."""
    return LastStep(facts=found or facts_of_a_full_pool(), settings=load_text(text), mode=mode)


def a_bench_after_a_step(found: Facts | None = None, text: str = CONFIGURATION, **changes: Any) -> Bench:
    """A server whose last step was that one."""
    return Bench(clock=FixedClock(NOW), **{"last_step": a_last_step(found, text), **changes})
