"""The rights that a removal needs: what the cluster said of them, and how long that is believed."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

GRANTED_FOR = timedelta(minutes=5)  # rights change when somebody applies a manifest: asking at each step tells no more
AGAIN_AFTER = timedelta(seconds=30)  # what is refused or not known holds growth, so a grant must be seen soon
UNKNOWN_HOLDS_FOR = timedelta(minutes=5)
BIND = "bind the ClusterRole gpu-autoscaler-act (k8s/overlays/act/rights)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What the cluster said when it was last asked, at *asked_at* (None: never), and that it has been so *since*.

    *lacking* names the rights that are refused (``patch nodes``), () for none; None while nobody could ever tell.
    *detail* says why the last question got no answer, empty when it got one: an answer from before goes on to count.
    """

    lacking: tuple[str, ...] | None
    since: datetime
    asked_at: datetime | None = None
    detail: str = ""

    def due(self, now: datetime) -> bool:
        """True when the cluster should be asked again; at once where the clock was ahead then."""
        if self.asked_at is None:
            return True
        settled = self.lacking == () and not self.detail
        age = now - self.asked_at
        return age >= (GRANTED_FOR if settled else AGAIN_AFTER) or age < timedelta(0)

    def answered(self, lacking: tuple[str, ...], now: datetime) -> "Rights":
        """Return what is known after an answer."""
        since = min(self.since, now) if lacking == self.lacking else now
        return Rights(lacking=lacking, since=since, asked_at=now)

    def unanswered(self, why: str, now: datetime) -> "Rights":
        """Return what is known after a question without an answer."""
        return replace(self, since=min(self.since, now), asked_at=now, detail=why)

    def unasked(self, why: str, now: datetime) -> "Rights":
        """Return what is known while nobody can be asked: that is no try, so it is asked as soon as somebody can."""
        return replace(self, since=min(self.since, now), detail=why)

    def holds_growth(self, now: datetime) -> bool:
        """True while a node that is bought now could not be removed, or nobody can tell whether it could.

        Not knowing holds for a while only. Waiting some minutes costs less than a node for good, but the question
        may be what is refused or lost (a proxy that lets no POST through, an authorizer that is down), with every right
        there: growth that waited for the answer would wait for ever. A removal that is refused then says so.
        """
        if self.lacking is None:
            return now < self.since + UNKNOWN_HOLDS_FOR
        return bool(self.lacking)

    @property
    def holds_until(self) -> datetime | None:
        """When growth is no longer held although nothing was answered; None where only an answer ends it."""
        return self.since + UNKNOWN_HOLDS_FOR if self.lacking is None else None

    def __str__(self) -> str:
        if self.lacking is None:
            return f"it is not known whether nodes may be removed: {self.detail or 'not answered yet'}"
        refused = ", ".join(self.lacking)
        return f"Kubernetes does not let us {refused}" if refused else "Kubernetes lets us remove nodes"


def never_asked(now: datetime) -> Rights:
    """Return what is known before the first question."""
    return Rights(lacking=None, since=now)
