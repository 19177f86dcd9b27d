"""What keeps new GPU work out while a budget's hold lasts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from receiver.ports.receipts import Receipt

QUOTA_NAME = "gpu-autoscaler-budget-hold"
QUOTA_LABEL = "gpu-autoscaler.io/budget-hold"
STOP_POLICY_ANNOTATION = "gpu-autoscaler.io/stop-policy-before"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptOut:
    """Where new work is kept out by us: namespaces with our ResourceQuota, ClusterQueues that we put on Hold."""

    namespaces: tuple[str, ...] = ()
    cluster_queues: tuple[str, ...] = ()


class Holding(Protocol):
    """The part of Kubernetes that keeps new work out. Every call may raise TryLater or WontWork."""

    def kept_out(self, *, queues: bool) -> KeptOut:
        """Return what is ours, by its label or annotation; Kueue is only asked with *queues*."""

    def keep_out(self, namespace: str, resources: Sequence[str], passing: Sequence[str]) -> Receipt:
        """Let no new pod of *namespace* ask for one of *resources*, but for those of the *passing* priority classes.

        One of ours that says otherwise is replaced; an object of that name that is not ours is left alone (DIFFERS).
        """

    def let_in(self, namespace: str) -> Receipt:
        """Delete our ResourceQuota of *namespace*; somebody else's is left alone (DIFFERS)."""

    def hold_queue(self, queue: str) -> Receipt:
        """Put a ClusterQueue of Kueue on Hold and note on it what it was; one that somebody stopped is left alone
        (DIFFERS)."""

    def release_queue(self, queue: str) -> Receipt:
        """Give a ClusterQueue the stop policy back that it had before `hold_queue`; what somebody changed since
        stays."""
