"""The commands and queries that the pages show: where they stand, and whether the program they are for takes them."""

import re
import shlex
from collections.abc import Iterator, Sequence
from unittest.mock import patch

import click

from receiver.cli.main import main

PROGRAMS = ("amtool", "civo", "curl", "gpu-autoscaler", "helm", "kubectl", "make", "pip", "promtool", "python3")
# Words in capitals stand for what the reader knows; these are not text.
FIGURES = {
    "ANSWER": "approve",
    "NODES": "2",
    "NUMBER": "1",
    "NAMESPACE/NAME": "ml/train-0",
    "NAMESPACE/POD": "ml/train-0",
    "USD": "6500",
}


HERE = re.compile(r"<<EOF$", re.MULTILINE)  # the following lines up to EOF are its input


def spans(text: str) -> Iterator[str]:
    """The code spans of *text* outside its fenced blocks."""
    plain = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    yield from re.findall(r"`([^`\n]+)`", plain)


def fenced(text: str) -> Iterator[str]:
    """The command lines of the shell blocks of *text*, continued lines joined, without prompts and comments; one that
    is given its input has that below it."""
    for block in re.findall(r"^ *```(?:sh|console)\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL):
        begun = ""
        for line in block.replace("\\\n", " ").splitlines():
            if HERE.search(begun):
                begun += f"{line}\n"
                if line == "EOF":
                    yield begun
                    begun = ""
                continue
            said = begun + line.strip().removeprefix("$ ")
            begun = f"{said}\n" if HERE.search(said) else f"{said} " if _is_open(said) else ""
            if said and not begun and not said.startswith("#"):
                yield said


def _is_open(line: str) -> bool:
    """Whether a quotation that began in *line* goes on in the next one."""
    try:
        shlex.split(line, comments=True)
    except ValueError:
        return True
    return False


def commands(text: str, program: str) -> list[list[str]]:
    """The words of every whole command for *program* in *text*, up to a pipe; of spans those with arguments."""
    said = [*fenced(text), *(span for span in spans(text) if " " in span)]
    return [words_of(line) for line in said if line.startswith(f"{program} ")]


def words_of(line: str) -> list[str]:
    """The words of one command: without what it is piped to, its redirection and its comment."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    found: list[str] = []
    for word in lexer:
        if set(word) <= set("|&;<>"):
            break
        found.append(word)
    return found


def is_command(span: str) -> bool:
    """Whether *span* is for one of the programs that pages use."""
    return span.split(maxsplit=1)[0] in PROGRAMS


def queries(text: str) -> list[str]:
    """The PromQL of *text*: spans that begin a bullet, or that "in Prometheus" follows, and are no command."""
    lines = [line for line in text.splitlines() if line.startswith("- `") or "in Prometheus" in line]
    found = []
    for line in lines:
        told = line if "in Prometheus" not in line else line[: line.index("in Prometheus")]
        said = list(spans(told)) if told != line else list(spans(line))[:1]
        found += [span for span in said if not is_command(span) and not span.startswith("/")]
    return found


def taken(arguments: Sequence[str], *, whole: bool = False) -> str | None:
    """What our own command line objects to *arguments* where the login has no name, as in the pod, without running
    anything; None when it takes them. A name alone is taken too, unless the command must be a *whole* one."""
    with patch("getpass.getuser", side_effect=KeyError("uid not found")):
        return _taken(arguments, whole=whole)


def _taken(arguments: Sequence[str], *, whole: bool) -> str | None:
    command: click.Command = main
    if "--help" in arguments:
        arguments = [word for word in arguments if word != "--help"]
        whole = False
    rest = [FIGURES.get(word, word) for word in arguments]
    context = None
    while isinstance(command, click.Group):
        if not rest:  # a group alone, as in "see `gpu-autoscaler override`"
            return "names no command" if whole and not command.invoke_without_command else None
        try:
            with command.make_context(command.name, list(rest)) as within:
                rest = [*within._protected_args, *within.args]  # behind the group's options
                if not rest:
                    return None  # the group's own options, as in `gpu-autoscaler doctor --list`
                _, inner, rest = command.resolve_command(within, rest)
        except click.ClickException as error:
            return error.format_message()
        assert inner is not None
        command = inner
    if not rest and not whole:
        return None  # its name alone, as in "see `gpu-autoscaler explain pod`"
    try:
        context = command.make_context(command.name, rest)
    except click.exceptions.Exit:
        return None  # --help
    except click.ClickException as error:
        return error.format_message()
    finally:
        if context is not None:
            context.close()
    return None
