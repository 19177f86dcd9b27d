"""Startup taints of every prefix. Drawn by dice of their own, so that no other draw of a seed moves."""

import random
from collections.abc import Sequence
from dataclasses import replace

from tests.faults.scenario import OTHER_STARTUP_TAINTS, PoolPlan


def tainted_otherwise(seed: int, pools: Sequence[PoolPlan]) -> list[PoolPlan]:
    """Return *pools*, where some of those with a startup taint carry one with another prefix."""
    dice, found = random.Random(f"{seed}/sick/taints"), []
    for plan in pools:
        key = dice.choice([plan.startup_taint, *OTHER_STARTUP_TAINTS])
        found.append(plan if plan.startup_taint is None else replace(plan, startup_taint=key))
    return found
