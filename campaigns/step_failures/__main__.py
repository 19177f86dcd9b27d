"""Plant an exception into every function of a step, and print what was served, closed and considered all the same.

Those of the store are planted on SQLite, all others on the store in memory.
"""

import sys
from collections.abc import Callable

from campaigns.faults.campaign import say
from campaigns.step_failures.planting import Whose
from campaigns.step_failures.promises import done_twice, never_met, not_recovered, not_served
from campaigns.step_failures.table import STORE, Point, Row, table
from simulator.store import MemoryStore
from tests.stores import a_store, silent_log


def main() -> int:
    """Plant into every function, or those whose name has one of the words given; return the exit status."""
    words = sys.argv[1:] or [""]

    def chosen(of_store: bool) -> Callable[[list[Point]], list[Point]]:
        return lambda points: [
            point
            for point in points
            if point.function.startswith(STORE) is of_store and any(word in point.function for word in words)
        ]

    with a_store() as store, silent_log([]):
        rows = [*table(MemoryStore(), chosen(False)), *table(store, chosen(True))]
    for of in (Whose.BAD, Whose.ALL):
        own = [row for row in rows if row.whose is of]
        raised = "raised for two pools of four" if of is Whose.BAD else "raised for all at once"
        say(f"{raised}: {len(own)} functions, {_served(own)} leave the other pools served, their actions closed")
        say(
            f"  and every delivery considered; {sum(row.recovered for row in own)} are made up for once the bug is gone"
        )
    for row in rows:
        if not row.served or not row.recovered:
            say(f"{'recovers' if row.recovered else 'LOST'}: {row.function} ({row.whose} calls)")
    broken = _broken(rows)
    for promise, offenders in broken.items():
        say(f"\n{promise}: {len(offenders)}")
        say("\n".join(offenders))
    return int(bool(broken))


def _broken(rows: list[Row]) -> dict[str, list[str]]:
    """What does not hold, with the rows that show it."""
    found = {
        "BROKEN: the exception was never raised": never_met(rows),
        "BROKEN: a bug of two pools kept another from what it was due": not_served(rows, Whose.BAD),
        "BROKEN: a bug in what is made for people kept a pool from what it was due": not_served(rows, Whose.ALL),
        "BROKEN: something was lost with the bug": not_recovered(rows),
        "BROKEN: something was bought or removed twice": done_twice(rows),
    }
    return {promise: offenders for promise, offenders in found.items() if offenders}


def _served(rows: list[Row]) -> int:
    return sum(row.served for row in rows)


if __name__ == "__main__":
    sys.exit(main())
