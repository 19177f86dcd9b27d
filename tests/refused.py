"""Tables of input that is refused, in YAML: cases by name, each with the message about it below the key ``message``."""

import re
from collections.abc import Callable
from textwrap import indent

CASE = re.compile(r"^(?=\w+:$)", re.MULTILINE)
MESSAGE = re.compile(r"^  message: \|\n(?:    .*\n)+", re.MULTILINE)


def with_messages(table: str, reported: Callable[[str], str]) -> str:
    """Return *table* with what is *reported* about each case, by its name, as its message."""
    head, *cases = CASE.split(table)
    return head + "\n".join(_with_message(MESSAGE.sub("", case), reported(case.partition(":")[0])) for case in cases)


def _with_message(case: str, message: str) -> str:
    return f"{case.rstrip()}\n  message: |\n{indent(message, '    ')}"
