"""The ports over a simulated world with faults: calls that fail, and answers that are lost."""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

from receiver.core.model.charges import Charge
from receiver.ports import Accounts, Alarms, Charges, Cloud, Cluster, Receipt, Telemetry
from receiver.replay.ports import WorldAccounts, WorldCloud, WorldPort
from simulator.cluster_port import SimulatedCluster
from simulator.world import SimulatedAlarms, SimulatedTelemetry, World

CALLS = {name for port in (Accounts, Alarms, Cloud, Cluster, Telemetry) for name in dir(port) if name[0] != "_"}


class Flaky(WorldPort):
    """A port whose calls fail on demand."""

    def __init__(self, world: World) -> None:
        """All is well."""
        super().__init__(world)
        self.down: Exception | None = None
        self._failures: list[tuple[Exception, str | None]] = []
        self._after: list[tuple[Exception, str]] = []

    def fail_next(self, error: Exception, verb: str | None = None) -> None:
        """Let the next call (of *verb*, if given) raise *error* without any effect."""
        self._failures.append((error, verb))

    def fail_after(self, error: Exception, verb: str) -> None:
        """Let the next write *verb* take effect and then raise *error*, like a lost answer."""
        self._after.append((error, verb))

    def fail_always(self, error: Exception | None) -> None:
        """Let every call raise *error*; None ends that."""
        self.down = error

    def __getattribute__(self, name: str) -> Any:
        """Return the attribute; a call of the port first raises the fault that is set for it."""
        found = super().__getattribute__(name)
        return partial(self._call, name, found) if name in CALLS else found

    def _call(self, verb: str, call: Callable[..., object], *args: object, **given: object) -> object:
        if self.down is not None:
            raise self.down
        for index, (error, only) in enumerate(self._failures):
            if only in (None, verb):
                del self._failures[index]
                raise error
        return call(*args, **given)

    def write(self, do: Callable[[], object], done: str, verb: str, *args: object) -> Receipt:
        """Record and run a write. Raises a fault that is set for its answer."""
        receipt = super().write(do, done, verb, *args)
        for index, (error, only) in enumerate(self._after):
            if only == verb:
                del self._after[index]
                raise error
        return receipt


class FlakyCloud(Flaky, WorldCloud):
    """Civo with faults."""


class FlakyCluster(Flaky, SimulatedCluster):
    """Kubernetes with faults."""


class FlakyAlarms(Flaky, SimulatedAlarms):
    """Alertmanager with faults."""


class FlakyTelemetry(Flaky, SimulatedTelemetry):
    """Prometheus with faults; *values* are its answers to single queries."""

    def __init__(self, world: World) -> None:
        """No query has an answer."""
        super().__init__(world)
        self.values: dict[str, float] = {}

    def value(self, query: str, at: datetime) -> float | None:
        """Return an entry of *values*, at any time."""
        return self.values.get(query)


class FlakyAccounts(Flaky, WorldAccounts):
    """The account's charges with faults. *others* are charges beside its nodes; *asked* counts the queries."""

    def __init__(self, world: World, others: tuple[Charge, ...] = ()) -> None:
        """Nothing was asked yet."""
        super().__init__(world)
        self.others = others
        self.asked = 0

    def _call(self, verb: str, call: Callable[..., object], *args: object, **given: object) -> object:
        self.asked += 1
        return super()._call(verb, call, *args, **given)

    def charges(self, frm: datetime, to: datetime) -> Charges:
        """Return the world's charges and the others."""
        return Charges(records=(*super().charges(frm, to).records, *self.others))
