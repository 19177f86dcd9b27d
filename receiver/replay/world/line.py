"""The scheduler's waiting line, grouped so that a long queue of like pods costs as little as its first one."""

import heapq
from collections.abc import Callable, Hashable
from datetime import datetime

from receiver.replay.world.cluster import Key

Order = tuple[int, datetime, int]  # lower priority value first, then age, then arrival


class Line:
    """Waiting pods in groups of equals: when a group's first pod fits nowhere, none of the group does."""

    def __init__(self) -> None:
        self._orders: dict[Key, Order] = {}
        self._group_of: dict[Key, Hashable] = {}
        self._groups: dict[Hashable, list[tuple[Order, Key]]] = {}
        self._numbers = 0

    def __len__(self) -> int:
        return len(self._orders)

    def __contains__(self, key: Key) -> bool:
        return key in self._orders

    def join(self, key: Key, group: Hashable, priority: int, since: datetime) -> None:
        """Add *key* to *group* behind its elders of the same priority."""
        self._numbers += 1
        order = (-priority, since, self._numbers)
        self._orders[key] = order
        self._group_of[key] = group
        heapq.heappush(self._groups.setdefault(group, []), (order, key))

    def leave(self, key: Key) -> None:
        """Remove *key* wherever it stands."""
        self._orders.pop(key, None)
        group = self._group_of.pop(key, None)
        if group is not None:
            self._first(group)

    def serve(self, groups: set[Hashable] | None, place: Callable[[Key], bool]) -> None:
        """Offer pods to *place* in order until, of every group (None: all), the first one is not placed.

        *place* removes what it places from the line.
        """
        chosen = self._groups if groups is None else groups
        heads = [head for group in list(chosen) if (head := self._first(group)) is not None]
        heapq.heapify(heads)
        while heads:
            _, key = heapq.heappop(heads)
            group = self._group_of[key]
            if place(key):
                head = self._first(group)
                if head is not None:
                    heapq.heappush(heads, head)

    def group_of(self, key: Key) -> Hashable:
        """The group in which *key* waits."""
        return self._group_of[key]

    def _first(self, group: Hashable) -> tuple[Order, Key] | None:
        """Return the group's first waiting pod; those that left are dropped, and the group with its last one."""
        line = self._groups.get(group)
        while line:
            order, key = line[0]
            if self._orders.get(key) == order:
                return line[0]
            heapq.heappop(line)
        self._groups.pop(group, None)
        return None
