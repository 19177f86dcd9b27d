"""Whole lines whose processes are not the subject: real Prometheus and Alertmanager, the autoscaler forked, and the
simulator in threads. Only `test_whole_line` starts each part by its command."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from demo.plan import StackPlan
from demo.stack import Stack
from tests.browser.live import LiveStack


@contextmanager
def a_stack(plan: StackPlan, folder: Path) -> Iterator[Stack]:
    """Yield a stack of *plan* whose sign of life has reached the autoscaler."""
    stack = LiveStack(plan, folder)
    try:
        stack.start()
        stack.wait_for_heartbeat(60)
        yield stack
    finally:
        stack.stop()
