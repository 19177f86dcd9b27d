"""Rows of rooms: what is found first there, whatever came and went before."""

import random

import pytest

from receiver.core.model.pods import Pod, Workload
from receiver.core.scaling.rooms import Bin, Requests, requests_of
from receiver.core.scaling.rows import MOST_FREED, Guest, Room, Row, Sort
from tests.core.builders import GPU, a_pod

SIZES = (1, 2, 3, 5)  # GPUs by kind
PODS = tuple(a_pod(f"p{gpus}", gpus) for gpus in SIZES)
ASKS: tuple[Requests, ...] = tuple(map(requests_of, PODS))


def a_row(*free: int) -> Row:
    """A row of rooms with so many GPUs free."""
    rooms = [Room(Bin(pool="l40s-id", instance=f"i-{n}", free={}), 0, n, {GPU: gpus}) for n, gpus in enumerate(free)]
    return Row(rooms, first=[0] * len(SIZES))


def find(row: Row, kind: int) -> int | None:
    """The place of the room that *row* finds for a pod of *kind*."""
    room = row.find(kind, ASKS[kind], PODS[kind])
    return None if room is None else room.place


@pytest.mark.parametrize("seed", range(40))
def test_the_first_room_that_holds_a_pod_is_found_whatever_came_and_went_before(seed: int) -> None:
    dice = random.Random(seed)
    row = a_row(*(dice.choice((0, 1, 2, 5, 8)) for _ in range(dice.choice((3, 40)))))
    for _ in range(200):
        kind, room = dice.randrange(len(SIZES)), dice.choice(row.rooms)
        if dice.random() < 0.4:
            row.give_back(room, ASKS[kind])
        elif dice.random() < 0.4 and room.holds(ASKS[kind]):
            room.take(ASKS[kind])
        wanted = dice.randrange(len(SIZES))
        scanned = (room.place for room in row.rooms if room.holds(ASKS[wanted]))
        assert find(row, wanted) == next(scanned, None)


def test_one_room_with_more_free_does_not_start_the_search_anew() -> None:
    row = a_row(*[0] * 20, 1)
    assert find(row, 0) == 20
    row.give_back(row.rooms[7], ASKS[0])
    assert find(row, 0) == 7
    assert row.first[0] == 20


def test_many_rooms_with_more_free_start_the_search_at_the_first_of_them() -> None:
    row = a_row(*[0] * 20)
    assert find(row, 0) is None
    for room in row.rooms[2 : 3 + MOST_FREED]:
        row.give_back(room, ASKS[0])
    assert find(row, 0) == 2
    assert not row.freed


def test_rooms_that_are_cut_off_and_opened_again_are_found() -> None:
    row = a_row(0, 0)
    row.rooms.append(a_row(0, 0, 1).rooms[2])
    row.give_back(row.rooms[2], ASKS[0])
    assert find(row, 1) == 2
    row.cut(2)
    assert find(row, 0) is None
    row.rooms.append(a_row(0, 0, 8).rooms[2])
    assert find(row, 1) == 2


def a_guest(pod: Pod, room: Room, *, fixed: bool) -> Guest:
    """The guest of *room* that takes the room of *pod* there."""
    asks = requests_of(pod)
    sort = Sort(pools=(0,), asks=(asks,), kinds=(0,), group=0, flexibility=(), largeness=())
    guest = Guest(Workload(key=pod.key, pods=(pod,)), sort, alone=True, rooms=(room,), fixed=fixed)
    room.take(asks)
    room.guests.append(guest)
    return guest


def test_guests_that_cannot_move_stay_when_a_row_is_emptied() -> None:
    row = a_row(8)
    [room] = row.rooms
    stays = a_guest(PODS[1], room, fixed=True)
    room.bare = room.free.copy()
    a_guest(PODS[2], room, fixed=False)
    room.bare = {GPU: 6}
    row.empty()
    assert (room.guests, room.free) == ([stays], {GPU: 6})
    assert find(row, 3) == 0
