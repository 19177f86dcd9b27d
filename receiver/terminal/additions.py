"""What a capability adds to the command line: commands, and options of commands that others have."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import click


class AddedCommand(NamedTuple):
    """A command. *place* is its module and its name there (``command:what_if``), *says* the first sentence of its help.
    It stands behind the command *after*; one without is at the end, or where only --all lists it. A *former* name is in
    no list."""

    place: str
    says: str
    after: str = ""
    former: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedOptions:
    """Options that a command takes beside its own.

    They stand behind its parameter *after*, and *says* is a paragraph of its help. *run* is called before the command
    when one of them is given, with the values of all by name, and with the *additions* of capabilities to a step; the
    context has the other parameters.
    """

    options: Sequence[click.Option]
    after: str
    says: str
    run: Callable[..., None]
