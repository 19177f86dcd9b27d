"""The pages that there are, each with an address that shows something."""

from collections.abc import Callable, Mapping
from typing import Any

from tests.browser.live import LiveStack


def _decision(**said: str) -> Callable[[LiveStack], str]:
    """The newest decision of which all of that is true."""

    def path(stack: LiveStack) -> str:
        found: list[dict[str, Any]] = stack.get("receiver", "/api/v1/decisions", limit=100)
        number = next(d["id"] for d in found if all(d[name] == value for name, value in said.items()))
        return f"/decisions/{number}"

    return path


PLACES: Mapping[str, str | Callable[[LiveStack], str]] = {
    "overview": "/",
    "decision-grow": _decision(verdict="grow"),
    "decision-shrink": _decision(verdict="shrink"),
    "decision-hold": _decision(verdict="hold", pool_name="a100"),
    "costs": "/costs",
    "costs-of-a-team": "/costs?team=language",
    "not-found": "/decisions/999999",
}
ANSWERS_404 = ("not-found",)


def path_of(place: str, stack: LiveStack) -> str:
    """Return the path of the page of that name on *stack*."""
    found = PLACES[place]
    return found if isinstance(found, str) else found(stack)
