"""``make bench``: measure, print, and keep each result in benchmarks/results.

``python -m benchmarks [NAME ...]`` runs those that are named; without a name all but the longest. The exit status is 1
when a bound is missed or a measurement fails.
"""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from benchmarks import (
    core,
    grounds,
    imports,
    memory,
    observe,
    overload,
    policy,
    reaction,
    replay,
    rest,
    restarts,
    rules,
    scale,
    settings,
    startup,
    webhook,
    what_if,
)
from benchmarks.figures import keep
from demo.configs import ROOT
from demo.processes import NotStarted
from demo.stack import signals_end_the_block
from receiver.adapters.clock import SystemClock

SEED = 1
Say = Callable[[str], None]
BENCHMARKS: dict[str, Callable[[Say], dict[str, Any]]] = {
    "core": core.run,
    "what-if": what_if.run,
    "replay": replay.run,
    "grounds": grounds.run,
    "webhook": webhook.run,
    "imports": imports.run,
    "memory": memory.run,
    "observe": observe.run,
    "overload": overload.run,
    "rest": rest.run,
    "startup": startup.run,
    "scale": scale.run,
    "policy": policy.run,
    "restarts": restarts.run,
    "rules": rules.run,
    **{course.name: partial(reaction.run, course, SEED) for course in reaction.COURSES},
    "settings": partial(settings.run, SEED),
}
USUAL = ("reaction-5s", "reaction-alert-1s")  # the others of their kind take an hour
SLOW = ("observe", "replay", "overload", "rest", "rules", "settings")
ON_REQUEST = (*SLOW, *(c.name for c in reaction.COURSES if c.name not in USUAL))


def say(text: str) -> None:
    """Print one line at once."""
    print(text, flush=True)


def main(arguments: Sequence[str]) -> int:
    """Run the benchmarks that *arguments* name, or all; return the exit status."""
    unknown = [name for name in arguments if name not in BENCHMARKS]
    if unknown:
        say(f"unknown: {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
        return 2
    status = 0
    for name in arguments or [n for n in BENCHMARKS if n not in ON_REQUEST]:
        say(f"== {name}")
        try:
            with signals_end_the_block():
                result = BENCHMARKS[name](say)
        except KeyboardInterrupt:
            say("Stopped.")
            return 130
        except (NotStarted, FileNotFoundError, RuntimeError, TimeoutError) as error:
            say(f"{name} failed: {error}".replace(str(ROOT), "."))
            status = 1
            continue
        path = keep(name, result, SystemClock().now())
        say(f"kept in {path.relative_to(ROOT)}")
        status = status if result.get("passed", True) else 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
