"""Tools that several stories share: sick nodes, ports whose every call is numbered."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from receiver.core.model.policy import Taint
from tests.given.life import FAST, TICK, Life

# From the PUT to a running pod, and two ticks for us to see the pod and to step.
PROVISIONING = FAST.create + FAST.build + FAST.boot + FAST.driver + FAST.image_pull + 2 * TICK


QUARANTINE = Taint(key="nvidia.com/gpu-xid-error", value="true")
UPGRADE = "nvidia.com/gpu-driver-upgrade-state"


def fail(life: Life, name: str, fault: str = "xid") -> None:
    """Let the GPUs of node *name* fail; a taint keeps the scheduler from it."""
    faults = life.world.faults
    life.world.patch_node(name, taints=(QUARANTINE,))
    if fault == "xid":
        faults.failed[name] = "XID 79 on GPU 0"
    elif fault == "condition":
        faults.condition(name, "GpuMemWatch", "True")
    elif fault == "named condition":
        faults.condition(name, "example.com/GpuProblem", "True")
    elif fault == "unready":
        faults.condition(name, "nvidia.com/GPUReady", "False")


def mend(life: Life, name: str) -> None:
    """End what `fail` did."""
    life.world.faults.failed.pop(name, None)
    life.world.faults.recover(name)
    life.world.patch_node(name, taints=())


@dataclass
class Calls:
    """Numbers the calls of all ports that it watches; before call *at* it does *then*, once."""

    at: int | None = None
    then: Callable[[], None] = lambda: None
    made: list[str] = field(default_factory=list)

    def before(self, call: str) -> None:
        """A call begins."""
        number = len(self.made)
        self.made.append(call)
        if number == self.at:
            self.then()

    def last(self, call: str) -> int:
        """The number of the last *call*."""
        return len(self.made) - 1 - self.made[::-1].index(call)


class Watched:
    """A port that tells *calls* before each of its methods."""

    def __init__(self, inner: Any, name: str, calls: Calls) -> None:
        self._inner, self._name, self._calls = inner, name, calls

    def __getattr__(self, verb: str) -> Any:
        method = getattr(self._inner, verb)
        if not callable(method) or verb.startswith("fail_"):
            return method

        def called(*args: Any, **given: Any) -> Any:
            self._calls.before(f"{self._name}.{verb}")
            return method(*args, **given)

        return called


def watch(life: Life, calls: Calls) -> None:
    """Number every call to Civo and Kubernetes, reads and writes, from now on."""
    life.cloud = Watched(life.cloud, "cloud", calls)  # type: ignore[assignment]
    life.cluster = Watched(life.cluster, "cluster", calls)  # type: ignore[assignment]
