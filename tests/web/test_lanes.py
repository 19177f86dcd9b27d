"""The picture of a pool's nodes over time: what each did when, and nothing that nobody saw."""

from datetime import datetime, timedelta
from typing import Any

from receiver.core.explain.samples import Doing, NodeTurn, PoolSample
from receiver.core.model.memory import NodeLife
from receiver.web.pages.pool_page import LANES, SLOTS, Lanes, lanes
from tests.web.builders import L40S, NOW, a_life

SINCE = NOW - timedelta(hours=24)
BLIND: dict[str, Any] = dict.fromkeys(PoolSample.__slots__[2:])


def at(hours: float) -> datetime:
    """So many hours after the picture begins."""
    return SINCE + timedelta(hours=hours)


def living(instance: str = "i-n1", **changes: Any) -> NodeLife:
    return a_life(instance, **{"created_at": at(2), "gone_at": None, **changes})


def turn(hours: float, doing: Doing, instance: str = "i-n1") -> NodeTurn:
    return NodeTurn(instance=instance, pool=L40S, at=at(hours), doing=doing)


def drawn(*lives: NodeLife, turns: tuple[NodeTurn, ...] = (), sampled: tuple[datetime, ...] = ()) -> Lanes:
    return lanes(lives, turns, [PoolSample(pool=L40S, at=when, **BLIND) for when in sampled], SINCE, NOW)


def did(picture: Lanes, lane: int = 0) -> list[tuple[Doing, float]]:
    """What a lane shows, and for how many hours."""
    return [(piece.doing, round(piece.width / 97 * 24, 1)) for piece in picture.lanes[lane].pieces]


def test_a_node_does_one_thing_after_the_other_until_now() -> None:
    life = living()
    turns = (turn(2, Doing.BUILDING), turn(3, Doing.BUSY), turn(5, Doing.IDLE), turn(6, Doing.BUSY))
    assert did(drawn(life, turns=turns)) == [
        (Doing.BUILDING, 1), (Doing.BUSY, 2), (Doing.IDLE, 1), (Doing.BUSY, 18),
    ]  # fmt: skip


def test_a_lane_ends_with_its_node() -> None:
    picture = drawn(living(gone_at=at(10)), turns=(turn(2, Doing.BUSY), turn(10, Doing.GONE)))
    assert did(picture) == [(Doing.BUSY, 8)]
    assert picture.lanes[0].end is not None
    assert drawn(living()).lanes[0].end is None


def test_what_a_node_did_before_the_picture_begins_goes_on_in_it() -> None:
    watched = tuple(at(0) + timedelta(minutes=m) for m in range(24 * 60))
    turns = (turn(-3, Doing.BUSY), turn(4, Doing.IDLE))
    picture = drawn(living(created_at=at(-9)), turns=turns, sampled=watched)
    assert did(picture) == [(Doing.BUSY, 4), (Doing.IDLE, 20)]


def test_without_turns_a_life_tells_its_stages_and_where_busy_and_idle_cannot_be_told_apart() -> None:
    life = living(active_at=at(3), ready_at=at(4), usable_at=at(6), bound_at=at(7), idle_since=at(20))
    assert did(drawn(life)) == [
        (Doing.BUILDING, 1), (Doing.BOOTING, 1), (Doing.INSTALLING, 2), (Doing.IDLE, 1),
        (Doing.UNKNOWN, 13), (Doing.IDLE, 4),
    ]  # fmt: skip


def test_stages_from_before_the_first_turn_are_kept() -> None:
    life = living(active_at=at(3), ready_at=at(4), usable_at=at(6))
    assert did(drawn(life, turns=(turn(8, Doing.BUSY),)))[-2:] == [(Doing.IDLE, 2), (Doing.BUSY, 16)]


def test_while_nobody_looked_nobody_knows_what_a_node_did() -> None:
    minutes = tuple(at(0) + timedelta(minutes=m) for m in range(24 * 60) if not 600 <= m < 720)
    picture = drawn(living(created_at=at(-1)), turns=(turn(-1, Doing.BUSY),), sampled=minutes)
    assert [doing for doing, _ in did(picture)] == [Doing.BUSY, Doing.UNKNOWN, Doing.BUSY]
    assert round(did(picture)[1][1], 1) == 2.0


def test_a_server_that_was_down_when_the_picture_begins_saw_nothing_then() -> None:
    minutes = tuple(at(6) + timedelta(minutes=m) for m in range(18 * 60))
    picture = drawn(living(created_at=at(-9)), turns=(turn(-8, Doing.BUSY),), sampled=minutes)
    assert did(picture) == [(Doing.UNKNOWN, 6), (Doing.BUSY, 18)]


def test_living_nodes_stand_above_those_that_are_gone_and_the_newest_above_the_oldest() -> None:
    gone, old, new = (
        living("a", name="gone", gone_at=at(9)),
        living("b", name="old"),
        living("c", name="new", created_at=at(5)),
    )
    assert [lane.life.name for lane in drawn(gone, old, new).lanes] == ["new", "old", "gone"]


def test_a_node_that_was_just_created_is_drawn() -> None:
    [lane] = drawn(living(created_at=NOW - timedelta(seconds=8))).lanes
    assert [(piece.doing, piece.title.partition(",")[0]) for piece in lane.pieces] == [
        (Doing.BUILDING, "building for 8 s")
    ]


def test_nodes_outside_the_time_are_left_out() -> None:
    assert drawn(living(created_at=at(-9), gone_at=at(-1))).lanes == ()


def test_more_lanes_than_are_readable_are_counted() -> None:
    picture = drawn(*(living(f"i-{n}") for n in range(LANES + 7)))
    assert (len(picture.lanes), picture.more) == (LANES, 7)


def test_colour_is_not_the_only_sign_of_what_a_node_does() -> None:
    life = living(active_at=at(3), ready_at=at(4), usable_at=at(6))
    heights = [piece.height for piece in drawn(life).lanes[0].pieces]
    assert heights == sorted(set(heights))


def test_the_table_sums_up_what_the_lane_shows() -> None:
    turns = (turn(2, Doing.BUSY), turn(5, Doing.IDLE), turn(6, Doing.BUSY))
    assert drawn(living(), turns=turns).lanes[0].summed == (("busy", "21 h"), ("idle", "1 h"))


def test_the_axis_has_round_hours_that_fit_on_a_phone() -> None:
    labels = [label for _, label in drawn(living()).ticks]
    assert labels == ["18:00", "10 Mar", "06:00", "12:00"]
    week = lanes([living()], [], [], NOW - timedelta(days=7), NOW)
    assert [label for _, label in week.ticks][:2] == ["04 Mar", "05 Mar"]


def test_a_lane_of_many_short_jobs_is_drawn_in_so_many_pieces_at_most() -> None:
    minute = 1 / 60
    jobs = [turn(2 + n * minute, (Doing.BUSY, Doing.IDLE)[n % 2]) for n in range(22 * 60)]
    [lane] = drawn(living(), turns=tuple(jobs)).lanes
    assert len(lane.pieces) <= SLOTS
    ends = [round(piece.x + piece.width, 3) for piece in lane.pieces[:-1]]
    assert ends == [piece.x for piece in lane.pieces[1:]]


def test_between_steps_that_are_all_too_far_apart_nothing_is_known_of_many_short_turns() -> None:
    seen = tuple(at(0) + timedelta(minutes=16 * n) for n in range(90))
    turns = tuple(turn(16 * n / 60, (Doing.BUSY, Doing.IDLE)[n % 2]) for n in range(8, 90))
    assert did(drawn(living(), turns=turns, sampled=seen)) == [(Doing.UNKNOWN, 22)]
