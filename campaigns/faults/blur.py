"""What Prometheus may answer instead of the truth: nothing, a part, no numbers, or that no rule is evaluated.

The adapter leaves out what is no number, so NaN arrives here as a value that is absent.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from receiver.ports import TelemetryFacts

BLURS = ("empty", "partial", "nan", "unruled")


def blurred(facts: TelemetryFacts, how: str) -> TelemetryFacts:
    """Return *facts* as they look then."""
    match how:
        case "empty":  # the rules live, and every series is gone
            return TelemetryFacts(rules_alive=facts.rules_alive)
        case "partial":
            return replace(
                facts,
                utilization=_half(facts.utilization),
                coverage=_half(facts.coverage),
                waiting=facts.waiting[::2],
                nodes=_half(facts.nodes),
            )
        case "nan":
            return replace(facts, utilization={}, coverage={}, nodes={})
        case "unruled":
            return replace(facts, rules_alive=False)
        case _:
            raise ValueError(how)


def _half(found: Mapping[str, Any]) -> Mapping[str, Any]:
    return dict(list(found.items())[::2])
