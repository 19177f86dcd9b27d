"""The bounds of a pool at one moment (its own, those of open windows, those of overrides), and when nodes are closed.

A window may also evict running work that exceeds its maximum. Its grace period begins when the eviction was announced:
normally when the window opens. The announcement is stored, so a restart does not start the grace period again.

While a budget that covers the whole pool is at its stop, its nodes are closed to new work. Running pods go on, so every
dollar beyond the line belongs to a node whose pod was running when the line was reached. A team's stop closes nothing:
its pods share nodes with others'. A node that hosts us or the monitoring stays open: it is paid for anyway, and the
components that watch the budget must be able to start.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import MappingProxyType

from receiver.core.model.actions import Because, VictimStage
from receiver.core.model.model import CordonedBy, Node, PoolState, Stage
from receiver.core.model.overrides import Override, OverridesInForce, overrides_in_force
from receiver.core.model.pods import Pod
from receiver.core.model.policy import Pool
from receiver.core.model.windows import Bounds, Window, bounds_at, is_open, stays_open
from receiver.core.money.budget import Budgets, BudgetStage
from receiver.core.scaling.demand import tolerates_cordon
from receiver.core.scaling.node_holds import closed_by_a_budget

TOPIC = "evict:"  # of the notices
REPLACERS = frozenset({"ReplicaSet", "StatefulSet", "ReplicationController"})  # they replace every pod that goes
MIRROR_OWNER = "Node/"  # the kubelet starts a mirror pod again on its own node


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundsInForce(Bounds):
    """Bounds that include the overrides in force for the pool."""

    overrides: OverridesInForce = field(default_factory=OverridesInForce)

    @property
    def overrun(self) -> bool:
        """True when an override sets the maximum: nodes beyond it are removed at once."""
        return self.overrides.most is not None

    @property
    def why_most(self) -> str:
        """What sets *max_nodes*; empty for the pool itself."""
        if self.overrides.most is not None:
            return str(self.overrides.most)
        return self._windows_and(self.overrides.floor)

    @property
    def why_least(self) -> str:
        """What sets *min_nodes*; empty for the pool itself."""
        if self.overrides.pin is not None:
            return str(self.overrides.pin)
        if self.overrides.floor is not None and self.overrides.ceiling is not None:
            return f"{self.overrides.floor}; {self.overrides.ceiling}"
        return self._windows_and(self.overrides.floor)

    def _windows_and(self, override: Override | None) -> str:
        sources = [f"window {', '.join(self.names)}"] if self.names else []
        sources += [str(override)] if override is not None else []
        return "; ".join(sources)


def bounds_of(pool: Pool, overrides: Iterable[Override], at: datetime) -> BoundsInForce:
    """Return the bounds of *pool* in force at *at*.

    The order of precedence: `max_nodes` of the pool, then pin, ceiling, floor, window. A pin is floor and ceiling in
    one and leaves no standby. A ceiling replaces the windows' maximum. A floor raises the minimum, and a lower maximum.
    """
    in_force = overrides_in_force(pool.id, overrides, at)
    most = in_force.most.nodes if in_force.most is not None else None
    least = in_force.least.nodes if in_force.least is not None else None
    windows = pool.windows if most is None else [replace(w, max_nodes=None) for w in pool.windows]
    limit = pool.max_nodes if most is None else min(most, pool.max_nodes)
    window_bounds = bounds_at(pool.min_nodes, limit, pool.standby_nodes, windows, at)
    ceiling, floor, standby = window_bounds.max_nodes, window_bounds.min_nodes, window_bounds.standby_nodes
    if least is not None:
        floor = max(floor, min(least, limit))
        ceiling = max(ceiling, floor)
    if in_force.pin is not None:
        floor, standby = ceiling, 0
    return BoundsInForce(
        min_nodes=floor, max_nodes=ceiling, standby_nodes=standby, names=window_bounds.names, overrides=in_force
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Grace:
    """An open window that evicts work beyond *max_nodes*, *evict_after* after it was announced (*told*; None: not yet).

    *not_emptied* could not be emptied since it opened: each further try would end work that had started again there.
    """

    window: str
    topic: str
    max_nodes: int
    evict_after: timedelta
    told: datetime | None = None
    not_emptied: frozenset[str] = frozenset()

    @property
    def ends_at(self) -> datetime | None:
        """When running work may be evicted; None before the announcement."""
        return None if self.told is None else self.told + self.evict_after


def evicts(window: Window, pool: Pool) -> bool:
    """True for a window that lowers the maximum of *pool* and evicts running work."""
    return window.evict_after is not None and window.max_nodes is not None and window.max_nodes < pool.max_nodes


def topic_of(window: Window, pool: Pool) -> str:
    """The topic of the notices about *window*; a changed window has another topic and is announced again."""
    stamp = hashlib.sha256(repr(window).encode()).hexdigest()[:8]
    return f"{TOPIC}{pool.id}:{window.name}:{stamp}"


def graces_of(
    pool: Pool,
    bounds: BoundsInForce,
    announcements: Mapping[str, datetime],
    now: datetime,
    not_emptied: Mapping[str, datetime] = MappingProxyType({}),
) -> tuple[Grace, ...]:
    """Return the windows of *pool* that are open at *now* and evict, each for its own maximum alone.

    A pin or a ceiling replaces the windows' maximum, so none evicts then; a floor raises it. An announcement counts
    only if the window has been open ever since.
    """
    graces: list[Grace] = []
    for window in pool.windows if bounds.overrides.most is None else ():
        if not evicts(window, pool) or not is_open(window, now):
            continue
        assert window.max_nodes is not None
        assert window.evict_after is not None
        topic = topic_of(window, pool)
        at = announcements.get(topic)
        graces.append(
            Grace(
                window=window.name,
                topic=topic,
                max_nodes=max(window.max_nodes, bounds.min_nodes),
                evict_after=window.evict_after,
                told=at if at is not None and at <= now and stays_open(window, at, now) else None,
                not_emptied=frozenset(i for i, then in not_emptied.items() if stays_open(window, then, now)),
            )
        )
    return tuple(graces)


def evicting(state: PoolState) -> frozenset[str]:
    """The instances that a window has begun to empty: the stored action has cordoned them for it. Nothing is evicted
    before that is stored."""
    victims = state.open_action.victims if state.open_action else ()
    return frozenset(v.instance for v in victims if v.because is Because.EVICTED and v.stage is VictimStage.CORDONED)


def is_emptied(node: Node, state: PoolState) -> bool:
    """True for a node that a window has begun to empty and that carries a startup taint again: with work it counts as
    usable, and without it is no node on its way. Given back, it would start what was evicted."""
    return bool(node.startup_taint) and not node.busy and node.instance in evicting(state)


def window_may_evict(pod: Pod) -> bool:
    """True when a window may evict *pod*: it is certain to start again, or its owner consented, and it is not
    protected.

    A Job may end for good with an evicted pod, and what an operator does is unknown: these need consent. A gang loses
    all of its work with one pod. A pod that tolerates our cordon would come back to the node it was evicted from.
    """
    kind = pod.owner.partition("/")[0]
    agreed = pod.wishes.evictable and bool(pod.owner) and not pod.owner.startswith(MIRROR_OWNER)
    started_again = kind in REPLACERS or agreed
    left_alone = pod.reserved or pod.wishes.protected or pod.daemon or pod.gang is not None or tolerates_cordon(pod)
    return started_again and not left_alone


def why_closed(budgets: Budgets, pool: str) -> str | None:
    """Why the nodes of *pool* (an id) are closed to new work: the budgets at their stop. Empty: they are open.

    None: unknown, and closed nodes stay closed, as an unknown spend neither starts nor ends anything.
    """
    touched = budgets.touched(pool)
    stopped = [f"{view.title} {view.month}" for view in touched if view.stage is BudgetStage.STOP]
    if not stopped and any(view.unknown or view.unpriced for view in touched):
        return None
    return ", ".join(stopped)


def lacks_price(budgets: Budgets, pool: str) -> tuple[str, ...]:
    """The sizes whose missing price makes it unknown whether *pool* (an id) is closed; empty when that is known."""
    if why_closed(budgets, pool) is not None:
        return ()
    return tuple(sorted({size for view in budgets.touched(pool) for size in view.unpriced}))


def to_close(nodes: Iterable[Node], closed: str | None) -> tuple[Node, ...]:
    """The nodes to close now, as *closed* says; one that others cordoned is closed already."""
    if not closed:
        return ()
    open_nodes = [n for n in nodes if n.registered and n.stage is not Stage.DELETING and not n.keep.hosts]
    ours = [n for n in open_nodes if n.cordon.by is not CordonedBy.SOMEONE]
    return tuple(n for n in ours if n.cordon.stop != closed or n.cordon.by is not CordonedBy.US)


def to_open(nodes: Iterable[Node], closed: str | None) -> tuple[Node, ...]:
    """The nodes that we closed and that are to be opened now: all when the stop is over, else those that host us."""
    if closed is None:
        return ()
    return tuple(n for n in nodes if n.cordon.stop is not None and closed_by_a_budget(n, closed) is None)
