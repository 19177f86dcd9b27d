"""Routes whose URL functions are compiled when they are first called: an app has 84 of them, and a test uses few.

Werkzeug compiles them with the app, which is half the processor time of most tests of pages, API and simulator.
"""

from collections.abc import Callable
from typing import Any

from werkzeug.routing import Rule

COMPILE = Rule._compile_builder


def when_used(rule: Rule, append_unknown: bool = True) -> Callable[..., tuple[str, str]]:
    """Return what `Rule._compile_builder` returns for *rule*, not compiled yet."""
    made: list[Callable[..., tuple[str, str]]] = []

    def url(self: Rule, **values: Any) -> tuple[str, str]:
        if not made:
            made.append(COMPILE(rule, append_unknown))
        return made[0](self, **values)

    return url


def install() -> None:
    """Let every app of this process do so."""
    Rule._compile_builder = when_used  # type: ignore[assignment, method-assign]  # of the class, for all rules
