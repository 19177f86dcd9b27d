"""Which nodes may be removed, in which order (dead, surplus, evicted by a window, idle, consolidated), and when; and
when a decision can change by itself."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from receiver.core.model.actions import Because, Reason, Victim, VictimStage
from receiver.core.model.model import ON_ITS_WAY, CordonedBy, Node, Stage
from receiver.core.model.windows import next_change
from receiver.core.money.cost import HOUR, next_unit_at
from receiver.core.scaling import witness
from receiver.core.scaling.bounds import Grace, evicting, is_emptied
from receiver.core.scaling.guardrails.rule import Case
from receiver.core.scaling.holds import holds_on, is_no_spare, may_go, removal_backs_off, saves_nothing
from receiver.core.scaling.market import goes_early
from receiver.core.scaling.node_holds import Blocks
from receiver.core.scaling.nominations import HOLDS_FOR
from receiver.core.scaling.packing import consents
from receiver.core.scaling.sickness import SICK_FOR
from receiver.core.scaling.terminations import changes_at
from receiver.core.scaling.waits import SHORT_LOSS, dead_nodes, waits

SAFETY_MINIMUM = timedelta(seconds=10)  # a node this fresh from work is not judged idle, whatever the paid hour says
LOOK_AGAIN_AFTER = timedelta(seconds=5)  # between our cordon and the last look: a pod bound meanwhile becomes visible
SHORTEST_MARGIN = timedelta(seconds=30)  # a removal takes a tick, the cordon, the last look and the DELETE
AN_INSTANT = timedelta(microseconds=1)
NOW = timedelta(0)
ON_THE_WAY = (VictimStage.CHOSEN, VictimStage.CORDONED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Removable:
    """The *nodes* that may be removed, in order. *surplus* are idle ones beyond an override's maximum, *evicted* those
    beyond the maximum of a window whose grace is over."""

    nodes: tuple[Node, ...]
    surplus: tuple[Node, ...] = ()
    evicted: tuple[Node, ...] = ()

    @property
    def announced(self) -> tuple[Node, ...]:
        """Those that an override or an announced eviction removes."""
        return (*self.surplus, *self.evicted)


def removable(case: Case, within: timedelta = NOW) -> Removable:
    """Return the nodes that may be removed now, soonest paid unit first: dead ones, then idle ones beyond an override's
    or a window's maximum, or whose moment has come or comes *within* a time, then busy ones that are evicted or
    emptied."""
    repaired = _repaired(case)
    lost = [n for n in dead_nodes(case.pool, case.state, case.now) if may_go(n, case, Blocks.REPLACEMENT)]
    dead = [*(n for n in lost if n not in repaired), *(n for n in repaired if not n.busy)]
    gone_first = {n.instance for n in dead}
    many = tuple(n for n in _surplus(case, len(dead)) if n.instance not in gone_first)
    leaving = {n.instance for n in repaired if n.busy}
    over = evicted(case, gone_first, leaving)
    chosen, under_eviction = {n.instance for n in (*many, *over, *repaired)}, evicting(case.state)
    other_nodes = [n for n in case.state.nodes if n.instance not in chosen]
    soon = case.now + within
    idle = [n for n in other_nodes if n.idle and removable_at(n, case) <= soon]
    due = [n for n in idle if may_go(n, case, Blocks.REMOVAL)]
    full = [n for n in other_nodes if n.instance in case.wanted.nodes.movable and unit_ends_soon(n, case) <= soon]
    moved = [n for n in full if may_go(n, case, Blocks.CONSOLIDATION)]
    moved += [n for n in repaired if n.busy and n not in over]
    going = {v.instance for v in _victims(case) if v.stage in ON_THE_WAY}  # first: no other is chosen meanwhile
    for nodes in (dead, due, moved):
        nodes.sort(
            key=lambda n: (n.instance not in going, next_unit_at(n.created_at, case.now, case.policy.billing), n.name)
        )
    # Never more than Civo's count: if fewer are required than exist, Civo is about to remove one itself.
    emptying = [n for n in over if n.instance in under_eviction]  # first: their work was evicted already
    others = [n for n in over if n.instance not in under_eviction]
    empty, busy = [n for n in others if not n.busy], [n for n in others if n.busy]
    left_to_rest = max(0, idle_removals_left(case) - len(many) - len(empty) - sum(not n.busy for n in emptying))
    unfit = [n for n in due if is_no_spare(n, case)]  # without these, as many nodes as before are ready for work
    well = [n for n in due if not is_no_spare(n, case)]
    waits = {n.instance for n in held_back(well, (), case)}  # they delay no other
    well.sort(key=lambda n: n.instance in waits)
    before = len(dead) + len(many) + len(over) + len(unfit)
    well = _saving(well[:left_to_rest], before, case)
    emptied = {n.instance for n in _saving([n for n in moved if n not in repaired], before + len(well), case)}
    moved = [n for n in moved if n in repaired or n.instance in emptied]
    removals = tuple([*dead, *many, *emptying, *empty, *unfit, *well, *busy, *moved][: case.present])
    instances = {n.instance for n in removals}
    return Removable(nodes=removals, surplus=many, evicted=tuple(n for n in over if n.instance in instances))


def _saving(nodes: Sequence[Node], others: int, case: Case) -> list[Node]:
    """Those of *nodes* whose removal beside *others* saves something, in order: no commitment pays for the place."""
    saving: list[Node] = []
    for node in nodes:
        if saves_nothing(node, case, beside=others + len(saving)) is None:
            saving.append(node)
    return saving


def is_dead(node: Node, case: Case) -> bool:
    """True for a node that is removed because it never came up, broke, or is under repair and runs nothing."""
    repaired = node.instance in case.wanted.nodes.repairs and not node.busy and not _growth_goes_first(case)
    return repaired or not (node.stage is Stage.USABLE or is_emptied(node, case.state))


def way_of(node: Node, case: Case) -> Blocks:
    """How *node* would go for a reason of its own."""
    if node.instance in case.wanted.nodes.repairs or node in dead_nodes(case.pool, case.state, case.now):
        return Blocks.REPLACEMENT
    return Blocks.CONSOLIDATION if node.busy else Blocks.REMOVAL


def _repaired(case: Case) -> Sequence[Node]:
    """The node under repair that goes now, one at a time. Work that could not start again before a budget's month ends
    is not moved."""
    if _growth_goes_first(case):
        return ()
    chosen = {v.instance for v in _victims(case) if v.stage in ON_THE_WAY}
    mine = [n for n in case.state.nodes if n.instance in case.wanted.nodes.repairs]
    able = [n for n in mine if n.health.sick and may_go(n, case, Blocks.REPLACEMENT)]
    return sorted(able, key=lambda n: (n.instance not in chosen, n.busy, n.health.since or case.now, n.name))[:1]


def _growth_goes_first(case: Case) -> bool:
    """True while the pool can grow for what is wanted: repairs wait until that is asked for."""
    return case.wanted.new_nodes > 0 and not case.growth_held


def _victims(case: Case) -> Sequence[Victim]:
    return case.state.open_action.victims if case.state.open_action else ()


def removable_at(node: Node, case: Case) -> datetime:
    """When *node* may go by the clock. One that we have just emptied need not rest, nor one that is still busy."""
    emptied = any(v.instance == node.instance and v.because is Because.CONSOLIDATED for v in _victims(case))
    return unit_ends_soon(node, case) if node.busy or emptied else removal_moment(node, case)


def removal_moment(node: Node, case: Case) -> datetime:
    """When *node*, idle since `idle_since`, may go if it stays idle: a margin before its next paid unit, or after
    `idle_for` where every second is billed; at a budget's stop at once there, for nothing can begin on it.

    A wide node beside small ones stays its first paid unit only: later a small pod is what would land there.
    """
    since, pool, policy = node.idle_since or case.now, case.pool, case.policy
    rested = since + min(SAFETY_MINIMUM, pool.idle_for)
    if not policy.billing.by_the_hour:
        return rested if case.wanted.money.stopped else since + pool.idle_for
    ends = unit_ends_soon(node, case)
    return max(rested, min(ends, node.created_at + policy.billing.granularity) if goes_early(pool, policy) else ends)


def unit_ends_soon(node: Node, case: Case) -> datetime:
    """A margin before the next paid unit of *node*; now where every second is billed."""
    billing = case.policy.billing
    if not billing.by_the_hour:
        return case.now
    margin = max(billing.removal_margin, min(SHORTEST_MARGIN, billing.granularity / 4))
    return next_unit_at(node.created_at, case.now, billing) - margin


def idle_removals_left(case: Case) -> int:
    """How many idle nodes may go beside the standby nodes and headroom that the pool keeps. Where no other node may
    come, one that waiting work cannot use is no standby node before that work has its own."""
    spare = [
        n
        for n in case.state.of(Stage.USABLE)
        if not (
            n.busy
            or is_no_spare(n, case)
            or n.instance in case.wanted.nodes.needed
            or n.instance in case.wanted.nodes.repairs
        )
        and n.cordon.by is not CordonedBy.SOMEONE
    ]
    if case.wanted.money.stopped:
        return len(spare)
    leaving = len(spare) - max(0, case.wanted.bounds.standby_nodes - case.wanted.for_demand * case.full)
    return leaving if case.wanted.headroom is None else min(leaving, case.wanted.headroom.spare_nodes)


def held_back(going: Sequence[Node], announced: Collection[Node], case: Case) -> tuple[Node, ...]:
    """Those of *going*, of which some are *announced*, that guardrails of capabilities keep for now."""
    return tuple(node for addition in case.wanted.added for node in addition.holds_back(going, announced, case))


def _surplus(case: Case, dead: int) -> tuple[Node, ...]:
    """The idle nodes that go at once beside the *dead*, because an override lowers the maximum; first those already on
    their way out, so that no other is chosen when a paid unit begins."""
    bounds = case.wanted.bounds
    if not bounds.overrun:
        return ()
    chosen = {v.instance for v in _victims(case)}
    idle = sorted(
        (n for n in case.state.nodes if n.idle and may_go(n, case, Blocks.REMOVAL)),
        key=lambda n: (n.instance not in chosen, next_unit_at(n.created_at, case.now, case.policy.billing), n.name),
    )
    return tuple(idle[: max(0, case.present - dead - bounds.max_nodes)])


def evicted(case: Case, dead: Collection[str], leaving: Collection[str]) -> tuple[Node, ...]:
    """The nodes that go now because a window's grace is over, beside the *dead*: idle ones first, then those that hold
    the fewest GPUs, then those that lose the fewest GPU-hours.

    A node that is already going, or *leaving* with its pods' consent, comes first. One that an open window has begun to
    empty goes even when the announcement no longer stands: given back, it would start what was evicted. Nodes on their
    way are not counted.
    """
    graces = case.wanted.graces
    if not graces:
        return ()
    emptying = evicting(case.state)
    over = [g.max_nodes for g in graces if g.ends_at is not None and g.ends_at <= case.now]
    going = {v.instance for v in _victims(case) if v.stage in ON_THE_WAY}
    alive = (n for n in case.state.nodes if n.instance not in dead)
    able = [n for n in alive if (n.busy or n.idle or is_emptied(n, case.state)) and may_go(n, case, Blocks.EVICTION)]

    def loss(node: Node) -> tuple[bool, bool, bool, int, timedelta, datetime, str]:
        gpus, lost = sum(pod.gpus for pod in node.pods), timedelta(0)
        for pod in node.pods:
            lost += (
                max(timedelta(0), case.now - (pod.times.running_since or pod.times.bound_at or pod.created_at))
                * pod.gpus
            )
        # Among busy nodes that hold as many GPUs, time does not change the order.
        unit = case.now if node.busy else next_unit_at(node.created_at, case.now, case.policy.billing)
        begun = node.instance not in emptying, node.instance not in leaving, node.instance not in going
        return (*begun, gpus, lost, unit, node.name)

    able.sort(key=loss)
    removed = {*dead, *leaving} - {n.instance for n in able}
    due = surplus_over(min(over), case, removed) if over else 0
    carried = sum(n.instance in emptying for n in able)
    return tuple(able[: max(due, min(carried, surplus_over(min(g.max_nodes for g in graces), case, removed)))])


def surplus_over(most: int, case: Case, removed: Collection[str] = ()) -> int:
    """How many usable nodes are beyond *most* once the instances *removed* are gone."""
    nodes = (n for n in case.state.nodes if n.stage is Stage.USABLE or is_emptied(n, case.state))
    usable = sum(n.instance not in removed for n in nodes)
    return max(0, min(case.present - len(removed), usable) - most)


def busy_beyond(grace: Grace, case: Case) -> tuple[Node, ...]:
    """The busy nodes that *grace* would choose from when there are more usable nodes than it allows, those included
    whose removal backs off, except those that a window has begun to empty."""
    emptying = evicting(case.state)
    if surplus_over(grace.max_nodes, case) <= len(emptying):
        return ()
    busy = (n for n in case.state.nodes if n.busy and n.instance not in emptying)
    backs_off = removal_backs_off.__name__
    return tuple(n for n in busy if all(hold.by == backs_off for hold in holds_on(n, case, Blocks.EVICTION)))


def reconsider_at(case: Case, reasons: Iterable[Reason]) -> datetime | None:
    """The first moment after now at which the answer, which rests on *reasons*, can change without anything
    happening."""
    moments = [reason.until for reason in reasons]
    moments += changes(case)
    for node in case.state.nodes:
        moments += _moments_of(node, case)
    if case.state.open_action is not None:
        moments.append(case.state.open_action.retry_at)
    for victim in _victims(case):
        if victim.stage is VictimStage.CORDONED and victim.since is not None:
            moments.append(victim.since + LOOK_AGAIN_AFTER)
    return min((m for m in moments if m is not None and m > case.now), default=None)


def changes(case: Case) -> Sequence[datetime]:
    """The moments at which what concerns the whole pool can change, in no order; some may be over."""
    state, pool, wanted = case.state, case.pool, case.wanted
    limits, changed = case.policy.limits, case.facts.earlier.first_changed_at
    moments: list[datetime | None] = [wait.until for wait in waits(pool, state, case.policy, case.now)]
    moments += [grace.ends_at for grace in wanted.graces]
    moments.append(next_change(pool.windows, case.now))
    moments.append(wanted.buys_at)
    if state.count.since and state.unlisted:
        moments.append(state.count.since + pool.provision_timeout + AN_INSTANT)
    if wanted.money.budget is not None:
        moments.append(wanted.money.budget.ends_at)
    if (committed := case.policy.billing.committed_to(pool.id, case.now)) is not None:
        moments += [committed.until - case.policy.billing.granularity, committed.until]
    if changed is not None and (limits.max_growth_per_hour is not None or limits.max_removals_per_hour is not None):
        moments.append(changed + HOUR)  # what was changed then counts no longer
    if wanted.headroom is not None and any(n.idle_since for n in state.nodes):
        moments.append(wanted.headroom.falls_at)  # the idle nodes that it keeps may be too many then
    if case.facts.other_work.refusals:
        moments += witness.moments(case.facts.other_work.refusals)
    if state.silence is not None:
        moments.append(state.silence.until)
    for override in case.overrides:
        moments += [override.at, override.until]
    for addition in wanted.added:
        moments += addition.moments(case)
    return [moment for moment in moments if moment is not None]


def _moments_of(node: Node, case: Case) -> Iterable[datetime]:
    by_the_hour = case.policy.billing.by_the_hour
    if node.keep.until is not None:
        yield node.keep.until
    if node.health.since is not None:
        yield node.health.since + SICK_FOR
    if node.health.maintained_until is not None:
        yield node.health.maintained_until
    next_unit = next_unit_at(node.created_at, case.now, case.policy.billing)
    if node.stage is Stage.USABLE and node.idle_since is not None:
        yield removal_moment(node, case)
        if by_the_hour:
            yield unit_ends_soon(node, case)  # one that we emptied need not rest
            yield next_unit
    elif node.stage in (*ON_ITS_WAY, Stage.UNKNOWN):
        yield node.created_at + case.pool.provision_timeout + AN_INSTANT
    yield from changes_at(node)
    yield from (p.nomination.since + HOLDS_FOR for p in node.pods if p.nomination is not None)
    if node.times.lost_at is not None:
        yield node.times.lost_at + SHORT_LOSS + AN_INSTANT  # from then on it is no room for what waits
        yield node.times.lost_at + case.pool.provision_timeout + AN_INSTANT
    if not node.was_usable:
        yield node.watched_since + case.pool.provision_timeout + AN_INSTANT
    if by_the_hour and node.busy and all(consents(p) for p in node.pods):
        yield unit_ends_soon(node, case)
        yield next_unit
    if by_the_hour and case.wanted.money.budget is not None and node.stage is not Stage.DELETING:
        yield next_unit  # the spend rises then
