"""Rearrange work between existing, coming and newly wanted nodes, so that fewer new nodes are needed.

The order of service fills one node after another. So a pod that fits many pools can take the room of one that fits few,
and a new node is wanted that another filling saves. This module starts from the result of that order. It looks for room
for work that got none, then leaves out each new node whose work fits elsewhere. Work that has room keeps some room.

Pods that ask for the same amount move along augmenting paths, as in bipartite matching: that finds every exchange among
them. Where amounts differ, or gangs wait, one pool after another and then all of them are emptied and filled again, the
least flexible and the largest work first. That is a heuristic: packing different sizes is NP-hard.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import islice, product
from operator import attrgetter

from receiver.core.model.pods import Pod, Workload
from receiver.core.scaling.capacity import RULES, Allowance, Tally
from receiver.core.scaling.demand import is_of_devices
from receiver.core.scaling.market import gang_kind
from receiver.core.scaling.rooms import Requests, shape
from receiver.core.scaling.rows import Guest, Room, Row, Sort

MOST_MOVED = 20_000  # workloads seated again in one step where amounts differ
FEW = 12  # up to so many workloads every seating is tried, up to MOST_TRIES
MOST_TRIES = 5_000  # in one step
MOST_TRADED = 3  # nodes of one pool that are opened instead of others
MOST_LEFT_OUT = 1_000  # tries to leave out a new node in one step: each is more work the more pods wait


Seats = list[tuple[Workload, tuple[Room, ...]]]  # a room for each pod
Order = Callable[[Guest], tuple[int, ...]]
LARGEST_FIRST: Order = attrgetter("sort.largeness")
ORDERS: tuple[Order, ...] = (attrgetter("sort.flexibility"), LARGEST_FIRST)
Queue = tuple[object, ...]  # which pools are filled, and with guests of which sorts in turn


def rearranged(
    tallies: Sequence[Tally],
    unserved: Sequence[Workload],
    fitting: Callable[[Pod], Sequence[Tally]],
    pinned: Collection[str] = (),
) -> Iterator[Seats]:
    """Yield seats that need fewer new nodes or serve more than the *tallies* do, the best first; nothing if none do.

    *unserved* are whole gangs without room; *pinned* workloads (keys) keep the room they have. The first seats may want
    another new node instead of several, which a check may refuse.
    """
    free, gpu_requests = 0, [workload.gpus for workload in unserved]
    for tally in tallies:
        gpu_requests += [placement.workload.gpus for placement in tally.given if not placement.whole]
        for room in tally.shelves.bins:
            if room.allowed:
                free += max(0, room.gpus)
                gpu_requests += [tally.pool.gpus_per_node] * room.bought  # a node's work moves into free room elsewhere
    if not any(gpus <= free for gpus in gpu_requests):
        return  # too little free room for anything to move: a quick test, enough at most steps
    filling = _Filling(tallies, unserved, fitting, pinned)
    saved = filling.saved()
    traded = filling.traded()
    yield from (seats for seats in (traded, saved) if seats is not None)


def serve_again(seats: Seats, order: Mapping[str, int], tallies: Mapping[str, Tally], allowance: Allowance) -> bool:
    """Give each workload of *seats* its room in unused *tallies*; False if a check refuses a new node. *order* is the
    place of each workload in the order of service, by its key."""
    bins = {(pool, place): room for pool, tally in tallies.items() for place, room in enumerate(tally.shelves.bins)}
    for workload, rooms in sorted(seats, key=lambda seat: order[seat[0].key]):
        tally = tallies[rooms[0].bin.pool]
        new = {room: None for room in rooms if (tally.pool.id, room.place) not in bins}
        if workload.gang:
            if not tally.holds_gang(len(new)):
                return False
            tally.admit_gang(len(new))
        if new and allowance.open(tally, "demand", len(new), workload) < len(RULES):
            return False
        for room in new:
            opened = bins[tally.pool.id, room.place] = tally.new_bin()
            opened.allowed = room.bin.allowed
            tally.shelves.add(opened)
        seated = [bins[tally.pool.id, room.place] for room in rooms]
        for taken, pod in zip(seated, workload.pods, strict=True):
            if not taken.put(pod, pod.asks):
                return False
            taken.used = True
        tally.give(workload, seated, buys=bool(new))
    for tally in tallies.values():
        tally.shelves.sort_out()
    return True


class _Filling:
    """The current seats, with a trail of moves, so that a try can be undone."""

    def __init__(
        self,
        tallies: Sequence[Tally],
        unserved: Sequence[Workload],
        fitting: Callable[[Pod], Sequence[Tally]],
        pinned: Collection[str],
    ) -> None:
        self._tallies = tallies
        self._fitting = fitting
        self._pinned = pinned
        self._numbers = {id(tally): number for number, tally in enumerate(tallies)}
        self._kinds: dict[Requests, int] = {}
        self._groups: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
        self._sorts: dict[tuple[object, ...], Sort] = {}
        self._rows = [
            Row([Room(b, number, n, dict(b.free) if b.allowed else {}) for n, b in enumerate(tally.shelves.bins)])
            for number, tally in enumerate(tallies)
        ]
        self._trail: list[tuple[Guest, tuple[Room, ...]]] = []
        self._left = MOST_MOVED
        self._tries = MOST_TRIES
        self._leaving = MOST_LEFT_OUT
        self._refused = [guest for guest in map(self._guest, unserved) if not guest.stays]
        self._seated: list[Guest] = []
        by_bin = {id(room.bin): room for row in self._rows for room in row.rooms}
        for placement in (placement for tally in tallies for placement in tally.given):
            guest = self._guest(placement.workload)
            if not placement.whole and not placement.workload.gang and not guest.stays:
                self._refused.append(guest)
                continue
            guest.fixed = guest.stays or not placement.whole
            guest.rooms = tuple(by_bin[id(room)] for room in placement.rooms)
            self._enter(guest)
            self._seated.append(guest)
        kinds = {g.sort.kinds for g in (*self._seated, *self._refused)}
        self._mixed = len(kinds) > 1 or any(len(kind) > 1 for kind in kinds)
        self._note_bare_rooms()

    def _note_bare_rooms(self) -> None:
        """Note in each room what is free there without the guests that may move."""
        movable = [g for g in self._seated if not g.fixed]
        taken = [seat for guest in movable for seat in zip(guest.rooms, guest.sort.asks, strict=True)]
        for room, asks in taken:
            room.give(asks)
        for row in self._rows:
            row.first = [0] * len(self._kinds)
            for room in row.rooms:
                room.bare = room.free.copy()
        for room, asks in taken:
            room.take(asks)

    def _guest(self, workload: Workload) -> Guest:
        stays = workload.key in self._pinned or any(self._is_bound_to_others(pod) for pod in workload.pods)
        sort = self._sort(workload)
        return Guest(workload, sort, alone=len(sort.asks) == 1, stays=stays)

    def _sort(self, workload: Workload) -> Sort:
        choices, shapes = [self._fitting(pod) for pod in workload.pods], tuple(map(shape, workload.pods))
        key = (shapes, *map(id, choices))
        if key in self._sorts:
            return self._sorts[key]
        others = [other for other in choices[1:] if other is not choices[0]]
        pools = tuple(self._numbers[id(x)] for x in choices[0] if all(x in other for other in others))
        asks = gang_kind(workload)
        kinds = tuple(self._kinds.setdefault(each, len(self._kinds)) for each in asks)
        alone, size = len(asks) == 1, max(pod.gpus for pod in workload.pods)
        sort = self._sorts[key] = Sort(
            pools=pools,
            asks=asks,
            kinds=kinds,
            group=self._groups.setdefault((kinds, pools), len(self._groups)),
            flexibility=(len(pools), alone, -size),
            largeness=(-size, alone, len(pools)),
        )
        return sort

    def _is_bound_to_others(self, pod: Pod) -> bool:
        neighbours = self._tallies[0].shelves.neighbours
        return any(map(is_of_devices, pod.requests)) or (neighbours is not None and neighbours.concerns(pod))

    def saved(self) -> Seats | None:
        """Serve more, then leave new nodes out; None if neither is possible."""
        hopeless: set[int] = set()
        changed = False
        for guest in self._refused:
            if guest.sort.pools and guest.sort.group not in hopeless and self._insert(guest):
                self._seated.append(guest)
                changed = True
            else:
                hopeless.add(guest.sort.group)
        return [(guest.workload, guest.rooms) for guest in self._seated] if self._save() or changed else None

    def traded(self) -> Seats | None:
        """Want other new nodes where that leaves out more; None if it does nowhere."""
        changed = False
        for number in range(len(self._tallies)):
            if self._leaving > 0 and self._trade(number):
                self._save()
                changed = True
        return [(guest.workload, guest.rooms) for guest in self._seated] if changed else None

    def _bought(self) -> list[Room]:
        """The new nodes that work sits in, the dearest first, then the emptiest."""
        new_rooms = [r for row in self._rows for r in row.rooms if r.bin.bought and r.bin.allowed and r.guests]
        before = [-tally.saved_by(1) for tally in self._tallies]
        return sorted(new_rooms, key=lambda r: (before[r.pool], len(r.guests)))

    def _save(self) -> list[tuple[Room, dict[str, int]]]:
        """Leave out the new nodes whose work fits elsewhere; return them with what would be free in them."""
        failed: set[tuple[int, tuple[int, ...]]] = set()
        saved = []
        for room in self._bought():
            if self._leaving <= 0:
                break
            alike = room.pool, tuple(sorted(guest.sort.group for guest in room.guests))
            if not room.guests or alike in failed or any(guest.fixed for guest in room.guests):
                continue
            self._leaving -= 1
            free = self._leave_out(room)
            if free is None:
                failed.add(alike)
            else:
                saved.append((room, free))
        return saved

    def _leave_out(self, room: Room) -> dict[str, int] | None:
        """Seat the guests of *room* elsewhere and return what is free in it then; None leaves all as it was."""
        before = len(self._trail)
        guests = sorted(dict.fromkeys(room.guests), key=LARGEST_FIRST)
        for guest in guests:
            self._move(guest, ())
        free, room.free = room.free, {}
        if all(self._insert(guest) for guest in guests):
            return free
        self._take_back(before, [(room, free)])
        return None

    def _take_back(self, length: int, left_out: Sequence[tuple[Room, dict[str, int]]]) -> None:
        for room, free in left_out:
            room.free = free
            self._rows[room.pool].note(room)
        self._undo(length)

    def _trade(self, pool: int) -> bool:
        """Open up to three other nodes in *pool*, where that saves more nodes that cost no less."""
        tally, rooms = self._tallies[pool], self._rows[pool].rooms
        if tally.blocked or tally.pool.price_usd_per_hour is None:
            return False
        for count in range(1, MOST_TRADED + 1):
            bought = self._bought()
            if len(bought) <= count:
                return False
            before, room_count, cost = len(self._trail), len(rooms), self._cost(bought)
            for place in range(room_count, room_count + count):
                opened = tally.new_bin()
                rooms.append(Room(opened, pool, place, opened.free, opened.free.copy()))
            saved = self._save()
            bought_after = self._bought()
            if len(bought_after) < len(bought) and self._cost(bought_after) <= cost:
                return True
            self._take_back(before, saved)
            self._rows[pool].cut(room_count)
        return False

    def _cost(self, rooms: Sequence[Room]) -> Decimal:
        return sum((self._tallies[room.pool].saved_by(1) for room in rooms), Decimal(0))

    def _insert(self, guest: Guest) -> bool:
        """Seat *guest*, moving others where that is needed; False leaves all as it was."""
        if self._seat(guest):
            return True
        if not self._mixed:
            return False
        clearings: list[tuple[int, ...]] = [(number,) for number in guest.sort.pools]
        clearings.append(tuple(range(len(self._tallies))))
        failed: set[Queue] = set()
        for pools, order in product(clearings, ORDERS):
            if self._left >= 0 and self._anew(guest, pools, order, failed):
                return True
        return self._search(guest)

    def _seat(self, guest: Guest) -> bool:
        if not guest.alone:
            return any(self._seat_in(guest, pool) for pool in guest.sort.pools)
        [kind], [asks], [pod] = guest.sort.kinds, guest.sort.asks, guest.workload.pods
        for pool in guest.sort.pools:
            room = self._rows[pool].find(kind, asks, pod)
            if room is not None:
                self._move(guest, (room,))
                return True
        return self._exchange(guest)

    def _seat_in(self, guest: Guest, pool: int) -> bool:
        row = self._rows[pool]
        rooms: list[Room] = []
        for pod, kind, asks in zip(guest.workload.pods, guest.sort.kinds, guest.sort.asks, strict=True):
            room = row.find(kind, asks, pod)
            if room is None:
                for taken, share in zip(rooms, guest.sort.asks, strict=False):
                    row.give_back(taken, share)
                return False
            room.take(asks)
            rooms.append(room)
        self._trail.append((guest, ()))
        guest.rooms = tuple(rooms)
        self._enter(guest)
        return True

    def _exchange(self, guest: Guest) -> bool:
        """Move guests that ask for the same, each into the room of the next, until the last one finds free room."""
        [kind], [asks] = guest.sort.kinds, guest.sort.asks
        came: dict[int, tuple[Guest, int] | None] = dict.fromkeys(guest.sort.pools)
        queue = deque(guest.sort.pools)
        while queue:
            pool = queue.popleft()
            step = came[pool]
            pod = (guest if step is None else step[0]).workload.pods[0]  # it takes the room of the mover
            for sitting in self._rows[pool].singles.values():
                alike = sitting if next(iter(sitting), guest).sort.kinds == guest.sort.kinds else ()
                mover = next((g for g in alike if g.rooms[0].bin.suits(pod)), None)
                if mover is None:
                    continue
                for other in mover.sort.pools:
                    if other in came:
                        continue
                    came[other] = mover, pool
                    room = self._rows[other].find(kind, asks, mover.workload.pods[0])
                    if room is not None:
                        self._shift(guest, room, came)
                        return True
                    queue.append(other)
        return False

    def _shift(self, guest: Guest, room: Room, came: Mapping[int, tuple[Guest, int] | None]) -> None:
        step = came[room.pool]
        while step is not None:
            mover, pool = step
            [vacated_room] = mover.rooms
            self._move(mover, ())
            self._move(mover, (room,))
            room, step = vacated_room, came[pool]
        self._move(guest, (room,))

    def _anew(self, guest: Guest, pools: tuple[int, ...], order: Order, failed: set[Queue]) -> bool:
        """Empty *pools* and fill them again, with *guest* first (or in its turn where all pools are emptied). A queue
        like one that *failed* is not tried again."""
        others = {g: None for pool in pools for room in self._rows[pool].rooms for g in room.guests if not g.fixed}
        self._left -= len(others)
        if self._left < 0:
            return False
        before, rows = len(self._trail), [self._rows[pool] for pool in pools]
        known = [(row.first, row.freed) for row in rows]
        self._trail += [(other, other.rooms) for other in others]
        for row in rows:
            row.empty()
        for other in others:
            other.rooms = ()
        single = len(pools) == 1
        queue = sorted(others if single else (guest, *others), key=order)
        sorts = (*pools, *(other.sort for other in queue))  # what decides how they are seated
        if sorts not in failed:
            has_seat = self._seat_in(guest, pools[0]) if single else True
            if has_seat and all(self._seat(other) for other in queue):
                return True
            failed.add(sorts)
        self._undo(before)
        for row, (first, freed) in zip(rows, known, strict=True):
            row.first, row.freed = first, freed
        return False

    def _search(self, guest: Guest) -> bool:
        """Try every way to seat *guest* and all others, where they are few."""
        others = list(islice((g for g in self._seated if g.rooms and not g.fixed), FEW))
        if len(others) >= FEW:
            return False
        before = len(self._trail)
        for other in others:
            self._move(other, ())
        if self._descend(sorted([guest, *others], key=ORDERS[0])):
            return True
        self._undo(before)
        return False

    def _descend(self, guests: Sequence[Guest]) -> bool:
        if not guests:
            return True
        before = len(self._trail)
        for seat in self._seats(guests[0]):
            self._tries -= 1
            if self._tries < 0:
                return False
            self._move(guests[0], seat)
            if self._descend(guests[1:]):
                return True
            self._undo(before)
        return False

    def _seats(self, guest: Guest) -> Iterator[tuple[Room, ...]]:
        """Rooms for *guest* that differ: one of each that is as full, or for a gang one way in each pool."""
        for pool in guest.sort.pools:
            if not guest.alone:
                if self._seat_in(guest, pool):
                    rooms = guest.rooms
                    self._undo(len(self._trail) - 1)
                    yield rooms
                continue
            seen = set()
            for room in self._rows[pool].rooms:
                pod, kind = guest.workload.pods[0], (room.bin.differs, *sorted(room.free.items()))
                if kind not in seen and room.bin.suits(pod) and room.holds(guest.sort.asks[0]):
                    seen.add(kind)
                    yield (room,)

    def _move(self, guest: Guest, rooms: tuple[Room, ...]) -> None:
        self._trail.append((guest, guest.rooms))
        self._place(guest, rooms)

    def _undo(self, length: int) -> None:
        while len(self._trail) > length:
            self._place(*self._trail.pop())

    def _place(self, guest: Guest, rooms: tuple[Room, ...]) -> None:
        if guest.rooms:
            row = self._rows[guest.rooms[0].pool]
            for room, asks in zip(guest.rooms, guest.sort.asks, strict=True):
                room.guests.remove(guest)
                row.give_back(room, asks)
            if guest.alone:
                del row.singles[guest.sort.group][guest]
        guest.rooms = rooms
        for room, asks in zip(rooms, guest.sort.asks, strict=False):
            room.take(asks)
        self._enter(guest)

    def _enter(self, guest: Guest) -> None:
        for room in guest.rooms:
            room.guests.append(guest)
        if guest.rooms and guest.alone and not guest.fixed:
            self._rows[guest.rooms[0].pool].singles.setdefault(guest.sort.group, {})[guest] = None
