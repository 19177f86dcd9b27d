"""Installations of the autoscaler that share a cluster: what each says of itself in a Lease that the others read."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from receiver.core.model.policy import Pool

# An installation that is down answers again soon: for so long after its last sign, its work is not answered for it.
RESPECTED_FOR = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationLease:
    """One installation. *key* is the ``namespace/name`` of its Lease and *cluster_name* what its configuration calls
    the cluster. *pools* are as it describes them, without prices; *readable* is False where the description could not
    be read, so that any work may be its own. *renewed_at* is its last sign, and *lasts* how long after it the next one
    is due."""

    key: str
    release: str = ""
    cluster_name: str = ""
    pools: tuple[Pool, ...] = ()
    readable: bool = True
    renewed_at: datetime
    lasts: timedelta = timedelta(minutes=3)

    def is_live(self, now: datetime) -> bool:
        """True while its last sign is no older than promised."""
        return now <= self.renewed_at + self.lasts

    def is_respected(self, now: datetime) -> bool:
        """True while work that may be its own is left to it, although it may be down."""
        return now <= self.renewed_at + max(self.lasts, RESPECTED_FOR)

    def __str__(self) -> str:
        names = ", ".join(pool.name for pool in self.pools) or "no pools"
        return f"{self.key} ({names})"


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherInstallations:
    """The other installations in the cluster, and *own*, the key of this one. *unread* says why they cannot be read:
    this installation then behaves as if it were alone. *since* is when this process first read them."""

    own: str = ""
    installations: tuple[InstallationLease, ...] = ()
    unread: str = ""
    since: datetime | None = None


ALONE = OtherInstallations()
