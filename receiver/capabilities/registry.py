"""The capabilities that are installed. The server, the command line and the tests hand each layer its part."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from receiver.terminal.additions import AddedCommand

if TYPE_CHECKING:  # they import the server's libraries, and the command line lists commands without them
    from receiver.adapters.kubernetes.announced import MakeReader
    from receiver.capabilities.capability import Capability
    from receiver.config.model import Configuration
    from receiver.step.parts import Additions

# In the order in which they read and serve: what ProvisioningRequests pay for, no AdmissionCheck judges.
NAMES = (
    "repair",
    "provisioning_requests",
    "kueue_check",
    "buffers",
    "patience",
    "approvals",
    "bundles",
    "costs",
    "held_work",
    "idle_shutdown",
    "promises",
    "what_if",
)  # fmt: skip


@cache
def installed() -> tuple["Capability", ...]:
    """Return what each folder adds, in the order of NAMES."""
    return tuple(import_module(f"{__package__}.{name}.capability").CAPABILITY for name in NAMES)


@cache
def step_additions() -> "Additions":
    """Return what they add to a step."""
    from receiver.step.parts import Additions

    return Additions.of(each.step for each in installed())


def readers(configuration: "Configuration") -> tuple["MakeReader", ...]:
    """Return what reads their requests where *configuration* asks for it."""
    return tuple(make for each in installed() for make in each.readers(configuration))


@cache
def commands() -> Mapping[str, AddedCommand]:
    """Return the commands that are added, by what is typed (``explain node``), with the whole place of each. It imports
    nothing of a folder but its ``__init__.py``."""
    return {
        words: command._replace(place=f"{folder.__name__}.{command.place}")
        for folder in _folders()
        for words, command in getattr(folder, "COMMANDS", {}).items()
    }


@cache
def options() -> Mapping[str, Sequence[str]]:
    """Return where the `AddedOptions` of commands stand, by what is typed (``explain decision``)."""
    places: dict[str, list[str]] = {}
    for folder in _folders():
        for words, place in getattr(folder, "OPTIONS", {}).items():
            places.setdefault(words, []).append(f"{folder.__name__}.{place}")
    return places


def _folders() -> Iterator[ModuleType]:
    return (import_module(f"{__package__}.{name}") for name in NAMES)
