"""The rights that the cluster grants us, and until when growth waits for an answer about them."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

GRANTED_FOR = timedelta(minutes=5)  # rights change only when a manifest is applied
AGAIN_AFTER = timedelta(seconds=30)  # missing rights hold growth, so a grant must be seen soon
UNKNOWN_HOLDS_FOR = timedelta(minutes=5)
BIND = "bind the ClusterRole gpu-autoscaler-act (chart: mode=act; else k8s/install/act-rights.yaml)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """The cluster's last answer on the rights that a removal needs.

    *lacking* names those refused (``patch nodes``), None if never answered; *detail* says why the last query got no
    answer: the previous one then still counts. *since* is when the answer last changed.
    """

    lacking: tuple[str, ...] | None
    since: datetime
    asked_at: datetime | None = None
    detail: str = ""

    def due(self, now: datetime) -> bool:
        """True when the cluster should be asked again."""
        if self.asked_at is None:
            return True
        settled = self.lacking == () and not self.detail
        age = now - self.asked_at
        return age >= (GRANTED_FOR if settled else AGAIN_AFTER) or age < timedelta(0)  # the clock was ahead

    def answered(self, lacking: tuple[str, ...], now: datetime) -> "Rights":
        """Return what is known after an answer."""
        since = min(self.since, now) if lacking == self.lacking else now
        return Rights(lacking=lacking, since=since, asked_at=now)

    def unanswered(self, reason: str, now: datetime) -> "Rights":
        """Return what is known after a query without an answer."""
        return replace(self, since=min(self.since, now), asked_at=now, detail=reason)

    def unasked(self, reason: str, now: datetime) -> "Rights":
        """Return what is known while the cluster cannot be asked. That is no try: it is asked as soon as possible."""
        return replace(self, since=min(self.since, now), detail=reason)

    def holds_growth(self, now: datetime) -> bool:
        """True while a node bought now could not be removed, or that is unknown.

        Without an answer growth is held for a while only: the query itself may be what fails (a proxy that blocks POST,
        an authorizer that is down) although every right is there. A removal that is refused reports it.
        """
        if self.lacking is None:
            return now < self.since + UNKNOWN_HOLDS_FOR
        return bool(self.lacking)

    @property
    def holds_until(self) -> datetime | None:
        """When growth is no longer held; None where only an answer ends that."""
        return self.since + UNKNOWN_HOLDS_FOR if self.lacking is None else None

    def __str__(self) -> str:
        if self.lacking is None:
            return f"cannot check the RBAC permissions to remove nodes: {self.detail or 'not answered yet'}"
        refused = ", ".join(self.lacking)
        return f"missing RBAC permissions: {refused}" if refused else "RBAC allows removing nodes"


def never_asked(now: datetime) -> Rights:
    """Return what is known before the first query."""
    return Rights(lacking=None, since=now)
