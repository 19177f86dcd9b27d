"""A pool's page: what it is now, why, what its nodes did, and everything that happened in one order.

The picture of its nodes over time shows what each did when, and leaves blank what was not observed.
"""

import re
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from receiver.core.explain.samples import Doing, NodeTurn, PoolSample
from receiver.core.model.actions import Reason, Verdict
from receiver.core.model.memory import NodeLife
from receiver.core.model.overrides import Override, OverrideKind
from receiver.core.model.policy import Billing
from receiver.core.model.signals import Alert
from receiver.core.notices.notice import Notice, Severity
from receiver.ports import Arrival, StoredNotice, StoredOverride
from receiver.web.pages.pool_page import LANES, SLOTS, Lanes, lanes
from simulator.store import MemoryStore
from tests.web.builders import (
    A100,
    L40S,
    NOW,
    Bench,
    a_concern,
    a_decision,
    a_full_store,
    a_life,
    a_node,
    a_picture,
    a_policy,
    a_pool,
    an_action,
    showing,
)  # fmt: skip
from tests.web.seen import Page, page, words
from tests.web.stores import a_store_with

PATH = f"/pools/{L40S}"


def happened(store: MemoryStore, path: str = PATH) -> list[str]:
    """What happened, one text each."""
    html = page(path, store)
    return [words(part.partition("</li>")[0]).partition("> ")[2].strip() for part in html.split('<li class="event')[1:]]


def an_alert(minutes: float, *, firing: bool = True, began: float | None = None, **labels: str) -> Arrival:
    starts_at = NOW - timedelta(minutes=minutes if began is None else began)
    said = {"alertname": "GpuPodsPending", "action": "scale_up", "pool": L40S, **labels}
    alert = Alert(fingerprint="f", labels=said, starts_at=starts_at, firing=firing, annotations={"summary": "3 wait"})
    return Arrival(alert=alert, at=NOW - timedelta(minutes=minutes))


def told(minutes: float, decision: int | None = None, **more: Any) -> StoredNotice:
    title = "l40s: 3 -> 4 nodes"
    notice = Notice(
        topic="t", key="k", title=title, body="", severity=Severity.INFO, pool=L40S, cause="x", decision=decision
    )
    return StoredNotice(**{"id": 1, "notice": notice, "at": NOW - timedelta(minutes=minutes), "sent_at": NOW, **more})


@pytest.mark.parametrize("name", [L40S, "l40s"])
def test_a_pool_is_found_by_its_id_and_by_its_name(name: str) -> None:
    assert "<h1>Pool l40s</h1>" in page(f"/pools/{name}")


def test_an_unknown_pool_is_a_page_that_names_the_known_ones() -> None:
    assert "use one of: l40s, a100" in page("/pools/h100", code=404)


def test_its_numbers_stand_first() -> None:
    text = words(page(PATH))
    assert "Pool l40s scaling Now Nodes ready 3 1 on the way, 1 idle GPUs busy 1.5 of 4 2.5 paid for, not busy" in text
    assert "GPUs pending 1 longest 4 min Cost per hour $5.16 for 4 GPUs" in text
    assert "Price of a node $1.29/h Bounds 0–8 nodes" in text


def test_why_it_has_its_size_stands_before_its_nodes() -> None:
    text = words(page(PATH))
    assert text.index("Why: 1 GPU is waited for and 1 node is on its way.") < text.index("Nodes now")


def test_an_id_in_what_another_system_said_gives_way_to_the_name() -> None:
    decision = a_decision(
        reasons=(Reason(rule="demand", verdict=Verdict.WANTS, target=4, detail=f"pool {L40S} waits"),)
    )
    text = words(page(PATH, a_store_with(decisions=[decision])))
    assert "pool l40s waits" in text


def test_a_node_without_a_name_yet_is_known_by_the_beginning_of_its_id() -> None:
    nodes = [a_node("", instance="0f3c9a11-2222-4333-8444-555555555555")]
    text = words(page(PATH, showing(pools=[a_pool(nodes=nodes)])))
    assert "unnamed (0f3c9a11)" in text
    assert "0f3c9a11-2222" not in text


def test_it_renders_before_the_first_step() -> None:
    text = words(page(PATH, MemoryStore()))
    assert "Nodes ready ? ? on the way" in text
    assert "No node existed in the last 24h." in text


def test_it_renders_when_its_entry_lacks_a_field() -> None:
    store = MemoryStore()
    client = Bench(store=store).client()
    for missing in a_pool().keys() - {"pool"}:
        store.keep_snapshot(a_picture(pools=[{k: v for k, v in a_pool().items() if k != missing}]), NOW)
        assert client.get(PATH).status_code == 200, missing


def test_open_actions_show_their_victims_and_last_error() -> None:
    text = words(page(f"/pools/{A100}"))
    assert "In progress: retire 2 → 1 nodes, started 9 min ago" in text
    assert "a100-1 cordoned" in text
    assert "The last attempt failed TryLater: Civo answered 503" in text


def test_its_concerns_are_told_without_naming_it_again_and_those_of_others_are_not() -> None:
    store = showing(concerns=[a_concern(pool=A100, what="cannot grow: no stock")])
    assert "Cannot grow: no stock." in words(page(f"/pools/{A100}", store))
    assert "no stock" not in words(page(PATH, store))


def test_a_concern_that_it_shares_with_others_is_shown_with_its_own_reason() -> None:
    shared = [a_concern(pool=pool, what="has no stock", why=f"seen in {pool}") for pool in (L40S, A100)]
    text = words(page(PATH, showing(concerns=shared)))
    assert "Has no stock" in text
    assert "Seen in l40s" in text


def test_the_latest_decision_shows_the_rules_that_spoke() -> None:
    text = words(page(PATH))
    assert "wants demand 3 GPUs are waited for." in text
    assert "limits within_limits 1 of 3 fits the hourly limit." in text
    assert "The maximum is 8 nodes." not in text
    assert "Rules of the last decision 1 guardrail passed" in text


def test_guardrails_that_had_no_change_to_judge_did_not_pass() -> None:
    calm = Reason(rule="not_frozen", verdict=Verdict.ALLOWS, target=3)
    text = words(page(PATH, a_store_with(decisions=[a_decision(target=3, reasons=(calm,))])))
    assert "No change to check: 1 guardrail skipped" in text


def test_the_state_is_the_pools_and_an_entry_of_its_history_has_that_of_its_decision() -> None:
    held = Reason(rule="within_budget", verdict=Verdict.HOLDS, target=3, detail="hold at 80%")
    decisions = [a_decision(41, target=3, reasons=(held,)), a_decision(42, target=3, reasons=())]
    store = a_full_store(decisions=decisions)
    html = page(f"{PATH}?steps=1", store)
    assert "scaling 3 nodes 3 min ago" in words(html)  # its node is on the way
    assert "steady: 3 nodes" in words(html)
    assert "blocked: the budget does not cover it: 3 nodes" in words(html)


def test_a_node_is_drawn_with_what_it_did_and_named_in_a_table() -> None:
    life = a_life(name="l40s-0", gone_at=None, usable_at=NOW - timedelta(hours=9, minutes=53))
    turns = [
        NodeTurn(instance="i-n1", pool=L40S, at=NOW - timedelta(hours=h), doing=doing)
        for h, doing in [(9, Doing.BUSY), (4, Doing.IDLE)]
    ]
    html = page(PATH, a_full_store(lives=[life], turns=turns))
    looks = [str(a["class"]) for tag, a in Page(html.partition("<figcaption>")[0]).elements if tag == "rect"]
    assert [look for look in looks if look.startswith("does")][-2:] == ["does busy", "does idle"]
    assert "l40s-0: busy for 5 h, 10 Mar 05:30 to 10 Mar 10:30 UTC" in html
    assert "after 7 min still exists" in words(html)


@pytest.mark.parametrize(("span", "shown"), [("1h", False), ("6h", False), ("24h", True), ("7d", True)])
def test_the_time_that_is_shown_can_be_chosen(span: str, shown: bool) -> None:
    life = a_life(name="l40s-0", created_at=NOW - timedelta(hours=12), gone_at=NOW - timedelta(hours=9))
    html = page(f"{PATH}?span={span}", a_full_store(lives=[life]))
    assert ("l40s-0: gone" in html) is shown
    assert f'span={span}#course" aria-current="true"' in html


@pytest.mark.parametrize(("unit", "shown"), [(3600, "24h"), (300, "1h"), (1, "24h")])
def test_an_hour_is_shown_first_where_a_paid_unit_lasts_minutes(unit: int, shown: str) -> None:
    policy = replace(a_policy(), billing=Billing(granularity=timedelta(seconds=unit)))
    html = page(PATH, MemoryStore(), policy=policy)
    assert f"No node existed in the last {shown}." in words(html)


def test_the_ticks_of_an_hour_are_ten_minutes_apart() -> None:
    html = page(f"{PATH}?span=1h", a_full_store(lives=[a_life(gone_at=None)]))
    assert re.findall(r'class="tick".*>(\d\d:\d\d)<', html) == ["13:40", "13:50", "14:00", "14:10", "14:20"]


def test_a_node_without_gpu_pods_says_so_also_on_a_phone_where_the_column_has_no_heading() -> None:
    assert re.search(r"l40s-3 building .*no GPU pod", words(page(PATH, a_full_store())))


def test_a_time_at_the_edge_is_not_written_into_the_next_one() -> None:
    html = page(f"{PATH}?span=7d", a_full_store(lives=[a_life(gone_at=None)]))
    lines = re.findall(r'class="axis" x1="([\d.]+)%"', html)
    written = re.findall(r'class="tick" x="([\d.]+)%"', html)
    assert float(lines[0]) < 6
    assert written == lines[1:]


def test_a_time_that_is_not_offered_is_refused_with_those_that_are() -> None:
    assert "use one of: 1h, 6h, 24h, 7d" in page(f"{PATH}?span=1y", code=400)


def test_everything_that_happened_stands_in_one_order_newest_first() -> None:
    store = a_full_store(
        arrivals=[an_alert(5)],
        messages=[told(1)],
        decisions=[a_decision(42)],
        actions=[an_action(opened_at=NOW - timedelta(minutes=2), outcome=None)],
    )
    kinds = [text.split()[6] for text in happened(store, f"{PATH}?steps=1")]
    assert kinds == ["message", "action", "decision", "alert"]


def test_a_decision_with_its_action_and_its_message_is_one_row() -> None:
    growth = an_action(opened_at=NOW - timedelta(minutes=22))
    store = a_full_store(decisions=[a_decision(42)], actions=[growth], messages=[told(1, decision=42)])
    [row] = happened(store)
    assert "scaling: 3 → 4 nodes Decision&nbsp;42" in row
    assert "; done in " in row
    assert row.endswith("; 1 message")


def test_a_message_that_did_not_arrive_keeps_its_own_row() -> None:
    lost = told(1, decision=42, sent_at=None, given_up_at=NOW, last_error="slack: 404")
    rows = happened(a_full_store(decisions=[a_decision(42)], actions=[], messages=[lost]))
    assert ["not delivered: slack: 404" in row for row in rows] == [True, False]


def test_growth_that_is_tried_in_vain_again_and_again_is_one_row_since_it_began() -> None:
    held = Reason(rule="not_backing_off", verdict=Verdict.HOLDS, target=3, cause="too few are free at Civo")
    blocks = {"present": 3, "target": 3, "reasons": (held,)}
    decisions = [
        a_decision(number, at=NOW - timedelta(minutes=9 - number), **(blocks if number % 2 else {}))
        for number in range(1, 6)
    ]
    [row] = happened(a_full_store(decisions=decisions, actions=[]))
    assert "10 Mar 14:22" in row
    assert "blocked: too few are free at Civo: 3 nodes Decision&nbsp;5" in row
    assert "tried 2 times in vain" in row


def test_every_step_is_shown_where_one_asks_for_it() -> None:
    store = a_full_store(decisions=[a_decision(42)], actions=[an_action()])
    assert "Show all" in page(PATH, store)
    assert len(happened(store)) < len(happened(store, f"{PATH}?steps=1"))


def test_an_action_has_its_beginning_and_its_end_with_a_link_to_its_decision() -> None:
    store = a_store_with(actions=[an_action()])
    end, begin = happened(store)
    assert "retire 3 → 2 nodes: confirmed Decision&nbsp;42 the instance is gone" in end
    assert "retire 3 → 2 nodes: started Decision&nbsp;42 l40s-9" in begin


def test_an_alert_of_every_pool_counts_and_one_of_another_pool_or_a_heartbeat_does_not() -> None:
    store = a_store_with(
        arrivals=[an_alert(3, pool=A100), an_alert(2, pool="unassigned"), an_alert(1, action="heartbeat")]
    )
    assert len(happened(store)) == 1


def test_an_alert_that_has_fired_for_long_did_not_happen_now_but_its_end_did() -> None:
    store = a_store_with(arrivals=[an_alert(60, began=3000), an_alert(5, began=3000, firing=False)])
    (only,) = happened(store)
    assert "GpuPodsPending resolved" in only


def test_a_message_that_did_not_get_out_says_so() -> None:
    store = a_store_with(messages=[told(5, sent_at=None, given_up_at=NOW, last_error="slack: 404")])
    assert "not delivered: slack: 404" in happened(store)[0]
    store = a_store_with(messages=[told(5, sent_at=None, attempts=2)])
    assert "retrying after 2 attempts" in happened(store)[0]


def test_an_override_is_told_when_set_and_when_ended() -> None:
    pin = Override(
        id="p", kind=OverrideKind.PIN, who="ada", why="demo", at=NOW - timedelta(hours=2), until=NOW, pool=L40S, nodes=3
    )
    store = a_store_with(overrides=[StoredOverride(override=pin, ended_at=NOW - timedelta(hours=1), ended_by="bob")])
    ended, set_ = happened(store)
    assert "pin by ada ended by bob" in ended
    assert "pin of 3 nodes by ada until 2026-03-10 14:30 UTC: demo" in set_


def test_what_happened_before_the_time_shown_is_left_out() -> None:
    store = a_store_with(decisions=[a_decision(1, at=NOW - timedelta(hours=7))])
    assert happened(store, f"{PATH}?span=6h") == []
    assert len(happened(store)) == 1


def test_a_busy_day_is_cut_and_leads_on() -> None:
    decisions = [a_decision(n, at=NOW - timedelta(minutes=200 - n), target=n) for n in range(1, 141)]
    html = page(PATH, a_store_with(decisions=decisions))
    assert html.count('<li class="event') == 100
    assert "39 more are not shown." in html  # one of them was steady


def test_many_nodes_are_cut_and_counted() -> None:
    nodes = [a_node(f"n{i}") for i in range(70)]
    html = page(PATH, showing(pools=[a_pool(nodes=nodes)]))
    assert "And 10 more;" in html


def test_an_operator_finds_where_to_override_and_everybody_else_how_to_become_one() -> None:
    bench = Bench(store=a_full_store())
    assert "log in as operator" in bench.client().get(PATH).text


def test_every_column_has_its_label_for_narrow_screens() -> None:
    store = a_full_store()
    for path in (PATH, "/sources"):
        cells = [a for tag, a in Page(page(path, store)).elements if tag == "td"]
        assert cells
        assert all(a.get("data-label") for a in cells)


# --- the picture of nodes over time


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
