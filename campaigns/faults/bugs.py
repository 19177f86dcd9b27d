"""A bug in one function for a while: in what is made for people, or for one pool in what decides and acts."""

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from types import FunctionType
from typing import Any

from campaigns.faults.scenario import Event, PoolPlan
from campaigns.step_failures.planting import Whose, functions, planted
from simulator.world import World

FOR_PEOPLE = (
    "step/publish.py:account_for_usage",
    "core/notices/action_notices.py:ended",
    "capabilities/approvals/notices.py:asked",
    "core/notices/money_notices.py:budget_lines",
    "core/explain/evidence.py:evidence_of",
    "core/explain/explain.py:explain",
    "core/notices/people_notices.py:ran_out",
    "step/publish.py:picture",
    "core/notices/wording.py:worded",
    "core/explain/rules.py:remedies",
    "step/publish.py:samples",
    "core/explain/rules.py:why",
    "core/notices/concerns.py:concerns",
    "core/notices/pool_concerns.py:of_pool",
    "step/chores/notify.py:send_standing_notices",
    "step/chores/notify.py:record_pod_events",
    "step/publish.py:_log_step",
)
FOR_A_POOL = (
    "core/scaling/retirement.py:next_move",
    "step/carry_out.py:_grow",
    "step/carry_out.py:_retire",
    "step/retire.py:advance",
    "step/carry_out.py:carry_out",
    "step/carry_out.py:settled",
    "core/scaling/capacity.py:open_tally",
    "core/model/flights.py:late_after",
    "core/scaling/decide.py:decide",
    "core/scaling/demand.py:misfit",
    "core/scaling/guardrails/__init__.py:apply",
    "core/scaling/removal.py:reconsider_at",
    "core/scaling/decide.py:join",
    "core/scaling/decide.py:plan",
    "core/scaling/removal.py:removable",
    "step/pool_states.py:pool_state",
    "step/act.py:_close",
    "step/chores/node_upkeep.py:undo_orphaned_cordons",
)
FOR_NODES = (  # drawn by `campaigns.faults.outside`
    "step/chores/node_upkeep.py:apply_labels_and_taints",
    "step/chores/node_upkeep.py:apply_packing_taints",
    "capabilities/repair/chore.py:cordon_for_repair",
    "capabilities/idle_shutdown/chore.py:scale_idle_workloads_to_zero",
    "capabilities/buffers/chore.py:report_buffers",
    "capabilities/patience/chore.py:admit_deferred_work",
    "step/chores/notify.py:announce_window_evictions",
)
SHARE_OF_WORLDS = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """*function* raises until then: at each call (*pool* None), or at those for one pool."""

    function: str
    pool: str | None
    until: datetime


def bugs(seed: int, troubled: int, pools: list[PoolPlan]) -> list[Event]:
    """The bugs of a world; by dice of their own, so that no other draw moves."""
    dice = random.Random(f"bugs of {seed}")
    if dice.random() > SHARE_OF_WORLDS:
        return []
    found = []
    for _ in range(dice.choice([1, 2, 4])):
        people = dice.random() < 0.5
        what: dict[str, Any] = {
            "function": dice.choice(FOR_PEOPLE if people else FOR_A_POOL),
            "pool": None if people else dice.choice(pools).id,
            "seconds": dice.choice([30, 120, 600]),
        }
        found.append(Event(at=round(dice.uniform(0, troubled * 0.85), 1), kind="bug", what=what))
    return found


@cache
def _functions() -> dict[str, FunctionType]:
    """The functions that a bug may be in: to find them takes as long as several steps."""
    found = functions()
    return {name: found[name] for name in (*FOR_PEOPLE, *FOR_A_POOL, *FOR_NODES)}


class Bugs:
    """The bugs that a world has now."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._all: list[Bug] = []
        self.raised = 0

    def begin(self, what: dict[str, Any]) -> None:
        """Let one begin."""
        until = self._world.now + timedelta(seconds=what["seconds"])
        self._all.append(Bug(function=what["function"], pool=what["pool"], until=until))

    def end(self) -> None:
        """Mend them all."""
        self._all.clear()

    @property
    def now(self) -> list[Bug]:
        """Those that have not ended."""
        return [bug for bug in self._all if self._world.now < bug.until]

    @contextmanager
    def planted(self) -> Iterator[list[Bug]]:
        """Run a step with them; a call that hangs may let their time pass meanwhile."""
        with ExitStack() as stack:
            first: dict[str, Bug] = {}
            for bug in (found := self.now):
                first.setdefault(bug.function, bug)
            for bug in first.values():
                function = _functions()[bug.function]
                stack.enter_context(planted(function, self._strikes(bug), self._is_of(bug)))
            yield found

    def _strikes(self, bug: Bug) -> Callable[[Whose], bool]:
        def strikes(whose: Whose) -> bool:
            raises = bug.pool is None or whose is Whose.BAD
            self.raised += raises
            return raises

        return strikes

    def _is_of(self, bug: Bug) -> Callable[[str], bool | None]:
        known: dict[str, bool] = {}
        for pool in self._world.pools.values():
            known[pool.id] = pool.id == bug.pool
            for vm in (*pool.instances, *pool.coming):
                known[vm.id] = known[vm.hostname] = pool.id == bug.pool
        return known.get
