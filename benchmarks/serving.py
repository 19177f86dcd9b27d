"""The autoscaler under gunicorn, with a simulated cloud and cluster and no alerts."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from demo.plan import PoolPlan, StackPlan
from demo.processes import Process
from demo.stack import Stack

POOLS = 8


def a_stack(folder: Path, pools: int = POOLS) -> Stack:
    """Return a stack of which nothing runs yet."""
    plans = tuple(PoolPlan(name=f"pool-{n}", id=f"5f3c0000-0000-4000-8000-{n:012}") for n in range(1, pools + 1))
    return Stack(StackPlan(pools=plans, receiver={"prometheus": None, "alertmanager": None}), folder)


@contextmanager
def serving(folder: Path) -> Iterator[Stack]:
    """Run simulator and receiver until the block is left."""
    stack = a_stack(folder)
    try:
        stack.parts["simulator"].start()
        stack.parts["receiver"].start()
        yield stack
    finally:
        stack.stop()


def children(process: Process) -> list[int]:
    """Return the ids of *process* and of those it started, first itself. Linux only."""
    found = [process.pid]
    for pid in found:
        listed = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
        found += [int(child) for child in listed.split()]
    return found
