"""All scenarios, in the order in which they are played."""

from collections.abc import Sequence

from conformance import by_hand, crashes, growth, money, removal, replicas, sources
from conformance.scenario import SCENARIOS, Scenario

ORDER = tuple(module.__name__ for module in (growth, removal, crashes, sources, by_hand, money, replicas))


def split(given: Sequence[str]) -> list[str]:
    """Return the names in *given*, each of which is one name or several with commas between them."""
    known = {s.name for s in SCENARIOS}
    return [n for one in given for n in ([one] if one in known else [p.strip() for p in one.split(",")]) if n]


def chosen(names: Sequence[str] = ()) -> list[Scenario]:
    """Return the scenarios of these *names*, all of them for none. Raises ValueError for an unknown name."""
    known = {s.name for s in SCENARIOS}
    if unknown := sorted(set(names) - known):
        raise ValueError(f"no scenario is called {', '.join(unknown)}; there are: {', '.join(sorted(known))}")
    found = sorted(SCENARIOS, key=lambda s: ORDER.index(s.play.__module__))
    return [s for s in found if not names or s.name in names]
