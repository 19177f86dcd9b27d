"""Stacks of which several tests look at one: real Prometheus and Alertmanager, the autoscaler forked."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from demo.configs import receiver_environment
from demo.plan import StackPlan
from demo.processes import answers
from demo.stack import Stack, running
from tests.e2e.receivers import Server


@contextmanager
def a_stack(plan: StackPlan, folder: Path) -> Iterator[Stack]:
    """Yield a stack of *plan* whose sign of life has reached the autoscaler."""
    with running(plan, folder, _fork_receiver) as stack:
        stack.wait_for_heartbeat(60)
        yield stack


def _fork_receiver(stack: Stack) -> None:
    places = stack.places
    environ, ready = receiver_environment(stack.plan, places), answers(places.url("receiver") + "/readyz")
    stack.parts["receiver"] = Server(places.log("receiver"), environ, forked=True, ready=ready)
