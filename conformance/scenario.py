"""A scenario: what it needs, what is expected, and how it is played; and what became of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from conformance.rights import Right

if TYPE_CHECKING:
    from conformance.stage import Stage

Figures = Mapping[str, float | int | str]
Verdict = Literal["passed", "failed", "error", "skipped"]


class UnmetError(Exception):
    """What was expected did not happen; the message says what was seen."""


class UnavailableError(Exception):
    """The scenario cannot be played here; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a scenario saw, in a sentence, and its *figures* by name (durations in seconds)."""

    said: str
    figures: Figures = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """*config* lies over the product's configuration and *pool* over its pool's, *civo* over the simulator's.

    *nodes* bounds the nodes that may be bought at a time. With *monitoring* a real Prometheus and Alertmanager run, or
    are those that the user names. *levers* are of the simulated Civo: without it the scenario is skipped.
    """

    name: str
    expected: str
    play: Callable[["Stage"], Seen]
    nodes: int = 4
    config: Mapping[str, Any] = field(default_factory=dict)
    pool: Mapping[str, Any] = field(default_factory=dict)
    civo: Mapping[str, Any] = field(default_factory=dict)
    monitoring: bool = False
    levers: bool = False
    rights: tuple[Right, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How a scenario ended: *failed* is the product's fault, *error* the suite's or the cluster's. *seen* is what was
    seen, or why it failed or was skipped; *log* what helps to find out, *traceback* where the suite itself broke."""

    name: str
    expected: str
    verdict: Verdict
    seen: str
    seconds: float
    figures: Figures = field(default_factory=dict)
    log: str = ""
    traceback: str = ""


SCENARIOS: list[Scenario] = []  # of the modules that were imported


def scenario(name: str, expected: str, **needs: Any) -> Callable[[Callable[["Stage"], Seen]], Scenario]:
    """Add the decorated function to the scenarios; *needs* are fields of Scenario."""

    def added(play: Callable[["Stage"], Seen]) -> Scenario:
        SCENARIOS.append(Scenario(name=name, expected=expected, play=play, **needs))
        return SCENARIOS[-1]

    return added
