"""CapacityBuffers: room that is kept free beside all demand. They come last, and a budget drops them first."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal

from receiver.core.model.pods import Pod, Workload
from receiver.core.model.policy import Scope
from receiver.core.model.room_requests import NO_GPU, RoomAnswer, RoomRequest
from receiver.core.model.text import dollars, some
from receiver.core.money.cost import next_unit_at
from receiver.core.scaling.capacity import RULES, Allowance, Tally
from receiver.core.scaling.demand import refusal
from receiver.core.scaling.market import Matching
from receiver.core.scaling.rooms import COMING, OPENED, USABLE, Bin, Kind
from receiver.core.scaling.spare import may_open
from receiver.core.scaling.wanted import Draft

KIND = "buffers"
NOT_READY = "NotReadyForProvisioning"  # the state of one that nothing can be kept for; its message says why
NO_MORE = ("the budget does not cover another node", "the pool is at its maximum", "the limits allow no more nodes")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptBuffer:
    """What is kept of a buffer's chunks: *ready* have room on usable nodes, *coming* on nodes that are on their way or
    bought now. *usd_per_hour* is the price of the nodes that are kept or bought for it alone, None where a pool has no
    price. *held* says why the others have no room."""

    key: str
    chunks: int
    ready: int = 0
    coming: int = 0
    usd_per_hour: Decimal | None = Decimal(0)
    held: str = ""

    @property
    def _cost(self) -> str:
        return f"{dollars(self.usd_per_hour)} per hour" if self.usd_per_hour else "on nodes that are paid for anyway"

    def __str__(self) -> str:
        placed = self.ready + self.coming
        parts = [f"{placed} of {some(self.chunks, 'chunk')} {'has' if placed == 1 else 'have'} room"]
        if self.coming:
            parts[0] += f", {self.coming} of them on nodes that are on their way"
        if placed:
            parts.append("a price is missing" if self.usd_per_hour is None else self._cost)
        return "; ".join([*parts, *([self.held] if self.held else [])])


def keep_buffers(draft: Draft) -> None:
    """Give the chunks of each buffer the room that is left, on usable nodes first, and open nodes for the others.

    While a budget holds, or budget or limits refuse nodes of a higher rank, nothing is kept and idle nodes go. No node
    is opened where refused work could start, nor where other growth would be held because of it.
    """
    buffers = [r for r in draft.facts.other_work.of_kind(KIND) if r.pods and r.copies and not r.problem]
    if not buffers:
        return
    tallies = draft.served
    dropped = _why_dropped(tallies.values(), draft.allowance)
    # Beyond its maximum a pool keeps no node for a buffer: a ceiling or window takes the idle ones.
    within = tuple(tally for tally in tallies.values() if tally.state.required <= tally.bounds.max_nodes)
    for tally in within:
        _add_spare_nodes(tally)
    matching, rooms = draft.matching(within), _Rooms(draft)
    answers: list[RoomAnswer] = []
    for buffer in buffers:
        level = KeptBuffer(key=buffer.key, chunks=buffer.copies, held=dropped)
        level = level if dropped else _keep(buffer, level, matching, rooms, draft)
        ready_gpus = level.ready * buffer.pods[0].gpus
        answers.append(RoomAnswer(kind=KIND, key=buffer.key, message=str(level), ready_gpus=ready_gpus))
    draft.answer(answers)


def answered(requests: Sequence[RoomRequest], answers: Sequence[RoomAnswer]) -> Sequence[RoomAnswer]:
    """Return the answer to each of *requests* that is ours: that of the assignment, or an empty one without it."""
    known = {answer.key: answer for answer in answers if answer.kind == KIND}

    def one(request: RoomRequest) -> RoomAnswer:
        if request.problem:
            return RoomAnswer(kind=KIND, key=request.key, state=NOT_READY, message=request.problem)
        return known.get(request.key, RoomAnswer(kind=KIND, key=request.key))

    return [one(request) for request in requests if request.problem != NO_GPU]


def _why_dropped(tallies: Collection[Tally], allowance: Allowance) -> str:
    if allowance.budgets.holding:
        return f"the {allowance.budgets.holding[0].title} is at its {allowance.budgets.holding[0].stage} line"
    held = [h for tally in tallies for h in tally.held]
    uncovered = any(scope is not Scope.TEAM for tally in tallies for scope, _ in tally.uncovered)
    if uncovered or any(h.uncovered is not None for h in held):
        return "a budget does not cover the nodes that come before it"
    if any(tally.within[1] > tally.within[2] for tally in tallies) or any(h.met == RULES[2] for h in held):
        return "limits refuse nodes that come before it"
    return ""


class _Rooms:
    """The rooms of each pool in the order in which chunks fill them: of usable nodes busy ones, then those paid for
    longest, so that the node whose paid unit ends first goes."""

    def __init__(self, draft: Draft) -> None:
        self._at, self._billing = draft.facts.at, draft.policy.billing
        self._usable: dict[str, Sequence[Bin]] = {}  # by pool
        self._busy: set[str | None] = set()  # the instances among them that run work
        self._reached: dict[tuple[str, int, Kind], int] = {}  # room only shrinks: a full one is passed over once

    def fill(self, level: KeptBuffer, pod: Pod, tally: Tally, shelf: int) -> KeptBuffer:
        """Put as many chunks as fit into the rooms of *shelf*."""
        rooms, key = self._of(tally, shelf), (tally.pool.id, shelf, tally.shelves.kind(pod))
        place = self._reached.get(key, 0)
        while place < len(rooms) and _left(level):
            level = _fill(level, pod, tally, rooms[place], busy=rooms[place].instance in self._busy)
            place += bool(_left(level))
        self._reached[key] = place
        return level

    def _of(self, tally: Tally, shelf: int) -> Sequence[Bin]:
        if shelf != USABLE:
            return tally.shelves.at[shelf]
        if tally.pool.id not in self._usable:
            nodes = {n.instance: n for n in tally.state.nodes}

            def paid(room: Bin) -> tuple[bool, timedelta]:
                node = nodes[room.instance or ""]
                return not node.busy, self._at - next_unit_at(node.created_at, self._at, self._billing)

            self._usable[tally.pool.id] = sorted(tally.shelves.at[USABLE], key=paid)
            self._busy |= {n.instance for n in tally.state.nodes if n.busy}
        return self._usable[tally.pool.id]


def _add_spare_nodes(tally: Tally) -> None:
    """Add the standby and headroom nodes that will be requested: chunks may use them."""
    requested = tally.within[-1] if tally.room is None else min(tally.within[-1], tally.room)
    for _ in range(requested - tally.counts["demand"] - tally.counts["floor"]):
        tally.shelves.add(tally.empty_bin())


def _keep(buffer: RoomRequest, level: KeptBuffer, matching: Matching, rooms: _Rooms, draft: Draft) -> KeptBuffer:
    [pod] = buffer.pods
    work = Workload(key=f"CapacityBuffer {buffer.key}", pods=(pod,))
    fitting = matching.fitting(pod)
    for shelf in (USABLE, OPENED, COMING):
        for tally in fitting:
            level = rooms.fill(level, pod, tally, shelf)
    market = matching.market(pod)
    for _ in range(unplaced := _left(level)):
        market.enter(pod)
    held = ""
    while _left(level) and not held:
        market.leave(pod)
        held, opened = _where(pod, work, matching, draft)
        market.enter(pod)
        if opened is not None:
            draft.allowance.open(opened, "buffer", workload=work, passed=len(RULES))
            opened.kept.buffers.setdefault(buffer.key)
            room = replace(opened.empty_bin(), bought=True)
            opened.shelves.add(room)
            before, level = _left(level), _fill(level, pod, opened, room)
            for _ in range(before - _left(level)):
                market.leave(pod)
            unplaced -= before - _left(level)
    for _ in range(unplaced):
        market.leave(pod)
    return replace(level, held=held)


def _left(level: KeptBuffer) -> int:
    return level.chunks - level.ready - level.coming


def _fill(level: KeptBuffer, pod: Pod, tally: Tally, room: Bin, *, busy: bool = False) -> KeptBuffer:
    """Put as many chunks as fit into *room*, that of a node which is *busy* anyway or kept for them alone."""
    count, unplaced, asks = 0, _left(level), pod.asks
    while count < unplaced and room.put(pod, asks):
        count += 1
    if not count:
        return level
    if not room.used:
        price, usd = tally.pool.price_usd_per_hour, level.usd_per_hour
        own = Decimal(0) if busy else price
        level = replace(level, usd_per_hour=None if own is None or usd is None else usd + own)
        if room.instance is not None:
            tally.kept.warm[room.instance] = level.key
    room.used = True
    return replace(level, ready=level.ready + count) if room.usable else replace(level, coming=level.coming + count)


def _where(pod: Pod, work: Workload, matching: Matching, draft: Draft) -> tuple[str, Tally | None]:
    """The pool for another node, or why there is none."""
    allowance = draft.allowance
    ordered = matching.market(pod).order(pod)
    if ordered and not ordered[0].empty_bin().admits(pod):
        return "a chunk must run beside pods that its affinity names", None
    for tally in (tally for tally in ordered if tally.shelves.why_spoilt([pod]) is None):
        if may_open(tally, draft) and allowance.passes(tally, 1, work) == len(RULES):
            return "", tally
    if not ordered:
        pools = [(p, draft.facts.pool(p.id)) for p in draft.policy.pools]
        others = {p.name: refusal(pod, p, state) or "beyond its maximum or set aside" for p, state in pools}
        reasons = "; ".join(f"{name}: {reason}" for name, reason in (others | {**matching.refusals(pod)}).items())
        return f"no GPU pool can hold a chunk ({reasons})", None
    first = ordered[0]
    passed = allowance.passes(first, 1, work)
    return f"{NO_MORE[passed] if passed < len(RULES) else 'growth is held'} (pool {first.pool.name})", None
