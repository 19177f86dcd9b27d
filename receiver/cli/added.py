"""Commands with what capabilities add to them: commands below a group, and options."""

from collections.abc import Mapping
from copy import copy
from importlib import import_module
from inspect import cleandoc
from typing import Any, TypeVar

import click

from receiver.capabilities import registry
from receiver.terminal.additions import AddedOptions

T = TypeVar("T")


def value_at(place: str) -> Any:
    """Return what stands at *place*: a module and a name in it (``receiver.cli.status:status``)."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def with_additions(command: click.Command, words: str) -> click.Command:
    """Return *command*, which is typed as *words*, with what capabilities add to it and to the commands below it."""
    for place in registry.options().get(words, ()):
        command = _with_options(command, value_at(place))
    if isinstance(command, click.Group):
        below = command.commands
        for typed, added in registry.commands().items():
            group, _, name = typed.rpartition(" ")
            if group == words:
                below = behind(added.after, below, name, value_at(added.place))
        command = copy(command)
        command.commands = {name: with_additions(each, f"{words} {name}") for name, each in below.items()}
    return command


def behind(former: str, entries: Mapping[str, T], name: str, entry: T) -> dict[str, T]:
    """Return *entries* with *entry* under *name* behind the *former* one; behind all where that name is empty."""
    items = list(entries.items())
    items.insert(1 + list(entries).index(former) if former else len(items), (name, entry))
    return dict(items)


def _with_options(command: click.Command, added: AddedOptions) -> click.Command:
    run_command = command.callback
    names = [option.name for option in added.options if option.name is not None]

    def run(**arguments: Any) -> Any:
        values = {name: arguments.pop(name) for name in names}
        if any(value is not None for value in values.values()):
            added.run(**values, additions=registry.step_additions())
        return run_command(**arguments) if run_command is not None else None

    command = copy(command)
    index = 1 + [parameter.name for parameter in command.params].index(added.after)
    command.params = [*command.params[:index], *added.options, *command.params[index:]]
    command.help = "\n\n".join([cleandoc(command.help or ""), added.says])
    command.callback = run
    return command
