"""Print the table of functions of a step x planted exception: what was served, closed and considered all the same."""

import sys

from campaigns.faults.campaign import say
from campaigns.step_failures.planting import Whose
from campaigns.step_failures.table import Row, table
from tests.stores import a_store, silent_log


def main() -> int:
    """Plant into every function, or those whose name has one of the words given; return the exit status."""
    words = sys.argv[1:] or [""]
    with a_store() as store, silent_log([]):
        rows = list(
            table(store, lambda points: [p for p in points if not words or any(w in p.function for w in words)])
        )
    for of in (Whose.BAD, Whose.ALL):
        chosen = [r for r in rows if r.whose is of]
        told = "raised for two pools of four" if of is Whose.BAD else "raised for all at once"
        say(f"{told}: {len(chosen)} functions, {_served(chosen)} leave the other pools served, their actions closed")
        say(f"  and every delivery considered; {sum(r.recovered for r in chosen)} are made up for once the bug is gone")
    for row in rows:
        if not row.served or not row.recovered:
            say(f"{'recovers' if row.recovered else 'LOST'}: {row.function} ({row.whose} calls)")
    return int(not all(r.recovered for r in rows))


def _served(rows: list[Row]) -> int:
    return sum(r.served for r in rows)


if __name__ == "__main__":
    sys.exit(main())
