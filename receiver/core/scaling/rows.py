"""The rooms of each pool in rows, and the work in them as guests: what `filling` moves about."""

from bisect import insort
from dataclasses import dataclass, field

from receiver.core.model.pods import COMPUTE, Pod, Workload
from receiver.core.scaling.rooms import Bin, Requests

MOST_FREED = 8  # more places than that are not looked at one by one


@dataclass(slots=True, eq=False)
class Room:
    """A bin, its place among those of its pool, and what is free in it here."""

    bin: Bin
    pool: int  # the pool's place among the tallies
    place: int
    free: dict[str, int]
    bare: dict[str, int] = field(default_factory=dict)  # what is free once all guests that may move have left
    guests: list["Guest"] = field(default_factory=list)

    def holds(self, asks: Requests) -> bool:
        """True where *asks* fit into what is free. (Shares of GPUs and claims are not moved.)"""
        free = self.free
        for resource, count in asks:  # a plain loop: this runs for every guest and room
            if free.get(resource, 0) < count and (resource in free or resource not in COMPUTE):
                return False
        return True

    def take(self, asks: Requests) -> None:
        for resource, count in asks:
            if resource in self.free:
                self.free[resource] -= count

    def give(self, asks: Requests) -> None:
        """Free *asks* again."""
        for resource, count in asks:
            if resource in self.free or resource not in COMPUTE:
                self.free[resource] = self.free.get(resource, 0) + count


@dataclass(frozen=True, slots=True, eq=False)
class Sort:
    """What guests that are alike have in common: what their pods ask for, and the pools that fit all of it.

    Sorts of one *group* differ only in the single nodes that suit them.
    """

    pools: tuple[int, ...]
    asks: tuple[Requests, ...]  # of each pod
    kinds: tuple[int, ...]  # the numbers of *asks*: equal ones are one
    group: int
    flexibility: tuple[int, ...]  # the order of the least flexible
    largeness: tuple[int, ...]  # the order of the largest


@dataclass(slots=True, eq=False)
class Guest:
    """A pod on its own or a gang, and its rooms (one for each pod)."""

    workload: Workload
    sort: Sort
    alone: bool
    rooms: tuple[Room, ...] = ()
    fixed: bool = False
    stays: bool = False  # it takes part of a device, chooses its neighbours, or is pinned: it cannot be moved


@dataclass(slots=True, eq=False)
class Row:
    """The rooms of a pool in the order in which they are filled, and the guests there that may move, by group."""

    rooms: list[Room]
    first: list[int] = field(default_factory=list)  # by kind: no room before this place holds it
    freed: list[int] = field(default_factory=list)  # except those at these places, in order: a guest has left since
    singles: dict[int, dict[Guest, None]] = field(default_factory=dict)  # those of one pod

    def find(self, kind: int, asks: Requests, pod: Pod) -> Room | None:
        """The first room that holds and suits *pod*, which *asks* for an amount of that *kind*."""
        if len(self.freed) > MOST_FREED:
            self.first = [min(place, self.freed[0]) for place in self.first]
            self.freed = []
        rooms, place, count = self.rooms, self.first[kind], len(self.rooms)
        for freed in self.freed:
            if freed < place and rooms[freed].holds(asks) and rooms[freed].bin.suits(pod):
                return rooms[freed]
        while place < count and not rooms[place].holds(asks):
            place += 1
        self.first[kind] = place
        while place < count and not (rooms[place].bin.suits(pod) and rooms[place].holds(asks)):
            place += 1
        return rooms[place] if place < count else None

    def give_back(self, room: Room, asks: Requests) -> None:
        room.give(asks)
        self.note(room)

    def note(self, room: Room) -> None:
        """Note that more is free in *room* than before."""
        if room.place not in self.freed:
            insort(self.freed, room.place)

    def cut(self, count: int) -> None:
        """Leave the first *count* rooms."""
        del self.rooms[count:]
        self.first = [min(place, count) for place in self.first]
        self.freed = [place for place in self.freed if place < count]

    def empty(self) -> None:
        """Take all guests out that may move."""
        for room in self.rooms:
            if room.guests:
                room.guests = [guest for guest in room.guests if guest.fixed]
                room.free = room.bare.copy()
        self.singles = {group: {} for group in self.singles}
        self.first, self.freed = [0] * len(self.first), []
