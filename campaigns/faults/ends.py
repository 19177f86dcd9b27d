"""How the process of a scenario ends at lines of its own, its database refuses, Prometheus says less than it knows, and
somebody takes rights away.

Drawn by dice of their own, so that no other draw of a seed moves.
"""

import math
import random
from typing import Any

from campaigns.faults.blur import BLURS
from campaigns.faults.doors import NEEDS, PORTS
from campaigns.faults.lines import STORE
from campaigns.faults.scenario import Event
from tests.stores import ILLNESSES

ACT, CHORES = "step/carry_out", "step/chores/"
PHASES = {"step/settle": 120, "step/record": 60, "step/act.py": 150, "step/reconcile": 30}
OTHERS = (
    "step/gather",
    *(f"{CHORES}{name}" for name in ("node_upkeep", "budget")),
    "capabilities/idle_shutdown",
    f"{CHORES}notify",
)
WITHIN = (*[ACT] * 4, *PHASES, *OTHERS, "step/publish", STORE, "")
LINES = {ACT: 120, **PHASES, "": 3000, STORE: 1500}  # about as many as a step runs there
FEW = 400
RIGHTS = sorted({*NEEDS.values()})


def ends(seed: int, troubled: int) -> list[Event]:
    """The events of *seed* within its *troubled* seconds."""
    dice, found = random.Random(f"ends of {seed}"), []

    def add(kind: str, **what: Any) -> None:
        found.append(Event(at=round(dice.uniform(0, troubled), 1), kind=kind, what=what))

    for _ in range(dice.choice([0, 4, 8, 16])):
        within = dice.choice(WITHIN)
        add("die", within=within, lines=round(math.exp(dice.uniform(0, math.log(LINES.get(within, FEW))))))
    for _ in range(dice.choice([0, 2, 6])):
        add("fault", on=f"store.{dice.choice(PORTS['store'])}", error=dice.choice(list(ILLNESSES)))
    for _ in range(dice.choice([0, 0, 1, 2])):
        add("blur", how=dice.choice(BLURS), seconds=dice.choice([20, 100, 400]))
    return [*found, *_rights(seed, troubled), *_late_writes(seed, troubled)]


def _late_writes(seed: int, troubled: int) -> list[Event]:
    """Now and then a write takes effect long after its answer was waited for."""
    dice = random.Random(f"late writes of {seed}")
    return [
        Event(
            at=round(dice.uniform(0, troubled), 1),
            kind="fault",
            what={"on": f"world.{dice.choice(['resize', 'delete_instance', 'delete_instance'])}", "error": "late"},
        )
        for _ in range(dice.choice([0, 0, 1, 2, 4]))
    ]


def _rights(seed: int, troubled: int) -> list[Event]:
    """In one world of four somebody takes rights away for a while, and asking for them fails now and then."""
    dice, found = random.Random(f"rights of {seed}"), []
    if dice.random() < 0.75:
        return []
    for _ in range(dice.choice([1, 1, 2])):
        at, lost = round(dice.uniform(0, troubled), 1), dice.sample(RIGHTS, dice.choice([1, 1, 2]))
        found.append(Event(at=at, kind="rights", what={"lost": sorted(lost)}))
        found.append(Event(at=round(at + dice.choice([40, 400, 1500]), 1), kind="rights", what={"lost": []}))
    for _ in range(dice.choice([0, 1, 3])):
        at, error = round(dice.uniform(0, troubled), 1), dice.choice(["crash", "timeout", "timeout"])
        fault = {"on": "cluster.missing_rights", "error": error, "after": dice.random() < 0.5}
        found.append(Event(at=at, kind="fault", what=fault))
    return found
