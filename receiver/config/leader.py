"""How long the one replica that acts may be silent, and how long its calls may take."""

from collections.abc import Iterator
from datetime import timedelta

from receiver.config.mistakes import Contradiction, LongerThanZero
from receiver.config.section import Section

CONNECT_SECONDS = 5.0


class LeaderSpec(Section):
    """How several replicas on PostgreSQL agree on the one that acts."""

    lease: LongerThanZero = timedelta(minutes=1)
    """of several replicas on PostgreSQL: how long the one that leads may be out of reach of the database before it may
    write nothing more. Another leads once its longest call could have ended, too: `lease`, `call_timeout` and 5 seconds
    after it was last heard. At least one and a half times as long as such a call
    ([more](operations.md#several-replicas))"""
    call_timeout: LongerThanZero = timedelta(seconds=30)
    """how long Civo or Kubernetes may take to answer one call, beside at most 5 seconds to connect; while Civo changes
    a pool, at most 10 seconds are waited for each answer"""

    @property
    def timeouts(self) -> tuple[float, float]:
        """Seconds to connect, and to wait for an answer."""
        waits = self.call_timeout.total_seconds()
        return min(CONNECT_SECONDS, waits), waits

    @property
    def longest_call(self) -> timedelta:
        """How long one call to the outside may take."""
        return timedelta(seconds=sum(self.timeouts))


def lease_contradictions(leader: LeaderSpec) -> Iterator[Contradiction]:
    """A lease that hardly outlasts a call would be renewed too late for most writes."""
    least = 1.5 * leader.longest_call
    if leader.lease < least:
        yield Contradiction(
            path=("leader", "lease"),
            problem=f"must be at least {least.total_seconds():g}s: one and a half times call_timeout and the"
            f" {leader.timeouts[0]:g}s to connect",
            remedy="raise lease or lower call_timeout",
            over=(("leader", "call_timeout"),),
        )
