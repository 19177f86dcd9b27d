"""The pages that there are, each with an address that shows something."""

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

from demo.plan import OPERATOR_TOKEN
from receiver.core.notices.grouping import Seal
from tests.browser.live import LiveStack


def _decision(**said: str) -> Callable[[LiveStack], str]:
    """The newest decision of which all of that is true."""

    def path(stack: LiveStack) -> str:
        found: list[dict[str, Any]] = stack.get("receiver", "/api/v1/decisions", limit=100)
        number = next(d["id"] for d in found if all(d[name] == value for name, value in said.items()))
        return f"/decisions/{number}"

    return path


def _question(stack: LiveStack) -> str:
    """What the link leads to that people got in a message."""
    number = stack.get("receiver", "/api/v1/questions")[0]["id"]
    with closing(sqlite3.connect(stack.places.database)) as store:
        [(key,)] = store.execute("SELECT key FROM seals").fetchall()
    return f"/answer/{Seal(OPERATOR_TOKEN, key).sign(number)}"


PLACES: Mapping[str, str | Callable[[LiveStack], str]] = {
    "overview": "/",
    "decisions": "/decisions",
    "decisions-of-a-filter": "/decisions?pool=l40s&kind=grow&last=24h",
    "decision-grow": _decision(verdict="grow"),
    "decision-shrink": _decision(verdict="shrink"),
    "decision-hold": _decision(verdict="hold", pool_name="a100"),
    "what-if": "/what-if",
    "costs": "/costs",
    "costs-of-a-team": "/costs?team=language",
    "pool": "/pools/l40s",
    "pool-held": "/pools/a100",
    "pool-waiting-for-civo": "/pools/h200",
    "sources": "/sources",
    "question": _question,
    "budgets": "/budgets",
    "overrides": "/pools/batch/overrides",
    "log-in": "/login",
    "docs": "/docs",
    "runbook": "/docs/runbooks/GpuPodsPending.md",
    "not-found": "/decisions/999999",
}
ANSWERS_404 = ("not-found",)
FOR_VISITORS = ("log-in",)  # whoever has logged in is led away from it


def path_of(place: str, stack: LiveStack) -> str:
    """Return the path of the page of that name on *stack*."""
    found = PLACES[place]
    return found if isinstance(found, str) else found(stack)


def token_for(place: str) -> str:
    """Return the token with which there is most to see on the page of that name; empty for none."""
    return "" if place in FOR_VISITORS else OPERATOR_TOKEN
