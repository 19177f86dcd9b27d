"""Civo, where the node pools live."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from receiver.core.model.charges import Charge
from receiver.ports.calls import Receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One instance as Civo lists it; *status* is Civo's own word (BUILDING, ACTIVE, DELETING, ...)."""

    id: str
    hostname: str
    status: str
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudPool:
    """A pool at Civo: the count it was asked for and what exists. A pool at zero exists only as a requirement."""

    id: str
    required: int
    size: str
    instances: tuple[Instance, ...] = ()


class Cloud(Protocol):
    """Where node pools live. Every call may raise TryLater or WontWork."""

    def look(self) -> Mapping[str, CloudPool]:
        """Return every pool of the cluster by id."""

    def resize(self, pool: str, *, decided_on: int, target: int, shown: int | None = None) -> Receipt:
        """Ask for *target* nodes, an absolute count above *decided_on*.

        Re-reads the required count first: at or above *target* nothing is sent (ALREADY); different from
        *decided_on* nothing is sent (DIFFERS). Asking twice is asking once. *shown* is the number that Civo is
        known to show while our last change does not show yet: re-reading that very number is no objection,
        unless *target* is below it. With more nodes alive than *target* nothing is sent (DIFFERS): whatever the
        count says, the lower one would take some of them away.
        """

    def retire(self, pool: str, instance: str) -> Receipt:
        """Delete one named instance; ALREADY when it is gone."""


class Sizes(Protocol):
    """Where sizes of nodes are listed."""

    def machines(self) -> Mapping[str, Mapping[str, int]]:
        """Return CPU, memory and ephemeral storage of each size's machine (`receiver.core.model.resources`), by name.

        What is not known is left out. Never raises, and mostly answers from memory.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Charges:
    """What Civo charged: the records that could be read, and of every other what is wrong with it."""

    records: tuple[Charge, ...] = ()
    unreadable: tuple[str, ...] = ()


class Accounts(Protocol):
    """Where the account's charges are. The call may raise TryLater or WontWork."""

    def charges(self, frm: datetime, to: datetime) -> Charges:
        """Return what the whole account was charged for between *frm* and *to*, hours and no money."""
