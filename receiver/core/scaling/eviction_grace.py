"""How long running work may still go on when an open window allows fewer nodes than there are, if it evicts at all.

The grace begins when people were told, which is when the window opens unless something kept it from being told then.
That moment is in the store, so a restart does not begin it anew, and nobody is evicted who was not told.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType

from receiver.core.model.actions import Because, VictimStage
from receiver.core.model.model import PoolState
from receiver.core.model.pods import Pod
from receiver.core.model.policy import Pool
from receiver.core.model.windows import Window, is_open, stays_open
from receiver.core.scaling.bounds import BoundsInForce
from receiver.core.scaling.demand import tolerates_cordon

TOPIC = "evict:"  # of the notices
REPLACERS = frozenset({"ReplicaSet", "StatefulSet", "ReplicationController"})  # they replace every pod that goes
MIRROR_OWNER = "Node/"  # the kubelet starts a mirror pod again on its own node


@dataclass(frozen=True, slots=True, kw_only=True)
class Grace:
    """An open window that evicts what runs beyond *max_nodes*, *evict_after* after it was *told* (None: not yet).

    *given_up* are the instances that could not be emptied since it opened: their work is left alone until it closes,
    or each try would end what had started again there."""

    window: str
    topic: str
    max_nodes: int
    evict_after: timedelta
    told: datetime | None = None
    given_up: frozenset[str] = frozenset()

    @property
    def ends_at(self) -> datetime | None:
        """When running work may be evicted; None while nobody was told."""
        return None if self.told is None else self.told + self.evict_after


def evicts(window: Window, pool: Pool) -> bool:
    """True for a window that lowers the maximum of *pool* and asks for running work to be evicted."""
    return window.evict_after is not None and window.max_nodes is not None and window.max_nodes < pool.max_nodes


def topic_of(window: Window, pool: Pool) -> str:
    """The topic of the notices about *window*: another policy is another topic, and is told anew."""
    stamp = hashlib.sha256(repr(window).encode()).hexdigest()[:8]
    return f"{TOPIC}{pool.id}:{window.name}:{stamp}"


def graces_of(
    pool: Pool,
    bounds: BoundsInForce,
    told: Mapping[str, datetime],
    now: datetime,
    given_up: Mapping[str, datetime] = MappingProxyType({}),
) -> tuple[Grace, ...]:
    """Return the windows of *pool* that are open at *now* and evict, each speaking for its own maximum alone.

    A pin or a ceiling stands in the place of the windows' maximum, so none evicts then; a floor lifts the maximum.
    What was *told* counts only if the window has been open ever since.
    """
    if bounds.spoken.most is not None:
        return ()
    found = []
    for window in pool.windows:
        if not evicts(window, pool) or not is_open(window, now):
            continue
        assert window.max_nodes is not None
        assert window.evict_after is not None
        topic = topic_of(window, pool)
        at = told.get(topic)
        found.append(
            Grace(
                window=window.name,
                topic=topic,
                max_nodes=max(window.max_nodes, bounds.min_nodes),
                evict_after=window.evict_after,
                told=at if at is not None and at <= now and stays_open(window, at, now) else None,
                given_up=frozenset(i for i, then in given_up.items() if stays_open(window, then, now)),
            )
        )
    return tuple(found)


def most_after(graces: Iterable[Grace], now: datetime) -> int | None:
    """How many nodes may be left of those that run something: the lowest of the windows whose grace is over."""
    return min((g.max_nodes for g in graces if g.ends_at is not None and g.ends_at <= now), default=None)


def begun(state: PoolState) -> frozenset[str]:
    """The instances that a window has begun to empty: the stored action has cordoned them for it.

    Nothing is evicted before that is stored, so a restart knows every eviction that was sent."""
    victims = state.open_action.victims if state.open_action else ()
    return frozenset(v.instance for v in victims if v.because is Because.EVICTED and v.stage is VictimStage.CORDONED)


def yields(pod: Pod) -> bool:
    """True when a window may evict *pod*: it is certain to be started again, or its owner consented, and nobody
    protects it.

    A Job counts an evicted pod as failed, and may end for good with it (``backoffLimit``, ``podFailurePolicy``); what
    an operator does nobody knows. Their pods go by consent only. A gang loses all of its work with one of its pods, so
    its pods stay. One that tolerates our cordon comes back to the node that it was evicted from, again and again.
    """
    kind = pod.owner.partition("/")[0]
    agreed = pod.evictable and bool(pod.owner) and not pod.owner.startswith(MIRROR_OWNER)
    started_again = kind in REPLACERS or agreed
    left_alone = pod.protected or pod.daemon or pod.gang is not None or tolerates_cordon(pod)
    return started_again and not left_alone
