"""GPU pods of the simulated world that run until they are deleted."""

from typing import Any

from receiver.replay.world.objects import PodSpec
from tests.core.builders import GPU


def bound(name: str, node: str, **changes: Any) -> PodSpec:
    """A GPU pod that the scheduler has bound to *node* already."""
    return waiting(name, **{"node": node, **changes})


def waiting(name: str, **changes: Any) -> PodSpec:
    """A GPU pod without a node."""
    return PodSpec(**{"namespace": "ml", "name": name, "requests": {GPU: 1}, **changes})
