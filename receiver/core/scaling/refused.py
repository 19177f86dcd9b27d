"""Waiting work that got no room. It is not what is likely to come again.

An incomplete gang, a gang without room, a misfit, budget, maximum, limits, a guardrail and a missing approval all count
as a refusal. Headroom counts none of it, and neither headroom nor standby opens a node where it could start:
kube-scheduler would give it that node, and then the next one.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from receiver.core.model.model import Facts
from receiver.core.model.pods import Pod, Workload
from receiver.core.scaling.capacity import Tally
from receiver.core.scaling.growth_approval import grows_unasked
from receiver.core.scaling.market import Matching


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The keys of the refused pods and of their gangs, and the ids of the *pools* whose nodes they could start on."""

    pods: frozenset[str] = frozenset()
    gangs: frozenset[str] = frozenset()
    pools: frozenset[str] = frozenset()

    def holds(self, pod: Pod) -> bool:
        """True for a refused pod, and for a pod of a refused gang that got a node all the same."""
        return pod.gang in self.gangs if pod.node is not None else pod.key in self.pods


def refused(
    waiting: Sequence[Workload],
    tallies: Mapping[str, Tally],
    facts: Facts,
    pairs: Collection[tuple[str, str]] = (),
) -> Refused:
    """Return what of *waiting* the assignment so far gave no room that may be used. *pairs* as in `Matching`."""
    served: set[str] = set()
    short: set[str] = set()
    for tally in tallies.values():
        unanswered = _unanswered(tally, facts)
        for given in tally.given:
            whole = given.whole and not any(id(room) in unanswered for room in given.rooms)
            (served if whole else short).add(given.workload.key)
    found = [w for w in waiting if w.key not in served or w.key in short]
    matching = Matching(tuple(tallies.values()), pairs)
    pods = [pod for workload in found for pod in workload.pods]
    return Refused(
        pods=frozenset(pod.key for pod in pods),
        gangs=frozenset(w.key for w in found if w.gang),
        pools=frozenset(tally.pool.id for pod in pods for tally in matching.fitting(pod)),
    )


def _unanswered(tally: Tally, facts: Facts) -> Iterable[int]:
    """The new nodes (by identity) that people are asked about and have not approved."""
    target = tally.state.required + tally.within[-1]
    left = grows_unasked(target, tally.pool, tally.state, tally.bounds, facts.questions, facts.at)
    if left == target:
        return frozenset()
    bought = [room for room in tally.bins if room.bought and room.allowed]
    return frozenset(id(room) for room in bought[max(0, left - tally.state.required) :])
