"""What keeps new work out of a world's cluster: ResourceQuotas by namespace, Kueue's ClusterQueues by name.

They are kept as objects only: a world's jobs are not refused by a quota, and it has no Kueue of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True, kw_only=True)
class ClusterQueue:
    """A queue of Kueue: its stop policy (None: not set) and its annotations."""

    stop_policy: str | None = None
    annotations: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Quota:
    """A ResourceQuota of the name that the budget hold uses; *ours* when it carries our label."""

    spec: Mapping[str, Any]
    ours: bool = True


@dataclass(slots=True)
class Holding:
    """The objects, for tests to look at and to change as somebody else would."""

    quotas: dict[str, Quota] = field(default_factory=dict)
    cluster_queues: dict[str, ClusterQueue] = field(default_factory=dict)
